//! Packets, and their bytes: [`Volume`]; and what an end of a forwarder did: [`EndCounts`].

use std::iter::Sum;
use std::ops::{AddAssign, Sub};

use serde::Serialize;

/// Packets, and their bytes: of frames, from Ethernet's header on; of datagrams, their payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
pub struct Volume {
    /// How many.
    pub packets: u64,
    /// How long they were in all.
    pub bytes: u64,
}

/// What one interface did, or one side of a relay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EndCounts {
    /// The interface's name; `clients` or `upstream`.
    pub name: String,
    /// Came in there, without those that found the ring full.
    pub received: Volume,
    /// Left there, without what was made here.
    pub sent: Volume,
    /// Did neither.
    pub dropped: EndDrops,
}

/// What was dropped at an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EndDrops {
    /// Packets that came in there and found the ring full, or the receive buffer: nobody knows how long they were.
    pub ring: u64,
    /// Came in there, and a rule decided.
    pub rule: Volume,
    /// Were to leave there.
    pub output: Volume,
}

impl Volume {
    /// One packet more, of so many bytes.
    #[inline]
    pub fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

impl EndCounts {
    /// Adds what another poller did there.
    pub fn add(&mut self, other: &EndCounts) {
        self.received += other.received;
        self.sent += other.sent;
        self.dropped.ring += other.dropped.ring;
        self.dropped.rule += other.dropped.rule;
        self.dropped.output += other.dropped.output;
    }
}

impl AddAssign for Volume {
    fn add_assign(&mut self, other: Volume) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl Sub for Volume {
    type Output = Volume;

    fn sub(self, other: Volume) -> Volume {
        Volume { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}

impl Sum for Volume {
    fn sum<I: Iterator<Item = Volume>>(all: I) -> Volume {
        all.fold(Volume::default(), |mut sum, volume| {
            sum += volume;
            sum
        })
    }
}
