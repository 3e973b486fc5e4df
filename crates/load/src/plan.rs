//! The plan of a `send` run: traffic, destination and engine. The code that fills it in keeps its fields consistent.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use softtimers_core::{CatchUp, Idle, TriggerState};
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;
use softtimers_net::kernel::{Finding, queue_to};

use crate::dscp::Dscp;
use crate::engines::Timer;
use crate::traffic::{Phase, Traffic, nanos};
use crate::work::Work;

/// A run of `send`, or of `replay`, which sends the same way.
#[derive(Clone, PartialEq, Debug)]
pub struct SendPlan {
    /// One host's address and port, to which there is a route.
    pub destination: SocketAddr,
    /// The traffic to send.
    pub traffic: Traffic,
    /// The class that all of them ask the network for.
    pub dscp: Dscp,
    /// The engine that decides when the next datagram is due.
    pub timer: Timer,
    /// The lateness that a departure may have before the backup timer is used, by an engine that has trigger states.
    pub slack: Duration,
    /// The idle policy of such an engine; `None` for the others.
    pub idle: Option<Idle>,
    /// The slice to ask the scheduler for.
    pub sched_slice: Option<Duration>,
    /// The loop's other work.
    pub work: Work,
    /// The `softtimers` command, whose `echo-client` keeps an echo server busy; `None` if it is this program.
    pub program: Option<PathBuf>,
    /// The source of trigger states that the loop does without.
    pub disabled_source: Option<TriggerState>,
    /// The CPU that the loop is kept on.
    pub cpu: Option<Processor>,
    /// Whether the user took responsibility for a fast run to another machine.
    pub no_handshake: bool,
    /// The number of departures, the latest ones, to keep for a trace; 0 for none.
    pub trace: usize,
    /// The queue found that could keep release times, if the plan was probed for one.
    pub queue: Option<String>,
}

impl SendPlan {
    /// Creates a plan for this traffic and engine, with defaults otherwise.
    pub fn new(destination: SocketAddr, traffic: Traffic, timer: Timer) -> Self {
        let triggers = timer.has_trigger_states();
        SendPlan {
            destination,
            slack: if triggers { traffic.usual_slack() } else { Duration::ZERO },
            traffic: Traffic { pace: timer.pace(traffic.pace), ..traffic },
            timer,
            dscp: Dscp::default(),
            idle: triggers.then(Idle::default),
            sched_slice: None,
            work: Work::None,
            program: None,
            disabled_source: None,
            cpu: None,
            no_handshake: false,
            trace: 0,
            queue: None,
        }
    }

    /// Returns the plan that `by_kernel` makes, with pacing by a queue of the kernel, if one on the route keeps release
    /// times; otherwise this plan. Either records what was found. A plan that is refused is not used, and the reason is
    /// recorded.
    #[must_use]
    pub fn or_by_kernel(self, by_kernel: impl FnOnce() -> Result<SendPlan, Failure>) -> Self {
        let Finding { works, how, .. } = queue_to(self.destination);
        let refused = if works {
            match by_kernel().and_then(|plan| plan.timer.check(plan.destination).map(|()| plan)) {
                Ok(plan) => return SendPlan { queue: Some(how), ..plan },
                Err(failure) => format!("; {failure}"),
            }
        } else {
            String::new()
        };
        SendPlan { queue: Some(format!("{how}{refused}")), ..self }
    }

    /// Returns how datagrams reach the kernel, and why so.
    pub fn send_via(&self) -> SendVia {
        let Traffic { flows, quantum, gso, .. } = self.traffic;
        let (way, why) = if !self.timer.sends() {
            (Way::None, "nothing is sent")
        } else if self.timer.hands_over_ahead() {
            (Way::Txtime, "a queue of the kernel keeps release times (SO_TXTIME)")
        } else if quantum > 1 && gso {
            (Way::Segment, "a quantum is one send, which the kernel cuts (UDP_SEGMENT)")
        } else if quantum > 1 {
            (Way::Sendmmsg, "a quantum leaves by one call, uncut as asked for")
        } else if flows > 1 {
            (Way::Sendmmsg, "flows that are due at once share a call")
        } else {
            (Way::Send, "one flow, a datagram at a time, on a connected socket")
        };
        let found = self.queue.as_ref().map_or_else(String::new, |queue| format!("; {queue}"));
        SendVia { way, why: format!("{why}{found}") }
    }

    /// The configuration in effect, for the report.
    ///
    /// Plan and traffic are taken apart in full, so that no setting can be left out.
    pub fn config(&self) -> SendConfig {
        let SendPlan {
            destination,
            traffic,
            dscp,
            timer,
            slack,
            idle,
            sched_slice,
            work,
            program: _,
            disabled_source,
            cpu,
            no_handshake: _,
            trace: _,
            queue: _,
        } = self;
        let Traffic { pace, trace, size, flows, phase, train, slot, quantum, gso, end } = traffic;
        let catch_up = Some(pace.catch_up.time).filter(|&time| time < CatchUp::ALL.time);
        let has_recovery = *flows == 1 && *quantum == 1 && !timer.hands_over_ahead();
        // Each part of a recording has its own.
        let is_local = trace.is_some() && pace.burst_interval.is_none();
        SendConfig {
            address: destination.to_string(),
            dscp: dscp.number(),
            target_pps: traffic.target_pps(),
            target_interval_ns: nanos(pace.rate.interval()),
            pattern: traffic.pattern(),
            burst_interval_ns: (!is_local).then(|| nanos(pace.shortest_gap())),
            catch_up_ns: catch_up.map(nanos),
            size_bytes: *size,
            flows: *flows,
            phase: *phase,
            train: if has_recovery { NonZeroU32::new(pace.recovery.train.into()) } else { *train },
            slot_ns: Some(nanos(*slot)).filter(|&slot| slot > 0),
            quantum_packets: *quantum,
            gso: *gso,
            duration_s: end.duration.map(|duration| duration.as_secs_f64()),
            count: end.count,
            timer: *timer,
            slack_ns: nanos(*slack),
            idle: idle.map(|idle| idle.to_string()),
            cpu_budget: idle.map(|idle| f64::from(idle.budget().share().get()) / 100.0),
            sched_slice_ns: sched_slice.map(nanos),
            busy: work.name(),
            echo_batch: if let Work::Echo { batch } = *work { Some(batch) } else { None },
            disabled_source: disabled_source.map(TriggerState::name),
            cpu: cpu.map(Processor::number),
        }
    }
}

/// The `send_via` object: how datagrams reached the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SendVia {
    /// `send`, `sendmmsg`, `segment`, `txtime`, or `none`.
    pub way: Way,
    /// The reason for it; for `--send-via auto`, the queue that was found.
    pub why: String,
}

impl Default for SendVia {
    fn default() -> Self {
        SendVia { way: Way::None, why: "nothing is sent".to_owned() }
    }
}

/// The way by which datagrams reach the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// None does.
    None,
    /// One by one, on a connected socket.
    Send,
    /// Those that are due at once by one call.
    Sendmmsg,
    /// As one send, which the kernel cuts (`UDP_SEGMENT`).
    Segment,
    /// Ahead of their release times (`SO_TXTIME`).
    Txtime,
}

impl Way {
    /// Returns the name, as in a report.
    pub fn name(self) -> &'static str {
        match self {
            Way::None => "none",
            Way::Send => "send",
            Way::Sendmmsg => "sendmmsg",
            Way::Segment => "segment",
            Way::Txtime => "txtime",
        }
    }
}

/// Prints the name.
impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The `config` object of `send`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SendConfig {
    /// The destination.
    pub address: String,
    /// The differentiated services code point of every datagram; 0 is best effort.
    pub dscp: u8,
    /// Departures a second, over the whole pattern, of all flows together.
    pub target_pps: f64,
    /// Time between departures of a flow, rounded down: their mean, or the one while on.
    pub target_interval_ns: u64,
    /// The distribution of departures over time, as `--pattern` takes it, or `recorded`.
    pub pattern: String,
    /// The shortest time between departures when catching up; `null` for a recording that has its own: 9/16 of the mean
    /// gap within each 0.1 s.
    pub burst_interval_ns: Option<u64>,
    /// The longest delay that is made up; `null` for any.
    pub catch_up_ns: Option<u64>,
    /// Payload of a datagram, or of the longest of a recording.
    pub size_bytes: usize,
    /// Flows side by side.
    pub flows: u32,
    /// When each of several begins: `spread`, `together` or `random`.
    pub phase: Phase,
    /// The most datagrams in a row when catching up; `null` for no limit.
    pub train: Option<NonZeroU32>,
    /// Time between two collections of the departures of several flows; `null` if each leaves at its own time.
    pub slot_ns: Option<u64>,
    /// Datagrams of a flow that leave at once.
    pub quantum_packets: u32,
    /// Whether the kernel was asked to segment a quantum from one send.
    pub gso: bool,
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
    /// The most datagrams; `null` for no bound.
    pub count: Option<u64>,
    /// The engine that decided when datagrams were due.
    pub timer: Timer,
    /// The tolerated lateness, in nanoseconds.
    pub slack_ns: u64,
    /// The idle policy of `soft`; `null` for the other timers.
    pub idle: Option<String>,
    /// The share of one CPU that may be busy-polled; `null` for the other timers.
    pub cpu_budget: Option<f64>,
    /// The slice requested from the scheduler; `null` if it was left unchanged.
    pub sched_slice_ns: Option<u64>,
    /// The loop's work besides sending.
    pub busy: &'static str,
    /// Datagrams that the echo server takes at once.
    pub echo_batch: Option<usize>,
    /// The source of trigger states that was disabled; `null` if none.
    pub disabled_source: Option<&'static str>,
    /// The CPU that the loop is pinned to.
    pub cpu: Option<usize>,
}
