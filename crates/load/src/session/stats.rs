//! The counts of a sender, for an interval or the whole run: [`SendStats`].

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use softtimers::late::{LateCause, LateCounts};
use softtimers_core::{PerSource, TriggerState};
use softtimers_linux::signal_timer::Departure;
use softtimers_measure::distribution::{Distribution, Recorder};
use softtimers_measure::stats::Stats;
use softtimers_measure::sums;

use crate::gaps::{GapReport, Gaps};
use crate::traffic::nanos;

use super::catching_up::CatchUps;

/// All counts of departures. Lines of `--json-stream` show intervals of them, and the report the total.
#[derive(Clone, Debug)]
pub struct SendStats {
    /// Datagrams the kernel took.
    pub sent: u64,
    /// Turns in which datagrams left.
    pub turns: u64,
    /// Scheduled times skipped.
    pub forfeited: u64,
    /// System calls that sent or tried to.
    pub calls: Calls,
    /// Departures by the trigger state that found them due.
    pub fired: PerSource<u64>,
    /// Departure time minus scheduled time.
    pub late: Recorder,
    /// Late departures by cause.
    pub causes: [LateCounts; LateCause::ALL.len()],
    /// How often one flow fell behind, and for how long.
    pub catch_ups: CatchUps,
    /// Gaps between departures of a flow.
    pub(crate) gaps: Gaps,
    /// The gaps between departures of any of several flows.
    pub(crate) together: Option<Gaps>,
    /// The lateness of the last datagram.
    pub skew: Option<Duration>,
}

/// System calls that sent or tried to send datagrams, without goodbyes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// All calls, including those that the kernel refused.
    pub calls: u64,
    /// Datagrams that left as segments of a longer send.
    pub segments: u64,
    /// Attempts that met a full send buffer (`EAGAIN`).
    pub would_block: u64,
    /// Attempts that met a full queue on the way out (`ENOBUFS`).
    pub no_buffers: u64,
    /// Attempts that returned an earlier datagram's ICMP error.
    pub refused: u64,
}

impl Calls {
    /// Returns the attempts that had to be repeated.
    pub fn tried_again(&self) -> u64 {
        self.would_block + self.no_buffers + self.refused
    }
}

sums!(Calls: calls, segments, would_block, no_buffers, refused);

impl SendStats {
    /// Creates zero counts. Gaps are judged by this `interval` of a flow, and by the common one of all `flows`.
    pub fn new(interval: Duration, flows: u32) -> Self {
        SendStats {
            sent: 0,
            turns: 0,
            forfeited: 0,
            calls: Calls::default(),
            fired: PerSource::default(),
            late: Recorder::new(),
            causes: Default::default(),
            catch_ups: CatchUps::default(),
            gaps: Gaps::new(Some(interval)),
            together: (flows > 1).then(|| Gaps::new(Some(interval / flows))),
            skew: None,
        }
    }

    /// Counts a departure, and its cause if it was late. Lateness is relative to the scheduled time; the cause is a
    /// pause just before the departure if it left later than it was due, and otherwise something earlier.
    #[inline]
    pub(super) fn departed(&mut self, departure: &Departure, source: TriggerState, cause: Option<LateCause>) {
        let lateness = departure.sent.saturating_duration_since(departure.place);
        self.sent += 1;
        self.fired[source] += 1;
        self.late.record_duration(lateness);
        self.skew = Some(lateness);
        if let Some(cause) = cause {
            let pause = departure.sent.saturating_duration_since(departure.due);
            self.causes[cause as usize].count(if cause == LateCause::CatchUp { lateness } else { pause });
        }
    }

    /// Returns the mean number of datagrams per turn; `None` if there was none.
    pub fn packets_per_turn(&self) -> Option<f64> {
        (self.turns > 0).then(|| self.sent as f64 / self.turns as f64)
    }

    /// Returns the departures by the name of the trigger state that found them due.
    pub fn fired(&self) -> BTreeMap<&'static str, u64> {
        self.fired.iter().map(|(source, &count)| (source.name(), count)).collect()
    }

    /// Returns the departures more than a millisecond late, by the name of the cause.
    pub fn late_by_cause(&self) -> BTreeMap<&'static str, LateReport> {
        let causes = LateCause::ALL.into_iter().zip(self.causes);
        causes.map(|(cause, counts)| (cause.name(), LateReport::from(counts))).collect()
    }
}

impl AddAssign<&SendStats> for SendStats {
    fn add_assign(&mut self, next: &Self) {
        sums!(self += next: sent, turns, forfeited, calls, late, catch_ups);
        for source in TriggerState::ALL {
            self.fired[source] += next.fired[source];
        }
        for (cause, more) in self.causes.iter_mut().zip(next.causes) {
            cause.add(more);
        }
        self.gaps.add(&next.gaps);
        if let (Some(together), Some(more)) = (&mut self.together, &next.together) {
            together.add(more);
        }
        self.skew = next.skew.or(self.skew);
    }
}

impl Stats for SendStats {
    type Figures = SendFigures;

    fn is_empty(&self) -> bool {
        self.sent + self.forfeited + self.calls.tried_again() == 0
    }

    fn clear(&mut self) {
        let SendStats { sent, turns, forfeited, calls, fired, late, causes, catch_ups, gaps, together, skew } =
            self;
        (*sent, *turns, *forfeited, *calls, *skew) = (0, 0, 0, Calls::default(), None);
        (*fired, *causes) = (PerSource::default(), Default::default());
        *catch_ups = CatchUps::default();
        late.clear();
        gaps.clear();
        together.iter_mut().for_each(Gaps::clear);
    }

    fn figures(&self, time: Duration) -> SendFigures {
        SendFigures {
            achieved_pps: self.sent as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE),
            sent: self.sent,
            forfeited: self.forfeited,
            late_ns: self.late.distribution(),
            gaps: self.gaps.report(),
            packets_per_turn: self.packets_per_turn(),
            fired: self.fired(),
            late: self.late_by_cause(),
            tried_again: self.calls.tried_again(),
            refused: self.calls.refused,
        }
    }
}

/// The keys of `interval` and of `total`. The other keys of a report are known only at the end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SendFigures {
    /// Departures in this time, over this time.
    pub achieved_pps: f64,
    /// Datagrams the kernel took.
    pub sent: u64,
    /// Scheduled times that were skipped.
    pub forfeited: u64,
    /// Departure time minus scheduled time.
    pub late_ns: Distribution,
    /// Gaps whose second datagram left in this time.
    #[serde(flatten)]
    pub gaps: GapReport,
    packets_per_turn: Option<f64>,
    fired: BTreeMap<&'static str, u64>,
    late: BTreeMap<&'static str, LateReport>,
    /// Attempts that met a full buffer, a full queue or an earlier datagram's error.
    tried_again: u64,
    /// Attempts among them that met an earlier datagram's error: the port is closed.
    refused: u64,
}

/// Late departures of one cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LateReport {
    /// The number of late datagrams.
    pub count: u64,
    /// The longest pause, or for `catch_up` the greatest lateness.
    pub longest_ns: u64,
}

impl From<LateCounts> for LateReport {
    fn from(counts: LateCounts) -> Self {
        LateReport { count: counts.events, longest_ns: nanos(counts.longest) }
    }
}
