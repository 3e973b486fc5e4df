//! The report of `wan` as a table.

use std::time::Duration;

use super::run::Emulator;
use super::show::{ClientsReport, DirectionReport, InterfacesReport, Kind, SetReport, WanConfig, WanReport};
use crate::run::output::Report;
use crate::run::quantity::{bits, bytes, end, number, or_dash, setting, share};
use crate::run::screen::Tone;
use crate::run::table::Table;

/// Names both sides in one line; the settings of the path are above its figures.
pub(super) fn header(config: &WanConfig) -> String {
    let WanConfig { kind, listen, to, .. } = config;
    if *kind == Kind::Command {
        let end = if to == "peer" { "the peer".to_owned() } else { format!("the outside, by {to}") };
        return format!("wan: {listen}, behind a path to {end}");
    }
    format!("wan, {}: {listen} to {to}{}", kind.name(), end(config.duration_s, None, "packet"))
}

impl SetReport {
    /// Returns the settings with an effect, as in `delay 20 ms, 10.0 Mbit/s, loss 1.00%`.
    fn words(&self) -> String {
        let set = |name: &str, value: f64, shown: String| (value > 0.0).then(|| format!("{name}{shown}"));
        let nanos = |nanos: u64| setting(Duration::from_nanos(nanos));
        let queue = [
            self.queue_ns.map(nanos),
            self.queue_bytes.map(bytes),
            self.queue_packets.map(|packets| number(u64::from(packets), "packet")),
        ];
        let queue = queue.into_iter().flatten().next().map(|most| format!("queue {most}"));
        let words = [
            Some(format!("delay {}", nanos(self.delay_ns))),
            set("jitter ", self.jitter_ns as f64, nanos(self.jitter_ns)),
            self.rate_bps.map(|rate| bits(rate as f64)),
            set("burst ", self.burst_bytes.into(), bytes(self.burst_bytes.into())),
            queue.filter(|_| self.rate_bps.is_some()),
            (!["", "droptail"].contains(&self.aqm)).then(|| self.aqm.to_owned()),
            self.outage.then(|| "outage".to_owned()),
            set("loss ", self.loss, share(self.loss)),
            set("reorder ", self.reorder, share(self.reorder)),
            set("duplicate ", self.duplicate, share(self.duplicate)),
            set("corrupt ", self.corrupt, share(self.corrupt)),
            self.slot_ns.map(|[least, most]| match (nanos(least), nanos(most)) {
                (least, most) if least == most => format!("slots {least}"),
                (least, most) => format!("slots {least} to {most}"),
            }),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl DirectionReport {
    fn add_to(&self, name: &str, table: &mut Table) {
        let DirectionReport { set, measured } = self;
        table.heading(format_args!("{name}: {}", set.words()));
        table.row("in", measured.offered);
        table.row("out", measured.delivered);
        table.row("rate", or_dash(measured.rate_bps, |rate| bits(rate as f64)));
        let lost = measured.loss.map_or_else(String::new, |loss| format!(" ({})", share(loss)));
        table.row("lost", format!("{}{lost}", measured.lost));
        table.times("delay", &measured.delay_ns);
        table.times("late", &measured.lateness_ns);
        for (label, count) in [
            ("queue drops", measured.queue_drops),
            ("dropped early", measured.aqm_drops),
            ("reordered", measured.reordered),
            ("duplicated", measured.duplicated),
            ("corrupted", measured.corrupted),
            ("marked", measured.marked),
            ("overflowed", measured.overflowed),
            ("under way", measured.held),
        ] {
            table.seldom(label, count);
        }
    }
}

impl Report<Emulator> for WanReport {
    const SCHEMA: &'static str = "softtimers.wan/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        if self.up.measured.offered + self.down.measured.offered == 0 {
            table.text("no packet reached the path", Tone::Plain);
            if self.clients == ClientsReport::default()
                && self.interfaces.unwrap_or_default() == InterfacesReport::default()
            {
                return table;
            }
        } else {
            self.up.add_to("up", &mut table);
            self.down.add_to("down", &mut table);
        }
        table.heading("relay");
        if self.interfaces.is_none() {
            table.row("clients", format!("{} at the end, {} in all", self.clients.now, self.clients.opened));
        }
        let frames = self.interfaces.unwrap_or_default();
        for (label, count) in [
            ("segmented", frames.joined),
            ("carried joined", frames.whole),
            ("sent together", frames.together),
            ("beside", frames.beside),
            ("not cut", frames.unsplit),
            ("too long", frames.too_long),
            ("marks written", frames.marks_written),
            ("sent again", self.clients.resent),
            ("reset", self.clients.reset),
            ("stray", self.clients.stray),
        ] {
            table.seldom(label, count);
        }
        for (label, count) in [
            ("dropped unread", frames.recv_drops + self.clients.recv_drops),
            ("dropped unsent", frames.send_drops + self.clients.send_drops),
            ("refused", self.clients.refused),
            ("no descriptor", self.clients.no_descriptor),
            ("upstream refused", self.clients.upstream_refused),
        ] {
            if count > 0 {
                table.toned(label, count, Tone::Bad);
            }
        }
        self.clients.withheld.row(&mut table);
        let adds =
            self.adds_p50_ns.map(|nanos| format!("{:.3} ms p50 by itself, each way", nanos as f64 / 1e6));
        adds.into_iter().for_each(|adds| table.row("adds", adds));
        table.row("CPU", or_dash(self.cpu_share, |used| format!("{} of one core", share(used))));
        table.row("wake-ups", self.wakeups);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::super::seconds::{COLUMNS, Seconds};
    use super::super::show::MeasuredReport;
    use super::*;
    use crate::run::screen::Screen;
    use crate::run::snapshot::{self, Live, times};
    use crate::withheld::WithheldAnswers;

    #[test]
    fn the_keys_of_the_contract_are_there() {
        let json = serde_json::to_value(WanReport::default()).unwrap();
        for way in ["up", "down"] {
            assert!(json[way]["set"].is_object());
            for key in ["delay_ns", "rate_bps", "loss", "queue_drops", "reordered"] {
                assert!(json[way]["measured"].get(key).is_some(), "{key}");
            }
        }
    }

    fn full() -> WanReport {
        let set = SetReport {
            delay_ns: 20_000_000,
            jitter_ns: 1_000_000,
            rate_bps: Some(10_000_000),
            queue_bytes: Some(64 * 1024),
            loss: 0.01,
            ..SetReport::default()
        };
        let measured = MeasuredReport {
            offered: 50_000,
            delivered: 49_400,
            delay_ns: times(),
            lateness_ns: times(),
            rate_bps: Some(9_870_000),
            loss: Some(0.0101),
            lost: 505,
            queue_drops: 80,
            aqm_drops: 0,
            overflowed: 1,
            reordered: 2,
            duplicated: 3,
            corrupted: 4,
            marked: 5,
            held: 15,
        };
        let withheld = WithheldAnswers { answers: 7, budget: 4, rate: 3, bytes: 8_400 };
        WanReport {
            up: DirectionReport { set, measured },
            down: DirectionReport::default(),
            clients: ClientsReport {
                now: 2,
                opened: 9,
                reset: 1,
                refused: 1,
                withheld,
                resent: 8,
                stray: 1,
                upstream_refused: 1,
                recv_drops: 1,
                send_drops: 1,
                ..ClientsReport::default()
            },
            adds_p50_ns: Some(62_000),
            span_s: 1.0,
            cpu_share: Some(0.042),
            wakeups: 12_345,
            ..WanReport::default()
        }
    }

    #[test]
    fn a_run_that_carried_nothing_says_so() {
        let drawn = WanReport::default().table().draw(&Screen::PIPE);
        assert_eq!(drawn.trim(), "no packet reached the path");
        let refused = ClientsReport { refused: 3, ..ClientsReport::default() };
        let drawn = WanReport { clients: refused, ..WanReport::default() }.table().draw(&Screen::PIPE);
        assert!(
            drawn.contains("no packet reached the path")
                && drawn.contains("refused")
                && !drawn.contains("delay")
        );
    }

    #[test]
    fn snapshot() {
        let config = WanConfig {
            kind: Kind::Udp,
            listen: "127.0.0.1:7001".to_owned(),
            to: "127.0.0.1:7000".to_owned(),
            duration_s: Some(60.0),
            ..WanConfig::default()
        };
        let live = Live::new(COLUMNS, |screen| Seconds::default().lines(&full(), screen));
        snapshot::check("wan", &header(&config), &live, &full());
        let frames = InterfacesReport {
            joined: 3,
            whole: 4,
            together: 6,
            beside: 7,
            unsplit: 1,
            too_long: 2,
            marks_written: 5,
            recv_drops: 1,
            send_drops: 1,
        };
        let interfaces = WanReport { interfaces: Some(frames), ..full() };
        let config =
            WanConfig { kind: Kind::Interfaces, listen: "eth0".to_owned(), to: "eth1".to_owned(), ..config };
        snapshot::check("wan-interfaces", &header(&config), &Live::none(), &interfaces);
    }
}
