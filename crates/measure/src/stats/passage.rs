//! The stats of what passes packets on: counts, how long each was here, and the CPU time that it took.

use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;

use super::Stats;
use crate::distribution::{Distribution, Recorder};

/// The counts of packets in an interval, and their form in a line.
pub trait Counted: Copy + Default + PartialEq + for<'a> AddAssign<&'a Self> + Send + 'static {
    /// The keys of `interval` and of `total`.
    type Figures: Serialize;

    /// Returns the figures of an interval.
    fn figures(self, interval: Interval) -> Self::Figures;
}

/// The properties of an interval besides the counts.
#[derive(Clone, PartialEq, Debug)]
pub struct Interval {
    /// The length of the interval.
    pub time: Duration,
    /// The time that packets were here, in nanoseconds.
    pub stay_ns: Distribution,
    /// The share of a CPU that was used.
    pub cpu_share: Option<f64>,
}

/// An interval, or the whole run.
#[derive(Clone, Debug, Default)]
pub struct Passage<C> {
    /// The packets counted.
    pub counts: C,
    /// From arrival to departure.
    pub stay: Recorder,
    /// The CPU time used.
    pub cpu: Duration,
}

impl Interval {
    /// Returns `count` for each second.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl<C> Passage<C> {
    /// Returns the share of a CPU that was used in `time`.
    pub fn cpu_share(&self, time: Duration) -> Option<f64> {
        (!time.is_zero()).then(|| self.cpu.as_secs_f64() / time.as_secs_f64())
    }
}

impl<C: Counted> AddAssign<&Passage<C>> for Passage<C> {
    fn add_assign(&mut self, next: &Passage<C>) {
        self.counts += &next.counts;
        self.stay += &next.stay;
        self.cpu += next.cpu;
    }
}

impl<C: Counted> Stats for Passage<C> {
    type Figures = C::Figures;

    fn is_empty(&self) -> bool {
        self.counts == C::default()
    }

    fn clear(&mut self) {
        (self.counts, self.cpu) = (C::default(), Duration::ZERO);
        self.stay.clear();
    }

    fn figures(&self, time: Duration) -> C::Figures {
        let (stay_ns, cpu_share) = (self.stay.distribution(), self.cpu_share(time));
        self.counts.figures(Interval { time, stay_ns, cpu_share })
    }
}
