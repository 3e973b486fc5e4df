//! The report of `capture`: the keys of `softtimers.capture/1`.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::Distribution;

use super::args::Capture;
use super::sink::Rotate;
use super::stats::{CaptureStats, Counts, DropCounts, SecondReport};
use super::tap::Layout;
use crate::run::output::Report;
use crate::run::quantity::{bytes, counts, end, number, or_dash, packets, setting, share, time};
use crate::run::screen::Tone;
use crate::run::stream::Seconds;
use crate::run::table::Table;

/// The `config` object of `capture`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CaptureConfig {
    /// The first interface.
    interface: String,
    interfaces: Vec<String>,
    file: String,
    max_delay_ns: u64,
    snaplen: u32,
    filter: Option<String>,
    promiscuous: bool,
    ring_bytes: u64,
    /// `slots` or `blocks`.
    ring_layout: &'static str,
    /// The longest time until a block is handed over; `null` for slots.
    ring_retire_ns: Option<u64>,
    queue: Option<u32>,
    rotate_bytes: Option<u64>,
    rotate_s: Option<f64>,
    keep: Option<u32>,
    /// The user it became; `null` if it stayed the same.
    user: Option<u32>,
    duration_s: Option<f64>,
    count: Option<u64>,
}

impl CaptureConfig {
    pub(super) fn from_plan(plan: &Capture) -> Self {
        let (rotate_bytes, rotate_s) = match plan.sink.rotate {
            None => (None, None),
            Some(Rotate::Bytes(bytes)) => (Some(bytes), None),
            Some(Rotate::Time(time)) => (None, Some(time.as_secs_f64())),
        };
        let layout = Layout::for_plan(plan);
        let retire = layout.0.map(|blocks| blocks.retire.as_nanos() as u64);
        CaptureConfig {
            interface: plan.interfaces.first().cloned().unwrap_or_default(),
            interfaces: plan.interfaces.clone(),
            file: plan.sink.path.display().to_string(),
            max_delay_ns: u64::try_from(plan.max_delay.as_nanos()).unwrap_or(u64::MAX),
            snaplen: plan.snap_length,
            filter: plan.expression.clone(),
            promiscuous: plan.promiscuous,
            ring_bytes: plan.ring,
            ring_layout: layout.name(),
            ring_retire_ns: retire,
            queue: plan.queue,
            rotate_bytes,
            rotate_s,
            keep: plan.sink.keep,
            user: plan.user.map(|user| user.uid),
            duration_s: plan.end.duration.map(|duration| duration.as_secs_f64()),
            count: plan.end.count,
        }
    }
}

/// The findings of a capture.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CaptureReport {
    /// The counts of frames.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// From the kernel's receive time until a frame was in the file.
    pub(crate) delay_ns: Distribution,
    /// The share of a CPU that this process used, without the kernel's work in interrupts.
    pub(crate) cpu_share: Option<f64>,
    /// The time that it ran.
    pub(crate) span_s: f64,
    /// Files written.
    pub(crate) files: u64,
    /// Files among them that were removed again, with `--keep`.
    pub(crate) removed: u64,
    /// Times that it slept.
    pub(crate) wakeups: u64,
    /// The counts of the queue's feedback; `null` without a queue.
    pub(crate) feedback: Option<FeedbackCounts>,
    /// Times that an interface was found down.
    pub(crate) outages: u64,
    /// Times that the ring was created anew, because a frame had stopped it.
    pub(crate) renewals: u64,
    /// Why it ended: `signal`, `duration`, `count`, `interface` (it is gone), `output` (it cannot be written).
    pub(crate) ended: &'static str,
    /// The counts of each interface, in the order of the file.
    pub(crate) interfaces: Vec<InterfaceCounts>,
}

/// The counts of one interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct InterfaceCounts {
    /// Frames that are in the file.
    pub(crate) captured: u64,
    /// Frames not in the file, by place.
    pub(crate) dropped: DropCounts,
    /// Times that it was found down.
    pub(crate) outages: u64,
}

/// How often a nearly full queue shut the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct FeedbackCounts {
    /// Times that it was shut.
    pub(crate) shut: u64,
    /// Times that the time-out opened it.
    pub(crate) timed_out: u64,
}

impl Report<Capture> for CaptureReport {
    const SCHEMA: &'static str = "softtimers.capture/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let Counts { captured, bytes: volume, dropped } = self.counts;
        let (frames, files) = (number(captured, "frame"), number(self.files, "file"));
        let removed = if self.removed > 0 { format!(", {} removed", self.removed) } else { String::new() };
        table.row("captured", format!("{frames}  {}  {files}{removed}", bytes(volume)));
        let DropCounts { interface, ring, queue, output } = dropped;
        let places = [("interface", interface), ("ring", ring), ("queue", queue), ("output", output)];
        let some = places.iter().any(|&(_, count)| count > 0);
        table.toned("dropped", if some { counts(places) } else { "0".to_owned() }, Tone::bad_if(some));
        table.times("delay", &self.delay_ns);
        table.row("CPU", or_dash(self.cpu_share, |used| format!("{} of one core", share(used))));
        table.row("wake-ups", self.wakeups);
        if let Some(FeedbackCounts { shut, timed_out }) = self.feedback {
            table.row("feedback", format!("shut {shut}  opened by time-out {timed_out}"));
        }
        table.seldom("outages", self.outages);
        table.seldom("ring renewals", self.renewals);
        table.row("ended by", self.ended);
        table
    }
}

/// Names the interface, the file and the bound on delay in a line.
pub(super) fn header(config: &CaptureConfig) -> String {
    let CaptureConfig { interfaces, file, max_delay_ns, filter, .. } = config;
    let interface = interfaces.join(", ");
    let filter = filter.as_ref().map_or_else(String::new, |filter| format!(", filter '{filter}'"));
    let delay = setting(Duration::from_nanos(*max_delay_ns));
    let end = end(config.duration_s, config.count, "frame");
    format!("capture {interface} to {file}: delay at most {delay}{filter}{end}")
}

impl Seconds<Capture> for CaptureStats {
    const COLUMNS: &'static [(&'static str, usize)] = &[
        ("captured", 9),
        ("rate", 9),
        ("volume", 8),
        ("dropped", 9),
        ("delay p50", 9),
        ("p99", 8),
        ("CPU", 6),
    ];

    fn cells(figures: &SecondReport) -> Vec<String> {
        let Counts { captured, bytes: volume, dropped: DropCounts { interface, ring, queue, output } } =
            figures.counts;
        vec![
            captured.to_string(),
            packets(figures.captured_pps),
            bytes(volume),
            (interface + ring + queue + output).to_string(),
            or_dash(figures.delay_ns.p50, time),
            or_dash(figures.delay_ns.p99, time),
            or_dash(figures.cpu_share, share),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::snapshot::{self, Live, times};
    use crate::run::stream::columns;

    #[test]
    fn snapshot() {
        let dropped = DropCounts { interface: 1, ring: 2, queue: 3, output: 0 };
        let counts = Counts { captured: 49_974, bytes: 62_967_240, dropped };
        let report = CaptureReport {
            counts,
            delay_ns: times(),
            cpu_share: Some(0.031),
            span_s: 10.0,
            files: 2,
            wakeups: 9_876,
            feedback: Some(FeedbackCounts { shut: 4, timed_out: 1 }),
            outages: 1,
            renewals: 1,
            ended: "duration",
            ..CaptureReport::default()
        };
        let config = CaptureConfig {
            interfaces: vec!["eth0".to_owned()],
            file: "eth0.pcapng".to_owned(),
            max_delay_ns: 1_000_000,
            filter: Some("udp port 53".to_owned()),
            duration_s: Some(10.0),
            ..CaptureConfig::default()
        };
        let seconds =
            SecondReport { counts, captured_pps: 49_974.0, delay_ns: times(), cpu_share: Some(0.031) };
        let live = Live::new(CaptureStats::COLUMNS, move |screen| {
            columns::<_, CaptureStats>(0, Duration::from_secs(1), &seconds, screen)
        });
        snapshot::check("capture", &header(&config), &live, &report);
    }
}
