//! The record of departures, and of the causes of late ones: [`Departures`].
//!
//! Every datagram goes one way: the schedule decides (its clock says when the next may leave), the sender sends, and this
//! records it. Each happens once, whatever the schedule and the driver.
//!
//! ```text
//!   schedule.depart ─▶ decides: place, length, next ─▶ Sender: one call ─▶ record: gaps, lateness and its cause, catch-ups
//! ```

use std::time::Duration;

use softtimers::late::{LateCause, LateLog};
use softtimers_core::{Timestamp, TriggerState};
use softtimers_linux::signal_timer::Departure;
use softtimers_measure::stats::Counter;

use crate::gaps::Train;

use super::catching_up::CatchingUp;
use super::stats::{Calls, SendStats};
use super::trace::SendTrace;

/// Records departures, on the thread whose statistics explain late ones.
#[derive(Debug)]
pub(super) struct Departures {
    counter: Counter<SendStats>,
    causes: LateLog,
    /// Whether departures are times requested from the kernel, of which the thread's statistics know nothing.
    foretold: bool,
    /// Skipped scheduled times counted so far.
    forfeited: u64,
    /// Each flow's run of datagrams, and that of all of them as if they were one.
    trains: Vec<Train>,
    together: Train,
    /// The catch-ups of one flow; of several they are not tracked.
    catching_up: Option<CatchingUp>,
    /// The log of departures, if one is kept.
    pub(super) trace: Option<Box<SendTrace>>,
}

impl Departures {
    /// Records those of so many flows.
    pub(super) fn new(counter: Counter<SendStats>, flows: u32, now: Timestamp) -> Self {
        Departures {
            counter,
            causes: LateLog::new(LATE_FROM, now),
            foretold: false,
            forfeited: 0,
            trains: vec![Train::default(); flows as usize],
            together: Train::default(),
            catching_up: None,
            trace: None,
        }
    }

    /// From now on departures are times that the kernel is asked to keep.
    pub(super) fn foretell(&mut self) {
        self.foretold = true;
    }

    /// Tracks the catch-ups of the only flow from now on.
    pub(super) fn track(&mut self, catching_up: CatchingUp) {
        self.catching_up = Some(catching_up);
    }

    /// Counts in `counter` from now on, and moves the counts so far there.
    pub(super) fn count_in(&mut self, counter: &mut Counter<SendStats>) {
        std::mem::swap(&mut self.counter, counter);
    }

    /// Makes this thread the one whose statistics explain late departures.
    pub(super) fn adopt(&mut self, now: Timestamp) {
        self.causes = LateLog::new(LATE_FROM, now);
    }

    /// Restarts the only flow, for a new clock: the time since its last departure is no gap.
    pub(super) fn begin_anew(&mut self, catching_up: CatchingUp) {
        self.forfeited = 0;
        self.trains.fill(Train::default());
        self.catching_up = Some(catching_up);
    }

    /// Counts these calls, and the scheduled times skipped so far.
    #[inline]
    pub(super) fn tell(&mut self, calls: Calls, forfeited: u64) {
        let more = self.newly_forfeited(forfeited);
        if more > 0 || calls != Calls::default() {
            self.counter.count(|stats| add_calls(stats, calls, more));
        }
    }

    /// Records the datagrams of a turn, each with its flow, and with them the calls that sent them and the scheduled times
    /// skipped so far. `source` found them due.
    #[inline]
    pub(super) fn record(
        &mut self,
        told: (Calls, u64),
        source: TriggerState,
        left: impl Iterator<Item = (u32, Departure)>,
    ) {
        self.record_turn(told, source, !self.foretold, left);
    }

    /// Records a datagram sent by a signal's handler some time ago. Its lateness is not explained: by now this thread's
    /// statistics cover what it did since, not what delayed the signal.
    pub(super) fn record_reported(&mut self, told: (Calls, u64), departure: Departure) {
        self.record_turn(told, TriggerState::Backup, false, std::iter::once((0, departure)));
    }

    #[inline]
    fn record_turn(
        &mut self,
        (calls, forfeited): (Calls, u64),
        source: TriggerState,
        knows_pauses: bool,
        left: impl Iterator<Item = (u32, Departure)>,
    ) {
        let more = self.newly_forfeited(forfeited);
        let Departures { counter, causes, trains, together, catching_up, trace, .. } = self;
        counter.count(|stats| {
            add_calls(stats, calls, more);
            stats.turns += 1;
            for (flow, departure) in left {
                if let Some(trace) = trace {
                    trace.left(flow, departure, source);
                }
                if let Some(catching_up) = catching_up {
                    catching_up.left(&mut stats.catch_ups, &departure);
                }
                let causes = knows_pauses.then_some(&mut *causes);
                stats.departed(&departure, source, late_cause(causes, &departure, source));
                stats.gaps.record(&mut trains[flow as usize], departure.sent);
                if let Some(gaps) = &mut stats.together {
                    gaps.record(together, departure.sent);
                }
            }
        });
    }

    /// Returns the scheduled times skipped since the last call.
    #[inline]
    fn newly_forfeited(&mut self, forfeited: u64) -> u64 {
        forfeited.saturating_sub(std::mem::replace(&mut self.forfeited, forfeited))
    }

    /// Returns the counts since the run began.
    pub(super) fn total(&self) -> SendStats {
        self.counter.total()
    }
}

fn add_calls(stats: &mut SendStats, calls: Calls, forfeited: u64) {
    stats.calls += &calls;
    stats.forfeited += forfeited;
}

/// Returns why a departure was late, if it was: a pause just before it, of which the thread's statistics may know the cause,
/// or an earlier one.
#[inline]
fn late_cause(
    causes: Option<&mut LateLog>,
    departure: &Departure,
    source: TriggerState,
) -> Option<LateCause> {
    let &Departure { sent, due, place } = departure;
    let pause = sent.saturating_duration_since(due);
    let paused = causes.and_then(|causes| causes.ran(sent, pause, source));
    let is_behind = sent.saturating_duration_since(place) > LATE_FROM;
    if pause > LATE_FROM { paused } else { is_behind.then_some(LateCause::CatchUp) }
}

/// The lateness from which on the cause is recorded.
const LATE_FROM: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use softtimers_core::Rate;

    use super::*;

    #[test]
    fn places_given_up_after_a_restart_are_counted_from_its_first() {
        let counter = Counter::new(SendStats::new(Duration::from_micros(40), 1));
        let mut departures = Departures::new(counter, 1, Timestamp::ZERO);
        departures.tell(Calls::default(), 5);
        departures.begin_anew(CatchingUp::along(&Rate::pps(25_000).into()));
        departures.tell(Calls::default(), 3);
        assert_eq!(departures.total().forfeited, 8);
    }
}
