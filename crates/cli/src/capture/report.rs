//! What `capture` tells: the keys of `softtimers.capture/1`, and what `--json-stream` counts in an interval.

use serde::Serialize;
use softtimers_measure::distribution::Distribution;

use crate::output::{Report, Table};
use crate::stream::passage::{Counted, Interval, Passage};

/// What is counted of frames. What the filter does not keep is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// In the file.
    pub captured: u64,
    /// Of these, what was kept.
    pub bytes: u64,
    /// Not in the file, by where they were lost.
    pub dropped: DropCounts,
}

/// Where frames were lost, from the cheapest place to the dearest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DropCounts {
    /// At the interface, before the kernel saw them, whatever the filter.
    pub interface: u64,
    /// In the ring, which was full.
    pub ring: u64,
    /// At the queue before the writer, with `--queue`.
    pub queue: u64,
    /// At the file, which could not be written.
    pub output: u64,
}

impl DropCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.interface + self.ring + self.queue + self.output
    }

    /// Adds those of the interval that followed.
    pub fn add(&mut self, other: &DropCounts) {
        self.interface += other.interface;
        self.ring += other.ring;
        self.queue += other.queue;
        self.output += other.output;
    }
}

/// The findings of a capture.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CaptureReport {
    /// Of frames.
    #[serde(flatten)]
    pub counts: Counts,
    /// From the kernel's receive time until a frame was in the file.
    pub delay_ns: Distribution,
    /// The share of a processor that this process used; the kernel's work at an interrupt is not in it.
    pub cpu_share: Option<f64>,
    /// How long it ran.
    pub span_s: f64,
    /// Files that were written.
    pub files: u64,
    /// Times that it slept.
    pub wakeups: u64,
    /// What the queue's feedback did; `null` without a queue.
    pub feedback: Option<FeedbackCounts>,
    /// Times that the interface was found switched off.
    pub outages: u64,
    /// Times that the ring was made anew, because a frame had stopped it.
    pub renewals: u64,
    /// Why it ended: `signal`, `duration`, `count`, `interface` (it is gone), `output` (it cannot be written).
    pub ended: &'static str,
}

/// How often the input was shut because the queue was nearly full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FeedbackCounts {
    /// Times that it was shut.
    pub shut: u64,
    /// Times that the time-out opened it.
    pub timed_out: u64,
}

impl Report for CaptureReport {
    const SCHEMA: &'static str = "softtimers.capture/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let Counts { captured, bytes, dropped } = self.counts;
        table.row("captured", format!("{captured} frames, {bytes} bytes, {} file(s)", self.files));
        let DropCounts { interface, ring, queue, output } = dropped;
        table.row("dropped", format!("interface {interface}  ring {ring}  queue {queue}  output {output}"));
        table.distribution("delay", &self.delay_ns);
        table.share("processor", self.cpu_share);
        table.row("wake-ups", self.wakeups);
        if let Some(FeedbackCounts { shut, timed_out }) = self.feedback {
            table.row("feedback", format!("shut {shut}, by time-out open {timed_out}"));
        }
        if self.outages > 0 {
            table.row("outages", self.outages);
        }
        if self.renewals > 0 {
            table.row("ring made anew", self.renewals);
        }
        table.row("ended by", self.ended);
        table
    }
}

/// The account of an interval, or of the whole run.
pub type Second = Passage<Counts>;

/// The keys of `interval` and of `total`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SecondReport {
    #[serde(flatten)]
    counts: Counts,
    captured_pps: f64,
    delay_ns: Distribution,
    cpu_share: Option<f64>,
}

impl Counted for Counts {
    type Figures = SecondReport;

    fn plus(&self, next: &Self) -> Self {
        let mut dropped = self.dropped;
        dropped.add(&next.dropped);
        Counts { captured: self.captured + next.captured, bytes: self.bytes + next.bytes, dropped }
    }

    fn figures(self, interval: Interval) -> SecondReport {
        SecondReport {
            counts: self,
            captured_pps: interval.rate(self.captured),
            delay_ns: interval.stay_ns,
            cpu_share: interval.cpu_share,
        }
    }
}
