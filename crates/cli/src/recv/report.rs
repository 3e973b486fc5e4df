//! What `recv` tells: the keys of `softtimers.recv/1`.

use serde::Serialize;

use crate::distribution::Distribution;
use crate::gaps::GapReport;
use crate::output::{Report, Table};
use crate::recv::ledger::MOST_FLOWS_SHOWN;

/// The findings of a receiver. Counts are of datagrams.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct RecvReport {
    /// Traffic that came, duplicates included.
    pub received: u64,
    /// Sent, as far as the sequence numbers and goodbyes tell, and not come in time.
    pub lost: u64,
    /// Overtaken by a later one of the same flow.
    pub reordered: u64,
    /// Come a second time.
    pub duplicated: u64,
    /// Come more than 4,096 datagrams after its turn; counted as lost too.
    pub too_late: u64,
    /// Gaps within each flow, by the kernel's receive timestamps; all flows together.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// Different flows: an address and port with a flow number.
    pub flows: u64,
    /// Payload of the traffic.
    pub received_bytes: u64,
    /// From the first datagram to the last.
    pub span_s: f64,
    /// Datagrams per second of that span; `null` for fewer than two.
    pub received_pps: Option<f64>,
    /// Payload bits per second of that span.
    pub received_bps: Option<f64>,
    /// Dropped because this socket's receive buffer was full; these are among the lost. `null` if
    /// the kernel does not tell.
    pub socket_drops: Option<u64>,
    /// Not softtimers traffic; in no other count.
    pub foreign: u64,
    /// Of flows beyond the 16,384 that are told apart; in no other count.
    pub unsorted: u64,
    /// Questions for consent that were answered.
    pub hellos: u64,
    /// Consecutive gaps from the middle of the run, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gap_strip_ns: Vec<u64>,
    /// All flows, however many.
    pub over_flows: FlowsReport,
    /// The first 64 flows.
    pub per_flow: Vec<FlowReport>,
}

/// One flow of a [`RecvReport`].
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct FlowReport {
    /// The sender's address and port.
    pub peer: String,
    /// The flow's number there.
    pub flow: u32,
    /// Traffic that came.
    pub received: u64,
    /// Not come in time.
    pub lost: u64,
    /// Overtaken by a later one.
    pub reordered: u64,
    /// Come a second time.
    pub duplicated: u64,
    /// The mean of its gaps; `null` without any.
    pub gap_mean_ns: Option<f64>,
    /// Their standard deviation.
    pub gap_stddev_ns: Option<f64>,
    /// Whether the sender has said goodbye.
    pub ended: bool,
}

/// Each flow is one value of these distributions, which tell the worst of them without naming any.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct FlowsReport {
    /// How many there are.
    pub count: u64,
    /// How many have said goodbye.
    pub ended: u64,
    /// Datagrams that came of a flow.
    pub received: Distribution,
    /// Datagrams of a flow that did not come in time.
    pub lost: Distribution,
    /// The standard deviation of a flow's gaps.
    pub gap_stddev_ns: Distribution,
    /// Datagrams a second of a flow, from its first to its last.
    pub rate_pps: RateReport,
    /// The longest burst of all flows together: gaps between their datagrams, judged by half the interval that
    /// they have together. Counted since the last new flow was heard; `null` without an interval.
    pub longest_train: Option<u64>,
}

/// The slowest and the fastest flow.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct RateReport {
    /// Of the slowest; `null` if no flow has two datagrams.
    pub min: Option<f64>,
    /// Of the fastest.
    pub max: Option<f64>,
}

impl RateReport {
    /// Counts one more flow, if it has a rate.
    pub(super) fn include(&mut self, rate: Option<f64>) {
        let Some(rate) = rate else { return };
        self.min = Some(self.min.map_or(rate, |min| min.min(rate)));
        self.max = Some(self.max.map_or(rate, |max| max.max(rate)));
    }
}

impl RecvReport {
    /// A report with every key, to check assertions by before there is one.
    pub fn example() -> Self {
        RecvReport { per_flow: vec![FlowReport::default(); MOST_FLOWS_SHOWN], ..RecvReport::default() }
    }
}

impl Report for RecvReport {
    const SCHEMA: &'static str = "softtimers.recv/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        table.row("received", self.received);
        table.row("lost", self.lost);
        table.row("reordered", self.reordered);
        table.row("duplicated", self.duplicated);
        let rate = |rate: Option<f64>, unit: &str| {
            rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}{unit}"))
        };
        table
            .row("rate", format!("{}  {}", rate(self.received_pps, "pps"), rate(self.received_bps, "bit/s")));
        table.distribution("gap", &self.gaps.gap_ns);
        table.share("back to back", self.gaps.back_to_back);
        table.number("longest burst", self.gaps.longest_burst);
        table.row("flows", self.flows);
        if let FlowsReport {
            count: 2.., received: Distribution { min: Some(min), max: Some(max), .. }, ..
        } = self.over_flows
        {
            table.row("of each flow", format!("{min} to {max} received"));
            table.distribution("deviation", &self.over_flows.gap_stddev_ns);
            table.number("longest train", self.over_flows.longest_train);
        }
        for (name, count) in [
            ("too late", self.too_late),
            ("dropped by this socket", self.socket_drops.unwrap_or(0)),
            ("not softtimers traffic", self.foreign),
            ("beyond 16384 flows", self.unsorted),
        ] {
            if count > 0 {
                table.row(name, count);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_contract_are_there() {
        let json = serde_json::to_value(RecvReport::example()).unwrap();
        for key in [
            "received",
            "lost",
            "reordered",
            "duplicated",
            "gap_ns",
            "back_to_back",
            "longest_burst",
            "flows",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert!(json["flows"].is_u64(), "a number, so that it can be asserted on");
    }

    #[test]
    fn people_see_what_went_wrong_only_if_it_did() {
        let clean = RecvReport::default().table().to_string();
        assert!(!clean.contains("dropped"), "{clean}");
        let full = RecvReport { socket_drops: Some(3), ..RecvReport::default() }.table().to_string();
        assert!(full.contains("dropped by this socket  3"), "{full}");
    }
}
