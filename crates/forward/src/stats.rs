//! The one account of a forwarder: [`Stats`]. Everything that is told of a run is drawn from it.
//!
//! ```text
//!   a poller ── each round ──▶ its interval ──┐
//!   another  ── each round ──▶ its interval ──┴─ += ─▶ SharedStats: the run so far ─▶ lines, metrics, report
//! ```
//!
//! Each packet is counted once, at the end where it came in, left or was dropped. How many came in all, or went from one end
//! to the other, is asked of these counts and not kept beside them.

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
    /// From the kernel's receive time to having been sent.
    pub latency: Recorder,
    /// The CPU time used.
    pub cpu: Duration,
    /// The time that it ran.
    pub span: Duration,
    /// The clients of a relay.
    pub clients: Option<ClientStats>,
    /// The counts that only a forwarder between interfaces has.
    pub interfaces: Option<InterfaceStats>,
    /// The counts of the rules, if there are any.
    pub rules: Option<RuleStats>,
}

/// The counts of one interface, or of one side of a relay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EndStats {
    /// The interface's name; `clients` or `upstream`.
    pub name: String,
    /// Came in there, without those that found the ring full.
    pub received: Volume,
    /// Left there, without what was made here.
    pub sent: Volume,
    /// Packets that did neither.
    pub dropped: EndDrops,
}

/// The packets dropped at an end, by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EndDrops {
    /// Packets that came in there and found the ring full, or the receive buffer: nobody knows how long they were.
    pub ring: u64,
    /// Came in there, and a rule decided.
    pub rule: Volume,
    /// Were to leave there.
    pub output: Volume,
}

/// The polls and wake-ups by which packets were looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PollingStats {
    /// Looks at a side, from its first packet until none was there.
    pub polls: u64,
    /// Those that found none.
    pub empty_polls: u64,
    /// Times that a poller slept.
    pub wakeups: u64,
    /// Changes between polls and wake-ups.
    pub mode_switches: u64,
    /// Times that a CPU limit shut the input.
    pub cpu_limited: u64,
    /// Those of them that were longer than packets should wait.
    pub cpu_limit_delayed: u64,
}

/// The clients of a relay, and the datagrams of theirs that it dropped by itself: those are among what a rule dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ClientStats {
    /// Clients there have been.
    pub opened: u64,
    /// Forgotten after their time.
    pub expired: u64,
    /// Forgotten for want of room.
    pub evicted: u64,
    /// Datagrams of new sources for which the system had no socket.
    pub refused: u64,
    /// Answers kept back from clients who might be somebody else's address.
    pub withheld: u64,
    /// Those beyond three times the bytes, or the datagrams, that the client had sent.
    pub withheld_budget: u64,
    /// Those beyond the rate of a prefix.
    pub withheld_rate: u64,
    /// Bytes of payload in all of them.
    pub withheld_bytes: u64,
    /// Datagrams from the upstream, from the relay itself, or from port 0.
    pub misdirected: u64,
    /// Times that the other end, or a host on the way, said that it is not there.
    pub upstream_refused: u64,
}

/// The counts of a forwarder between interfaces beside those of its ends. Frames that were refused are among those that
/// a rule dropped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct InterfaceStats {
    /// Frames that went no further, by why; both ways together.
    pub refused: Reasons,
    /// Frames that the forwarder made itself, which neither came in nor went out.
    pub made: MadeStats,
    /// Times that each interface was switched off, or lost its carrier.
    pub outages: [u64; 2],
    /// Times that a loop was found.
    pub loops: u64,
    /// Frames that left without having come up to this program, both ways together.
    pub in_kernel: Volume,
    /// Frames that the kernel dropped rather than have others wait longer for this program; among those of the rings.
    pub held_back: u64,
}

/// The frames that were made here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MadeStats {
    /// Have left: answers, and probes for loops.
    pub sent: u64,
    /// Have not: an output was full, or refused them.
    pub lost: u64,
    /// Packets whose senders were told why they went no further.
    pub told: u64,
    /// Those of which too many came for that.
    pub suppressed: u64,
}

/// The counts of the rules.
#[derive(Clone, Debug, Default)]
pub struct RuleStats {
    /// The packets that each rule has decided about; `None` before anything was counted.
    pub(crate) tally: Option<Tally>,
    /// Times that a changed file was wrong, and the old rules stayed.
    pub refused: u64,
}

/// Packets of both ways together. Those that came are those that left and those that were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Packets that came in.
    #[serde(rename = "in")]
    pub came: u64,
    /// Packets that have left.
    pub out: u64,
    /// Have not, by where that was decided.
    pub dropped: DropCounts,
    /// The polls, as in [`PollingStats`].
    pub polls: u64,
    /// Those that found none.
    pub empty_polls: u64,
    /// Times that a poller slept.
    pub wakeups: u64,
    /// Changes between polls and wake-ups.
    pub mode_switches: u64,
}

/// Dropped packets by place, from the cheapest to the most expensive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DropCounts {
    /// In rings, or receive buffers, that were full.
    pub ring: u64,
    /// By a rule of the file, or of the forwarder's own.
    pub rule: u64,
    /// Between two stages; a forwarder has one.
    pub queue: u64,
    /// At outputs that were full, or refused them.
    pub output: u64,
}

/// The counts of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WayCounts {
    /// Packets that were received.
    pub received: u64,
    /// Packets that have left.
    pub sent: u64,
}

/// One rule, and what it has decided about.
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
    /// Nothing yet, between the clients of a relay and its upstream.
    pub fn of_relay() -> Self {
        let ends = ["clients", "upstream"].map(EndStats::named);
        Stats { ends, clients: Some(ClientStats::default()), ..Stats::default() }
    }

    /// Nothing yet, between two interfaces.
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

    /// Returns what went from the first end to the second, and back.
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

impl PollingStats {
    /// Returns the counts since `earlier`.
    pub(crate) fn since(&self, earlier: &PollingStats) -> PollingStats {
        PollingStats {
            polls: self.polls - earlier.polls,
            empty_polls: self.empty_polls - earlier.empty_polls,
            wakeups: self.wakeups - earlier.wakeups,
            mode_switches: self.mode_switches - earlier.mode_switches,
            cpu_limited: self.cpu_limited - earlier.cpu_limited,
            cpu_limit_delayed: self.cpu_limit_delayed - earlier.cpu_limit_delayed,
        }
    }
}

impl ClientStats {
    /// Returns how many clients there are now; of an interval, how many more or fewer there are than before it.
    pub fn now(&self) -> u64 {
        self.opened.saturating_sub(self.expired + self.evicted)
    }
}

impl RuleStats {
    /// Adds what a poller has counted since it was asked last.
    pub(crate) fn count(&mut self, tally: Tally) {
        add_some(&mut self.tally, &Some(tally));
    }

    /// Returns the rules in use, each with what it has decided about.
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

    /// Returns what rules have decided about that are in the file no more.
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
sums!(PollingStats: polls, empty_polls, wakeups, mode_switches, cpu_limited, cpu_limit_delayed);
sums!(ClientStats: opened, expired, evicted, refused, withheld, withheld_budget, withheld_rate, withheld_bytes,
    misdirected, upstream_refused);
sums!(MadeStats: sent, lost, told, suppressed);
sums!(DropCounts: ring, rule, queue, output);
sums!(Reasons: rejected, malformed, too_long, looped, hop_limit, not_for_us, unroutable, answered);

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
        Line::of(self, time)
    }
}
