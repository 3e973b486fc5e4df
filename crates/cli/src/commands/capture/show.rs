//! What `capture` tells: the keys of `softtimers.capture/1`.

use serde::Serialize;
use softtimers_measure::distribution::Distribution;

use super::args::Capture;
use super::sink::Rotate;
use super::stats::{Counts, DropCounts};
use crate::run::output::Report;
use crate::run::table::Table;

/// The `config` object of `capture`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CaptureConfig {
    interface: String,
    file: String,
    max_delay_ns: u64,
    snaplen: u32,
    filter: Option<String>,
    promiscuous: bool,
    ring_bytes: u64,
    queue: Option<u32>,
    rotate_bytes: Option<u64>,
    rotate_s: Option<f64>,
    /// Whom it became; `null`: it stayed who it was.
    user: Option<u32>,
    duration_s: Option<f64>,
    count: Option<u64>,
}

impl CaptureConfig {
    pub(super) fn of(plan: &Capture) -> Self {
        let (rotate_bytes, rotate_s) = match plan.sink.rotate {
            None => (None, None),
            Some(Rotate::Bytes(bytes)) => (Some(bytes), None),
            Some(Rotate::Time(time)) => (None, Some(time.as_secs_f64())),
        };
        CaptureConfig {
            interface: plan.interface.clone(),
            file: plan.sink.path.display().to_string(),
            max_delay_ns: u64::try_from(plan.max_delay.as_nanos()).unwrap_or(u64::MAX),
            snaplen: plan.snap_length,
            filter: plan.expression.clone(),
            promiscuous: plan.promiscuous,
            ring_bytes: plan.ring,
            queue: plan.queue,
            rotate_bytes,
            rotate_s,
            user: plan.user.map(|user| user.uid),
            duration_s: plan.end.duration.map(|duration| duration.as_secs_f64()),
            count: plan.end.count,
        }
    }
}

/// The findings of a capture.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CaptureReport {
    /// Of frames.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// From the kernel's receive time until a frame was in the file.
    pub(crate) delay_ns: Distribution,
    /// The share of a processor that this process used; the kernel's work at an interrupt is not in it.
    pub(crate) cpu_share: Option<f64>,
    /// How long it ran.
    pub(crate) span_s: f64,
    /// Files that were written.
    pub(crate) files: u64,
    /// Times that it slept.
    pub(crate) wakeups: u64,
    /// What the queue's feedback did; `null` without a queue.
    pub(crate) feedback: Option<FeedbackCounts>,
    /// Times that the interface was found switched off.
    pub(crate) outages: u64,
    /// Times that the ring was made anew, because a frame had stopped it.
    pub(crate) renewals: u64,
    /// Why it ended: `signal`, `duration`, `count`, `interface` (it is gone), `output` (it cannot be written).
    pub(crate) ended: &'static str,
}

/// How often the input was shut because the queue was nearly full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct FeedbackCounts {
    /// Times that it was shut.
    pub(crate) shut: u64,
    /// Times that the time-out opened it.
    pub(crate) timed_out: u64,
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
