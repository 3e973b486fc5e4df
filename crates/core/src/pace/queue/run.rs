//! The flows that may leave by now, in order.

use alloc::vec::Vec;

use super::node::{Filed, NIL};

/// A sorted array, taken from its beginning.
///
/// What is filed for the present sorts behind nearly all that is here, so that it is put in from the end. What
/// is called off leaves its place empty until there is no room left.
#[derive(Debug)]
pub(super) struct Run {
    flows: Vec<(Filed, u32)>,
    /// The first, which is not empty.
    from: usize,
    empty: usize,
}

impl Run {
    pub(super) const fn new() -> Self {
        Run { flows: Vec::new(), from: 0, empty: 0 }
    }

    /// Makes room for so many flows; twice that much, so that places are seldom cleared away.
    pub(super) fn reserve(&mut self, flows: usize) {
        self.flows.reserve((2 * flows + LEAST_ROOM).saturating_sub(self.flows.len()));
    }

    #[inline]
    pub(super) fn first(&self) -> Option<(Filed, u32)> {
        self.flows.get(self.from).copied()
    }

    /// The one after next.
    #[inline]
    pub(super) fn ahead(&self) -> Option<u32> {
        self.flows.get(self.from + 2).map(|&(_, flow)| flow)
    }

    /// Puts a flow at the end. It must be [sorted](Self::sort) before any is taken.
    #[inline]
    pub(super) fn push(&mut self, filed: Filed, flow: u32) {
        self.flows.push((filed, flow));
    }

    #[inline]
    pub(super) fn sort(&mut self) {
        if self.flows.len() > 1 {
            self.flows.sort_unstable_by_key(|&(filed, _)| filed);
        }
    }

    /// O(1) behind all that is here; else those that it goes before move up.
    #[inline]
    pub(super) fn insert(&mut self, filed: Filed, flow: u32) {
        if self.flows.len() == self.flows.capacity() {
            self.clear_away();
        }
        if self.flows.last().is_none_or(|&(last, _)| last < filed) {
            return self.flows.push((filed, flow));
        }
        let at = self.from + self.flows[self.from..].partition_point(|&(other, _)| other < filed);
        self.flows.insert(at, (filed, flow));
    }

    /// Takes out what was filed so. It is here. O(1) for the first, O(log n) for others.
    #[inline]
    pub(super) fn remove(&mut self, filed: Filed) {
        if self.first().is_some_and(|(first, _)| first == filed) {
            self.take_first();
        } else {
            self.call_off(filed);
        }
    }

    /// Takes out the first. There is one.
    #[inline]
    pub(super) fn take_first(&mut self) {
        self.from += 1;
        while self.empty > 0 && self.first().is_some_and(|(_, flow)| flow == NIL) {
            (self.from, self.empty) = (self.from + 1, self.empty - 1);
        }
        if self.from == self.flows.len() {
            self.flows.clear();
            self.from = 0;
        }
    }

    fn call_off(&mut self, filed: Filed) {
        let at = self.from + self.flows[self.from..].partition_point(|&(other, _)| other < filed);
        if let Some((_, flow)) = self.flows.get_mut(at) {
            *flow = NIL;
            self.empty += 1;
        }
    }

    /// Clears away the empty places, and those of what was taken.
    #[inline(never)]
    fn clear_away(&mut self) {
        self.flows.drain(..self.from);
        self.flows.retain(|&(_, flow)| flow != NIL);
        (self.from, self.empty) = (0, 0);
    }
}

/// For the few flows of a small queue.
const LEAST_ROOM: usize = 16;
