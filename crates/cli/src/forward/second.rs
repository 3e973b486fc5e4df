//! What `forward --json-stream` counts in an interval.

use std::time::Duration;

use serde::Serialize;

use super::report::Counts;
use crate::distribution::{Distribution, Recorder};
use crate::stream::Account;

/// The account of an interval, or of the whole run.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Of datagrams.
    pub counts: Counts,
    /// From arrival to departure.
    pub latency: Recorder,
    /// What the relay used of a processor.
    pub cpu: Duration,
}

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

impl Second {
    /// The share of a processor that was used in `time`.
    pub fn cpu_share(&self, time: Duration) -> Option<f64> {
        (!time.is_zero()).then(|| self.cpu.as_secs_f64() / time.as_secs_f64())
    }
}

impl Account for Second {
    type Figures = SecondReport;

    fn is_empty(&self) -> bool {
        self.counts == Counts::default()
    }

    fn clear(&mut self) {
        (self.counts, self.cpu) = (Counts::default(), Duration::ZERO);
        self.latency.clear();
    }

    fn add(&mut self, next: &Self) {
        self.counts = self.counts.plus(&next.counts);
        self.latency.add(&next.latency);
        self.cpu += next.cpu;
    }

    fn figures(&self, time: Duration) -> SecondReport {
        SecondReport {
            counts: self.counts,
            out_pps: self.counts.out as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE),
            packets_per_poll: self.counts.packets_per_poll(),
            latency_ns: self.latency.distribution(),
            cpu_share: self.cpu_share(time),
        }
    }
}
