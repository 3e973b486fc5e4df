//! The report of `replay`.

use std::time::Duration;

use serde::Serialize;
use softtimers_load::replay::Summary;
use softtimers_load::send::SendReport;

use super::args::Replay;
use crate::commands::send::args::Send;
use crate::run::output::Report;
use crate::run::quantity::{self, bytes, or_dash, share, time};
use crate::run::table::Table;

/// The keys of `replay`'s object: those of `send`, and its own.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ReplayReport {
    /// The report of `send`.
    #[serde(flatten)]
    pub(crate) send: SendReport,
    /// The lateness of the last datagram relative to its scheduled time: the replay's drift at its end; `null` if no
    /// datagram was sent.
    pub(crate) skew_ns: Option<u64>,
    /// The summary of the recording to send.
    pub(crate) recording: Summary,
}

impl ReplayReport {
    /// Creates the report of a replay whose last datagram was late by `skew`.
    pub(super) fn new(send: SendReport, skew: Option<Duration>, recording: Summary) -> Self {
        let nanos = |skew: Duration| u64::try_from(skew.as_nanos()).unwrap_or(u64::MAX);
        ReplayReport { send, skew_ns: skew.map(nanos), recording }
    }
}

impl Report<Replay> for ReplayReport {
    const SCHEMA: &'static str = "softtimers.replay/2";

    fn table(&self) -> Table {
        let Summary { packets, span_s, bytes: volume, peak_pps, gaps, .. } = self.recording;
        let mut table = Table::default();
        let (span, volume) = (time(span_s * 1e9), bytes(volume));
        table.row(
            "recording",
            format!("{packets} packets in {span}  {volume}  peak {}", quantity::packets(peak_pps as f64)),
        );
        table.times("recorded gap", &gaps.gap_ns);
        table.row("recorded bursts", or_dash(gaps.back_to_back, share));
        table.append(Report::<Send>::table(&self.send));
        table.row("late at the end", or_dash(self.skew_ns, time));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::send::show::tests::full;
    use crate::run::snapshot::{self, Live, times};
    use softtimers_load::gaps::GapReport;
    use softtimers_load::recording::{Changed, Format};

    #[test]
    fn snapshot() {
        let gaps = GapReport { gap_ns: times(), back_to_back: Some(0.23), longest_burst: Some(17) };
        let recording = Summary {
            format: Format::Pcapng,
            packets: 2_795,
            span_s: 11.5,
            bytes: 2_526_321,
            peak_pps: 612,
            gaps,
            changed: Changed::default(),
        };
        let report = ReplayReport::new(full(), Some(Duration::from_micros(85)), recording);
        let header = "replay trace.pcapng at 2x to 127.0.0.1:7000: 486 pps recorded of 1472 B (5.72 Mbit/s), 1 flow, timer soft";
        snapshot::check("replay", header, &Live::none(), &report);
    }
}
