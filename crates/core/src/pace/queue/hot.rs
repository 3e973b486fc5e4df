//! The part of a flow that every packet touches: one cache line, half of it the pace and half the first packet that waits.
//!
//! With ten thousand flows, a flow has left the nearest cache by its next turn, so a packet costs the lines
//! that it touches. The clock, the limits and the counts are [elsewhere](super::flow).

use super::super::lane::Lane;
use super::packets::FirstPacket;
use crate::Timestamp;

/// With tokens of more than eight bytes, it takes more than a line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Hot<T> {
    pub(super) lane: Lane,
    /// The flow's first packet, while one waits.
    pub(super) first: FirstPacket<T>,
}

impl<T> Hot<T> {
    /// The intended time of the next packet.
    #[inline]
    pub(super) fn place(&self) -> Timestamp {
        Timestamp::from_nanos(self.lane.place)
    }
}

const _: () = assert!(size_of::<Hot<u64>>() == 64 && size_of::<Hot<()>>() == 64);
