//! What `forward` tells: the keys of `softtimers.forward/1`.

use serde::Serialize;
use softtimers_net::poller::Drops;
use softtimers_wan::udp::RelayStats;

use super::frames::reason::Reasons;
use super::rules::Tally;
use super::volume::{EndCounts, Volume};
use crate::distribution::Distribution;
use crate::output::{Report, Table};
use crate::withheld::Withheld;

/// What is counted of datagrams, of both ways together. `in` is all that came to the relay's sockets, so it is `out` and
/// the four of `dropped` together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Came to the sockets.
    #[serde(rename = "in")]
    pub came: u64,
    /// Have left.
    pub out: u64,
    /// Have not, by where that was decided.
    pub dropped: DropCounts,
    /// Looks at a side, from its first datagram until none was there.
    pub polls: u64,
    /// Those that found none.
    pub empty_polls: u64,
    /// Times that the relay slept.
    pub wakeups: u64,
    /// Changes between polls and wake-ups.
    pub mode_switches: u64,
}

/// Where datagrams were dropped, from the cheapest place to the dearest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DropCounts {
    /// In receive buffers that were full.
    pub ring: u64,
    /// By a rule of the file, or of the relay: see `clients`.
    pub rule: u64,
    /// Between two stages; this relay has one.
    pub queue: u64,
    /// At outputs that were full, or refused them.
    pub output: u64,
}

/// The findings of a relay.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ForwardReport {
    /// Of datagrams.
    #[serde(flatten)]
    pub counts: Counts,
    /// Datagrams received in a poll, on average; `null` without a poll.
    pub packets_per_poll: Option<f64>,
    /// From the kernel's receive time to having been sent.
    pub latency_ns: Distribution,
    /// The share of a processor that the relay used.
    pub cpu_share: Option<f64>,
    /// Periods of 10 ms in which --cpu-limit shut the input.
    pub cpu_limited: u64,
    /// How long it ran.
    pub span_s: f64,
    /// From the clients.
    pub up: WayCounts,
    /// Back to them.
    pub down: WayCounts,
    /// Each interface, or each side of a relay.
    pub ends: [EndCounts; 2],
    /// What only some have to tell.
    #[serde(flatten)]
    pub beside: Beside,
    /// What the rules did; `null` without a file.
    pub rules: Option<RulesReport>,
}

/// What is told of a relay alone, or of interfaces alone.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Beside {
    /// Of datagrams.
    Relay {
        /// Who used it.
        clients: ClientCounts,
    },
    /// Of frames.
    Interfaces(InterfacesReport),
}

/// What a handler has to tell.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Findings {
    /// What came in at the first side, and what of it has left.
    pub up: WayCounts,
    /// The other way.
    pub down: WayCounts,
    /// Each end; what its ring dropped the engine knows.
    pub ends: [EndCounts; 2],
    /// What only it has to tell.
    pub beside: Beside,
    /// What rules rejected.
    pub rejected: u64,
}

/// What became of frames beside. Those that were refused are in `dropped.rule`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct InterfacesReport {
    /// Frames that went no further, by why; both ways together.
    pub refused: Reasons,
    /// Frames that the forwarder made itself, which are not in `in` and `out`.
    pub made: MadeCounts,
    /// Times that each interface was switched off, or lost its carrier.
    pub outages: [u64; 2],
    /// Times that a loop was found.
    pub loops: u64,
}

/// What was made here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MadeCounts {
    /// Have left: answers, and probes for loops.
    pub sent: u64,
    /// Have not: an output was full, or refused them.
    pub lost: u64,
    /// Packets whose senders were told why they went no further.
    pub told: u64,
    /// Those of which too many came for that.
    pub suppressed: u64,
}

/// One direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WayCounts {
    /// Were received.
    pub received: u64,
    /// Have left.
    pub sent: u64,
}

/// Who used the relay, and which datagrams of theirs it dropped by itself: those are in `dropped.rule`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ClientCounts {
    /// There at the end.
    pub now: u32,
    /// There have been.
    pub opened: u64,
    /// Forgotten after their time.
    pub expired: u64,
    /// Forgotten for want of room.
    pub evicted: u64,
    /// Datagrams of new sources for which the system had no socket.
    pub refused: u64,
    /// Answers kept back from clients who might be somebody else's address.
    #[serde(flatten)]
    pub withheld: Withheld,
    /// Datagrams from --to, from the relay itself, or from port 0.
    pub misdirected: u64,
    /// Times that the other end, or a host on the way, said that it is not there.
    pub upstream_refused: u64,
}

/// What the rules did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RulesReport {
    /// Datagrams that a rule rejected.
    pub rejected: u64,
    /// Times that changed rules came into use.
    pub reloaded: u64,
    /// Times that they were wrong, and the old ones stayed.
    pub refused: u64,
    /// Packets that rules decided about which are in the file no more.
    pub retired: u64,
    /// Their bytes.
    pub retired_bytes: u64,
    /// The rules in use at the end.
    pub entries: Vec<RuleReport>,
}

/// One rule.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RuleReport {
    /// Where it stands.
    pub line: usize,
    /// What it says.
    pub rule: String,
    /// Datagrams that it decided about.
    pub matched: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Counts {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        self.with(earlier, u64::saturating_sub)
    }

    pub(super) fn with(&self, other: &Counts, f: impl Fn(u64, u64) -> u64) -> Counts {
        let (own, others) = (&self.dropped, &other.dropped);
        Counts {
            came: f(self.came, other.came),
            out: f(self.out, other.out),
            dropped: DropCounts {
                ring: f(own.ring, others.ring),
                rule: f(own.rule, others.rule),
                queue: f(own.queue, others.queue),
                output: f(own.output, others.output),
            },
            polls: f(self.polls, other.polls),
            empty_polls: f(self.empty_polls, other.empty_polls),
            wakeups: f(self.wakeups, other.wakeups),
            mode_switches: f(self.mode_switches, other.mode_switches),
        }
    }

    /// Datagrams received in a poll, on average.
    pub fn packets_per_poll(&self) -> Option<f64> {
        let received = self.came.saturating_sub(self.dropped.ring);
        (self.polls > 0).then(|| received as f64 / self.polls as f64)
    }
}

impl Findings {
    /// Adds those of another poller between the same interfaces.
    pub fn add(&mut self, other: &Findings) {
        self.up.add(other.up);
        self.down.add(other.down);
        self.ends.iter_mut().zip(&other.ends).for_each(|(own, other)| own.add(other));
        self.rejected += other.rejected;
        if let (Beside::Interfaces(own), Beside::Interfaces(other)) = (&mut self.beside, &other.beside) {
            own.add(other);
        }
    }
}

impl WayCounts {
    fn add(&mut self, other: WayCounts) {
        self.received += other.received;
        self.sent += other.sent;
    }
}

impl Default for Beside {
    fn default() -> Self {
        Beside::Relay { clients: ClientCounts::default() }
    }
}

impl From<Drops> for DropCounts {
    fn from(drops: Drops) -> Self {
        let Drops { interface, ring, rule, queue, output } = drops;
        DropCounts { ring: ring + interface, rule, queue, output }
    }
}

impl ClientCounts {
    /// Of the clients, and of what their sockets heard.
    pub fn of(stats: &RelayStats, misdirected: u64, upstream_refused: u64) -> Self {
        ClientCounts {
            now: stats.clients,
            opened: stats.opened,
            expired: stats.expired,
            evicted: stats.evicted,
            refused: stats.no_socket,
            withheld: Withheld::from(stats),
            misdirected,
            upstream_refused,
        }
    }
}

impl RulesReport {
    /// Of what all pollers have counted, and how often the file was wrong.
    pub fn of(tally: &Tally, rejected: u64, refused: u64) -> Self {
        let told = tally.entries().map(|(entry, Volume { packets, bytes })| RuleReport {
            line: entry.line,
            rule: entry.rule.to_string(),
            matched: packets,
            bytes,
        });
        let (reloaded, Volume { packets: retired, bytes }) = (tally.revision().number(), tally.retired());
        RulesReport { rejected, reloaded, refused, retired, retired_bytes: bytes, entries: told.collect() }
    }
}

impl Report for ForwardReport {
    const SCHEMA: &'static str = "softtimers.forward/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let Counts { came, out, dropped, polls, empty_polls, wakeups, mode_switches } = self.counts;
        table.row("in", came);
        table.row("out", out);
        let DropCounts { ring, rule, queue, output } = dropped;
        table.row("dropped", format!("ring {ring}  rule {rule}  queue {queue}  output {output}"));
        let (from, to) = self.beside.ends();
        let WayCounts { received, sent } = self.up;
        table.row(from, format!("{received} received, {sent} sent"));
        let WayCounts { received, sent } = self.down;
        table.row(to, format!("{received} received, {sent} sent"));
        table.distribution("latency", &self.latency_ns);
        table.row("polls", format!("{polls}, {empty_polls} in vain; slept {wakeups} times"));
        let each = self.packets_per_poll.map_or_else(|| "-".to_owned(), |packets| format!("{packets:.2}"));
        table.row("packets a poll", each);
        table.row("mode switches", mode_switches);
        table.share("processor", self.cpu_share);
        if self.cpu_limited > 0 {
            table.row("limited", format!("{} periods of 10 ms", self.cpu_limited));
        }
        self.beside.rows(&mut table);
        for RuleReport { line, rule, matched, .. } in self.rules.iter().flat_map(|rules| &rules.entries) {
            table.row(&format!("rule {line}"), format!("{matched}  {rule}"));
        }
        table
    }
}

impl Beside {
    fn ends(&self) -> (&'static str, &'static str) {
        match self {
            Beside::Relay { .. } => ("from clients", "to clients"),
            Beside::Interfaces(_) => ("a to b", "b to a"),
        }
    }

    fn rows(&self, table: &mut Table) {
        match self {
            Beside::Relay { clients } => clients.rows(table),
            Beside::Interfaces(interfaces) => interfaces.rows(table),
        }
    }
}

impl ClientCounts {
    fn rows(&self, table: &mut Table) {
        let ClientCounts { now, opened, refused, withheld, misdirected, upstream_refused, .. } = *self;
        table.row("clients", format!("{now} at the end of {opened}; {refused} datagrams refused"));
        if misdirected + upstream_refused > 0 {
            table.row("", format!("{misdirected} misdirected, {upstream_refused} refused upstream"));
        }
        withheld.row(table);
    }
}

impl InterfacesReport {
    /// Adds another poller's. An outage is seen by all of them.
    fn add(&mut self, other: &InterfacesReport) {
        self.refused = self.refused.plus(&other.refused);
        self.made.sent += other.made.sent;
        self.made.lost += other.made.lost;
        self.made.told += other.made.told;
        self.made.suppressed += other.made.suppressed;
        self.outages.iter_mut().zip(other.outages).for_each(|(own, other)| *own = (*own).max(other));
        self.loops += other.loops;
    }

    fn rows(&self, table: &mut Table) {
        let refused = self.refused.named();
        let some: Vec<_> = refused.iter().filter(|(_, count)| *count > 0).collect();
        let words: Vec<_> =
            some.iter().map(|(name, count)| format!("{} {count}", name.replace('_', " "))).collect();
        table.row("refused", if words.is_empty() { "none".to_owned() } else { words.join("  ") });
        let MadeCounts { sent, lost, told, suppressed } = self.made;
        if told + suppressed > 0 {
            table.row("senders told", format!("{told}, and {suppressed} not"));
        }
        if lost > 0 {
            table.row("made here", format!("{sent} sent, {lost} lost"));
        }
        let [a, b] = self.outages;
        if a + b + self.loops > 0 {
            table.row("outages", format!("{a} at a, {b} at b; {} loops", self.loops));
        }
    }
}
