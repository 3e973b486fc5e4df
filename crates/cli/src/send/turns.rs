//! Several timers in turns of a few milliseconds, in one process, with the same sockets and clients.
//!
//! A virtual machine's speed drifts by a fifth within seconds, so two runs after each other cannot
//! tell methods apart that differ by two percent. Here the drift is the same for all:
//!
//! ```text
//!   off │ soft │ loop │ loop │ soft │ off │ off │ soft │ …     one round forwards, one backwards
//!   └────── round ────┘└───── round ─────┘
//! ```

use std::io;
use std::time::Duration;

use softtimers::signal_timer::SignalTimer;
use softtimers::{Clock, Monotonic};

use crate::args::Timer;
use crate::failure::Failure;
use crate::handshake::Permit;
use crate::plan::SendPlan;

use super::work_loop::{self, Descriptors};
use super::{Session, soft};

/// Who takes turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contender {
    /// The work alone, in a plain loop.
    Nobody,
    /// The same, in a loop that asks its descriptors after each piece that it computes, as one must
    /// whose timer is a descriptor.
    NobodyAsking,
    /// The same in softtimers' loop, with nothing to send: its trigger states alone.
    NobodySoft,
    /// The flow, by this timer; not by [`Timer::Signal`] or [`Timer::Kernel`].
    Flow(Timer),
    /// The flow's events by this timer, with nothing sent: what remains is the price of the timer. Not by
    /// [`Timer::Signal`], whose handler sends by itself.
    NullEvents(Timer),
    /// A periodic signal at the flow's rate, whose handler only counts.
    NullSignals,
}

/// What one contender did in one turn.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Share {
    /// Requests answered or pieces computed, per second; 0 without work.
    pub work_rate: f64,
    /// Datagrams, null events or signals a second.
    pub event_rate: f64,
}

/// Gives each contender a turn of this length in each of `rounds`; the flow begins anew in each.
/// Returns for each round what each of them did, in their order. The plan's own timer and end do not
/// count.
///
/// # Errors
/// What keeps the run from starting, or breaks it off; a signal among them. A usage failure for a signal's
/// handler, which counts from zero each time that it is given a flow, and cannot be told not to send; and for what
/// leaves ahead of its time.
pub fn take_turns<const N: usize>(
    plan: &SendPlan,
    contenders: [Contender; N],
    length: Duration,
    rounds: usize,
) -> Result<Vec<[Share; N]>, Failure> {
    for contender in contenders {
        if let Contender::Flow(timer) | Contender::NullEvents(timer) = contender {
            match timer {
                Timer::Signal => return Err(Failure::usage("--timer signal: it takes no turns with others")),
                Timer::Kernel => return Err(Failure::usage("--timer kernel: it takes no turns with others")),
                _ => {}
            }
        }
    }
    if plan.quantum > 1 {
        return Err(Failure::usage(format_args!(
            "--quantum {}: only 1 takes turns with other timers",
            plan.quantum
        )));
    }
    if plan.flows > 1 {
        return Err(Failure::usage(format_args!(
            "--flows {}: only 1 takes turns with other timers",
            plan.flows
        )));
    }
    let permit = Permit::obtain(plan)?;
    let mut session = Session::begin(plan)?;
    let mut shares = vec![[Share::default(); N]; rounds];
    for (round, shares) in shares.iter_mut().enumerate() {
        for place in 0..N {
            let place = if round % 2 == 0 { place } else { N - 1 - place };
            shares[place] = session.turn(contenders[place], length, plan)?;
        }
    }
    session.flow.mute(false);
    session.say_goodbye(permit);
    session.work.stop();
    Ok(shares)
}

impl Session {
    fn turn(&mut self, contender: Contender, length: Duration, plan: &SendPlan) -> Result<Share, Failure> {
        let done = self.work.done();
        let start = Monotonic.now();
        self.flow.restart(start);
        self.flow.mute(matches!(contender, Contender::NullEvents(_)));
        self.end = start + length;
        let events =
            self.contend(contender, plan).map_err(|error| Failure::broke_off("taking turns", &error))?;
        if self.interrupt.arrived() {
            return Err(Failure::check("interrupted"));
        }
        let took = Monotonic.now().saturating_duration_since(start).as_secs_f64();
        let work = self.work.done().unwrap_or(0) - done.unwrap_or(0);
        Ok(Share { work_rate: work as f64 / took, event_rate: events as f64 / took })
    }

    /// Goes on until the end; how many events there were.
    fn contend(&mut self, contender: Contender, plan: &SendPlan) -> io::Result<u64> {
        let before = self.flow.departures();
        match contender {
            Contender::Nobody => self.drive(Timer::Off, plan, &Monotonic)?,
            Contender::NobodyAsking => work_loop::run(self, Descriptors::Asked)?,
            Contender::NobodySoft => soft::idle(self, &Monotonic)?,
            Contender::Flow(timer) | Contender::NullEvents(timer) => {
                self.drive(timer, plan, &Monotonic)?;
            }
            Contender::NullSignals => {
                let signals = SignalTimer::new()?;
                let period = plan.pace.rate.interval();
                signals.arm_periodic(Monotonic.now() + period, period)?;
                self.drive(Timer::Off, plan, &Monotonic)?;
                return Ok(signals.signals());
            }
        }
        Ok(self.flow.departures() - before)
    }
}
