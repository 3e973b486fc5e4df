//! What `wan` tells: the keys of `softtimers.wan/1`.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::Distribution;
use softtimers_measure::units::show_duration;
use softtimers_wan::interfaces::BridgeStats;
use softtimers_wan::tcp::StreamStats;
use softtimers_wan::udp::RelayStats;
use softtimers_wan::{Counters, Limit, Measured, PathConfig, Probability};

use crate::run::output::Report;
use crate::run::table::Table;
use crate::withheld::Withheld;

/// The `config` object of `wan`; what is set of the path stands with what was measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct WanConfig {
    /// `udp`, `tcp` or `interfaces`.
    pub(crate) kind: &'static str,
    /// The address that was bound, with the port in use; the first interface.
    pub(crate) listen: String,
    /// Where packets go; the second interface.
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
    /// From the clients.
    pub(crate) up: DirectionReport,
    /// Back to them.
    pub(crate) down: DirectionReport,
    /// Who used it.
    pub(crate) clients: ClientsReport,
    /// What interfaces did beside; `null` between sockets.
    pub(crate) interfaces: Option<InterfacesReport>,
    /// How long it ran.
    pub(crate) span_s: f64,
    /// The share of a processor that it used.
    pub(crate) cpu_share: Option<f64>,
    /// How often it slept.
    pub(crate) wakeups: u64,
}

/// One direction: what was asked for and what became of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct DirectionReport {
    /// What was asked for, at the end.
    pub(crate) set: SetReport,
    /// What became of the packets.
    pub(crate) measured: MeasuredReport,
}

/// What was asked for. Shares are fractions.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct SetReport {
    /// The delay.
    pub(crate) delay_ns: u64,
    /// The size of its variation.
    pub(crate) jitter_ns: u64,
    /// The bottleneck, in the mean of a trace; `null` for none.
    pub(crate) rate_bps: Option<u64>,
    /// What may wait, if the limit is in packets.
    pub(crate) queue_packets: Option<u32>,
    /// If it is in bytes.
    pub(crate) queue_bytes: Option<u64>,
    /// If it is in time.
    pub(crate) queue_ns: Option<u64>,
    /// What is lost, in the mean.
    pub(crate) loss: f64,
    /// What comes later than others.
    pub(crate) reorder: f64,
    /// What comes twice.
    pub(crate) duplicate: f64,
    /// What is damaged.
    pub(crate) corrupt: f64,
    /// What a packet takes on the bottleneck beyond its payload.
    pub(crate) overhead_bytes: u32,
}

/// What became of the packets of one direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct MeasuredReport {
    /// Came in.
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
    /// How many that were.
    pub(crate) lost: u64,
    /// Found the queue full.
    pub(crate) queue_drops: u64,
    /// Found the emulator full: a limit that no path has.
    pub(crate) overflowed: u64,
    /// Went out after one that came in later.
    pub(crate) reordered: u64,
    /// Second copies.
    pub(crate) duplicated: u64,
    /// Damaged.
    pub(crate) corrupted: u64,
    /// Beyond the mark.
    pub(crate) marked: u64,
    /// Still on the path at the end.
    pub(crate) held: u64,
}

/// Who used the relay, and what became of packets that never were on the path. Of streams, clients are
/// connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct ClientsReport {
    /// There at the end.
    pub(crate) now: u32,
    /// There have been.
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

/// What became of frames beside the path.
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
    /// Of a direction as it stands.
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

impl Report for WanReport {
    const SCHEMA: &'static str = "softtimers.wan/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        for (name, DirectionReport { set, measured }) in [("up", &self.up), ("down", &self.down)] {
            table.row(name, format!("{} in, {} out", measured.offered, measured.delivered));
            table.row("  delay set", show_duration(Duration::from_nanos(set.delay_ns)));
            table.distribution("  delay", &measured.delay_ns);
            table.distribution("  lateness", &measured.lateness_ns);
            let rate =
                |rate: Option<u64>| rate.map_or("-".into(), |bits| format!("{:.3}Mbit", bits as f64 / 1e6));
            table.row("  rate set", rate(set.rate_bps));
            table.row("  rate", rate(measured.rate_bps));
            table.row("  loss set", format!("{:.3}%", set.loss * 100.0));
            table.share("  loss", measured.loss);
            for (what, count) in [
                ("  queue drops", measured.queue_drops),
                ("  reordered", measured.reordered),
                ("  duplicated", measured.duplicated),
                ("  corrupted", measured.corrupted),
                ("  marked", measured.marked),
                ("  beyond the emulator", measured.overflowed),
                ("  still under way", measured.held),
            ] {
                if count > 0 {
                    table.row(what, count);
                }
            }
        }
        if self.interfaces.is_none() {
            table.row("clients", format!("{} of {} there have been", self.clients.now, self.clients.opened));
        }
        let frames = self.interfaces.unwrap_or_default();
        for (what, count) in [
            ("joined frames cut", frames.joined),
            ("not to be cut", frames.unsplit),
            ("too long", frames.too_long),
            ("marks written", frames.marks_written),
            ("dropped unread", frames.recv_drops),
            ("dropped unsent", frames.send_drops),
            ("reset", self.clients.reset),
            ("refused", self.clients.refused),
            ("for clients that were gone", self.clients.stray),
            ("upstream not there", self.clients.upstream_refused),
            ("dropped unread", self.clients.recv_drops),
            ("dropped unsent", self.clients.send_drops),
        ] {
            if count > 0 {
                table.row(what, count);
            }
        }
        self.clients.withheld.row(&mut table);
        table.share("CPU", self.cpu_share);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
