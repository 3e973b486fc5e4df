//! The report of `recv` for people.

use softtimers_load::recv::{FlowReport, FlowsReport, RecvConfig, RecvFigures, RecvReport, RecvStats};
use softtimers_measure::distribution::Distribution;

use super::args::Recv;
use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::{bits, end, or_dash, packets, share, time};
use crate::run::screen::Tone;
use crate::run::stream::Seconds;
use crate::run::table::Table;

/// Names the address, the time and the clock in one line.
pub(super) fn header(config: &RecvConfig) -> String {
    let once = if config.once { ", until all senders have ended" } else { "" };
    let end = end(config.duration_s, config.count, "datagram");
    format!("recv on {}{end}{once}, kernel receive timestamps", config.address)
}

impl Seconds<Recv> for RecvStats {
    const COLUMNS: &'static [(&'static str, usize)] = &[
        ("rate", 11),
        ("packets", 9),
        ("received", 9),
        ("lost", 6),
        ("PDV p50", 7),
        ("PDV p99", 7),
        ("back to back", 12),
        ("longest burst", 13),
    ];

    fn cells(figures: &RecvFigures) -> Vec<String> {
        vec![
            bits(figures.received_bps),
            packets(figures.received_pps),
            figures.counts.received.to_string(),
            or_dash(figures.counts.lost, |lost| lost.to_string()),
            or_dash(figures.one_way_variation_ns.p50, time),
            or_dash(figures.one_way_variation_ns.p99, time),
            or_dash(figures.gaps.back_to_back, share),
            or_dash(figures.gaps.longest_burst, |burst| burst.to_string()),
        ]
    }
}

impl Report<Recv> for RecvReport {
    const SCHEMA: &'static str = "softtimers.recv/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let (bits, packets) = (or_dash(self.received_bps, bits), or_dash(self.received_pps, packets));
        table.row("rate", format!("{bits}  {packets}"));
        table.row("received", self.received);
        table.seldom("without numbers", self.unnumbered);
        let once = self.received.saturating_sub(self.duplicated.unwrap_or(0));
        for (label, count, whole) in [
            ("lost", self.lost, once + self.lost.unwrap_or(0)),
            ("reordered", self.reordered, self.received),
            ("duplicated", self.duplicated, self.received),
        ] {
            match count {
                Some(count) => table.loss(label, count, whole),
                None => table.row(label, "-"),
            }
        }
        table.times("gap", &self.gaps.gap_ns);
        table.times("PDV", &self.one_way_variation_ns);
        table.row("back to back", or_dash(self.gaps.back_to_back, share));
        table.row("longest burst", or_dash(self.gaps.longest_burst, |burst| burst.to_string()));
        table.row("flows", self.flows);
        if let FlowsReport {
            count: 2.., received: Distribution { min: Some(min), max: Some(max), .. }, ..
        } = self.over_flows
        {
            table.row("per flow", format!("{min} to {max} received"));
            table.times("gap deviation", &self.over_flows.gap_stddev_ns);
            table.times("mean PDV", &self.over_flows.one_way_variation_mean_ns);
            table.row("longest train", or_dash(self.over_flows.longest_train, |train| train.to_string()));
        }
        table.grid(worst(&self.worst_flows));
        for (label, count) in [
            ("too late", self.too_late.unwrap_or(0)),
            ("socket drops", self.socket_drops.unwrap_or(0)),
            ("not softtimers", self.foreign),
            ("strangers", self.strangers),
            ("beyond 16384 flows", self.unsorted),
        ] {
            if count > 0 {
                table.toned(label, count, Tone::Bad);
            }
        }
        table
    }
}

fn worst(flows: &[FlowReport]) -> Grid {
    let flows = &flows[..flows.len().min(WORST_IN_TABLE)];
    if flows.iter().all(|flow| flow.flow.is_none()) {
        return uneven(flows);
    }
    let mut grid = Grid::new(["worst flows", "received", "lost", "reordered", "duplicated", "mean PDV"]);
    for flow in flows {
        let counts = [Some(flow.received), flow.lost, flow.reordered, flow.duplicated];
        let counts = counts.map(|count| or_dash(count, |count| count.to_string()));
        let number = flow.flow.map_or_else(String::new, |number| format!(" flow {number}"));
        let mean = or_dash(flow.one_way_variation_ns.mean, time);
        let cells = [format!("{}{number}", flow.peer)].into_iter().chain(counts).chain([mean]);
        grid.toned(cells, Tone::bad_if(flow.lost > Some(0)));
    }
    grid
}

/// Flows of other programs, of which only the gaps are known.
fn uneven(flows: &[FlowReport]) -> Grid {
    let mut grid = Grid::new(["worst flows", "received", "mean gap", "gap deviation"]);
    for flow in flows {
        let [mean, deviation] = [flow.gap_mean_ns, flow.gap_stddev_ns].map(|gap| or_dash(gap, time));
        grid.row([flow.peer.clone(), flow.received.to_string(), mean, deviation]);
    }
    grid
}

/// Limits the table to one screen, however many flows there are.
const WORST_IN_TABLE: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::screen::Screen;
    use crate::run::snapshot::{self, Live, times};
    use crate::run::stream::columns;
    use softtimers_load::gaps::GapReport;
    use softtimers_load::recv::CountFigures;
    use softtimers_measure::stats::Stats;
    use std::time::Duration;

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
            FlowReport { peer, flow: Some(9_999), one_way_variation_ns: variation, ..FlowReport::default() };
        let some = Distribution { count: 9, min: Some(1), max: Some(2), ..Distribution::default() };
        let table = RecvReport {
            worst_flows: vec![worst; 5],
            over_flows: FlowsReport { count: 9_999, received: some, ..FlowsReport::default() },
            ..RecvReport::example()
        }
        .table()
        .draw(&Screen::PIPE);
        assert!(table.lines().count() < 26, "{table}");
        assert!(table.contains("\nworst flows"), "{table}");
    }

    #[test]
    fn people_see_what_went_wrong_only_if_it_did() {
        let clean = RecvReport::default().table().draw(&Screen::PIPE);
        assert!(!clean.contains("drops"), "{clean}");
        let full = RecvReport { socket_drops: Some(3), ..RecvReport::default() }.table().draw(&Screen::PIPE);
        assert!(full.contains("socket drops   3"), "{full}");
    }

    #[test]
    fn snapshot() {
        let worst = FlowReport {
            peer: "127.0.0.1:43210".to_owned(),
            flow: Some(3),
            received: 12_480,
            lost: Some(20),
            reordered: Some(0),
            duplicated: Some(0),
            one_way_variation_ns: times(),
            ..FlowReport::default()
        };
        let report = RecvReport {
            received: 49_974,
            lost: Some(26),
            reordered: Some(4),
            duplicated: Some(0),
            too_late: Some(1),
            gaps: GapReport { gap_ns: times(), back_to_back: Some(0.000_52), longest_burst: Some(2) },
            one_way_variation_ns: times(),
            flows: 4,
            received_pps: Some(5_000.0),
            received_bps: Some(48e6),
            socket_drops: Some(3),
            foreign: 2,
            strangers: 1,
            unsorted: 5,
            over_flows: FlowsReport {
                count: 4,
                received: Distribution { min: Some(12_480), max: Some(12_500), ..times() },
                gap_stddev_ns: times(),
                one_way_variation_mean_ns: times(),
                longest_train: Some(4),
                ..FlowsReport::default()
            },
            worst_flows: vec![worst; 5],
            ..RecvReport::default()
        };
        let config = RecvConfig {
            address: "127.0.0.1:7000".to_owned(),
            duration_s: Some(10.0),
            once: true,
            ..RecvConfig::default()
        };
        let seconds = RecvFigures {
            received_pps: 5_000.0,
            received_bps: 48e6,
            counts: CountFigures { received: 5_000, lost: Some(-1), ..CountFigures::default() },
            gaps: report.gaps,
            one_way_variation_ns: times(),
        };
        let live = Live::new(RecvStats::COLUMNS, move |screen| {
            columns::<_, RecvStats>(0, Duration::from_secs(1), &seconds, screen)
        });
        snapshot::check("recv", &header(&config), &live, &report);
    }

    /// Datagrams of other programs: a dash for figures that need numbers, and no warning.
    #[test]
    fn snapshot_without_numbers() {
        let flow = FlowReport {
            peer: "192.0.2.7:43210".to_owned(),
            received: 25_000,
            gap_mean_ns: Some(40_000.0),
            gap_stddev_ns: Some(7_070.0),
            ..FlowReport::default()
        };
        let gaps = GapReport { gap_ns: times(), back_to_back: Some(0.000_52), longest_burst: Some(2) };
        let counts =
            CountFigures { received: 50_000, unnumbered: 50_000, flows: 2, ..CountFigures::default() };
        let report = RecvReport {
            received: counts.received,
            unnumbered: counts.unnumbered,
            gaps,
            flows: 2,
            received_pps: Some(50_000.0),
            received_bps: Some(480e6),
            over_flows: FlowsReport {
                count: 2,
                received: Distribution { min: Some(25_000), max: Some(25_000), ..times() },
                gap_stddev_ns: times(),
                longest_train: Some(3),
                ..FlowsReport::default()
            },
            worst_flows: vec![flow; 2],
            ..RecvReport::default()
        };
        let config = RecvConfig {
            address: "0.0.0.0:7000".to_owned(),
            count: Some(50_000),
            any: true,
            ..RecvConfig::default()
        };
        let figures = RecvStats::new(None).figures(Duration::from_secs(1));
        let seconds = RecvFigures { received_pps: 50_000.0, received_bps: 480e6, counts, gaps, ..figures };
        let live = Live::new(RecvStats::COLUMNS, move |screen| {
            columns::<_, RecvStats>(0, Duration::from_secs(1), &seconds, screen)
        });
        snapshot::check("recv-any", &header(&config), &live, &report);
    }
}
