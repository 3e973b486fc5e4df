//! Counts of packets: [`Counters`], and the delays [`Measured`] of delivered ones.

use softtimers_core::{Histogram, Timestamp};

/// Counts of what happened to the packets of one direction.
///
/// At any time `offered + duplicated == delivered + queue_drops + overflowed + lost + held`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets that came in.
    pub offered: u64,
    /// The bytes of the packets that were offered.
    pub offered_bytes: u64,
    /// Second copies made by the path.
    pub duplicated: u64,
    /// Packets that came out, copies included.
    pub delivered: u64,
    /// The bytes of the packets that were delivered.
    pub delivered_bytes: u64,
    /// Dropped by the queue: it was full, or its [management](crate::Aqm) dropped them.
    pub queue_drops: u64,
    /// Those of them that the management dropped.
    pub aqm_drops: u64,
    /// Dropped because the path held all that it may: the emulator's own limit.
    pub overflowed: u64,
    /// Packets that have left the bottleneck, those lost behind it included.
    pub passed: u64,
    /// Lost behind the bottleneck.
    pub lost: u64,
    /// Held now: waiting, on the link, or under way.
    pub held: u64,
    /// Marked by the queue, whether or not they arrived.
    pub marked: u64,
    /// Given a flipped bit, whether or not they are out yet.
    pub corrupted: u64,
    /// Came out after a packet that was offered later (RFC 4737, type-P-reordered); copies don't count.
    pub reordered: u64,
}

/// Measurements of the packets that came out.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    delay: Histogram,
    lateness: Histogram,
    first: Option<Timestamp>,
    last: Timestamp,
    /// Bytes after the first packet.
    bytes: u64,
    /// The highest number that has come out, plus one.
    next: u64,
}

impl Measured {
    /// Nanoseconds from when a packet was offered to when it was taken out: waiting, link and delay.
    pub fn delay_ns(&self) -> &Histogram {
        &self.delay
    }

    /// Nanoseconds by which packets were taken out late: the emulator's error in real time, zero in virtual time.
    pub fn lateness_ns(&self) -> &Histogram {
        &self.lateness
    }

    /// Bits a second from the first packet to the last; `None` before there are two at different times. The
    /// first packet's own bits came before.
    pub fn rate_bps(&self) -> Option<u64> {
        let span = self.last.saturating_duration_since(self.first?).as_nanos();
        let bits = u128::from(self.bytes) * 8_000_000_000;
        u64::try_from(bits.checked_div(span)?).ok()
    }

    /// Records a packet, and returns whether it was overtaken.
    pub(crate) fn note(&mut self, packet: &Taken) -> bool {
        let nanos = |since: Timestamp| packet.now.saturating_duration_since(since).as_nanos() as u64;
        self.delay.record(nanos(packet.offered));
        self.lateness.record(nanos(packet.due));
        self.last = packet.now;
        match self.first {
            Some(_) => self.bytes += u64::from(packet.bytes),
            None => self.first = Some(packet.now),
        }
        let overtaken = !packet.copy && packet.number < self.next;
        if !packet.copy {
            self.next = self.next.max(packet.number + 1);
        }
        overtaken
    }
}

/// The properties of a packet that [`Measured`] records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) now: Timestamp,
    pub(crate) offered: Timestamp,
    pub(crate) due: Timestamp,
    pub(crate) bytes: u32,
    pub(crate) number: u64,
    pub(crate) copy: bool,
}
