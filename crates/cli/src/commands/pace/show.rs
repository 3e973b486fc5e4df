//! The report of `pace`: the keys of `softtimers.pace/1`.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde::Serialize;
use softtimers_bpf::{TcpCounts, TcpWindow};
use softtimers_measure::failure::Failure;
use softtimers_net::kernel::queue_to;

use super::args::{PacePlan, Window};
use super::run::Paced;
use super::supervise::SocketCounts;
use crate::run::output::Report;
use crate::run::quantity::{bits, number, part, time};
use crate::run::table::Table;

/// The `config` object.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct PaceConfig {
    /// The command in words.
    pub(crate) command: String,
    /// The capacity, headers included.
    pub(crate) rate_bps: u64,
    /// The window as a share of what the path holds; `null` if it is in bytes.
    pub(crate) window_share: Option<f64>,
    /// The window in bytes; `null` if it is a share.
    pub(crate) window_bytes: Option<u64>,
    /// The networks; empty for all but this machine.
    pub(crate) to: Vec<String>,
}

impl From<&PacePlan> for PaceConfig {
    fn from(plan: &PacePlan) -> Self {
        let words: Vec<_> = plan.command.iter().map(|word| word.to_string_lossy()).collect();
        let (window_share, window_bytes) = match plan.capacity.window {
            TcpWindow::OfPath(share) => (Some(share), None),
            TcpWindow::Bytes(bytes) => (None, Some(bytes)),
        };
        PaceConfig {
            command: words.join(" "),
            rate_bps: plan.capacity.rate.get(),
            window_share,
            window_bytes,
            to: plan.capacity.to.iter().map(|(address, length)| format!("{address}/{length}")).collect(),
        }
    }
}

/// Describes the run in one line.
pub(super) fn header(config: &PaceConfig) -> String {
    let window = match (config.window_share, config.window_bytes) {
        (Some(share), _) => Window(TcpWindow::OfPath(share)).to_string(),
        (None, bytes) => Window(TcpWindow::Bytes(bytes.unwrap_or(0))).to_string(),
    };
    let to = if config.to.is_empty() { String::new() } else { format!(" to {}", config.to.join(", ")) };
    let rate = bits(config.rate_bps as f64);
    format!("pace {}: TCP{to} at {rate}, window {window}", config.command)
}

/// The findings.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct PaceReport {
    /// Connections that were given a window and a pace.
    pub(crate) connections: u64,
    /// Connections active now.
    pub(crate) active: u64,
    /// The most at once.
    pub(crate) most_active: u64,
    /// Flights after a pause that began with the whole window again.
    pub(crate) restored: u64,
    /// Segments sent again.
    pub(crate) retransmitted: u64,
    /// Timeouts of connections.
    pub(crate) timeouts: u64,
    /// Connections left to their congestion control.
    pub(crate) given_back: u64,
    /// Connections with another congestion control than CUBIC.
    pub(crate) other_control: u64,
    /// Connections whose handshake measured no round trip.
    pub(crate) without_round_trip: u64,
    /// Settings that the kernel refused.
    pub(crate) refused: u64,
    /// Whether connections had the rate alone, and each all of it: BPF was not possible.
    pub(crate) rate_only: bool,
    /// Sockets that listened, whose connections have their pace; `null` with BPF, which counts connections.
    pub(crate) listening: Option<u64>,
    /// Connections to an address whose path carried less within the last minute.
    pub(crate) remembered: u64,
    /// Times that a few losses showed others on a path.
    pub(crate) made_room: u64,
    /// UDP sockets that were given the rate.
    pub(crate) udp: u64,
    /// The exit code of the command; `null` if a signal ended it, or the run did.
    pub(crate) exit_code: Option<i32>,
    /// The signal that ended it; `null` if none did.
    pub(crate) signal: Option<i32>,
    /// The length of the run.
    pub(crate) span_s: f64,
}

impl PaceReport {
    /// Reports a run with BPF.
    pub(super) fn new(counts: &TcpCounts, span: Duration, status: Option<ExitStatus>) -> Self {
        PaceReport {
            connections: counts.connections,
            active: counts.active,
            most_active: counts.most_active,
            restored: counts.restored,
            retransmitted: counts.retransmitted,
            timeouts: counts.timeouts,
            given_back: counts.given_back,
            other_control: counts.other_control,
            without_round_trip: counts.without_round_trip,
            refused: counts.refused,
            rate_only: false,
            listening: None,
            remembered: counts.remembered,
            made_room: counts.made_room,
            udp: counts.udp,
            exit_code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            span_s: span.as_secs_f64(),
        }
    }

    /// Reports a run without BPF.
    pub(super) fn of_sockets(counts: &SocketCounts, span: Duration, status: Option<ExitStatus>) -> Self {
        let connections =
            TcpCounts { connections: counts.connected, refused: counts.refused, ..TcpCounts::default() };
        PaceReport {
            rate_only: true,
            listening: Some(counts.listening),
            udp: counts.udp,
            ..PaceReport::new(&connections, span, status)
        }
    }
}

impl Report<Paced> for PaceReport {
    const SCHEMA: &'static str = "softtimers.pace/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        table.row("connections", self.connections);
        if let Some(listening) = self.listening {
            table.row("listening", listening);
        } else {
            table.row("active at once", self.most_active);
            table.row("window restored", self.restored);
            table.row("retransmitted", self.retransmitted);
            table.row("timeouts", self.timeouts);
            table.loss("given back", self.given_back, self.connections);
            table.seldom("remembered", self.remembered);
            table.seldom("made room", self.made_room);
        }
        table.seldom("UDP", self.udp);
        table.seldom("other control", self.other_control);
        table.seldom("no round trip", self.without_round_trip);
        table.seldom("refused settings", self.refused);
        table.row("ran for", time(Duration::from_secs_f64(self.span_s)));
        table
    }
}

/// Returns what did not work as asked, and what was done instead.
pub(super) fn fallbacks(counts: &TcpCounts, rate: u64, [lacks, udp]: &[Option<String>; 2]) -> Vec<String> {
    let pauses = |why| format!("after a pause connections begin as their congestion control has it: {why}");
    let mut notes: Vec<String> = lacks.iter().map(pauses).collect();
    if counts.given_back > 0 {
        let connections = part(counts.given_back, counts.connections);
        notes.push(format!(
            "the path carried less than --rate for {connections} of the connections, by losses or a growing queue: they were left to their congestion control"
        ));
        let has_lost = counts.retransmitted > 0;
        notes.extend((has_lost && rate > TRAINS_OF_16).then(|| LONG_TRAINS.to_owned()));
    }
    if counts.remembered > 0 {
        let connections = number(counts.remembered, "later connection");
        notes.push(format!(
            "{connections} to these addresses within a minute began as their congestion control has it"
        ));
    }
    if counts.other_control > 0 && lacks.is_none() {
        let connections = number(counts.other_control, "connection");
        notes.push(format!(
            "{connections} had another congestion control than CUBIC: it was given window and pace, and has its own way after a pause"
        ));
    }
    notes.extend(udp.as_ref().map(|why| format!("UDP is not paced: {why}")));
    notes.extend(unpaced_udp(counts.udp, counts.udp_to));
    notes.extend(refusals(counts.refused, counts.last_refusal));
    notes
}

/// Returns the same of a run without BPF.
pub(super) fn fallbacks_of_sockets(counts: &SocketCounts, why: &Failure, to: bool) -> Vec<String> {
    let mut notes = vec![rate_only(why)];
    if counts.listening > 0 && to {
        notes.push("--to: accepted connections are paced whoever connects".to_owned());
    }
    notes.extend(unpaced_udp(counts.udp, counts.udp_to));
    notes.extend(refusals(counts.refused, counts.last_refusal.into()));
    notes
}

/// Says that the rate alone holds, and why.
pub(super) fn rate_only(why: &Failure) -> String {
    format!("rate only, and all of it for each connection; no window, no sharing: {why}")
}

/// Says where the rate of UDP sockets does not hold.
fn unpaced_udp(sockets: u64, to: Option<IpAddr>) -> Option<String> {
    let Some(to) = to.filter(|_| sockets > 0) else {
        let unknown =
            "UDP sockets were given the rate, which holds where their packets leave by the queue fq";
        return (sockets > 0).then(|| unknown.to_owned());
    };
    let queue = queue_to(SocketAddr::new(to, 9));
    (!queue.works).then(|| format!("UDP was not paced: {}", queue.how))
}

fn refusals(refused: u64, last: u64) -> Option<String> {
    let error = std::io::Error::from_raw_os_error(i32::try_from(last).unwrap_or(0));
    (refused > 0).then(|| format!("the kernel refused {}: {error}", number(refused, "setting")))
}

/// The kernel hands over what a pace is in 1/1024 s at a time (`sk_pacing_shift`): above this rate more than 16 packets, which a
/// queue of 30 holds as measured (docs/pace.md).
const TRAINS_OF_16: u64 = 16 * 1_448 * 8 * 1_024;
const LONG_TRAINS: &str = "at this rate TCP hands over more than 16 packets at a time, up to 45, after a flight's first round trip (before Linux 6.18, and by fq, always), which a short queue does not hold: 'ip link set dev DEV gso_max_segs 16' limits them";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::snapshot::{self, Live};

    #[test]
    fn snapshot() {
        let counts = TcpCounts {
            connections: 120,
            active: 0,
            most_active: 7,
            restored: 31,
            retransmitted: 42,
            timeouts: 1,
            given_back: 2,
            other_control: 3,
            without_round_trip: 1,
            refused: 1,
            last_refusal: 22,
            remembered: 4,
            made_room: 5,
            udp: 1,
            udp_to: None,
        };
        let config = PaceConfig {
            command: "nginx".to_owned(),
            rate_bps: 100_000_000,
            window_share: Some(0.5),
            window_bytes: None,
            to: vec!["10.0.0.0/8".to_owned()],
        };
        let report = PaceReport::new(&counts, Duration::from_secs(61), Some(ExitStatus::from_raw(0)));
        snapshot::check("pace", &header(&config), &Live::none(), &report);
        let [slow, fast] = [100_000_000, 1_000_000_000];
        assert_eq!(fallbacks(&counts, slow, &[None, None]).len(), 5);
        let lacks = [(); 2].map(|()| Some("too old".to_owned()));
        assert_eq!(fallbacks(&TcpCounts::default(), fast, &lacks).len(), 2);
        assert_eq!(fallbacks(&counts, fast, &[None, None])[1], LONG_TRAINS);
        let sockets =
            SocketCounts { listening: 1, udp: 2, refused: 1, last_refusal: 1, ..SocketCounts::default() };
        let why = Failure::not_possible("why");
        assert_eq!(fallbacks_of_sockets(&sockets, &why, true).len(), 4);
        assert_eq!(fallbacks_of_sockets(&sockets, &why, false).len(), 3);
    }
}
