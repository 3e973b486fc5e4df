//! What `forward --json-stream` counts in an interval.

use serde::Serialize;

use super::report::Counts;
use crate::distribution::Distribution;
use crate::stream::passage::{Counted, Interval, Passage};

/// The account of an interval, or of the whole run.
pub type Second = Passage<Counts>;

/// The keys of `interval` and of `total`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SecondReport {
    #[serde(flatten)]
    counts: Counts,
    out_pps: f64,
    packets_per_poll: Option<f64>,
    latency_ns: Distribution,
    cpu_share: Option<f64>,
}

impl Counted for Counts {
    type Figures = SecondReport;

    fn plus(&self, next: &Self) -> Self {
        self.with(next, |own, other| own + other)
    }

    fn figures(self, interval: Interval) -> SecondReport {
        SecondReport {
            counts: self,
            out_pps: interval.rate(self.out),
            packets_per_poll: self.packets_per_poll(),
            latency_ns: interval.stay_ns,
            cpu_share: interval.cpu_share,
        }
    }
}
