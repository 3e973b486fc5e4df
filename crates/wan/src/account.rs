//! The account of packets: [`Counters`], and the delays [`Measured`] of those that came out.

use softtimers_core::{Histogram, Timestamp};

/// The fates of all packets of one direction.
///
/// At any time `offered + duplicated == delivered + queue_drops + overflowed + lost + held`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets that came in.
    pub offered: u64,
    /// The bytes of the packets that were offered.
    pub offered_bytes: u64,
    /// Second copies that the path has made.
    pub duplicated: u64,
    /// Packets that came out, copies included.
    pub delivered: u64,
    /// The bytes of the packets that were delivered.
    pub delivered_bytes: u64,
    /// Dropped by the queue: found it full, or by its [management](crate::Aqm).
    pub queue_drops: u64,
    /// The part of them that the management dropped.
    pub aqm_drops: u64,
    /// Found more held than the path may hold: a limit of the emulator, not of the path.
    pub overflowed: u64,
    /// Lost behind the bottleneck.
    pub lost: u64,
    /// Waiting, on the link or under way now.
    pub held: u64,
    /// Marked by the queue, whatever became of them then.
    pub marked: u64,
    /// Came out with a bit flipped, or will.
    pub corrupted: u64,
    /// Came out after one that was offered later (RFC 4737, type-P-reordered); copies don't count.
    pub reordered: u64,
}

/// The measurements of the packets that came out.
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
    /// Nanoseconds from the time a packet was offered to when it was taken out: waiting, link and delay.
    pub fn delay_ns(&self) -> &Histogram {
        &self.delay
    }

    /// Nanoseconds by which packets were taken out later than they were due: the error of the emulator in
    /// real time, zero in virtual time.
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

    /// Notes a packet; whether it was overtaken.
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

/// The properties of a packet that [`Measured`] records when it is taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) now: Timestamp,
    pub(crate) offered: Timestamp,
    pub(crate) due: Timestamp,
    pub(crate) bytes: u32,
    pub(crate) number: u64,
    pub(crate) copy: bool,
}
