//! The report of `wan`: the keys of `softtimers.wan/1`.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::Distribution;
use softtimers_wan::interfaces::BridgeStats;
use softtimers_wan::tcp::StreamStats;
use softtimers_wan::udp::RelayStats;
use softtimers_wan::{Counters, Limit, Measured, PathConfig, Reorder};

use crate::withheld::WithheldAnswers;

/// The `config` object of `wan`; the settings of the path are with the measurements.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct WanConfig {
    /// The ends of the path.
    pub(crate) kind: Kind,
    /// The bound address, with the port in use; the first interface; or the command.
    pub(crate) listen: String,
    /// The destination address; the second interface; `peer`, or the gateway to the outside.
    pub(crate) to: String,
    /// The most clients at once.
    pub(crate) clients: u32,
    /// When a silent client is forgotten; `null` without clients.
    pub(crate) client_timeout_s: Option<f64>,
    /// Networks whose clients get all answers, besides loopback; for datagrams.
    pub(crate) trust: Vec<String>,
    /// Answers a second to all other clients of a prefix; `null` unless for datagrams.
    pub(crate) answers_per_prefix_pps: Option<f64>,
    /// How late a segment may be to leave with the next of its frame; `null` between sockets.
    pub(crate) coalesce_ns: Option<u64>,
    /// The packets that take the path; `null` for all.
    pub(crate) only: Option<String>,
    /// The file of the changes at given times; `null` for none.
    pub(crate) scenario: Option<String>,
    /// The longest run; `null` for no bound.
    pub(crate) duration_s: Option<f64>,
}

/// The ends of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Datagrams of many clients, and an upstream.
    #[default]
    Udp,
    /// Streams of many clients, and an upstream.
    Tcp,
    /// Two interfaces.
    Interfaces,
    /// A command, and its peer or the outside.
    Command,
}

impl Kind {
    /// Returns its name in output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Udp => "udp",
            Kind::Tcp => "tcp",
            Kind::Interfaces => "interfaces",
            Kind::Command => "command",
        }
    }
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
    /// The counts of interfaces besides the path's; `null` between sockets.
    pub(crate) interfaces: Option<InterfacesReport>,
    /// The delay that the emulator itself adds to a packet, in either direction: the median lateness. `null` if no
    /// packet came out.
    pub(crate) adds_p50_ns: Option<u64>,
    /// The time that it ran.
    pub(crate) span_s: f64,
    /// The share of a CPU that it used.
    pub(crate) cpu_share: Option<f64>,
    /// The number of times that it slept.
    pub(crate) wakeups: u64,
}

/// One direction: settings and measurements.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct DirectionReport {
    /// The settings at the end.
    pub(crate) set: SetReport,
    /// The measurements of the packets.
    pub(crate) measured: MeasuredReport,
}

/// The settings of a direction. Shares are fractions.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct SetReport {
    /// The delay.
    pub(crate) delay_ns: u64,
    /// The size of its variation.
    pub(crate) jitter_ns: u64,
    /// The bottleneck's rate, or a trace's mean; `null` for none.
    pub(crate) rate_bps: Option<u64>,
    /// The bytes that pass at once after a pause.
    pub(crate) burst_bytes: u32,
    /// Whether it is an outage, in which no packet gets through.
    pub(crate) outage: bool,
    /// The limit of the queue, if it is in packets.
    pub(crate) queue_packets: Option<u32>,
    /// The limit, if it is in bytes.
    pub(crate) queue_bytes: Option<u64>,
    /// The limit, if it is in time.
    pub(crate) queue_ns: Option<u64>,
    /// How the queue is managed.
    pub(crate) aqm: &'static str,
    /// The mean loss.
    pub(crate) loss: f64,
    /// The share of packets that are reordered, late or ahead.
    pub(crate) reorder: f64,
    /// The share that is duplicated.
    pub(crate) duplicate: f64,
    /// The share that is damaged.
    pub(crate) corrupt: f64,
    /// The shortest and the longest time until the slot in which packets leave; `null` without slots.
    pub(crate) slot_ns: Option<[u64; 2]>,
    /// The bytes that a packet takes on the bottleneck in addition to its payload.
    pub(crate) overhead_bytes: u32,
}

/// Counts and measurements of the packets of one direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct MeasuredReport {
    /// Packets received.
    pub(crate) offered: u64,
    /// Packets sent, copies included.
    pub(crate) delivered: u64,
    /// From receiving to sending.
    pub(crate) delay_ns: Distribution,
    /// How late they left relative to the path: the emulator's own error.
    pub(crate) lateness_ns: Distribution,
    /// Payload bits per second, from the first packet sent to the last.
    pub(crate) rate_bps: Option<u64>,
    /// The share lost behind the bottleneck, of those that passed it.
    pub(crate) loss: Option<f64>,
    /// The number of losses.
    pub(crate) lost: u64,
    /// Dropped by the queue: it was full, or its AQM dropped them.
    pub(crate) queue_drops: u64,
    /// Those of them that the AQM dropped.
    pub(crate) aqm_drops: u64,
    /// Dropped because the emulator was full: its own limit, not the path's.
    pub(crate) overflowed: u64,
    /// Sent after a packet that was received later.
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

/// The clients of the relay, and the packets that never reached the path. For streams, clients are connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct ClientsReport {
    /// Clients at the end.
    pub(crate) now: u32,
    /// Clients accepted.
    pub(crate) opened: u64,
    /// Connections ended by both sides.
    pub(crate) closed: u64,
    /// Connections reset by one.
    pub(crate) reset: u64,
    /// Clients forgotten after a period of silence.
    pub(crate) expired: u64,
    /// Clients evicted for want of room.
    pub(crate) evicted: u64,
    /// Connections beyond --clients; packets whose source address is invalid.
    pub(crate) refused: u64,
    /// Times that the system had no descriptor: a connection then waited, a packet of a new source was dropped.
    pub(crate) no_descriptor: u64,
    /// Answers withheld, because the client's address might be forged.
    #[serde(flatten)]
    pub(crate) withheld: WithheldAnswers,
    /// Pieces of streams that the path had lost, and that were sent again.
    pub(crate) resent: u64,
    /// Packets whose client was gone.
    pub(crate) stray: u64,
    /// Times that the other end, or a host on the way, replied unreachable (ICMP).
    pub(crate) upstream_refused: u64,
    /// Packets dropped because the relay did not read in time: its own loss, not the path's.
    pub(crate) recv_drops: u64,
    /// Packets that could not be sent: its own loss, not the path's.
    pub(crate) send_drops: u64,
}

/// Counts of frames besides the path's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct InterfacesReport {
    /// Frames that the kernel had merged, segmented again.
    pub(crate) joined: u64,
    /// Frames that the kernel had merged, carried whole.
    pub(crate) whole: u64,
    /// Segments sent with others of the same merged frame, within --coalesce.
    pub(crate) together: u64,
    /// Frames that --only let pass beside the path.
    pub(crate) beside: u64,
    /// Frames dropped because they could not be segmented.
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
    /// Reports on a direction in its current state.
    pub(crate) fn from_counts(path: &PathConfig, counters: &Counters, measured: &Measured) -> Self {
        DirectionReport {
            set: SetReport::from_path(path),
            measured: MeasuredReport::from_counts(counters, measured),
        }
    }
}

impl SetReport {
    fn from_path(path: &PathConfig) -> Self {
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
            aqm: path.aqm.name(),
            loss: path.loss.mean(),
            reorder: path.reorder.map_or(0.0, |reorder| match reorder {
                Reorder::Late(late) => late.share.as_f64(),
                Reorder::Ahead(ahead) => ahead.share.as_f64(),
            }),
            burst_bytes: path.burst,
            outage: path.outage,
            duplicate: path.duplicate.share.as_f64(),
            corrupt: path.corrupt.share.as_f64(),
            slot_ns: path.slots.map(|slots| [nanos(slots.least), nanos(slots.most)]),
            overhead_bytes: path.overhead,
        }
    }
}

impl MeasuredReport {
    fn from_counts(counters: &Counters, measured: &Measured) -> Self {
        let Counters { offered, delivered, queue_drops, overflowed, passed, lost, .. } = *counters;
        MeasuredReport {
            offered,
            delivered,
            delay_ns: Distribution::from(measured.delay_ns()),
            lateness_ns: Distribution::from(measured.lateness_ns()),
            rate_bps: measured.rate_bps(),
            loss: (passed > 0).then(|| lost as f64 / passed as f64),
            lost,
            queue_drops,
            aqm_drops: counters.aqm_drops,
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
            refused: stats.misdirected,
            no_descriptor: stats.no_socket,
            withheld: WithheldAnswers::from(&stats),
            resent: 0,
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
            refused: stats.refused,
            no_descriptor: stats.no_socket,
            resent: stats.resent,
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
            whole: stats.whole,
            together: stats.together,
            beside: stats.beside,
            unsplit: stats.unsplit,
            too_long: stats.too_long,
            marks_written: stats.marks_written,
            recv_drops: stats.recv_drops,
            send_drops: stats.send_full + stats.send_failed,
        }
    }
}
