//! Counts departures, and finds the causes of late ones.

use std::time::Duration;

use softtimers::late::{LateCause, LateLog};
use softtimers_core::{Timestamp, TriggerState};
use softtimers_linux::signal_timer::Departure;
use softtimers_measure::stats::Counter;

use crate::gaps::Train;

use super::catching_up::CatchingUp;
use super::stats::{Calls, SendStats};
use super::trace::SendTrace;

/// Counts departures, on the thread whose statistics explain late ones.
#[derive(Debug)]
pub(super) struct Departures {
    counter: Counter<SendStats>,
    causes: LateLog,
    /// Whether departures are times requested from the kernel, of which the thread's statistics know nothing.
    foretold: bool,
    /// Skipped scheduled times counted so far.
    forfeited: u64,
    /// The log of departures, if one is kept.
    pub(super) trace: Option<Box<SendTrace>>,
}

/// A turn that found something due, which is leaving.
pub(super) struct Turn<'a> {
    stats: &'a mut SendStats,
    /// The thread's statistics that show causes; `None` if no thread's do.
    causes: &'a mut LateLog,
    trace: Option<&'a mut SendTrace>,
    knows_pauses: bool,
    source: TriggerState,
}

impl Departures {
    pub(super) fn new(counter: Counter<SendStats>, now: Timestamp) -> Self {
        Departures {
            counter,
            causes: LateLog::new(LATE_FROM, now),
            foretold: false,
            forfeited: 0,
            trace: None,
        }
    }

    /// From now on departures are times that the kernel is asked to keep.
    pub(super) fn foretell(&mut self) {
        self.foretold = true;
    }

    /// Counts in `counter` from now on, and moves the counts so far there.
    pub(super) fn count_in(&mut self, counter: &mut Counter<SendStats>) {
        std::mem::swap(&mut self.counter, counter);
    }

    /// Makes this thread the one whose statistics explain late departures.
    pub(super) fn adopt(&mut self, now: Timestamp) {
        self.causes = LateLog::new(LATE_FROM, now);
    }

    /// Restarts the count of skipped times, for a new clock.
    pub(super) fn begin_anew(&mut self) {
        self.forfeited = 0;
    }

    /// Counts these calls, and the scheduled times skipped so far.
    #[inline]
    pub(super) fn tell(&mut self, calls: Calls, forfeited: u64) {
        let more = forfeited.saturating_sub(std::mem::replace(&mut self.forfeited, forfeited));
        if more > 0 || calls != Calls::default() {
            self.counter.count(|stats| count(stats, calls, more));
        }
    }

    /// Counts them for a turn in which datagrams left.
    #[inline]
    pub(super) fn turn(
        &mut self,
        (calls, forfeited): (Calls, u64),
        source: TriggerState,
        leave: impl FnOnce(&mut Turn<'_>),
    ) {
        self.leave((calls, forfeited), source, !self.foretold, leave);
    }

    /// Counts them for a datagram sent by a signal's handler some time ago. Its lateness is not explained: by now this
    /// thread's statistics cover what it did since, not what delayed the signal.
    pub(super) fn reported(&mut self, told: (Calls, u64), leave: impl FnOnce(&mut Turn<'_>)) {
        self.leave(told, TriggerState::Backup, false, leave);
    }

    #[inline]
    fn leave(
        &mut self,
        (calls, forfeited): (Calls, u64),
        source: TriggerState,
        knows_pauses: bool,
        leave: impl FnOnce(&mut Turn<'_>),
    ) {
        let more = forfeited.saturating_sub(std::mem::replace(&mut self.forfeited, forfeited));
        let Departures { counter, causes, trace, .. } = self;
        let trace = trace.as_deref_mut();
        counter.count(|stats| {
            count(stats, calls, more);
            stats.turns += 1;
            leave(&mut Turn { stats, causes, trace, knows_pauses, source });
        });
    }

    /// Returns the counts since the run began.
    pub(super) fn total(&self) -> SendStats {
        self.counter.total()
    }
}

fn count(stats: &mut SendStats, calls: Calls, forfeited: u64) {
    stats.calls += &calls;
    stats.forfeited += forfeited;
}

impl Turn<'_> {
    /// Counts a datagram of the only flow, whose catch-ups are tracked.
    #[inline]
    pub(super) fn only_left(
        &mut self,
        catching_up: &mut CatchingUp,
        train: &mut Train,
        departure: Departure,
    ) {
        catching_up.left(&mut self.stats.catch_ups, &departure);
        self.left(0, train, departure);
    }

    /// Counts a datagram of the flow that `train` tracks.
    #[inline]
    pub(super) fn left(&mut self, flow: u32, train: &mut Train, departure: Departure) {
        if let Some(trace) = &mut self.trace {
            trace.left(flow, departure, self.source);
        }
        let pause = departure.sent.saturating_duration_since(departure.due);
        let paused =
            if self.knows_pauses { self.causes.ran(departure.sent, pause, self.source) } else { None };
        let lateness = departure.sent.saturating_duration_since(departure.place);
        let behind = (pause <= LATE_FROM && lateness > LATE_FROM).then_some(LateCause::CatchUp);
        self.stats.departed(&departure, self.source, if pause <= LATE_FROM { behind } else { paused });
        self.stats.gaps.record(train, departure.sent);
    }

    /// Counts a datagram of one of several flows, all of which `train` tracks.
    #[inline]
    pub(super) fn any_left(&mut self, train: &mut Train, sent: Timestamp) {
        if let Some(together) = &mut self.stats.together {
            together.record(train, sent);
        }
    }
}

/// The lateness from which on the cause is recorded.
const LATE_FROM: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn places_given_up_after_a_restart_are_counted_from_its_first() {
        let counter = Counter::new(SendStats::new(Duration::from_micros(40), 1));
        let mut departures = Departures::new(counter, Timestamp::ZERO);
        departures.tell(Calls::default(), 5);
        departures.begin_anew();
        departures.tell(Calls::default(), 3);
        assert_eq!(departures.total().forfeited, 8);
    }
}
