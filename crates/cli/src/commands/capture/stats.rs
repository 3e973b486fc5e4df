//! The counts of `capture`, and the line of `--json-stream`.

use serde::Serialize;
use softtimers_measure::distribution::Distribution;
use softtimers_measure::stats::passage::{Counted, Interval, Passage};
use softtimers_measure::sums;

/// The counts of frames. Frames that the filter does not keep are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Counts {
    /// Frames that are in the file.
    pub(crate) captured: u64,
    /// Bytes of these that were kept.
    pub(crate) bytes: u64,
    /// Not in the file, by where they were lost.
    pub(crate) dropped: DropCounts,
}

/// Lost frames by place, from the cheapest to the most expensive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct DropCounts {
    /// At the interface, before the kernel saw them, whatever the filter.
    pub(crate) interface: u64,
    /// In the ring, which was full.
    pub(crate) ring: u64,
    /// At the queue before the writer, with `--queue`.
    pub(crate) queue: u64,
    /// At the file, which could not be written.
    pub(crate) output: u64,
}

impl DropCounts {
    /// Those that came since `earlier`. Only the interface's count may begin anew.
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

/// The counts of an interval, or of the whole run; a frame's stay is its delay.
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
