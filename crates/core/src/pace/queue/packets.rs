//! The packets of all flows in one array, each flow's in a list through it.
//!
//! ```text
//!   slots   0: a1 ─▶ 3     1: b1 ─▶ 4     2: free     3: a2 ─▶ –     4: b2 ─▶ –
//!   flow a  first 0, last 3               flow b  first 1, last 4    free  2
//! ```
//!
//! So a flow costs no memory for packets that it does not have, and nothing is allocated while no
//! more packets wait than ever before. A slot that became free last is used first: it is in the cache.

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
    slots: Vec<Slot<T>>,
    free: u32,
    waiting: u32,
}

#[derive(Debug)]
struct Slot<T> {
    next: u32,
    packet: Option<Packet<T>>,
}

/// One flow's packets, first in first out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    first: u32,
    last: u32,
    pub(super) packets: u32,
    pub(super) bytes: u64,
}

impl Fifo {
    pub(super) const EMPTY: Fifo = Fifo { first: NONE, last: NONE, packets: 0, bytes: 0 };
}

impl<T> Packets<T> {
    pub(super) const fn new() -> Self {
        Packets { slots: Vec::new(), free: NONE, waiting: 0 }
    }

    /// How many there are, of all flows.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Puts a packet at the end of a list. There are at most 2³² − 1 in all: the caller's limit.
    pub(super) fn push(&mut self, fifo: &mut Fifo, packet: Packet<T>) {
        let bytes = packet.bytes;
        let slot = Slot { next: NONE, packet: Some(packet) };
        let index = self.free;
        let index = if let Some(free) = self.slots.get_mut(index as usize) {
            self.free = free.next;
            *free = slot;
            index
        } else {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        };
        match self.slots.get_mut(fifo.last as usize) {
            Some(last) => last.next = index,
            None => fifo.first = index,
        }
        fifo.last = index;
        fifo.packets += 1;
        fifo.bytes += u64::from(bytes);
        self.waiting += 1;
    }

    /// The first of a list.
    #[inline]
    pub(super) fn first(&self, fifo: &Fifo) -> Option<&Packet<T>> {
        self.slots.get(fifo.first as usize)?.packet.as_ref()
    }

    /// Takes the first of a list.
    #[inline]
    pub(super) fn pop(&mut self, fifo: &mut Fifo) -> Option<Packet<T>> {
        let index = fifo.first;
        let slot = self.slots.get_mut(index as usize)?;
        let packet = slot.packet.take()?;
        fifo.first = slot.next;
        if fifo.first == NONE {
            fifo.last = NONE;
        }
        fifo.packets -= 1;
        fifo.bytes -= u64::from(packet.bytes);
        slot.next = self.free;
        self.free = index;
        self.waiting -= 1;
        Some(packet)
    }
}

/// No slot has this index: there are fewer than 2³² of them.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each list is a queue of its own, and no slot is taken while one is free.
        #[test]
        fn lists_are_queues(ops in prop::collection::vec((0usize..5, prop::option::of(0u32..2_000)), 1..300)) {
            let mut packets = Packets::new();
            let mut lists = [Fifo::EMPTY; 5];
            let mut model: [VecDeque<(u32, usize)>; 5] = Default::default();
            let mut most = 0;
            for (token, (list, op)) in ops.into_iter().enumerate() {
                match op {
                    Some(bytes) => {
                        packets.push(&mut lists[list], Packet { ready: Timestamp::ZERO, bytes, token });
                        model[list].push_back((bytes, token));
                    }
                    None => {
                        let popped = packets.pop(&mut lists[list]).map(|packet| (packet.bytes, packet.token));
                        prop_assert_eq!(popped, model[list].pop_front());
                    }
                }
                let first = packets.first(&lists[list]).map(|packet| packet.token);
                prop_assert_eq!(first, model[list].front().map(|(_, token)| *token));
                prop_assert_eq!(lists[list].packets as usize, model[list].len());
                prop_assert_eq!(lists[list].bytes, model[list].iter().map(|(bytes, _)| u64::from(*bytes)).sum::<u64>());
                let waiting = model.iter().map(VecDeque::len).sum::<usize>();
                prop_assert_eq!(packets.waiting() as usize, waiting);
                most = most.max(waiting);
                prop_assert_eq!(packets.slots.len(), most);
            }
        }
    }
}
