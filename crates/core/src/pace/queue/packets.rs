//! The packets of all flows: each flow's first beside its pace, those behind it in one array for all.
//!
//! ```text
//!   first    flow a  a1 ─▶ 2     flow b  b1 ─▶ 1     flow c  –
//!   behind   0: free     1: b2 ─▶ –     2: a2 ─▶ 3     3: a3 ─▶ –         free  0
//! ```
//!
//! A flow that is released hands out its first packet, which lies in the same cache line as the data that the
//! decision needs. An empty flow takes no more than that one place, and nothing is allocated until the number
//! of waiting packets reaches a new maximum. The place that was freed last is used first: it is in the cache.

use alloc::vec::Vec;

use crate::Timestamp;

/// A packet's descriptor. Its bytes are the caller's.
#[derive(Debug)]
pub(super) struct Packet<T> {
    /// The time from which its owner lets it leave.
    pub(super) ready: Timestamp,
    pub(super) bytes: u32,
    pub(super) token: T,
}

/// The packets behind the first of their flow.
#[derive(Debug)]
pub(super) struct Packets<T> {
    behind: Vec<FirstPacket<T>>,
    free: u32,
    /// The number of waiting packets, including the first ones of their flows.
    waiting: u32,
}

/// A place for a packet, which waits if the token is there. Half a cache line, for tokens of up to 8 bytes.
#[repr(align(32))]
#[derive(Debug)]
pub(super) struct FirstPacket<T> {
    pub(super) ready: Timestamp,
    bytes: u32,
    /// The place of the next packet of the same flow, or the next free place.
    next: u32,
    token: Option<T>,
}

/// The packets of one flow behind its first, first in first out.
#[derive(Debug)]
pub(super) struct Fifo {
    pub(super) packets: u32,
    /// The place of the last one, if there are any.
    last: u32,
    pub(super) bytes: u64,
}

impl Fifo {
    pub(super) const EMPTY: Fifo = Fifo { packets: 0, last: NONE, bytes: 0 };
}

impl<T> FirstPacket<T> {
    pub(super) const EMPTY: FirstPacket<T> =
        FirstPacket { ready: Timestamp::ZERO, bytes: 0, next: NONE, token: None };

    #[inline]
    pub(super) fn from_packet(packet: Packet<T>) -> Self {
        let Packet { ready, bytes, token } = packet;
        FirstPacket { ready, bytes, next: NONE, token: Some(token) }
    }

    /// Returns whether a packet waits here.
    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the token of the packet, if one waits here.
    pub(super) fn token(&self) -> Option<&T> {
        self.token.as_ref()
    }

    /// Returns the length of the packet, if one waits here.
    #[inline]
    pub(super) fn bytes(&self) -> Option<u32> {
        self.is_taken().then_some(self.bytes)
    }

    /// Returns whether a packet waits behind this one.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        self.next != NONE
    }

    /// Takes the packet out; call [`advance`](Packets::advance) afterwards if it has a next one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Packet<T>> {
        Some(Packet { token: self.token.take()?, ready: self.ready, bytes: self.bytes })
    }
}

impl<T> Packets<T> {
    pub(super) const fn new() -> Self {
        Packets { behind: Vec::new(), free: NONE, waiting: 0 }
    }

    /// Frees the places of a removed flow's packets that have not been [taken](Removed).
    pub(super) fn free_all(&mut self, first: FirstPacket<T>) {
        let mut index = first.next;
        while let Some(place) = self.behind.get_mut(index as usize) {
            let next = core::mem::replace(place, FirstPacket { next: self.free, ..FirstPacket::EMPTY }).next;
            self.free = core::mem::replace(&mut index, next);
        }
    }

    /// Returns the number of waiting packets of all flows.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Counts `packets` more. There are at most 2³² − 1 in all: the caller's limit.
    #[inline]
    pub(super) fn count(&mut self, packets: u32) {
        self.waiting += packets;
    }

    /// Counts `packets` less: they were taken, or removed with their flow.
    #[inline]
    pub(super) fn discount(&mut self, packets: u32) {
        self.waiting -= packets;
    }

    /// Puts a packet behind all of a flow's.
    pub(super) fn append(&mut self, first: &mut FirstPacket<T>, fifo: &mut Fifo, packet: Packet<T>) {
        fifo.bytes += u64::from(packet.bytes);
        let place = FirstPacket::from_packet(packet);
        let index = self.free;
        let index = if let Some(free) = self.behind.get_mut(index as usize) {
            self.free = free.next;
            *free = place;
            index
        } else {
            self.behind.push(place);
            (self.behind.len() - 1) as u32
        };
        let before = if fifo.packets == 0 { first } else { &mut self.behind[fifo.last as usize] };
        before.next = index;
        (fifo.last, fifo.packets) = (index, fifo.packets + 1);
    }

    /// Takes a packet that `is_it` names out of those behind a flow's first.
    pub(super) fn unlink(
        &mut self,
        first: &mut FirstPacket<T>,
        fifo: &mut Fifo,
        mut is_it: impl FnMut(&T) -> bool,
    ) -> Option<T> {
        let (mut before, mut index) = (NONE, first.next);
        while let Some(place) = self.behind.get_mut(index as usize) {
            if place.token.as_ref().is_some_and(&mut is_it) {
                let Packet { bytes, token, .. } = place.take()?;
                let next = core::mem::replace(&mut place.next, self.free);
                self.free = index;
                match self.behind.get_mut(before as usize) {
                    Some(before) => before.next = next,
                    None => first.next = next,
                }
                fifo.last = if next == NONE { before } else { fifo.last };
                fifo.packets -= 1;
                fifo.bytes -= u64::from(bytes);
                return Some(token);
            }
            (before, index) = (index, place.next);
        }
        None
    }

    /// Returns the latest time from which the packets of a flow may leave.
    pub(super) fn latest_ready(&self, first: &FirstPacket<T>) -> Timestamp {
        let mut latest = if first.is_taken() { first.ready } else { Timestamp::ZERO };
        let mut index = first.next;
        while let Some(place) = self.behind.get(index as usize) {
            latest = latest.max(place.ready);
            index = place.next;
        }
        latest
    }

    /// Makes the next packet of a flow its first, after the first was taken.
    #[inline]
    pub(super) fn advance(&mut self, first: &mut FirstPacket<T>, fifo: &mut Fifo) {
        let index = first.next;
        if let Some(second) = self.behind.get_mut(index as usize) {
            core::mem::swap(first, second);
            second.next = core::mem::replace(&mut self.free, index);
            fifo.packets -= 1;
            fifo.bytes -= u64::from(first.bytes);
        }
    }
}

/// No place has this index: there are fewer than 2³² of them.
const NONE: u32 = u32::MAX;

/// The tokens of a removed flow's waiting packets, the oldest first. Those not taken are dropped with it.
pub(super) struct Removed<'a, T> {
    pub(super) packets: &'a mut Packets<T>,
    pub(super) first: &'a mut FirstPacket<T>,
    pub(super) behind: Fifo,
}

impl<T> Iterator for Removed<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let packet = self.first.take()?;
        self.packets.advance(self.first, &mut self.behind);
        Some(packet.token)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.behind.packets as usize + usize::from(self.first.is_taken());
        (left, Some(left))
    }
}

impl<T> ExactSizeIterator for Removed<'_, T> {}

impl<T> Drop for Removed<'_, T> {
    fn drop(&mut self) {
        self.by_ref().for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    /// The places of a removed flow whose packets were forgotten are used again when its index is.
    #[test]
    fn forgotten_places_serve_again() {
        for taken in 0..=3 {
            let mut packets = Packets::new();
            for round in 0..4 {
                let mut first = FirstPacket::from_packet(packet(1, (round, 0)));
                let mut behind = Fifo::EMPTY;
                (1..3).for_each(|token| packets.append(&mut first, &mut behind, packet(1, (round, token))));
                let mut removed = Removed { packets: &mut packets, first: &mut first, behind };
                assert!(removed.by_ref().take(taken).eq((0..taken).map(|token| (round, token))));
                assert_eq!(removed.len(), 3 - taken);
                core::mem::forget(removed);
                packets.free_all(first);
                assert_eq!(packets.behind.len(), 2);
            }
        }
    }

    fn packet<T>(bytes: u32, token: T) -> Packet<T> {
        Packet { ready: Timestamp::ZERO, bytes, token }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each list is a queue of its own, and no place is added while one is free.
        #[test]
        fn lists_are_queues(ops in prop::collection::vec((0usize..5, prop::option::of(0u32..2_000)), 1..crate::effort::operations(300) as usize)) {
            let mut packets = Packets::new();
            let mut lists = [const { (FirstPacket::EMPTY, Fifo::EMPTY) }; 5];
            let mut model: [VecDeque<(u32, usize)>; 5] = Default::default();
            let mut most = 0;
            for (token, (list, op)) in ops.into_iter().enumerate() {
                let (first, behind) = &mut lists[list];
                match op {
                    Some(bytes) => {
                        match first.is_taken() {
                            true => packets.append(first, behind, packet(bytes, token)),
                            false => *first = FirstPacket::from_packet(packet(bytes, token)),
                        }
                        model[list].push_back((bytes, token));
                    }
                    None => {
                        let popped = first.take().map(|packet| (packet.bytes, packet.token));
                        if first.has_next() {
                            packets.advance(first, behind);
                        }
                        prop_assert_eq!(popped, model[list].pop_front());
                    }
                }
                prop_assert_eq!(first.bytes(), model[list].front().map(|(bytes, _)| *bytes));
                prop_assert_eq!(behind.packets as usize, model[list].len().saturating_sub(1));
                prop_assert_eq!(behind.bytes, model[list].iter().skip(1).map(|(bytes, _)| u64::from(*bytes)).sum::<u64>());
                let waiting = model.iter().map(VecDeque::len).sum::<usize>();
                most = most.max(waiting - model.iter().filter(|list| !list.is_empty()).count());
                prop_assert_eq!(packets.behind.len(), most);
            }
        }
    }
}
