//! The counts of a receiver, for an interval or the whole run: [`RecvStats`].

use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;
use softtimers_core::Timestamp;
use softtimers_measure::distribution::{Distribution, Recorder};
use softtimers_measure::stats::Stats;
use softtimers_measure::sums;

use crate::gaps::{GapReport, Gaps};

use super::sequence::Arrival;

/// The account of what came: the only one. Lines of `--json-stream` show intervals of it, and the report the whole, with
/// what is known of each flow.
#[derive(Clone, Debug)]
pub struct RecvStats {
    /// Datagrams by what became of them.
    pub counts: Counts,
    /// Datagrams of flows beyond those that are told apart.
    pub unsorted: u64,
    /// Questions for consent that were answered.
    pub hellos: u64,
    /// When the first and the last datagram of traffic came.
    pub span: Option<(Timestamp, Timestamp)>,
    pub(crate) gaps: Gaps,
    /// Delays less the least of their flow until then.
    pub variation: Recorder,
}

/// Datagrams by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Datagrams that came, duplicates included.
    pub received: u64,
    /// Bytes of their payload.
    pub received_bytes: u64,
    /// Below zero in an interval in which more came late than were missed.
    pub lost: i64,
    /// Overtaken by a later one of the same flow.
    pub reordered: u64,
    /// Come a second time.
    pub duplicated: u64,
    /// Come long after their turn; counted as lost, too.
    pub too_late: u64,
    /// In no format of softtimers.
    pub foreign: u64,
    /// Not of a sender that is believed.
    pub strangers: u64,
    /// Flows that were new.
    pub flows: u64,
}

/// The keys of `interval` and of `total`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RecvFigures {
    /// Datagrams in this time, over this time.
    pub received_pps: f64,
    /// Payload bits in this time, over this time.
    pub received_bps: f64,
    /// Datagrams.
    #[serde(flatten)]
    pub counts: Counts,
    /// Gaps whose second datagram came in this time.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// Packet delay variation.
    pub one_way_variation_ns: Distribution,
}

impl RecvStats {
    /// Nothing has come. Gaps are judged by `target`, or else by what the first sender says.
    pub fn new(target: Option<Duration>) -> Self {
        RecvStats {
            counts: Counts::default(),
            unsorted: 0,
            hellos: 0,
            span: None,
            gaps: Gaps::new(target),
            variation: Recorder::new(),
        }
    }

    /// Counts a datagram of `bytes` that came at `time`, in this order, so that `lost` more of its flow are missing
    /// now; `variation` if it had not come before.
    #[inline]
    pub(super) fn arrived(
        &mut self,
        (time, bytes): (Timestamp, u64),
        (arrival, lost): (Arrival, i64),
        variation: Option<u64>,
    ) {
        let counts = &mut self.counts;
        counts.received += 1;
        counts.received_bytes += bytes;
        counts.lost = counts.lost.saturating_add(lost);
        counts.reordered += u64::from(arrival == Arrival::Reordered);
        counts.duplicated += u64::from(arrival == Arrival::Duplicate);
        counts.too_late += u64::from(arrival == Arrival::TooLate);
        self.span = Some(self.span.map_or((time, time), |(first, last)| (first, last.max(time))));
        if let Some(variation) = variation {
            self.variation.record(variation);
        }
    }
}

impl AddAssign<&RecvStats> for RecvStats {
    fn add_assign(&mut self, next: &Self) {
        let (counts, more) = (&mut self.counts, &next.counts);
        sums!(counts += more: received, received_bytes, reordered, duplicated, too_late, foreign, strangers, flows);
        counts.lost = counts.lost.saturating_add(more.lost);
        sums!(self += next: unsorted, hellos, variation);
        self.span = match (self.span, next.span) {
            (Some((first, last)), Some((_, later))) => Some((first, last.max(later))),
            (before, after) => before.or(after),
        };
        self.gaps.add(&next.gaps);
    }
}

impl Stats for RecvStats {
    type Figures = RecvFigures;

    fn is_empty(&self) -> bool {
        self.counts == Counts::default()
    }

    fn clear(&mut self) {
        (self.counts, self.unsorted, self.hellos, self.span) = (Counts::default(), 0, 0, None);
        self.gaps.clear();
        self.variation.clear();
    }

    fn figures(&self, time: Duration) -> RecvFigures {
        let per_second = |count: u64| count as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
        RecvFigures {
            received_pps: per_second(self.counts.received),
            received_bps: per_second(self.counts.received_bytes.saturating_mul(8)),
            counts: self.counts,
            gaps: self.gaps.report(),
            one_way_variation_ns: self.variation.distribution(),
        }
    }
}
