//! A run, as every engine drives it: the flow, the other work, and the end.

mod ahead;
mod catching_up;
mod clock_checks;
mod departures;
mod flow;
mod header;
mod many_flows;
mod order;
mod refusals;
mod sender;
mod single_flow;
mod stats;
mod trace;
mod triggers;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use softtimers::epoll::Waiting;
use softtimers::{HeldBack, LoopStats, Monotonic, Slice};
use softtimers_core::{Clock, Idle, Polling, RateClock, Timestamp, TriggerState};
use softtimers_measure::distribution::Distribution;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::processor::{Kept, Processor, Processors};
use softtimers_measure::stats::Counter;
use softtimers_measure::units::show_duration;
use softtimers_measure::usage::Usage;
use softtimers_net::udp::UdpSocket;

use crate::handshake::{self, Agreement, Permit};
use crate::receipt::Receipt;
use crate::traffic::Traffic;
use crate::work::{Work, Workload};

pub use catching_up::CatchUps;
pub(crate) use clock_checks::ClockChecks;
pub(crate) use flow::{Flow, Handling};
pub use refusals::Notify;
use refusals::Refusals;
use sender::Sender;
pub use stats::{Calls, LateReport, SendFigures, SendStats};
pub use trace::SendTrace;
pub use triggers::Triggers;
use watch::Watch;

/// A run in progress, on the thread that began it.
pub(crate) struct Session {
    pub(crate) flow: Flow,
    pub(crate) work: Workload,
    pub(crate) interrupt: Interrupt,
    pub(crate) end: Timestamp,
    pub(crate) habits: Habits,
    /// The idle policy's busy-poll time, if it has one.
    pub(crate) polled: Option<Polling>,
    /// The CPUs on which another thread may run, even if the loop is pinned.
    pub(crate) anywhere: Processors,
    /// The CPU usage of that thread.
    pub(crate) beside: Usage,
    /// Times between two clock checks, for an engine that checks.
    pub(crate) trigger_intervals: Distribution,
    /// The trigger states that softtimers has seen.
    pub(crate) triggers: Option<Box<Triggers>>,
    /// The run times of the handlers, if it is softtimers' loop.
    pub(crate) handlers: Option<LoopStats>,
    /// The fallbacks: what did not work as requested, and what was done instead.
    pub(crate) fallbacks: Vec<String>,
    /// The current turn, if the session takes turns.
    pub(crate) turn: Option<Turn>,
    /// Watches whether the agreed receiver is still there.
    watch: Option<Watch>,
    /// Holds this thread's settings, and restores the old ones when dropped.
    _kept: Option<Kept>,
    _slice: Option<Slice>,
}

/// A turn of one loop among several: its flow and length, and the time and work at its beginning and end.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) clock: RateClock,
    pub(crate) muted: bool,
    pub(crate) length: Duration,
    pub(crate) began: (Timestamp, u64),
    pub(crate) ended: (Timestamp, u64),
}

/// The settings of a loop with trigger states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// The lateness that a departure may have before the backup timer is used.
    pub(crate) slack: Duration,
    pub(crate) idle: Idle,
    /// The disabled source of trigger states.
    pub(crate) disabled: Option<TriggerState>,
    /// Whether to compute the intervals without each source, too.
    pub(crate) without_each: bool,
}

/// The conditions of a session: its other work, and its CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) work: Work,
    /// The program whose `echo-client` loads an echo server; `None` for this one.
    pub(crate) program: Option<&'a Path>,
    pub(crate) cpu: Option<Processor>,
    pub(crate) sched_slice: Option<Duration>,
    /// The number of departures to keep for a trace; 0 for none.
    pub(crate) trace: usize,
}

impl Session {
    /// Begins a run that sends to the other end of a socket, as permitted.
    pub(crate) fn begin(
        (traffic, handling): (&Traffic, Handling),
        surroundings: Surroundings<'_>,
        habits: Habits,
        (socket, permit): (UdpSocket, &Permit),
        (interrupt, counter): (Interrupt, Counter<SendStats>),
    ) -> Result<Self, Failure> {
        let broke_off = |what: &'static str| move |error: io::Error| Failure::broke_off(what, &error);
        let refusals = Arc::<Refusals>::default();
        // From here on the agreement is renewed, also while the work's clients start.
        let watch = permit
            .agreement()
            .map(|agreement| Watch::start(agreement, &socket, refusals.clone(), interrupt.stop_handle()?))
            .transpose()
            .map_err(broke_off("watching the receiver"))?;
        let sender = Sender::new(socket);
        let Surroundings { work, program, cpu, sched_slice, trace } = surroundings;
        let work = Workload::start(work, program, cpu, &interrupt).map_err(broke_off("starting the work"))?;
        let anywhere = Processors::allowed().map_err(broke_off("asking for the CPUs"))?;
        let kept = cpu.map(Processor::keep).transpose().map_err(broke_off("keeping to a CPU"))?;
        // After the work's processes have been started, which would inherit it.
        let slice = sched_slice.map(Slice::hold).transpose();
        let no_slice = slice.as_ref().err().map(|error| format!("no --sched-slice: {error}"));
        let start = Monotonic.now();
        let mut flow = Flow::new(traffic, handling, sender, permit.agreement(), counter, start)?;
        flow.share(refusals);
        if trace > 0 {
            flow.trace(trace, &traffic.pace);
        }
        Ok(Session {
            flow,
            work,
            interrupt,
            end: traffic.end.duration.map_or(Timestamp::MAX, |duration| start + duration),
            habits,
            polled: None,
            anywhere,
            beside: Usage::default(),
            trigger_intervals: Distribution::default(),
            triggers: None,
            handlers: None,
            fallbacks: unheard(permit).into_iter().chain(no_slice).collect(),
            turn: None,
            watch,
            _kept: kept,
            _slice: slice.unwrap_or_default(),
        })
    }

    /// Called when an engine is about to begin its loop. In a turn the flow and the time begin here: setting a loop up
    /// takes long compared with the differences to measure.
    pub(crate) fn loop_begins(&mut self) {
        if let Some(turn) = &mut self.turn {
            let now = Monotonic.now();
            self.flow.restart(turn.clock.clone(), turn.muted, now);
            self.end = now + turn.length;
            turn.began = (now, self.work.done().unwrap_or(0));
        }
    }

    /// Called when the loop is over. Later work, such as summing up its counts, is not part of a turn.
    pub(crate) fn loop_ends(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.ended = (Monotonic.now(), self.work.done().unwrap_or(0));
        }
    }

    pub(crate) fn over(&self, now: Timestamp) -> bool {
        now >= self.end || self.flow.finished() || self.interrupt.arrived()
    }

    /// Records how the engine had to wait, if not as it should.
    pub(crate) fn waited(&mut self, waiting: Waiting) {
        if waiting == Waiting::Ppoll {
            self.fallbacks
                .push("epoll_pwait2 is refused here; waits use ppoll, one more system call each".to_owned());
        }
    }

    /// Records the idle policy's polling, and the reason if it could not work as requested.
    pub(crate) fn idled(&mut self, polled: Polling, held_back: Option<HeldBack>) {
        self.polled = Some(polled);
        if let Some(why) = held_back {
            self.fallbacks.push(format!("{why}; the loop slept instead where it could"));
        }
    }

    /// Ends the watch over the receiver, and checks its result.
    ///
    /// # Errors
    /// A check failure if the receiver has gone.
    pub(crate) fn unwatch(&mut self, destination: SocketAddr) -> Result<(), Failure> {
        if !self.watch.take().is_some_and(Watch::finish) {
            return Ok(());
        }
        Err(Failure::check(format_args!(
            "the receiver at {destination} has not renewed its consent for {}: it has ended, or is out of reach",
            show_duration(watch::SILENCE)
        )))
    }

    /// Asks an agreed receiver what has come, behind the last datagram.
    pub(crate) fn ask_receipt(&mut self, agreement: &Agreement) -> Option<Receipt> {
        let sent = self.flow.stats().sent;
        let told = handshake::ask_receipt(self.flow.socket(), agreement, sent);
        told.map_err(|why| self.fallbacks.push(format!("no result of the receiver: {why}"))).ok()
    }

    pub(crate) fn say_goodbye(&mut self) {
        if !self.flow.say_goodbye() {
            self.fallbacks.push("no goodbye could be sent; a receiver does not know of the end".to_owned());
        }
    }
}

/// Returns a note for the report if no receiver agreed and the run goes on.
fn unheard(permit: &Permit) -> Option<String> {
    let Permit::Unheard { why, .. } = permit else { return None };
    Some(format!("{why}; sent without an agreement, which a receiver counts only with --any"))
}
