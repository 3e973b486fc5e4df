//! Several timers in turns of a few milliseconds, in one process, with the same sockets and clients.
//!
//! A virtual machine's speed drifts by a fifth within seconds, so two consecutive runs cannot distinguish methods that
//! differ by two percent. Here all share the same drift:
//!
//! ```text
//!   off │ soft │ loop │ loop │ soft │ off │ off │ soft │ …     one round forwards, one backwards
//!   └────── round ────┘└───── round ─────┘
//! ```
//!
//! A turn begins and ends with the loop: creating a loop and summing up its counts costs softtimers' some 0.5% of 10
//! ms, but nothing in a normal run.

use std::io;
use std::time::Duration;

use softtimers::Monotonic;
use softtimers_core::{Clock, PaceConfig, Recovery, Timestamp, TriggerState};
use softtimers_linux::signal_timer::SignalTimer;
use softtimers_measure::distribution::Moments;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::stats::Counter;

use crate::engines::{Timer, soft, work_loop};
use crate::plan::SendPlan;
use crate::send::{self, SendStats, Triggers};
use crate::session::{Session, Turn};
use crate::traffic::Traffic;

/// A program that takes turns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Contender {
    /// The work alone, in a plain loop.
    Nobody,
    /// The work alone, in a loop that polls its descriptors after each piece of computation, as a loop must whose timer
    /// is a descriptor.
    NobodyAsking,
    /// The work alone in softtimers' loop, with nothing to send: only its trigger states.
    NobodySoft,
    /// The flow, by this timer, except one that hands datagrams over ahead. Only softtimers' catch up with trains.
    Flow(Timer),
    /// The same at another pace.
    Paced(Timer, PaceConfig),
    /// The flow by softtimers, in a loop without the trigger states of this source. The intervals without each of the
    /// other sources are recorded.
    Without(Option<TriggerState>),
    /// The flow's events by this timer, with nothing sent, which leaves the cost of the timer.
    NullEvents(Timer),
    /// The same at another pace.
    PacedNullEvents(Timer, PaceConfig),
    /// A periodic signal at the flow's rate, whose handler only counts.
    NullSignals,
}

/// The result of one contender in one turn.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Requests answered or pieces computed, per second; 0 without work.
    pub work_rate: f64,
    /// Datagrams, null events or signals a second.
    pub event_rate: f64,
    /// The gaps between datagrams or null events; empty for [`Contender::NullSignals`].
    pub gaps: Moments,
    /// The 99th percentile of lateness in nanoseconds; `None` if no datagram left.
    pub late_p99_ns: Option<u64>,
    /// Expiries without a signal of their own; `None` for a timer that does not count them.
    pub overruns: Option<u64>,
    /// The trigger states of softtimers' loop; `None` for other loops.
    pub triggers: Option<Box<Triggers>>,
}

/// The results of all contenders.
#[derive(Clone, Debug)]
pub struct Turns<const N: usize> {
    /// For each whole round, the share of each contender, in their order.
    pub rounds: Vec<[Share; N]>,
    /// The counts of each contender over all of its turns.
    pub stats: [SendStats; N],
    /// Whether a signal ended the run early.
    pub interrupted: bool,
}

/// Gives each contender a turn of this length in each of `rounds`; the flow begins anew in each. The plan's own timer
/// and end are ignored. After a signal it returns the rounds until then.
///
/// # Errors
/// A failure that keeps the run from starting, or ends it. A usage failure for several flows, a quantum, a pace whose
/// burst interval is longer than its interval, a source that the loop [cannot do
/// without](crate::work::Work::can_do_without), and timers that hand datagrams over ahead of their times.
pub fn take_turns<const N: usize>(
    plan: &SendPlan,
    contenders: [Contender; N],
    length: Duration,
    rounds: usize,
) -> Result<Turns<N>, Failure> {
    let hands_over = |contender: &Contender| match *contender {
        Contender::Flow(timer) | Contender::Paced(timer, _) => timer.hands_over_ahead(),
        Contender::NullEvents(timer) | Contender::PacedNullEvents(timer, _) => timer.hands_over_ahead(),
        _ => false,
    };
    if contenders.iter().any(hands_over) {
        return Err(Failure::usage("--timer kernel: it takes no turns with others"));
    }
    if plan.traffic.quantum > 1 {
        return Err(Failure::usage(format_args!(
            "--quantum {}: only 1 takes turns with other timers",
            plan.traffic.quantum
        )));
    }
    if plan.traffic.flows > 1 {
        return Err(Failure::usage(format_args!(
            "--flows {}: only 1 takes turns with other timers",
            plan.traffic.flows
        )));
    }
    for contender in contenders {
        if let Contender::Without(Some(source)) = contender
            && !plan.work.can_do_without(source)
        {
            let name = source.name();
            return Err(Failure::usage(format_args!(
                "without {name}: this loop meets no other trigger state"
            )));
        }
    }
    // Independently of the handling that the plan's own timer wants.
    let plan = &SendPlan { timer: Timer::default(), ..plan.clone() };
    let send::Opened { socket, .. } = send::open(plan)?;
    let permit = send::permit(plan, &socket)?;
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    let mut session = send::begin(plan, (socket, &permit), interrupt, Counter::new(send::stats(plan)))?;
    let blank = send::stats(plan);
    let stats = std::array::from_fn(|_| blank.clone());
    let mut turns = Turns { rounds: Vec::with_capacity(rounds), stats, interrupted: false };
    'rounds: for round in 0..rounds {
        let mut shares = std::array::from_fn(|_| Share::default());
        for place in 0..N {
            let place = if round % 2 == 0 { place } else { N - 1 - place };
            let (share, counted) = session.turn(contenders[place], length, plan, &blank)?;
            shares[place] = share;
            turns.stats[place] += &counted;
            if session.interrupt.arrived() {
                turns.interrupted = true;
                break 'rounds;
            }
        }
        turns.rounds.push(shares);
    }
    let watched = session.unwatch(plan.destination);
    session.say_goodbye();
    session.work.stop(&session.interrupt);
    watched.map(|()| turns)
}

impl Contender {
    /// Returns the engine of a flow, and the pace that it keeps.
    fn paced(self, plan: &SendPlan) -> (Timer, PaceConfig) {
        let (timer, pace) = match self {
            Contender::Flow(timer) | Contender::NullEvents(timer) => {
                let recovery =
                    if timer.has_trigger_states() { plan.traffic.pace.recovery } else { Recovery::NONE };
                (timer, PaceConfig { recovery, ..plan.traffic.pace })
            }
            Contender::Paced(timer, pace) | Contender::PacedNullEvents(timer, pace) => (timer, pace),
            _ => (Timer::default(), plan.traffic.pace),
        };
        (timer, timer.pace(pace))
    }

    fn is_silent(self) -> bool {
        matches!(self, Contender::NullEvents(_) | Contender::PacedNullEvents(..))
    }
}

impl Session {
    fn turn(
        &mut self,
        contender: Contender,
        length: Duration,
        plan: &SendPlan,
        blank: &SendStats,
    ) -> Result<(Share, SendStats), Failure> {
        let (timer, pace) = contender.paced(plan);
        let clock = Traffic { pace, ..plan.traffic.clone() }.clock().map_err(Failure::usage)?;
        let without = if let Contender::Without(source) = contender { Some(source) } else { None };
        self.habits.without_each = without.is_some();
        self.habits.disabled = without.unwrap_or(plan.disabled_source);
        self.triggers = None;
        let mut counter = Counter::new(blank.clone());
        self.flow.count_in(&mut counter);
        let nothing = (Timestamp::ZERO, 0);
        self.turn =
            Some(Turn { clock, muted: contender.is_silent(), length, began: nothing, ended: nothing });
        let events = self
            .contend(contender, timer, pace)
            .map_err(|error| Failure::broke_off("taking turns", &error))?;
        let Some(Turn { began, ended, .. }) = self.turn.take() else { unreachable!("it was just there") };
        let took = ended.0.saturating_duration_since(began.0).as_secs_f64();
        let work = ended.1 - began.1;
        self.flow.count_in(&mut counter);
        let counted = counter.total();
        let share = Share {
            work_rate: work as f64 / took,
            event_rate: events as f64 / took,
            gaps: self.flow.spacing(),
            late_p99_ns: counted.late.distribution().p99,
            overruns: self.flow.overruns(),
            triggers: self.triggers.take(),
        };
        Ok((share, counted))
    }

    /// Runs until the end; returns the number of events.
    fn contend(&mut self, contender: Contender, timer: Timer, pace: PaceConfig) -> io::Result<u64> {
        let before = self.flow.departures();
        match contender {
            Contender::Nobody => work_loop::run(self, work_loop::Descriptors::Unseen)?,
            Contender::NobodyAsking => work_loop::run(self, work_loop::Descriptors::Asked)?,
            Contender::NobodySoft => soft::idle(self)?,
            Contender::NullSignals => {
                let signals = SignalTimer::new()?;
                let period = pace.rate.interval();
                signals.arm_periodic(Monotonic.now() + period, period)?;
                work_loop::run(self, work_loop::Descriptors::Unseen)?;
                return Ok(signals.signals());
            }
            _ => timer.drive(self)?,
        }
        Ok(self.flow.departures() - before)
    }
}
