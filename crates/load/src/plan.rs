//! What a sending run was asked for, in the words of its report.

use std::num::NonZeroU32;

use serde::Serialize;
use softtimers_core::{CatchUp, TriggerState};

use super::{IdlePlan, Phase, SendPlan, Work, nanos};
use crate::args::{Busy, ClockName, IdlePolicy, Timer};
use crate::processor::Processor;

/// The `config` object of `send`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SendConfig {
    /// Where to.
    pub address: String,
    /// Departures a second, over the whole pattern, of all flows together.
    pub target_pps: f64,
    /// Time between departures of a flow, rounded down: their mean, or the one while on.
    pub target_interval_ns: u64,
    /// How departures are spread over time, as `--pattern` takes it, or `recorded`.
    pub pattern: String,
    /// The shortest time between departures when catching up.
    pub burst_interval_ns: u64,
    /// The longest delay that is made up; `null` for any.
    pub catch_up_ns: Option<u64>,
    /// Payload of a datagram, or of the longest of a recording.
    pub size_bytes: usize,
    /// Flows side by side.
    pub flows: u32,
    /// When each of several begins: `spread`, `together` or `random`.
    pub phase: Phase,
    /// The most datagrams of several flows in a row; `null` for no limit.
    pub train: Option<NonZeroU32>,
    /// Datagrams of a flow that leave in one go.
    pub quantum_packets: u32,
    /// Whether the kernel was asked to cut more than one of them out of one send.
    pub gso: bool,
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
    /// The most datagrams; `null` for no bound.
    pub count: Option<u64>,
    /// Who says when.
    pub timer: Timer,
    /// What the loop read the time from.
    pub clock: ClockName,
    /// Tolerated lateness.
    pub slack_ns: u64,
    /// What `soft` does when nothing is due; `null` for the other timers.
    pub idle: Option<IdlePolicy>,
    /// The share of one processor that may be polled away; `null` for the other timers.
    pub cpu_budget: Option<f64>,
    /// The slice asked of the scheduler; `null` if it is left as it is.
    pub sched_slice_ns: Option<u64>,
    /// Work beside sending.
    pub busy: Busy,
    /// Datagrams the echo server takes in one go.
    pub echo_batch: Option<usize>,
    /// Whose trigger states the loop did without; `null` if it had all.
    pub disabled_source: Option<&'static str>,
    /// The processor the loop is kept on.
    pub cpu: Option<usize>,
}

impl SendPlan {
    /// The configuration in effect, for the report.
    pub fn config(&self) -> SendConfig {
        let target = self.pace.rate.interval();
        let catch_up = Some(self.pace.catch_up.time).filter(|&time| time < CatchUp::ALL.time);
        SendConfig {
            address: self.destination.to_string(),
            target_pps: self.target_pps(),
            target_interval_ns: nanos(target),
            pattern: if self.trace.is_some() { "recorded".to_owned() } else { self.pattern.to_string() },
            burst_interval_ns: nanos(self.pace.shortest_gap()),
            catch_up_ns: catch_up.map(nanos),
            size_bytes: self.size,
            flows: self.flows,
            phase: self.phase,
            train: self.train,
            quantum_packets: self.quantum,
            gso: self.gso,
            duration_s: self.end.duration.map(|duration| duration.as_secs_f64()),
            count: self.end.count,
            timer: self.timer,
            clock: self.clock,
            slack_ns: nanos(self.slack),
            idle: self.idle.map(|idle| idle.policy),
            cpu_budget: self.idle.map(IdlePlan::budget_share),
            sched_slice_ns: self.sched_slice.map(nanos),
            busy: match self.work {
                Work::None => Busy::None,
                Work::Compute => Busy::Compute,
                Work::Web => Busy::Web,
                Work::Echo { .. } => Busy::Echo,
            },
            echo_batch: match self.work {
                Work::Echo { batch } => Some(batch),
                _ => None,
            },
            disabled_source: self.disabled_source.map(TriggerState::name),
            cpu: self.cpu.map(Processor::number),
        }
    }
}
