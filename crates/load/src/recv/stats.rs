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

/// All counts of a receiver. Lines of `--json-stream` show intervals of them, and the report the total, with the state
/// of each flow.
#[derive(Clone, Debug)]
pub struct RecvStats {
    /// Datagrams by outcome.
    pub counts: Counts,
    /// Datagrams of flows beyond the limit.
    pub unsorted: u64,
    /// Questions for consent answered.
    pub hellos: u64,
    /// When the first and the last datagram of traffic came.
    pub span: Option<(Timestamp, Timestamp)>,
    pub(crate) gaps: Gaps,
    /// Delays minus the minimum of their flow so far.
    pub variation: Recorder,
}

/// The findings from a datagram's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Its position in its flow.
    pub(super) arrival: Arrival,
    /// The change in the datagrams of its flow that are missing.
    pub(super) lost: i64,
    /// Its delay minus the minimum of its flow, unless it is a duplicate.
    pub(super) variation: Option<u64>,
}

/// Datagrams by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Datagrams received, duplicates included.
    pub received: u64,
    /// Bytes of their payload.
    pub received_bytes: u64,
    /// Datagrams among them that are of other programs, and so have no number.
    pub unnumbered: u64,
    /// Datagrams lost; negative in an interval in which more came late than were missed.
    pub lost: i64,
    /// Overtaken by a later one of the same flow.
    pub reordered: u64,
    /// Received a second time.
    pub duplicated: u64,
    /// Received long after their turn; counted as lost, too.
    pub too_late: u64,
    /// Not measured: in no format of softtimers.
    pub foreign: u64,
    /// Not from an agreed sender.
    pub strangers: u64,
    /// New flows.
    pub flows: u64,
}

/// The keys of [`Counts`]. Figures from numbers are `null` if some datagram of this time had none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CountFigures {
    /// Datagrams received, duplicates included.
    pub received: u64,
    /// Bytes of their payload.
    pub received_bytes: u64,
    /// Datagrams among them that are of other programs, and so have no number.
    pub unnumbered: u64,
    /// Datagrams lost; negative in an interval in which more came late than were missed.
    pub lost: Option<i64>,
    /// Overtaken by a later one of the same flow.
    pub reordered: Option<u64>,
    /// Received a second time.
    pub duplicated: Option<u64>,
    /// Received long after their turn; counted as lost, too.
    pub too_late: Option<u64>,
    /// Not measured: in no format of softtimers.
    pub foreign: u64,
    /// Not from an agreed sender.
    pub strangers: u64,
    /// New flows.
    pub flows: u64,
}

impl From<Counts> for CountFigures {
    fn from(counts: Counts) -> Self {
        let numbered = counts.unnumbered == 0;
        CountFigures {
            received: counts.received,
            received_bytes: counts.received_bytes,
            unnumbered: counts.unnumbered,
            lost: numbered.then_some(counts.lost),
            reordered: numbered.then_some(counts.reordered),
            duplicated: numbered.then_some(counts.duplicated),
            too_late: numbered.then_some(counts.too_late),
            foreign: counts.foreign,
            strangers: counts.strangers,
            flows: counts.flows,
        }
    }
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
    pub counts: CountFigures,
    /// Gaps whose second datagram came in this time.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// Packet delay variation.
    pub one_way_variation_ns: Distribution,
}

impl RecvStats {
    /// Creates zero counts. Gaps are judged by `target`, or else by the interval that the first sender states.
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

    /// Counts a datagram of `bytes` that came at `time`, with the findings from its number, if it has one.
    #[inline]
    pub(super) fn arrived(&mut self, time: Timestamp, bytes: u64, told: Option<Told>) {
        let counts = &mut self.counts;
        counts.received += 1;
        counts.received_bytes += bytes;
        self.span = Some(self.span.map_or((time, time), |(first, last)| (first, last.max(time))));
        let Some(Told { arrival, lost, variation }) = told else {
            counts.unnumbered += 1;
            return;
        };
        counts.lost = counts.lost.saturating_add(lost);
        counts.reordered += u64::from(arrival == Arrival::Reordered);
        counts.duplicated += u64::from(arrival == Arrival::Duplicate);
        counts.too_late += u64::from(arrival == Arrival::TooLate);
        if let Some(variation) = variation {
            self.variation.record(variation);
        }
    }
}

impl AddAssign<&RecvStats> for RecvStats {
    fn add_assign(&mut self, next: &Self) {
        let (counts, more) = (&mut self.counts, &next.counts);
        sums!(counts += more: received, received_bytes, unnumbered, reordered, duplicated, too_late, foreign, strangers, flows);
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
            counts: self.counts.into(),
            gaps: self.gaps.report(),
            one_way_variation_ns: self.variation.distribution(),
        }
    }
}
