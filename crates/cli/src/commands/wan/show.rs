//! What `wan` tells: the keys of `softtimers.wan/1`.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::Distribution;
use softtimers_wan::interfaces::BridgeStats;
use softtimers_wan::tcp::StreamStats;
use softtimers_wan::udp::RelayStats;
use softtimers_wan::{Counters, Limit, Measured, PathConfig, Probability};

use crate::run::output::Report;
use crate::run::quantity::{bits, bytes, end, number, or_dash, setting, share, time};
use crate::run::screen::{Screen, Tone};
use crate::run::stream::{TIME, line, seconds};
use crate::run::table::Table;
use crate::withheld::Withheld;

/// The `config` object of `wan`; what is set of the path stands with what was measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct WanConfig {
    /// `udp`, `tcp` or `interfaces`.
    pub(crate) kind: &'static str,
    /// The address that was bound, with the port in use; the first interface.
    pub(crate) listen: String,
    /// The address that packets go to; the second interface.
    pub(crate) to: String,
    /// The most clients at once.
    pub(crate) clients: u32,
    /// When a silent client is forgotten; `null` where there are none.
    pub(crate) client_timeout_s: Option<f64>,
    /// Networks whose clients are answered with all, beside loopback; of datagrams.
    pub(crate) trust: Vec<String>,
    /// Answers a second to all others of a prefix; `null` unless it is of datagrams.
    pub(crate) answers_per_prefix_pps: Option<f64>,
    /// The longest run; `null` for no bound.
    pub(crate) duration_s: Option<f64>,
}

/// The findings of a path emulator.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct WanReport {
    /// The direction from the clients.
    pub(crate) up: DirectionReport,
    /// The direction back to them.
    pub(crate) down: DirectionReport,
    /// The clients of the relay.
    pub(crate) clients: ClientsReport,
    /// The counts of interfaces beside the path; `null` between sockets.
    pub(crate) interfaces: Option<InterfacesReport>,
    /// The time that it ran.
    pub(crate) span_s: f64,
    /// The share of a processor that it used.
    pub(crate) cpu_share: Option<f64>,
    /// The number of times that it slept.
    pub(crate) wakeups: u64,
}

/// One direction: what was asked for and what became of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct DirectionReport {
    /// The settings at the end.
    pub(crate) set: SetReport,
    /// The fates of the packets.
    pub(crate) measured: MeasuredReport,
}

/// The settings of a direction. Shares are fractions.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct SetReport {
    /// The delay.
    pub(crate) delay_ns: u64,
    /// The size of its variation.
    pub(crate) jitter_ns: u64,
    /// The bottleneck, in the mean of a trace; `null` for none.
    pub(crate) rate_bps: Option<u64>,
    /// The limit of the queue, if it is in packets.
    pub(crate) queue_packets: Option<u32>,
    /// If it is in bytes.
    pub(crate) queue_bytes: Option<u64>,
    /// If it is in time.
    pub(crate) queue_ns: Option<u64>,
    /// The share that is lost, in the mean.
    pub(crate) loss: f64,
    /// The share that comes later than others.
    pub(crate) reorder: f64,
    /// The share that comes twice.
    pub(crate) duplicate: f64,
    /// The share that is damaged.
    pub(crate) corrupt: f64,
    /// The bytes that a packet takes on the bottleneck beyond its payload.
    pub(crate) overhead_bytes: u32,
}

/// The fates of the packets of one direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct MeasuredReport {
    /// Packets that came in.
    pub(crate) offered: u64,
    /// Went out, copies among them.
    pub(crate) delivered: u64,
    /// From coming in to going out.
    pub(crate) delay_ns: Distribution,
    /// By how much later than the path says they went out: the emulator's own error.
    pub(crate) lateness_ns: Distribution,
    /// Payload bits per second, from the first that went out to the last.
    pub(crate) rate_bps: Option<u64>,
    /// The share lost behind the bottleneck, of those that were through it.
    pub(crate) loss: Option<f64>,
    /// The number of losses.
    pub(crate) lost: u64,
    /// Found the queue full.
    pub(crate) queue_drops: u64,
    /// Found the emulator full: a limit that no path has.
    pub(crate) overflowed: u64,
    /// Went out after one that came in later.
    pub(crate) reordered: u64,
    /// Second copies of packets.
    pub(crate) duplicated: u64,
    /// Packets that were damaged.
    pub(crate) corrupted: u64,
    /// Packets beyond the mark.
    pub(crate) marked: u64,
    /// Still on the path at the end.
    pub(crate) held: u64,
}

/// The clients of the relay, and the packets that never were on the path. For streams, clients are connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct ClientsReport {
    /// There at the end.
    pub(crate) now: u32,
    /// The number of clients there have been.
    pub(crate) opened: u64,
    /// Connections ended by both sides.
    pub(crate) closed: u64,
    /// Connections reset by one.
    pub(crate) reset: u64,
    /// Forgotten after their time.
    pub(crate) expired: u64,
    /// Forgotten for want of room.
    pub(crate) evicted: u64,
    /// Packets of new sources for which the system had no socket, or that came from where no client can be.
    pub(crate) refused: u64,
    /// Answers kept back from clients who might be somebody else's address.
    #[serde(flatten)]
    pub(crate) withheld: Withheld,
    /// Packets whose client was gone.
    pub(crate) stray: u64,
    /// Times that the other end, or a host on the way, said that it is not there.
    pub(crate) upstream_refused: u64,
    /// Packets dropped because the relay did not read in time: its own loss, not the path's.
    pub(crate) recv_drops: u64,
    /// Packets that could not be sent: its own loss, not the path's.
    pub(crate) send_drops: u64,
}

/// The fates of frames beside the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct InterfacesReport {
    /// Frames that the kernel had joined, cut again.
    pub(crate) joined: u64,
    /// Frames dropped because they could not be cut.
    pub(crate) unsplit: u64,
    /// Frames dropped because they were longer than the other interface sends.
    pub(crate) too_long: u64,
    /// Marks written into packets.
    pub(crate) marks_written: u64,
    /// Frames dropped because they were not read in time: the emulator's own loss, not the path's.
    pub(crate) recv_drops: u64,
    /// Frames that could not be sent: the emulator's own loss, not the path's.
    pub(crate) send_drops: u64,
}

impl DirectionReport {
    /// Reports on a direction as it stands.
    pub(crate) fn of(path: &PathConfig, counters: &Counters, measured: &Measured) -> Self {
        DirectionReport { set: SetReport::of(path), measured: MeasuredReport::of(counters, measured) }
    }
}

impl SetReport {
    fn of(path: &PathConfig) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let limit = path.bottleneck.mean_bps().map(|_| path.queue.limit);
        SetReport {
            delay_ns: nanos(path.delay),
            jitter_ns: nanos(path.jitter.size),
            rate_bps: path.bottleneck.mean_bps(),
            queue_packets: limit
                .and_then(|limit| if let Limit::Packets(most) = limit { Some(most) } else { None }),
            queue_bytes: limit
                .and_then(|limit| if let Limit::Bytes(most) = limit { Some(most) } else { None }),
            queue_ns: limit
                .and_then(|limit| if let Limit::Time(most) = limit { Some(nanos(most)) } else { None }),
            loss: path.loss.mean(),
            reorder: path.late.map_or(0.0, |late| late.share.as_f64()),
            duplicate: Probability::as_f64(path.duplicate),
            corrupt: Probability::as_f64(path.corrupt),
            overhead_bytes: path.overhead,
        }
    }
}

impl MeasuredReport {
    fn of(counters: &Counters, measured: &Measured) -> Self {
        let Counters { offered, delivered, queue_drops, overflowed, lost, .. } = *counters;
        let through = offered - queue_drops - overflowed;
        MeasuredReport {
            offered,
            delivered,
            delay_ns: Distribution::from(measured.delay_ns()),
            lateness_ns: Distribution::from(measured.lateness_ns()),
            rate_bps: measured.rate_bps(),
            loss: (through > 0).then(|| lost as f64 / through as f64),
            lost,
            queue_drops,
            overflowed,
            reordered: counters.reordered,
            duplicated: counters.duplicated,
            corrupted: counters.corrupted,
            marked: counters.marked,
            held: counters.held,
        }
    }
}

impl From<RelayStats> for ClientsReport {
    fn from(stats: RelayStats) -> Self {
        ClientsReport {
            now: stats.clients,
            opened: stats.opened,
            closed: 0,
            reset: 0,
            expired: stats.expired,
            evicted: stats.evicted,
            refused: stats.no_socket + stats.misdirected,
            withheld: Withheld::from(&stats),
            stray: stats.stray,
            upstream_refused: stats.upstream_refused,
            recv_drops: stats.recv_drops,
            send_drops: stats.send_full + stats.send_failed,
        }
    }
}

impl From<StreamStats> for ClientsReport {
    fn from(stats: StreamStats) -> Self {
        ClientsReport {
            now: stats.connections,
            opened: stats.opened,
            closed: stats.closed,
            reset: stats.reset,
            expired: stats.expired,
            refused: stats.refused + stats.no_socket,
            stray: stats.stray,
            upstream_refused: stats.upstream_refused,
            ..ClientsReport::default()
        }
    }
}

impl From<BridgeStats> for InterfacesReport {
    fn from(stats: BridgeStats) -> Self {
        InterfacesReport {
            joined: stats.joined,
            unsplit: stats.unsplit,
            too_long: stats.too_long,
            marks_written: stats.marks_written,
            recv_drops: stats.recv_drops,
            send_drops: stats.send_full + stats.send_failed,
        }
    }
}

/// Names both sides in a line; the settings of the path stand above its figures.
pub(super) fn header(config: &WanConfig) -> String {
    let WanConfig { kind, listen, to, .. } = config;
    format!("wan, {kind}: {listen} to {to}{}", end(config.duration_s, None, "packet"))
}

impl SetReport {
    /// The settings that are not at rest, as in `delay 20 ms, 10.0 Mbit/s, loss 1.00%`.
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
            queue.filter(|_| self.rate_bps.is_some()),
            set("loss ", self.loss, share(self.loss)),
            set("reorder ", self.reorder, share(self.reorder)),
            set("duplicate ", self.duplicate, share(self.duplicate)),
            set("corrupt ", self.corrupt, share(self.corrupt)),
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

impl Report for WanReport {
    const SCHEMA: &'static str = "softtimers.wan/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        self.up.add_to("up", &mut table);
        self.down.add_to("down", &mut table);
        table.heading("relay");
        if self.interfaces.is_none() {
            table.row("clients", format!("{} at the end, {} in all", self.clients.now, self.clients.opened));
        }
        let frames = self.interfaces.unwrap_or_default();
        for (label, count) in [
            ("cut again", frames.joined),
            ("not cut", frames.unsplit),
            ("too long", frames.too_long),
            ("marks written", frames.marks_written),
            ("reset", self.clients.reset),
            ("stray", self.clients.stray),
        ] {
            table.seldom(label, count);
        }
        for (label, count) in [
            ("dropped unread", frames.recv_drops + self.clients.recv_drops),
            ("dropped unsent", frames.send_drops + self.clients.send_drops),
            ("refused", self.clients.refused),
            ("upstream refused", self.clients.upstream_refused),
        ] {
            if count > 0 {
                table.toned(label, count, Tone::Bad);
            }
        }
        self.clients.withheld.row(&mut table);
        table.row("CPU", or_dash(self.cpu_share, |used| format!("{} of one core", share(used))));
        table.row("wake-ups", self.wakeups);
        table
    }
}

/// A second on a terminal: what became of the packets of each direction since the report before.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    before: WanReport,
    printed: u64,
}

impl Seconds {
    /// Whether no second has passed.
    pub(super) fn is_empty(&self) -> bool {
        self.printed == 0
    }

    /// Returns the lines of the time since the last call.
    pub(super) fn lines(&mut self, report: &WanReport, screen: &Screen) -> String {
        let to = Duration::try_from_secs_f64(report.span_s).unwrap_or_default();
        let mut text = String::new();
        if self.printed.is_multiple_of(PAGE) {
            let names = [TIME].into_iter().chain(COLUMNS.iter().map(|&(name, _)| name));
            text = line(COLUMNS, &names.map(str::to_owned).collect::<Vec<_>>(), screen.width) + "\n";
        }
        for (way, now, before) in
            [("up", &report.up, &self.before.up), ("down", &report.down, &self.before.down)]
        {
            let (now, before) = (&now.measured, &before.measured);
            let since = |of: fn(&MeasuredReport) -> u64| of(now).saturating_sub(of(before)).to_string();
            let cells = [
                seconds(to),
                way.to_owned(),
                since(|measured| measured.offered),
                since(|measured| measured.delivered),
                since(|measured| measured.lost),
                since(|measured| measured.queue_drops),
                or_dash(now.delay_ns.p50, time),
                or_dash(now.lateness_ns.p99, time),
            ];
            text += &(line(COLUMNS, &cells, screen.width) + "\n");
        }
        self.before = report.clone();
        self.printed += 1;
        text.trim_end().to_owned()
    }
}

/// Counts are of the second, times of the run so far.
pub(super) const COLUMNS: &[(&str, usize)] =
    &[("way", 4), ("in", 9), ("out", 9), ("lost", 7), ("queue drops", 11), ("delay p50", 9), ("late p99", 8)];
/// Seconds after which the header comes again.
const PAGE: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::snapshot::{self, Live, times};

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
            overflowed: 1,
            reordered: 2,
            duplicated: 3,
            corrupted: 4,
            marked: 5,
            held: 15,
        };
        let withheld = Withheld { answers: 7, budget: 4, rate: 3, bytes: 8_400 };
        WanReport {
            up: DirectionReport { set, measured },
            down: DirectionReport::default(),
            clients: ClientsReport {
                now: 2,
                opened: 9,
                reset: 1,
                refused: 1,
                withheld,
                stray: 1,
                upstream_refused: 1,
                recv_drops: 1,
                send_drops: 1,
                ..ClientsReport::default()
            },
            span_s: 1.0,
            cpu_share: Some(0.042),
            wakeups: 12_345,
            ..WanReport::default()
        }
    }

    #[test]
    fn snapshot() {
        let config = WanConfig {
            kind: "udp",
            listen: "127.0.0.1:7001".to_owned(),
            to: "127.0.0.1:7000".to_owned(),
            duration_s: Some(60.0),
            ..WanConfig::default()
        };
        let live = Live::new(COLUMNS, |screen| Seconds::default().lines(&full(), screen));
        snapshot::check("wan", "wan", &header(&config), &live, &full());
        let frames = InterfacesReport {
            joined: 3,
            unsplit: 1,
            too_long: 2,
            marks_written: 5,
            recv_drops: 1,
            send_drops: 1,
        };
        let interfaces = WanReport { interfaces: Some(frames), ..full() };
        let config =
            WanConfig { kind: "interfaces", listen: "eth0".to_owned(), to: "eth1".to_owned(), ..config };
        snapshot::check("wan", "wan-interfaces", &header(&config), &Live::none(), &interfaces);
    }
}
