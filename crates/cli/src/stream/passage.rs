//! The account of what passes packets on: counts, how long each was here, and what that took of a processor.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::{Distribution, Recorder};

use super::Account;

/// What is counted of packets, and how a line tells it.
pub trait Counted: Copy + Default + PartialEq + Send + 'static {
    /// The keys of `interval` and of `total`.
    type Figures: Serialize;

    /// With those of the interval that followed.
    #[must_use]
    fn plus(&self, next: &Self) -> Self;

    /// The figures of an interval.
    fn figures(self, interval: Interval) -> Self::Figures;
}

/// What is told of an interval besides the counts.
#[derive(Clone, PartialEq, Debug)]
pub struct Interval {
    /// How long it was.
    pub time: Duration,
    /// How long packets were here, in nanoseconds.
    pub stay_ns: Distribution,
    /// The share of a processor that was used.
    pub cpu_share: Option<f64>,
}

/// An interval, or the whole run.
#[derive(Clone, Debug, Default)]
pub struct Passage<C> {
    /// Of packets.
    pub counts: C,
    /// From arrival to departure.
    pub stay: Recorder,
    /// What was used of a processor.
    pub cpu: Duration,
}

impl Interval {
    /// So many, for each second.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl<C> Passage<C> {
    /// The share of a processor that was used in `time`.
    pub fn cpu_share(&self, time: Duration) -> Option<f64> {
        (!time.is_zero()).then(|| self.cpu.as_secs_f64() / time.as_secs_f64())
    }
}

impl<C: Counted> Account for Passage<C> {
    type Figures = C::Figures;

    fn is_empty(&self) -> bool {
        self.counts == C::default()
    }

    fn clear(&mut self) {
        (self.counts, self.cpu) = (C::default(), Duration::ZERO);
        self.stay.clear();
    }

    fn add(&mut self, next: &Self) {
        self.counts = self.counts.plus(&next.counts);
        self.stay.add(&next.stay);
        self.cpu += next.cpu;
    }

    fn figures(&self, time: Duration) -> C::Figures {
        let (stay_ns, cpu_share) = (self.stay.distribution(), self.cpu_share(time));
        self.counts.figures(Interval { time, stay_ns, cpu_share })
    }
}
