//! A packet's states: offered, under way, and delivered.

use softtimers_core::Timestamp;

/// A packet that is held, with the arguments of its offer.
#[derive(Clone, Debug)]
pub(crate) struct Packet<T> {
    pub(super) packet: T,
    pub(super) bytes: u32,
    pub(super) number: u64,
    pub(super) offered: Timestamp,
    pub(super) marked: bool,
    pub(super) traits: Traits,
}

/// The properties of a packet, besides its length, that a [managed queue](crate::Aqm) uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Traits {
    /// Its transport understands marks, so a queue that may mark does not drop it.
    pub capable: bool,
    /// A number for its flow, such as a hash of its addresses and ports.
    pub flow: u64,
}

/// A packet between the link and its arrival.
#[derive(Debug)]
pub(super) struct UnderWay<T> {
    pub(super) due: Timestamp,
    pub(super) sequence: u64,
    pub(super) copy: bool,
    pub(super) flipped: Option<u64>,
    pub(super) packet: Packet<T>,
}

/// The result of offering a packet. Losses on the way are not reported here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Admission {
    /// It is on the link or waits for it.
    Accepted,
    /// It waits, and the queue has marked it.
    Marked,
    /// The queue is full, or its management dropped it.
    QueueFull,
    /// Already as much is held as [`PathConfig`](crate::PathConfig) allows.
    Overflow,
}

/// A packet that comes out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery<T> {
    /// The packet that was offered.
    pub packet: T,
    /// Its length, as offered.
    pub bytes: u32,
    /// When it was offered.
    pub offered: Timestamp,
    /// The time at which it arrives.
    pub due: Timestamp,
    /// The queue has marked it: congestion experienced.
    pub marked: bool,
    /// It is the second copy.
    pub copy: bool,
    /// The bit to flip, counted from the first byte's least significant one on. The model does not see the bytes: see
    /// [`damaged`](Self::damaged).
    pub flipped: Option<u64>,
}

impl<T: AsMut<[u8]>> Delivery<T> {
    /// Returns the packet, with the bit flipped if one is to be.
    pub fn damaged(mut self) -> T {
        if let Some(bit) = self.flipped {
            let byte = usize::try_from(bit / 8).ok().and_then(|byte| self.packet.as_mut().get_mut(byte));
            if let Some(byte) = byte {
                *byte ^= 1 << (bit % 8);
            }
        }
        self.packet
    }
}

impl<T> UnderWay<T> {
    fn key(&self) -> (Timestamp, u64) {
        (self.due, self.sequence)
    }
}

impl<T> PartialEq for UnderWay<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for UnderWay<T> {}

impl<T> PartialOrd for UnderWay<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for UnderWay<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
