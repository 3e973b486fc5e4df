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
use softtimers_load::overload::DropCounts;
use softtimers_measure::distribution::Recorder;
use softtimers_measure::sums;

use crate::forwarder::frames::reason::Reasons;
use crate::forwarder::rules::Tally;
use crate::forwarder::volume::Volume;
use counters::counters;

pub(crate) use findings::Line;
pub(crate) use shared::Account;
pub(crate) use shared::SharedStats;

/// The counts of an interval, or of a whole run: of one poller, or of all of them together.
///
/// As JSON it is the findings of `softtimers forward --json`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    /// Each interface, or each side of a relay.
    pub(crate) ends: [EndStats; 2],
    /// The polls and wake-ups.
    pub(crate) polling: PollingStats,
    /// From the kernel's receive time until sent.
    pub(crate) latency: Recorder,
    /// The CPU time used.
    pub(crate) cpu: Duration,
    /// The run time.
    pub(crate) span: Duration,
    /// The clients of a relay.
    pub(crate) clients: Option<ClientStats>,
    /// Counts that only a forwarder between interfaces has.
    pub(crate) interfaces: Option<InterfaceStats>,
    /// The counts of the rules, if there are any.
    pub(crate) rules: Option<RuleStats>,
}

/// The counts of one interface, or of one side of a relay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct EndStats {
    /// The interface's name; `clients` or `upstream`.
    pub(crate) name: String,
    /// Received there, without packets that found the ring full.
    pub(crate) received: Volume,
    /// Sent there, without packets that the forwarder made.
    pub(crate) sent: Volume,
    /// Packets dropped at this end.
    pub(crate) dropped: EndDrops,
}

/// The packets dropped at an end, by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct EndDrops {
    /// Packets that came in there and found the ring or the receive buffer full. They have no byte count.
    pub(crate) ring: u64,
    /// Received there and dropped by a rule or the forwarder.
    pub(crate) rule: Volume,
    /// Packets to be sent there that were dropped.
    pub(crate) output: Volume,
}

counters! {
    /// The polls for packets, and the wake-ups.
    pub(crate) struct PollingStats {
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
    pub(crate) struct ClientStats {
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
pub(crate) struct InterfaceStats {
    /// Dropped frames, by reason; both directions together.
    pub(crate) refused: Reasons,
    /// Frames that the forwarder made itself, which count neither as received nor as sent.
    pub(crate) made: MadeStats,
    /// Times that each interface was switched off, or lost its carrier.
    pub(crate) outages: [u64; 2],
    /// Times that a loop was found.
    pub(crate) loops: u64,
    /// Frames forwarded without reaching this program, both directions together.
    pub(crate) in_kernel: Volume,
    /// Frames that the kernel dropped to keep others from waiting longer for this program; among the rings' drops.
    pub(crate) held_back: u64,
}

counters! {
    /// Frames made by the forwarder.
    pub(crate) struct MadeStats {
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
pub(crate) struct RuleStats {
    /// The packets that each rule has decided about; `None` before anything was counted.
    pub(crate) tally: Option<Tally>,
    /// Times that a changed file was invalid, and the old rules stayed.
    pub(crate) refused: u64,
}

/// Packets of both directions together. Each packet received was sent or dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Counts {
    /// Packets received.
    #[serde(rename = "in")]
    pub(crate) came: u64,
    /// Packets sent.
    pub(crate) out: u64,
    /// Packets dropped, by place.
    pub(crate) dropped: DropCounts,
    /// The polls, as in [`PollingStats`].
    pub(crate) polls: u64,
    /// Polls that found no packet.
    pub(crate) empty_polls: u64,
    /// Times that a poller slept.
    pub(crate) wakeups: u64,
    /// Changes between polls and wake-ups.
    pub(crate) mode_switches: u64,
}

/// The counts of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct WayCounts {
    /// Packets that were received.
    pub(crate) received: u64,
    /// Packets sent.
    pub(crate) sent: u64,
}

/// One rule and its decisions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct RuleCounts {
    /// The line on which the rule stands.
    pub(crate) line: usize,
    /// The text of the rule.
    pub(crate) rule: String,
    /// Packets that it decided about.
    pub(crate) matched: u64,
    /// The bytes of those packets.
    pub(crate) bytes: u64,
}

impl Stats {
    /// Creates zero counts for a relay's clients and its upstream.
    pub(crate) fn of_relay() -> Self {
        let ends = ["clients", "upstream"].map(EndStats::named);
        Stats { ends, clients: Some(ClientStats::default()), ..Stats::default() }
    }

    /// Creates zero counts for two interfaces.
    pub(crate) fn of_interfaces(names: &[String; 2]) -> Self {
        let ends = names.each_ref().map(|name| EndStats::named(name));
        Stats { ends, interfaces: Some(InterfaceStats::default()), ..Stats::default() }
    }

    /// Returns the sums over both ends.
    pub(crate) fn counts(&self) -> Counts {
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
    pub(crate) fn ways(&self) -> [WayCounts; 2] {
        let way = |from: usize, to: usize| WayCounts {
            received: self.ends[from].received.packets,
            sent: self.ends[to].sent.packets,
        };
        [way(0, 1), way(1, 0)]
    }

    /// Returns packets received in a poll, on average; `None` without a poll.
    pub(crate) fn packets_per_poll(&self) -> Option<f64> {
        let received = self.ends.iter().map(|end| end.received.packets).sum::<u64>();
        (self.polling.polls > 0).then(|| received as f64 / self.polling.polls as f64)
    }

    /// Returns the share of a CPU that was used in `time`.
    pub(crate) fn cpu_share(&self, time: Duration) -> Option<f64> {
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
    pub(crate) fn now(&self) -> u64 {
        self.opened.saturating_sub(self.expired + self.evicted)
    }
}

impl RuleStats {
    /// Adds a poller's counts since the last time.
    pub(crate) fn count(&mut self, tally: Tally) {
        add_some(&mut self.tally, &Some(tally));
    }

    /// Returns the rules in use, each with its decisions.
    pub(crate) fn entries(&self) -> impl Iterator<Item = RuleCounts> {
        self.tally.iter().flat_map(Tally::entries).map(|(entry, Volume { packets, bytes })| RuleCounts {
            line: entry.line,
            rule: entry.rule.to_string(),
            matched: packets,
            bytes,
        })
    }

    /// Returns how often changed rules came into use.
    pub(crate) fn reloaded(&self) -> u64 {
        self.tally.as_ref().map_or(0, |tally| tally.revision().number())
    }

    /// Returns the packets decided by rules that are no longer in the file.
    pub(crate) fn retired(&self) -> Volume {
        self.tally.as_ref().map(Tally::retired).unwrap_or_default()
    }

    /// Returns how many packets were rejected.
    pub(crate) fn rejected(&self) -> u64 {
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
