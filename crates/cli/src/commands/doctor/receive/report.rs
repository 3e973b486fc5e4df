//! What `doctor --receive` says, key by key: [`ReceiveReport`].

use serde::Serialize;

/// The keys of the object of `doctor --receive`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct ReceiveReport {
    /// Whether it is losing packets.
    pub(crate) state: State,
    /// The same in a sentence or two.
    pub(crate) verdict: String,
    /// The time between the two looks.
    pub(crate) span_s: f64,
    /// Packets that all CPUs took out of drivers and backlogs, a second.
    pub(crate) received_pps: f64,
    /// Packets and connections lost at all places.
    pub(crate) lost: u64,
    /// Where packets were lost, or nearly, and what to change.
    pub(crate) findings: Vec<Finding>,
    /// Each CPU.
    pub(crate) cpus: Vec<Cpu>,
    /// The interfaces that received or lost something.
    pub(crate) interfaces: Vec<Interface>,
    /// The UDP sockets that lost something.
    pub(crate) sockets: Vec<Socket>,
}

/// How receiving goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Nothing is lost, and there is room.
    #[default]
    Fine,
    /// Nothing is lost yet, but a CPU has no time left for more.
    Full,
    /// Packets are lost.
    Losing,
    /// A CPU receives most of its time, and most of what it receives is dropped afterwards.
    Livelock,
}

/// A place where packets are lost, or nearly.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Finding {
    /// `interface`, `ring`, `backlog`, `budget`, `udp`, `tcp`, `listen` or `cpu`.
    pub(crate) place: &'static str,
    /// How often, between the two looks.
    pub(crate) count: u64,
    /// What happened.
    pub(crate) says: String,
    /// What to change.
    pub(crate) change: String,
}

/// A CPU between the two looks.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Cpu {
    pub(crate) cpu: u32,
    /// The share of its time in interrupts.
    pub(crate) irq_share: f64,
    /// The share of its time in softirq, where packets are received.
    pub(crate) softirq_share: f64,
    pub(crate) idle_share: f64,
    /// Packets that it took out of drivers and backlogs.
    pub(crate) processed: u64,
    /// Packets that its backlog had no room for.
    pub(crate) dropped: u64,
    /// How often its budget was used up with packets left.
    pub(crate) squeezed: u64,
}

/// An interface between the two looks, and its settings.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) packets: u64,
    /// Packets that its ring had no room for.
    pub(crate) missed: u64,
    /// Packets dropped by its driver, or right behind it.
    pub(crate) dropped: u64,
    pub(crate) queues: u64,
    /// Queues that a program can poll instead of being interrupted; `null` before Linux 6.8.
    pub(crate) pollable_queues: Option<u64>,
    /// Whether kernel threads receive for it.
    pub(crate) threaded: Option<bool>,
    pub(crate) napi_defer_hard_irqs: Option<u64>,
    pub(crate) gro_flush_timeout_ns: Option<u64>,
}

/// A UDP socket that lost something.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Socket {
    pub(crate) port: u16,
    pub(crate) inode: u64,
    pub(crate) drops: u64,
    /// Bytes in its receive buffer at the second look.
    pub(crate) queued_bytes: u64,
}

impl ReceiveReport {
    /// Returns a report with all keys.
    pub(super) fn example() -> Self {
        ReceiveReport {
            findings: vec![Finding::default()],
            cpus: vec![Cpu::default()],
            interfaces: vec![Interface::default()],
            sockets: vec![Socket::default()],
            ..ReceiveReport::default()
        }
    }

    /// The CPU that receives for the greatest share of its time.
    pub(super) fn busiest(&self) -> Option<&Cpu> {
        self.cpus.iter().max_by(|one, other| one.receiving().total_cmp(&other.receiving()))
    }
}

impl Cpu {
    /// The share of its time that goes into interrupts and softirq.
    pub(super) fn receiving(&self) -> f64 {
        self.irq_share + self.softirq_share
    }
}
