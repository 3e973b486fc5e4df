//! The report of `recv` for people.

use std::time::Duration;

use softtimers_load::recv::{FlowReport, FlowsReport, RecvReport};
use softtimers_measure::distribution::Distribution;
use softtimers_measure::units::show_duration;

use crate::run::output::Report;
use crate::run::table::Table;

/// A flow in a line.
fn line(report: &FlowReport) -> String {
    let FlowReport { peer, flow, received, lost, .. } = report;
    let mut line = format!("{peer} flow {flow}: {received} received, {lost} lost");
    for (count, what) in [(report.reordered, "reordered"), (report.duplicated, "duplicated")] {
        line += &if count > 0 { format!(", {count} {what}") } else { String::new() };
    }
    let mean = report.one_way_variation_ns.mean.map(|nanos| Duration::from_micros((nanos / 1e3) as u64));
    line + &mean.map_or_else(String::new, |mean| format!(", mean variation {}", show_duration(mean)))
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
            table.row(if place == 0 { "worst flows" } else { "" }, line(flow));
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
            worst_flows: vec![worst; 5],
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
