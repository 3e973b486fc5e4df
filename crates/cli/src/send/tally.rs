//! The account of all that left, of one flow or of several.

use std::time::Duration;

use softtimers::late::LateLog;
use softtimers::signal_timer::Departure;
use softtimers::{PerSource, Timestamp, TriggerState};

use crate::distribution::Recorder;
use crate::gaps::{GapReport, Gaps, Train};

use super::report::LateReport;

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
        }
    }

    /// From now on departures are times that the kernel is asked to keep.
    pub(super) fn foretell(&mut self) {
        self.foretold = true;
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

    /// Counts a datagram that has just left, and why if it was late.
    #[inline]
    pub(super) fn departed(&mut self, train: &mut Train, departure: Departure, source: TriggerState) {
        self.count(train, departure, source);
        if !self.foretold {
            self.causes.ran(departure.sent, pause(&departure), source);
        }
    }

    /// Counts a datagram that has left. Lateness counts from the place. A pause just before it made it so
    /// if it left later than it might have; else the cause lies further back.
    #[inline]
    pub(super) fn count(&mut self, train: &mut Train, departure: Departure, source: TriggerState) {
        self.sent += 1;
        self.fired[source] += 1;
        let lateness = departure.sent.saturating_duration_since(departure.place);
        self.late.record_duration(lateness);
        self.skew = Some(lateness);
        if pause(&departure) <= LATE_FROM {
            self.causes.caught_up(lateness);
        }
        self.gaps.record(train, departure.sent);
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
