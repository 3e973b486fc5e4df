//! The settings of a queue and its flows: limits, and how much leaves in one go.

use core::time::Duration;

use crate::{PaceConfig, Rate, Timestamp};

use super::super::Counts;

/// The settings of a [`DepartureQueue`](super::DepartureQueue).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// The maximum number of packets of all flows together; at most 2³² − 2.
    pub packets: u32,
    /// The allowed lateness of a program that sleeps: [`poll_at`](super::DepartureQueue::poll_at) adds it to
    /// the due time. A program that polls sooner sends sooner.
    pub slack: Duration,
    /// The time between two collections; zero, the default, for none. With one, packets leave at its whole multiples, in the
    /// clock's time: those that came due since the last multiple leave together, at most this late.
    ///
    /// A slot that is a whole part of the flows' intervals (`interval / n`) keeps the gaps of each flow: it always leaves at the
    /// same slot. So the cost is that of the slots, however many flows share one, and the price is a constant lateness,
    /// and as many packets in a row as flows per slot: of flows that are spread evenly, up to one more of each rate than on
    /// average. A limit on trains has to leave room for those, or they wait for its pause. For intervals that it is no part of, a flow moves by a slot now and
    /// then. What is overdue by more than a slot leaves at once. With a slot, leave the slack at zero: waking up late for
    /// one moves all of its packets.
    pub slot: Duration,
}

impl Default for QueueConfig {
    /// Returns the defaults: a million packets, each of which takes some 20 bytes and its token; no slack, no
    /// slots.
    fn default() -> Self {
        QueueConfig { packets: 1_000_000, slack: Duration::ZERO, slot: Duration::ZERO }
    }
}

/// The parameters of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowConfig {
    /// Rate, pattern, burst interval and catch-up.
    pub pace: PaceConfig,
    /// The limit on what leaves in one go.
    pub quantum: Quantum,
    /// How many packets may wait, and for how long.
    pub limits: Limits,
}

impl FlowConfig {
    /// Makes a flow that sends one packet at a time, with the default limits.
    pub fn new(pace: PaceConfig) -> Self {
        FlowConfig { pace, quantum: Quantum::ONE, limits: Limits::default() }
    }
}

/// The limit on what a flow sends in one go. The tightest bound holds; one packet is always allowed.
///
/// At 10 Gbit/s a packet of 1,500 bytes takes 1.2 µs: less than the system call that sends it, and far less
/// than a wake-up. The packets of a given time at the rate may then leave together, ahead of their own
/// scheduled times; the next leave when those have passed:
///
/// ```text
///   one by one         ●  ●  ●  ●  ●  ●  ●  ●  ●
///   three at a time    ●●●      ●●●      ●●●
/// ```
///
/// Bounded in time, the quantum shrinks to one packet by itself when the rate falls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quantum {
    /// The largest number of packets.
    pub packets: u32,
    /// The largest number of bytes.
    pub bytes: u32,
    /// The longest time that they may take at the flow's rate.
    pub time: Duration,
    /// Restricts it to what one send with generic segmentation offload (`UDP_SEGMENT`) can carry: packets of
    /// the length of the first, except that the last may be shorter.
    pub alike: bool,
}

impl Quantum {
    /// One packet at a time.
    pub const ONE: Quantum = Quantum { packets: 1, bytes: u32::MAX, time: Duration::ZERO, alike: false };

    /// The most packets of one send with generic segmentation offload: `UDP_MAX_SEGMENTS` of older kernels;
    /// newer ones take twice as many.
    pub const MOST_SEGMENTS: u32 = 64;

    /// The most bytes of one such send: the payload of the longest IPv4 datagram, because it is one datagram
    /// until it is segmented.
    pub const MOST_SEGMENTED_BYTES: u32 = 65_507;

    /// Allows any packets that together take at most this time: for a batch of sends.
    pub const fn within(time: Duration) -> Self {
        Quantum { packets: u32::MAX, bytes: u32::MAX, time, alike: false }
    }

    /// Allows packets that together take at most this time and fit one send with generic segmentation
    /// offload.
    pub const fn segments(time: Duration) -> Self {
        Quantum { packets: Self::MOST_SEGMENTS, bytes: Self::MOST_SEGMENTED_BYTES, time, alike: true }
    }

    /// Returns the most packets that leave in one go of a flow that counts packets at this rate: at least
    /// one.
    ///
    /// ```
    /// use core::time::Duration;
    /// use softtimers_core::Rate;
    /// use softtimers_core::queue::Quantum;
    ///
    /// let quantum = Quantum { packets: 64, ..Quantum::within(Duration::from_millis(1)) };
    /// let at = |packets_per_second| Rate::per_second(packets_per_second).map(|rate| quantum.packets_at(rate));
    /// assert_eq!([at(100), at(8_000), at(1_000_000)], [Ok(1), Ok(8), Ok(64)]);
    /// ```
    pub fn packets_at(&self, rate: Rate) -> u32 {
        self.at(rate, Counts::Packets).0.max(1)
    }

    /// Returns the most packets and bytes at this rate.
    pub(super) fn at(&self, rate: Rate, counts: Counts) -> (u32, u32) {
        let nanos = crate::time::saturating_nanos(self.time);
        let in_time = u32::try_from(rate.intervals_in(nanos)).unwrap_or(u32::MAX);
        match counts {
            Counts::Packets => (self.packets.min(in_time), self.bytes),
            Counts::Bytes => (self.packets, self.bytes.min(in_time)),
        }
    }
}

impl Default for Quantum {
    /// One packet at a time.
    fn default() -> Self {
        Quantum::ONE
    }
}

/// The limits on a flow's waiting packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// The largest number of packets.
    pub packets: u32,
    /// The largest number of bytes.
    pub bytes: u64,
    /// The longest wait, from the time a packet could have left on. A packet that has waited longer is handed
    /// back as [expired](super::Popped::Expired).
    ///
    /// Packets whose predicted wait is longer are rejected. The prediction takes the time of the packets
    /// before it at the rate, and the latest `not_before` among them; it ignores that packets behind that one
    /// are paced anew from there, so some of those may be accepted and expire.
    pub delay: Duration,
}

impl Limits {
    /// Returns whether a packet that could have left at `ready` has waited too long.
    #[inline]
    pub(super) fn overstayed(&self, now: Timestamp, ready: Timestamp) -> bool {
        now.saturating_duration_since(ready) > self.delay
    }
}

impl Default for Limits {
    /// Returns the defaults: 100 packets, as in Linux's fq, of any length, for any time.
    fn default() -> Self {
        Limits { packets: 100, bytes: u64::MAX, delay: Duration::MAX }
    }
}
