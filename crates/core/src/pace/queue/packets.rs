//! The packets of all flows: each flow's first in a place of its own, those behind it in one array for all.
//!
//! ```text
//!   first    flow a  a1 ─▶ 2     flow b  b1 ─▶ 1     flow c  –
//!   behind   0: free     1: b2 ─▶ –     2: a2 ─▶ 3     3: a3 ─▶ –         free  0
//! ```
//!
//! A flow that is released hands out its first packet, and where that lies is known with the flow's index:
//! the two are fetched from memory side by side, not one after the other. For packets that it does not have a
//! flow costs no more than that one place, and nothing is allocated while no more wait than ever before.
//! A place that became free last is used first: it is in the cache.

use alloc::vec::Vec;

use crate::Timestamp;

/// A packet's descriptor. Its bytes are the caller's.
#[derive(Debug)]
pub(super) struct Packet<T> {
    /// From when on it could leave, as far as its owner is concerned.
    pub(super) ready: Timestamp,
    pub(super) bytes: u32,
    pub(super) token: T,
}

#[derive(Debug)]
pub(super) struct Packets<T> {
    /// By the flow's index.
    first: Vec<Place<T>>,
    behind: Vec<Place<T>>,
    free: u32,
    waiting: u32,
}

/// A place for a packet, which waits if the token is there. Half a cache line, for tokens of up to 8 bytes.
#[repr(align(32))]
#[derive(Debug)]
struct Place<T> {
    ready: Timestamp,
    bytes: u32,
    /// The packet behind: the next one of the same flow, or the next free place.
    next: u32,
    token: Option<T>,
}

/// One flow's packets, first in first out.
#[derive(Debug)]
pub(super) struct Fifo {
    pub(super) packets: u32,
    /// The place of the last one, unless that is the first, too.
    last: u32,
    pub(super) bytes: u64,
}

impl Fifo {
    pub(super) const EMPTY: Fifo = Fifo { packets: 0, last: NONE, bytes: 0 };
}

impl<T> Place<T> {
    const EMPTY: Place<T> = Place { ready: Timestamp::ZERO, bytes: 0, next: NONE, token: None };
}

impl<T> Packets<T> {
    pub(super) const fn new() -> Self {
        Packets { first: Vec::new(), behind: Vec::new(), free: NONE, waiting: 0 }
    }

    /// Makes room for the first packet of a new flow. Those of the one that had this index before go now, if its
    /// [`Removed`] was forgotten.
    pub(super) fn add(&mut self, flow: u32) {
        let Some(place) = self.first.get_mut(flow as usize) else {
            return self.first.resize_with(flow as usize + 1, || Place::EMPTY);
        };
        let mut index = core::mem::replace(place, Place::EMPTY).next;
        while let Some(place) = self.behind.get_mut(index as usize) {
            let next = core::mem::replace(place, Place { next: self.free, ..Place::EMPTY }).next;
            self.free = core::mem::replace(&mut index, next);
        }
    }

    /// The number of packets, of all flows.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Puts a packet at the end of a flow's. There are at most 2³² − 1 in all: the caller's limit.
    #[inline]
    pub(super) fn push(&mut self, flow: u32, fifo: &mut Fifo, packet: Packet<T>) {
        let Packet { ready, bytes, token } = packet;
        let place = Place { ready, bytes, next: NONE, token: Some(token) };
        if fifo.packets == 0 {
            self.first[flow as usize] = place;
        } else {
            self.append(flow, fifo, place);
        }
        fifo.packets += 1;
        fifo.bytes += u64::from(bytes);
        self.waiting += 1;
    }

    fn append(&mut self, flow: u32, fifo: &mut Fifo, place: Place<T>) {
        let index = self.free;
        let index = if let Some(free) = self.behind.get_mut(index as usize) {
            self.free = free.next;
            *free = place;
            index
        } else {
            self.behind.push(place);
            (self.behind.len() - 1) as u32
        };
        let before = if fifo.packets == 1 {
            &mut self.first[flow as usize]
        } else {
            &mut self.behind[fifo.last as usize]
        };
        before.next = index;
        fifo.last = index;
    }

    /// Since when a flow's first packet could leave, and its length.
    #[inline]
    pub(super) fn first(&self, flow: u32) -> Option<(Timestamp, u32)> {
        let place = self.first.get(flow as usize)?;
        place.token.is_some().then_some((place.ready, place.bytes))
    }

    /// Takes a flow's first packet.
    #[inline]
    pub(super) fn pop(&mut self, flow: u32, fifo: &mut Fifo) -> Option<Packet<T>> {
        let packet = self.take(flow, fifo)?;
        self.waiting -= 1;
        Some(packet)
    }

    /// The packets of a removed flow wait no longer: they are to be [taken](Self::take), or are forgotten.
    pub(super) fn discount(&mut self, fifo: &Fifo) {
        self.waiting -= fifo.packets;
    }

    /// As [`pop`](Self::pop), of a flow whose packets are not counted any more.
    #[inline]
    pub(super) fn take(&mut self, flow: u32, fifo: &mut Fifo) -> Option<Packet<T>> {
        let first = self.first.get_mut(flow as usize)?;
        let packet = Packet { ready: first.ready, bytes: first.bytes, token: first.token.take()? };
        fifo.packets -= 1;
        fifo.bytes -= u64::from(packet.bytes);
        if fifo.packets > 0 {
            let index = first.next;
            let second = &mut self.behind[index as usize];
            core::mem::swap(first, second);
            second.next = core::mem::replace(&mut self.free, index);
        }
        Some(packet)
    }
}

/// No place has this index: there are fewer than 2³² of them.
const NONE: u32 = u32::MAX;

/// The waiting packets of a removed flow: its tokens, the oldest first. Those not asked for are dropped with it.
pub(super) struct Removed<'a, T> {
    pub(super) packets: &'a mut Packets<T>,
    pub(super) index: u32,
    pub(super) waiting: Fifo,
}

impl<T> Iterator for Removed<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.packets.take(self.index, &mut self.waiting).map(|packet| packet.token)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.waiting.packets as usize;
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

    /// Whatever is forgotten of a removed flow, its places serve again when its index does.
    #[test]
    fn forgotten_places_serve_again() {
        for taken in 0..=3 {
            let mut packets = Packets::new();
            for round in 0..4 {
                packets.add(0);
                let mut list = Fifo::EMPTY;
                for token in 0..3 {
                    packets.push(
                        0,
                        &mut list,
                        Packet { ready: Timestamp::ZERO, bytes: 1, token: (round, token) },
                    );
                }
                packets.discount(&list);
                let took = (0..taken).filter_map(|_| packets.take(0, &mut list)).map(|packet| packet.token);
                assert!(took.eq((0..taken).map(|token| (round, token))));
                assert_eq!((packets.waiting(), packets.behind.len()), (0, 2));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each list is a queue of its own, and no place is added while one is free.
        #[test]
        fn lists_are_queues(ops in prop::collection::vec((0usize..5, prop::option::of(0u32..2_000)), 1..300)) {
            let mut packets = Packets::new();
            let mut lists = [const { Fifo::EMPTY }; 5];
            (0..5).for_each(|list| packets.add(list));
            let mut model: [VecDeque<(u32, usize)>; 5] = Default::default();
            let mut most = 0;
            for (token, (list, op)) in ops.into_iter().enumerate() {
                match op {
                    Some(bytes) => {
                        packets.push(list as u32, &mut lists[list], Packet { ready: Timestamp::ZERO, bytes, token });
                        model[list].push_back((bytes, token));
                    }
                    None => {
                        let popped = packets.pop(list as u32, &mut lists[list]).map(|packet| (packet.bytes, packet.token));
                        prop_assert_eq!(popped, model[list].pop_front());
                    }
                }
                let first = packets.first(list as u32).map(|(_, bytes)| bytes);
                prop_assert_eq!(first, model[list].front().map(|(bytes, _)| *bytes));
                prop_assert_eq!(lists[list].packets as usize, model[list].len());
                prop_assert_eq!(lists[list].bytes, model[list].iter().map(|(bytes, _)| u64::from(*bytes)).sum::<u64>());
                let waiting = model.iter().map(VecDeque::len).sum::<usize>();
                prop_assert_eq!(packets.waiting() as usize, waiting);
                most = most.max(waiting - model.iter().filter(|list| !list.is_empty()).count());
                prop_assert_eq!(packets.behind.len(), most);
            }
        }
    }
}
