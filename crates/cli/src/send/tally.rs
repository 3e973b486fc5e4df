//! The account of all that left, of one flow or of several.

use std::time::Duration;

use softtimers::late::{LateCause, LateLog};
use softtimers::{PerSource, Timestamp, TriggerState};
use softtimers_linux::signal_timer::Departure;

use crate::distribution::Recorder;
use crate::gaps::{GapReport, Gaps, Train};
use crate::stream::Counter;

use super::report::LateReport;
use super::second::{Left, Second};

#[derive(Debug)]
pub(super) struct Tally {
    sent: u64,
    /// Times that something due was found and left.
    turns: u64,
    fired: PerSource<u64>,
    gaps: Gaps,
    late: Recorder,
    /// How late the last datagram was.
    skew: Option<Duration>,
    causes: LateLog,
    /// Departures are times asked of the kernel, of which the thread's accounts know nothing.
    foretold: bool,
    /// The same of each second, for `--json-stream`.
    second: Option<Counter<Second>>,
    /// What that was told of.
    told: Trouble,
    told_turns: u64,
}

/// What happens beside departures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Trouble {
    /// Places given up.
    pub(super) forfeited: u64,
    /// Attempts that had to be repeated.
    pub(super) tried_again: u64,
}

impl Tally {
    /// Nothing has left. Gaps within a flow are judged by `interval`.
    pub(super) fn new(interval: Duration, now: Timestamp) -> Self {
        Tally {
            sent: 0,
            turns: 0,
            fired: PerSource::default(),
            gaps: Gaps::new(Some(interval)),
            late: Recorder::new(),
            skew: None,
            causes: LateLog::new(LATE_FROM, now),
            foretold: false,
            second: None,
            told: Trouble::default(),
            told_turns: 0,
        }
    }

    /// From now on departures are times that the kernel is asked to keep.
    pub(super) fn foretell(&mut self) {
        self.foretold = true;
    }

    /// Counts each second apart, too.
    pub(super) fn count_in(&mut self, second: Counter<Second>) {
        self.second = Some(second);
    }

    /// Makes this thread the one whose accounts tell why a departure was late.
    pub(super) fn adopt(&mut self, now: Timestamp) {
        self.causes = LateLog::new(LATE_FROM, now);
    }

    /// A turn begins in which something leaves.
    #[inline]
    pub(super) fn turn(&mut self) {
        self.turns += 1;
    }

    /// Whether [`trouble`](Tally::trouble) wants to be told.
    #[inline]
    pub(super) fn is_streamed(&self) -> bool {
        self.second.is_some()
    }

    /// Tells the second what has happened so far beside departures.
    pub(super) fn trouble(&mut self, so_far: Trouble) {
        if let Some(second) = self.second.as_ref().filter(|_| so_far != self.told) {
            let forfeited = so_far.forfeited.saturating_sub(self.told.forfeited);
            let tried_again = so_far.tried_again.saturating_sub(self.told.tried_again);
            second.count(|second| second.trouble(forfeited, tried_again));
            self.told = so_far;
        }
    }

    /// Counts a datagram that has just left, and why if it was late.
    #[inline]
    pub(super) fn departed(&mut self, train: &mut Train, departure: Departure, source: TriggerState) {
        let cause =
            if self.foretold { None } else { self.causes.ran(departure.sent, pause(&departure), source) };
        self.account(train, departure, source, cause);
    }

    /// Counts a datagram that has left. Lateness counts from the place. A pause just before it made it so
    /// if it left later than it might have; else the cause lies further back.
    #[inline]
    pub(super) fn count(&mut self, train: &mut Train, departure: Departure, source: TriggerState) {
        self.account(train, departure, source, None);
    }

    #[inline]
    fn account(
        &mut self,
        train: &mut Train,
        departure: Departure,
        source: TriggerState,
        cause: Option<LateCause>,
    ) {
        self.sent += 1;
        self.fired[source] += 1;
        let lateness = departure.sent.saturating_duration_since(departure.place);
        self.late.record_duration(lateness);
        self.skew = Some(lateness);
        let cause = if pause(&departure) <= LATE_FROM { self.causes.caught_up(lateness) } else { cause };
        let gap = self.gaps.record(train, departure.sent);
        if let Some(second) = &self.second {
            let turns = self.turns - std::mem::replace(&mut self.told_turns, self.turns);
            second.count(|second| second.departed(train, &Left { departure, turns, gap, source, cause }));
        }
    }

    /// Datagrams that have left.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// The mean number of datagrams that left in one turn; `None` if none did.
    pub(super) fn packets_per_turn(&self) -> Option<f64> {
        (self.turns > 0).then(|| self.sent as f64 / self.turns as f64)
    }

    /// Departures by the trigger state that noticed them due.
    pub(super) fn fired(&self) -> &PerSource<u64> {
        &self.fired
    }

    pub(super) fn gap_report(&self) -> GapReport {
        self.gaps.report()
    }

    pub(super) fn lateness(&self) -> &Recorder {
        &self.late
    }

    /// How late the last datagram was against its place; `None` before the first.
    pub(super) fn skew(&self) -> Option<Duration> {
        self.skew
    }

    /// Departures more than a millisecond late, by cause.
    pub(super) fn late_report(&self) -> Vec<(&'static str, LateReport)> {
        self.causes.iter().map(|(cause, counts)| (cause.name(), LateReport::from(counts))).collect()
    }
}

/// How much later it left than it might have.
fn pause(departure: &Departure) -> Duration {
    departure.sent.saturating_duration_since(departure.due)
}

/// Lateness from which on it is worth knowing why.
const LATE_FROM: Duration = Duration::from_millis(1);
