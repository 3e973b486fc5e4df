//! What `recv` tells: the keys of `softtimers.recv/1`.

use std::time::Duration;

use serde::Serialize;

use crate::distribution::{Distribution, Quantile};
use crate::gaps::GapReport;
use crate::output::{Report, Table};
use crate::recv::ledger::{MOST_FLOWS_SHOWN, WORST_SHOWN};
use crate::units::show_duration;

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
    /// From when a datagram was due at its sender to when it came, less the least of its flow: all flows
    /// together. Duplicates have none. Of more than 64 flows the percentiles are against the least until then.
    pub one_way_variation_ns: Distribution,
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
    /// Not in the format of softtimers, whatever its version; in no other count.
    pub foreign: u64,
    /// In this format or another version of it, and not of a sender that is believed; and what claims more than can have been
    /// sent, by its number or as a goodbye. In no other count.
    pub strangers: u64,
    /// Of flows beyond the 16,384 that are told apart; in no other count.
    pub unsorted: u64,
    /// Questions for consent that were answered.
    pub hellos: u64,
    /// How gaps are distributed, point by point.
    pub gap_cdf: Vec<Quantile>,
    /// Consecutive gaps from the middle of the run, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gap_strip_ns: Vec<u64>,
    /// All flows, however many.
    pub over_flows: FlowsReport,
    /// The first 64 flows.
    pub per_flow: Vec<FlowReport>,
    /// Of several flows the five that lost most, and of those that lost equally much the ones whose delay varied
    /// most.
    pub worst_flows: Vec<FlowReport>,
}

/// One flow of a [`RecvReport`].
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct FlowReport {
    /// The sender's address and port.
    pub peer: String,
    /// The flow's number there; of a sender that agreed, its place among that sender's flows.
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
    /// Its one-way delays, less the least of them; without percentiles beyond the first 64 flows.
    pub one_way_variation_ns: Distribution,
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
    /// The mean of a flow's one-way variation.
    pub one_way_variation_mean_ns: Distribution,
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
        RecvReport {
            per_flow: vec![FlowReport::default(); MOST_FLOWS_SHOWN],
            worst_flows: vec![FlowReport::default(); WORST_SHOWN],
            ..RecvReport::default()
        }
    }
}

impl FlowReport {
    /// For people.
    fn line(&self) -> String {
        let FlowReport { peer, flow, received, lost, .. } = self;
        let mut line = format!("{peer} flow {flow}: {received} received, {lost} lost");
        for (count, what) in [(self.reordered, "reordered"), (self.duplicated, "duplicated")] {
            line += &if count > 0 { format!(", {count} {what}") } else { String::new() };
        }
        let mean = self.one_way_variation_ns.mean.map(|nanos| Duration::from_micros((nanos / 1e3) as u64));
        line + &mean.map_or_else(String::new, |mean| format!(", mean variation {}", show_duration(mean)))
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
        table.distribution("one-way variation", &self.one_way_variation_ns);
        table.row("flows", self.flows);
        if let FlowsReport {
            count: 2.., received: Distribution { min: Some(min), max: Some(max), .. }, ..
        } = self.over_flows
        {
            table.row("of each flow", format!("{min} to {max} received"));
            table.distribution("deviation", &self.over_flows.gap_stddev_ns);
            table.distribution("mean variation", &self.over_flows.one_way_variation_mean_ns);
            table.number("longest train", self.over_flows.longest_train);
        }
        for (place, flow) in self.worst_flows.iter().take(WORST_IN_TABLE).enumerate() {
            table.row(if place == 0 { "worst flows" } else { "" }, flow.line());
        }
        for (name, count) in [
            ("too late", self.too_late),
            ("dropped by this socket", self.socket_drops.unwrap_or(0)),
            ("not softtimers traffic", self.foreign),
            ("strangers", self.strangers),
            ("beyond 16384 flows", self.unsorted),
        ] {
            if count > 0 {
                table.row(name, count);
            }
        }
        table
    }
}

/// A table for people fits a screen, however many flows there are.
const WORST_IN_TABLE: usize = 3;

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

    /// A screen of 25 lines by 100 columns holds the table of any number of flows.
    #[test]
    fn a_table_of_many_flows_fits_a_screen() {
        let peer = "[2001:db8:ffff:ffff::ffff]:65535".to_owned();
        let variation = Distribution { mean: Some(1.5e9), ..Distribution::default() };
        let worst =
            FlowReport { peer, flow: 9_999, one_way_variation_ns: variation, ..FlowReport::default() };
        let some = Distribution { count: 9, min: Some(1), max: Some(2), ..Distribution::default() };
        let table = RecvReport {
            worst_flows: vec![worst; WORST_SHOWN],
            over_flows: FlowsReport { count: 9_999, received: some, ..FlowsReport::default() },
            ..RecvReport::example()
        }
        .table()
        .to_string();
        assert!(table.lines().count() < 24, "{table}");
        assert!(table.contains("\nworst flows"), "{table}");
    }

    #[test]
    fn people_see_what_went_wrong_only_if_it_did() {
        let clean = RecvReport::default().table().to_string();
        assert!(!clean.contains("dropped"), "{clean}");
        let full = RecvReport { socket_drops: Some(3), ..RecvReport::default() }.table().to_string();
        assert!(full.contains("dropped by this socket  3"), "{full}");
    }
}
