//! The counts of `capture`, and the line of `--json-stream`.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::{Distribution, Recorder};
use softtimers_measure::stats::Stats;
use softtimers_measure::sums;

/// The counts of frames, without those rejected by the filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Counts {
    /// Frames in the file.
    pub(crate) captured: u64,
    /// Bytes kept of these.
    pub(crate) bytes: u64,
    /// Frames not in the file, by place.
    pub(crate) dropped: DropCounts,
}

/// Lost frames by place, from the cheapest to the most expensive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct DropCounts {
    /// At the interface, before the kernel saw them, whatever the filter.
    pub(crate) interface: u64,
    /// In the full ring.
    pub(crate) ring: u64,
    /// At the queue of the writer, with `--queue`.
    pub(crate) queue: u64,
    /// At the file, when it could not be written.
    pub(crate) output: u64,
}

impl DropCounts {
    /// Returns the losses since `earlier`. Only the interface's count may restart.
    pub(crate) fn since(&self, earlier: &DropCounts) -> DropCounts {
        DropCounts {
            interface: self.interface.saturating_sub(earlier.interface),
            ring: self.ring - earlier.ring,
            queue: self.queue - earlier.queue,
            output: self.output - earlier.output,
        }
    }
}

sums!(DropCounts: interface, ring, queue, output);
sums!(Counts: captured, bytes, dropped);

/// The counts of an interval, or of the whole run.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaptureStats {
    /// The frames counted.
    pub(crate) counts: Counts,
    /// From arrival to the file.
    pub(crate) stay: Recorder,
    /// The CPU time used.
    pub(crate) cpu: Duration,
}

impl CaptureStats {
    /// Returns the share of a CPU that was used in `time`.
    pub(crate) fn cpu_share(&self, time: Duration) -> Option<f64> {
        (!time.is_zero()).then(|| self.cpu.as_secs_f64() / time.as_secs_f64())
    }
}

/// The keys of `interval` and of `total`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SecondReport {
    #[serde(flatten)]
    pub(crate) counts: Counts,
    pub(crate) captured_pps: f64,
    pub(crate) delay_ns: Distribution,
    pub(crate) cpu_share: Option<f64>,
}

impl std::ops::AddAssign<&CaptureStats> for CaptureStats {
    fn add_assign(&mut self, next: &CaptureStats) {
        sums!(self += next: counts, stay);
        self.cpu += next.cpu;
    }
}

impl Stats for CaptureStats {
    type Figures = SecondReport;

    fn is_empty(&self) -> bool {
        self.counts == Counts::default()
    }

    fn clear(&mut self) {
        (self.counts, self.cpu) = (Counts::default(), Duration::ZERO);
        self.stay.clear();
    }

    fn figures(&self, time: Duration) -> SecondReport {
        SecondReport {
            counts: self.counts,
            captured_pps: self.counts.captured as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE),
            delay_ns: self.stay.distribution(),
            cpu_share: self.cpu_share(time),
        }
    }
}
