//! `softtimers replay`: a recording, sent as one paced flow.
//!
//! It is `send` with other places and lengths: the same session, timers and account drive it, and the same
//! report is printed. What comes on top is said here: what the recording was like before it was sent, so
//! that bursts of its own are not taken for the sender's, and how far the whole replay had drifted at its
//! end.

use std::time::Duration;

use serde::Serialize;
use softtimers_core::{Timestamp, Trace};

use crate::failure::Failure;
use crate::gaps::{GapReport, Gaps, Train};
use crate::output::{Report, Table};
use crate::plan::ReplayPlan;
use crate::recording::{Changed, Format, Recording};
use crate::send::{self, SendReport};
use crate::units::show_duration;

/// Carries out `replay` and prints its report, also that of a run that breaks off.
///
/// # Errors
/// As [`send::run`].
pub fn run(plan: &ReplayPlan) -> Result<(), Failure> {
    send::present(&plan.send, &plan.config(), &plan.notes(), |send, skew| ReplayReport {
        send,
        skew_ns: skew.map(|skew| u64::try_from(skew.as_nanos()).unwrap_or(u64::MAX)),
        recording: plan.summary,
    })
}

/// The keys of `replay`'s object: those of `send`, and its own.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReplayReport {
    /// What `send` reports.
    #[serde(flatten)]
    pub send: SendReport,
    /// How late the last datagram left against its place: what the replay had drifted at its end; `null`
    /// if nothing was sent.
    pub skew_ns: Option<u64>,
    /// What was to be sent.
    pub recording: Summary,
}

/// A recording at the speed of its replay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// How the file was written.
    pub format: Format,
    /// Packets in it.
    pub packets: u64,
    /// From the first to the last.
    pub span_s: f64,
    /// Payload of all datagrams.
    pub bytes: u64,
    /// The most packets within any second.
    pub peak_pps: u64,
    /// The recording's own gaps, and bursts judged by their mean.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// What had to be changed.
    #[serde(flatten)]
    pub changed: Changed,
}

impl Summary {
    /// Of a recording as it is, replayed as `trace`.
    pub fn new(recording: &Recording, trace: &Trace) -> Self {
        let mut gaps = Gaps::new(Some(trace.mean_rate().interval()));
        let mut train = Train::default();
        let mut bytes = 0;
        for (time, length) in trace.iter() {
            gaps.record(&mut train, Timestamp::ZERO + time);
            bytes += u64::from(length);
        }
        Summary {
            format: recording.format,
            packets: trace.packets() as u64,
            span_s: trace.span().as_secs_f64(),
            bytes,
            peak_pps: trace.peak(Duration::from_secs(1)) as u64,
            gaps: gaps.report(),
            changed: recording.changed,
        }
    }
}

impl Report for ReplayReport {
    const SCHEMA: &'static str = "softtimers.replay/1";

    fn table(&self) -> Table {
        let Summary { packets, span_s, bytes, peak_pps, gaps, .. } = &self.recording;
        let mut table = Table::default();
        let span = show_duration(Duration::from_micros((span_s * 1e6) as u64));
        table.row(
            "recording",
            format!("{packets} packets in {span}, {bytes} bytes, at most {peak_pps} in a second"),
        );
        table.distribution("its gaps", &gaps.gap_ns);
        table.share("its back to back", gaps.back_to_back);
        table.append(self.send.table());
        let skew = self.skew_ns.map(|skew| show_duration(Duration::from_nanos(skew)));
        table.row("late at the end", skew.unwrap_or_else(|| "-".to_owned()));
        table
    }
}
