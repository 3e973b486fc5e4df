//! What `recv --json-stream` counts in an interval.

use std::time::Duration;

use serde::Serialize;

use crate::distribution::{Distribution, Recorder};
use crate::gaps::{GapReport, Gaps, Train};
use crate::stream::Account;

use super::ledger::Came;
use super::sequence::Arrival;

/// The account of an interval.
#[derive(Clone, Debug)]
pub struct Second {
    pub(super) counts: Counts,
    gaps: Gaps,
    /// Delays less the least of their flow until then.
    variation: Recorder,
}

/// Of datagrams that came in the interval, as in the whole run's report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    received: u64,
    received_bytes: u64,
    /// Below zero if more came late than were missed.
    pub(super) lost: i64,
    reordered: u64,
    duplicated: u64,
    too_late: u64,
    pub(super) foreign: u64,
    pub(super) strangers: u64,
    /// Flows that were new.
    pub(super) flows: u64,
}

/// The keys of `interval` and of `total`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SecondReport {
    received_pps: f64,
    received_bps: f64,
    #[serde(flatten)]
    counts: Counts,
    #[serde(flatten)]
    gaps: GapReport,
    one_way_variation_ns: Distribution,
}

impl Second {
    /// Gaps are judged by `target`, or else by what the first sender says.
    pub fn new(target: Option<Duration>) -> Self {
        Second { counts: Counts::default(), gaps: Gaps::new(target), variation: Recorder::new() }
    }

    /// A datagram came: so many more of its flow are lost now, and so long after the one before it; `variation`
    /// if it had not come before.
    pub(super) fn arrived(
        &mut self,
        came: &Came,
        arrival: Arrival,
        lost: i64,
        (train, gap): (&Train, Option<Duration>),
        variation: Option<u64>,
    ) {
        self.counts.received += 1;
        self.counts.received_bytes += came.bytes;
        self.counts.lost = self.counts.lost.saturating_add(lost);
        self.counts.reordered += u64::from(arrival == Arrival::Reordered);
        self.counts.duplicated += u64::from(arrival == Arrival::Duplicate);
        self.counts.too_late += u64::from(arrival == Arrival::TooLate);
        if !came.interval.is_zero() {
            self.gaps.adopt_target(came.interval);
        }
        self.gaps.count(train, gap);
        if let Some(variation) = variation {
            self.variation.record(variation);
        }
    }
}

impl Account for Second {
    type Figures = SecondReport;

    fn is_empty(&self) -> bool {
        self.counts == Counts::default()
    }

    fn clear(&mut self) {
        self.counts = Counts::default();
        self.gaps.clear();
        self.variation.clear();
    }

    fn add(&mut self, next: &Self) {
        let counts = &mut self.counts;
        counts.received += next.counts.received;
        counts.received_bytes += next.counts.received_bytes;
        counts.lost = counts.lost.saturating_add(next.counts.lost);
        counts.reordered += next.counts.reordered;
        counts.duplicated += next.counts.duplicated;
        counts.too_late += next.counts.too_late;
        counts.foreign += next.counts.foreign;
        counts.strangers += next.counts.strangers;
        counts.flows += next.counts.flows;
        self.gaps.add(&next.gaps);
        self.variation.add(&next.variation);
    }

    fn figures(&self, time: Duration) -> SecondReport {
        let per_second = |count: u64| count as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
        SecondReport {
            received_pps: per_second(self.counts.received),
            received_bps: per_second(self.counts.received_bytes.saturating_mul(8)),
            counts: self.counts,
            gaps: self.gaps.report(),
            one_way_variation_ns: self.variation.distribution(),
        }
    }
}
