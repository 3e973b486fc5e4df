//! The counts of `capture`, and the line of `--json-stream`.

use serde::Serialize;
use softtimers_measure::distribution::Distribution;
use softtimers_measure::stats::passage::{Counted, Interval, Passage};
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
pub(crate) type CaptureStats = Passage<Counts>;

/// The keys of `interval` and of `total`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SecondReport {
    #[serde(flatten)]
    pub(crate) counts: Counts,
    pub(crate) captured_pps: f64,
    pub(crate) delay_ns: Distribution,
    pub(crate) cpu_share: Option<f64>,
}

impl Counted for Counts {
    type Figures = SecondReport;

    fn figures(self, interval: Interval) -> SecondReport {
        SecondReport {
            counts: self,
            captured_pps: interval.rate(self.captured),
            delay_ns: interval.stay_ns,
            cpu_share: interval.cpu_share,
        }
    }
}
