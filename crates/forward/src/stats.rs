//! The counts of a forwarder: [`Stats`]. All output of a run is made from them.
//!
//! ```text
//!   a poller ── each round ──▶ its interval ──┐
//!   another  ── each round ──▶ its interval ──┴─ += ─▶ SharedStats: the run so far ─▶ lines, metrics, report
//! ```
//!
//! Each packet is counted once, at the end where it came in, left or was dropped. Totals and counts per direction are
//! computed from these, not kept beside them.

pub(crate) mod counters;
mod findings;
mod shared;

use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::Recorder;
use softtimers_measure::sums;

use crate::frames::reason::Reasons;
use crate::rules::Tally;
use crate::volume::Volume;
use counters::counters;

pub use findings::Line;
pub(crate) use shared::Account;
pub use shared::SharedStats;

/// The counts of an interval, or of a whole run: of one poller, or of all of them together.
///
/// As JSON it is the findings of `softtimers forward --json`.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Each interface, or each side of a relay.
    pub ends: [EndStats; 2],
    /// The polls and wake-ups.
    pub polling: PollingStats,
    /// From the kernel's receive time until sent.
    pub latency: Recorder,
    /// The CPU time used.
    pub cpu: Duration,
    /// The run time.
    pub span: Duration,
    /// The clients of a relay.
    pub clients: Option<ClientStats>,
    /// Counts that only a forwarder between interfaces has.
    pub interfaces: Option<InterfaceStats>,
    /// The counts of the rules, if there are any.
    pub rules: Option<RuleStats>,
}

/// The counts of one interface, or of one side of a relay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EndStats {
    /// The interface's name; `clients` or `upstream`.
    pub name: String,
    /// Received there, without packets that found the ring full.
    pub received: Volume,
    /// Sent there, without packets that the forwarder made.
    pub sent: Volume,
    /// Packets dropped at this end.
    pub dropped: EndDrops,
}

/// The packets dropped at an end, by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EndDrops {
    /// Packets that came in there and found the ring or the receive buffer full. They have no byte count.
    pub ring: u64,
    /// Received there and dropped by a rule or the forwarder.
    pub rule: Volume,
    /// Packets to be sent there that were dropped.
    pub output: Volume,
}

counters! {
    /// The polls for packets, and the wake-ups.
    pub struct PollingStats {
        /// Polls of a side, each from its first packet until none was there.
        polls,
        /// Polls that found no packet.
        empty_polls,
        /// Times that a poller slept.
        wakeups,
        /// Changes between polls and wake-ups.
        mode_switches,
        /// Times that a CPU limit shut the input.
        cpu_limited,
        /// Times that a CPU limit shut the input for longer than packets should wait.
        cpu_limit_delayed,
    }
}

counters! {
    /// The clients of a relay, and the datagrams that the relay itself dropped; those are among a rule's drops.
    pub struct ClientStats {
        /// Clients accepted.
        opened = "clients_opened",
        /// Clients forgotten after a period of silence.
        expired = "clients_expired",
        /// Clients evicted for want of room.
        evicted = "clients_evicted",
        /// Datagrams of new sources for which the system had no socket.
        refused = "datagrams_without_socket",
        /// Answers withheld, because the client's address might be forged.
        withheld = "answers_withheld",
        /// Answers withheld that were beyond three times the bytes, or the datagrams, that the client had sent.
        withheld_budget = "answers_withheld_by_budget",
        /// Answers withheld that were beyond the rate of a prefix.
        withheld_rate = "answers_withheld_by_rate",
        /// Payload bytes in the answers withheld.
        withheld_bytes = "answers_withheld_bytes",
        /// Datagrams from the upstream, from the relay itself, or from port 0.
        misdirected = "datagrams_misdirected",
        /// Times that the other end, or a host on the way, replied unreachable (ICMP).
        upstream_refused = "upstream_unreachable",
    }
}

/// The counts of a forwarder between interfaces besides those of its ends. Refused frames are among a rule's drops.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct InterfaceStats {
    /// Dropped frames, by reason; both directions together.
    pub refused: Reasons,
    /// Frames that the forwarder made itself, which count neither as received nor as sent.
    pub made: MadeStats,
    /// Times that each interface was switched off, or lost its carrier.
    pub outages: [u64; 2],
    /// Times that a loop was found.
    pub loops: u64,
    /// Frames forwarded without reaching this program, both directions together.
    pub in_kernel: Volume,
    /// Frames that the kernel dropped to keep others from waiting longer for this program; among the rings' drops.
    pub held_back: u64,
}

counters! {
    /// Frames made by the forwarder.
    pub struct MadeStats {
        /// Frames that the forwarder made and sent: answers, and probes for loops.
        sent = "made_frames_sent",
        /// Frames that the forwarder made and lost: an output was full, or refused them.
        lost = "made_frames_lost",
        /// ICMP errors sent for dropped packets.
        told = "icmp_errors_sent",
        /// ICMP errors suppressed by the rate limit.
        suppressed = "icmp_errors_suppressed",
    }
}

/// The counts of the rules.
#[derive(Clone, Debug, Default)]
pub struct RuleStats {
    /// The packets that each rule has decided about; `None` before anything was counted.
    pub(crate) tally: Option<Tally>,
    /// Times that a changed file was invalid, and the old rules stayed.
    pub refused: u64,
}

/// Packets of both directions together. Each packet received was sent or dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Packets received.
    #[serde(rename = "in")]
    pub came: u64,
    /// Packets sent.
    pub out: u64,
    /// Packets dropped, by place.
    pub dropped: DropCounts,
    /// The polls, as in [`PollingStats`].
    pub polls: u64,
    /// Polls that found no packet.
    pub empty_polls: u64,
    /// Times that a poller slept.
    pub wakeups: u64,
    /// Changes between polls and wake-ups.
    pub mode_switches: u64,
}

/// Dropped packets by place, from the cheapest to the most expensive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DropCounts {
    /// In full rings or receive buffers.
    pub ring: u64,
    /// By a rule of the file, or by the forwarder's own rules.
    pub rule: u64,
    /// Between two stages; always zero in a forwarder, which has one.
    pub queue: u64,
    /// At outputs that were full, or refused them.
    pub output: u64,
}

/// The counts of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WayCounts {
    /// Packets that were received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
}

/// One rule and its decisions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RuleCounts {
    /// The line on which the rule stands.
    pub line: usize,
    /// The text of the rule.
    pub rule: String,
    /// Packets that it decided about.
    pub matched: u64,
    /// The bytes of those packets.
    pub bytes: u64,
}

impl Stats {
    /// Creates zero counts for a relay's clients and its upstream.
    pub fn of_relay() -> Self {
        let ends = ["clients", "upstream"].map(EndStats::named);
        Stats { ends, clients: Some(ClientStats::default()), ..Stats::default() }
    }

    /// Creates zero counts for two interfaces.
    pub fn of_interfaces(names: &[String; 2]) -> Self {
        let ends = names.each_ref().map(|name| EndStats::named(name));
        Stats { ends, interfaces: Some(InterfaceStats::default()), ..Stats::default() }
    }

    /// Returns the sums over both ends.
    pub fn counts(&self) -> Counts {
        let [a, b] = &self.ends;
        let PollingStats { polls, empty_polls, wakeups, mode_switches, .. } = self.polling;
        let ring = a.dropped.ring + b.dropped.ring;
        Counts {
            came: a.received.packets + b.received.packets + ring,
            out: a.sent.packets + b.sent.packets,
            dropped: DropCounts {
                ring,
                rule: a.dropped.rule.packets + b.dropped.rule.packets,
                queue: 0,
                output: a.dropped.output.packets + b.dropped.output.packets,
            },
            polls,
            empty_polls,
            wakeups,
            mode_switches,
        }
    }

    /// Returns the counts of both directions, the first end's to the second first.
    pub fn ways(&self) -> [WayCounts; 2] {
        let way = |from: usize, to: usize| WayCounts {
            received: self.ends[from].received.packets,
            sent: self.ends[to].sent.packets,
        };
        [way(0, 1), way(1, 0)]
    }

    /// Returns packets received in a poll, on average; `None` without a poll.
    pub fn packets_per_poll(&self) -> Option<f64> {
        let received = self.ends.iter().map(|end| end.received.packets).sum::<u64>();
        (self.polling.polls > 0).then(|| received as f64 / self.polling.polls as f64)
    }

    /// Returns the share of a CPU that was used in `time`.
    pub fn cpu_share(&self, time: Duration) -> Option<f64> {
        (!time.is_zero()).then(|| self.cpu.as_secs_f64() / time.as_secs_f64())
    }
}

impl EndStats {
    fn named(name: &str) -> Self {
        EndStats { name: name.to_owned(), ..EndStats::default() }
    }
}

impl ClientStats {
    /// Returns the current number of clients; for an interval, the change of that number.
    pub fn now(&self) -> u64 {
        self.opened.saturating_sub(self.expired + self.evicted)
    }
}

impl RuleStats {
    /// Adds a poller's counts since the last time.
    pub(crate) fn count(&mut self, tally: Tally) {
        add_some(&mut self.tally, &Some(tally));
    }

    /// Returns the rules in use, each with its decisions.
    pub fn entries(&self) -> impl Iterator<Item = RuleCounts> {
        self.tally.iter().flat_map(Tally::entries).map(|(entry, Volume { packets, bytes })| RuleCounts {
            line: entry.line,
            rule: entry.rule.to_string(),
            matched: packets,
            bytes,
        })
    }

    /// Returns how often changed rules came into use.
    pub fn reloaded(&self) -> u64 {
        self.tally.as_ref().map_or(0, |tally| tally.revision().number())
    }

    /// Returns the packets decided by rules that are no longer in the file.
    pub fn retired(&self) -> Volume {
        self.tally.as_ref().map(Tally::retired).unwrap_or_default()
    }

    /// Returns how many packets were rejected.
    pub fn rejected(&self) -> u64 {
        self.tally.as_ref().map_or(0, Tally::rejected)
    }
}

impl AddAssign<&Stats> for Stats {
    fn add_assign(&mut self, other: &Stats) {
        let Stats { ends, polling, latency, cpu, span, clients, interfaces, rules } = other;
        self.ends.iter_mut().zip(ends).for_each(|(own, other)| *own += other);
        self.polling += polling;
        self.latency += latency;
        self.cpu += *cpu;
        self.span += *span;
        add_some(&mut self.clients, clients);
        add_some(&mut self.interfaces, interfaces);
        add_some(&mut self.rules, rules);
    }
}

fn add_some<T: Clone + for<'a> AddAssign<&'a T>>(own: &mut Option<T>, other: &Option<T>) {
    match (own, other) {
        (_, None) => {}
        (Some(own), Some(other)) => *own += other,
        (own, Some(other)) => *own = Some(other.clone()),
    }
}

impl AddAssign<&InterfaceStats> for InterfaceStats {
    fn add_assign(&mut self, other: &InterfaceStats) {
        self.refused += &other.refused;
        self.made += &other.made;
        self.outages.iter_mut().zip(other.outages).for_each(|(own, other)| *own += other);
        self.loops += other.loops;
        self.in_kernel += &other.in_kernel;
        self.held_back += other.held_back;
    }
}

impl AddAssign<&RuleStats> for RuleStats {
    fn add_assign(&mut self, other: &RuleStats) {
        add_some(&mut self.tally, &other.tally);
        self.refused += other.refused;
    }
}

sums!(EndStats: received, sent, dropped.ring, dropped.rule, dropped.output);
sums!(DropCounts: ring, rule, queue, output);

impl softtimers_measure::stats::Stats for Stats {
    type Figures = Line;

    fn is_empty(&self) -> bool {
        self.counts() == Counts::default()
    }

    fn clear(&mut self) {
        for end in &mut self.ends {
            *end = EndStats { name: std::mem::take(&mut end.name), ..EndStats::default() };
        }
        self.latency.clear();
        (self.polling, self.cpu, self.span) = Default::default();
        self.clients.iter_mut().for_each(|clients| *clients = ClientStats::default());
        self.interfaces.iter_mut().for_each(|interfaces| *interfaces = InterfaceStats::default());
        self.rules.iter_mut().for_each(|rules| *rules = RuleStats::default());
    }

    fn figures(&self, time: Duration) -> Line {
        Line::from_stats(self, time)
    }
}
