//! Several timers in turns of a few milliseconds, in one process, with the same sockets and clients.
//!
//! A virtual machine's speed drifts by a fifth within seconds, so two runs after each other cannot
//! tell methods apart that differ by two percent. Here the drift is the same for all:
//!
//! ```text
//!   off │ soft │ loop │ loop │ soft │ off │ off │ soft │ …     one round forwards, one backwards
//!   └────── round ────┘└───── round ─────┘
//! ```

use std::time::Duration;

use softtimers::{Clock, Monotonic};

use crate::args::Timer;
use crate::failure::Failure;
use crate::handshake::Permit;
use crate::plan::SendPlan;

use super::{Session, say_goodbye};

/// What one timer did in one turn.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Share {
    /// Requests answered or pieces computed, per second; 0 without work.
    pub work_rate: f64,
    /// Datagrams a second.
    pub sent_rate: f64,
}

/// Gives each of `timers` a turn of length `turn` in each of `rounds`; the flow begins anew in each.
/// Returns for each round what each timer did, in the order of `timers`. The plan's own timer and end
/// do not count.
///
/// # Errors
/// What keeps the run from starting, or breaks it off; a signal among them.
pub fn take_turns<const N: usize>(
    plan: &SendPlan,
    timers: [Timer; N],
    turn: Duration,
    rounds: usize,
) -> Result<Vec<[Share; N]>, Failure> {
    let permit = Permit::obtain(plan)?;
    let mut session = Session::begin(plan)?;
    let mut shares = vec![[Share::default(); N]; rounds];
    for (round, shares) in shares.iter_mut().enumerate() {
        for place in 0..N {
            let place = if round % 2 == 0 { place } else { N - 1 - place };
            shares[place] = session.turn(timers[place], turn, plan)?;
        }
    }
    say_goodbye(&mut session, permit);
    session.work.stop();
    Ok(shares)
}

impl Session {
    fn turn(&mut self, timer: Timer, turn: Duration, plan: &SendPlan) -> Result<Share, Failure> {
        let start = Monotonic.now();
        let (done, sent) = (self.work.done(), self.flow.sent());
        self.flow.restart(start);
        self.end = start + turn;
        self.drive(timer, plan.slack).map_err(|error| Failure::broke_off("taking turns", &error))?;
        if self.interrupt.arrived() {
            return Err(Failure::check("interrupted"));
        }
        let took = Monotonic.now().saturating_duration_since(start).as_secs_f64();
        let work = self.work.done().unwrap_or(0) - done.unwrap_or(0);
        Ok(Share { work_rate: work as f64 / took, sent_rate: (self.flow.sent() - sent) as f64 / took })
    }
}
