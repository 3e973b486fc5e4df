//! The report of `replay`.

use std::time::Duration;

use serde::Serialize;
use softtimers_load::replay::Summary;
use softtimers_load::send::SendReport;
use softtimers_measure::units::show_duration;

use crate::run::output::Report;
use crate::run::table::Table;

/// The keys of `replay`'s object: those of `send`, and its own.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ReplayReport {
    /// What `send` reports.
    #[serde(flatten)]
    pub(crate) send: SendReport,
    /// How late the last datagram left against its place: what the replay had drifted at its end; `null`
    /// if nothing was sent.
    pub(crate) skew_ns: Option<u64>,
    /// What was to be sent.
    pub(crate) recording: Summary,
}

impl ReplayReport {
    /// What was sent of a recording, the last datagram so late.
    pub(super) fn new(send: SendReport, skew: Option<Duration>, recording: Summary) -> Self {
        let nanos = |skew: Duration| u64::try_from(skew.as_nanos()).unwrap_or(u64::MAX);
        ReplayReport { send, skew_ns: skew.map(nanos), recording }
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
