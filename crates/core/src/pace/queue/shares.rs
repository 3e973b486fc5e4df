//! The order in which flows leave under overload, with
//! [`Fairness::Proportional`](super::Fairness::Proportional).
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996), with rates as weights. Each flow has a
//! *tag*, its virtual time. A departure advances the tag by the time that the departed packets take at the
//! flow's rate, and the due flow with the smallest tag leaves first:
//!
//! ```text
//!   releases ──due──▶ tag 100  flow a, every 20    ──leaves──▶ 120
//!                     tag 110  flow b, every 200               310    a leaves ten times as often
//! ```
//!
//! A flow that was idle takes the tag of the flow that leaves now: it gets no credit for its absence. One
//! that is not due because its burst interval has not passed keeps its own, or it would lose a part of its
//! share to the flows that leave meanwhile. When all due flows have left, credits reset: a flow that sent
//! less than others by then had less to send, or skipped scheduled times.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The due flows, and the tags of all flows.
#[derive(Debug)]
pub(super) struct Shares {
    /// The first entry is a flow that is due, never a cancelled one.
    due: BinaryHeap<Reverse<Due>>,
    /// By the flow's index.
    flows: Vec<Share>,
    /// The latest tag of the flows that have left.
    present: u64,
    /// The `present` of the last time when all due flows had left.
    settled: u64,
    /// Counts the flows that became due; from one on.
    order: u64,
    called_off: usize,
    /// The flows that may leave in this turn, once its first packet has been asked for.
    left: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Share {
    tag: u64,
    /// Its order among the due flows; zero while it is not due.
    order: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Due {
    tag: u64,
    order: u64,
    flow: u32,
}

impl Shares {
    pub(super) const fn new() -> Self {
        Shares {
            due: BinaryHeap::new(),
            flows: Vec::new(),
            present: 0,
            settled: 0,
            order: 0,
            called_off: 0,
            left: None,
        }
    }

    /// Makes room for a flow, which is not due.
    pub(super) fn add(&mut self, flow: u32) {
        let new = Share { tag: 0, order: 0 };
        match self.flows.get_mut(flow as usize) {
            Some(earlier) => *earlier = new,
            None => self.flows.push(new),
        }
        self.due.reserve((2 * (self.flows.len() + MOST_CALLED_OFF)).saturating_sub(self.due.len()));
    }

    /// Begins a turn.
    pub(super) fn begin(&mut self) {
        self.left = None;
    }

    /// Returns whether the turn has not yet been asked for its first packet. If so, call
    /// [`allow`](Self::allow).
    pub(super) fn is_new_turn(&self) -> bool {
        self.left.is_none()
    }

    /// Allows as many departures in this turn as flows are due now.
    pub(super) fn allow(&mut self) {
        self.left = Some(self.due.len() - self.called_off);
    }

    /// Inserts a flow that has become due; without credit if it `was_idle`.
    pub(super) fn file(&mut self, flow: u32, was_idle: bool) {
        self.order += 1;
        let share = &mut self.flows[flow as usize];
        share.order = self.order;
        share.tag = share.tag.max(if was_idle { self.present } else { self.settled });
        self.due.push(Reverse(Due { tag: share.tag, order: share.order, flow }));
    }

    /// Resets all credits if no flow is due. Call it once every flow that is due by now has been inserted.
    pub(super) fn settle(&mut self) {
        if self.due.is_empty() {
            self.settled = self.present;
        }
    }

    /// Scales a flow's lead by `after / before`, the times of the same packets at the new and the old rate.
    /// Insert the flow anew afterwards.
    pub(super) fn rescale(&mut self, flow: u32, before: u64, after: u64) {
        let share = &mut self.flows[flow as usize];
        let ahead = u128::from(share.tag.saturating_sub(self.present));
        if ahead > 0 && before > 0 {
            let ahead = ahead * u128::from(after) / u128::from(before);
            share.tag = self.present.saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX));
        }
    }

    /// Returns the flow that leaves next, if this turn allows one more.
    pub(super) fn next(&self) -> Option<u32> {
        self.first().filter(|_| self.left.is_some_and(|left| left > 0))
    }

    /// Returns the flow that leaves next, in this turn or later.
    pub(super) fn first(&self) -> Option<u32> {
        self.due.peek().map(|Reverse(due)| due.flow)
    }

    /// Takes out the [first](Self::first) flow, whose departed packets take `takes` nanoseconds at its rate.
    pub(super) fn take_first(&mut self, takes: u64) {
        let Some(Reverse(due)) = self.due.pop() else { return };
        self.present = self.present.max(due.tag);
        self.flows[due.flow as usize] = Share { tag: due.tag.saturating_add(takes), order: 0 };
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.drop_called_off();
    }

    /// Takes a flow out, if it is due.
    pub(super) fn withdraw(&mut self, flow: u32) {
        if core::mem::take(&mut self.flows[flow as usize].order) == 0 {
            return;
        }
        self.called_off += 1;
        self.drop_called_off();
        if self.called_off > MOST_CALLED_OFF + self.due.len() / 2 {
            self.due.retain(|Reverse(due)| self.flows[due.flow as usize].order == due.order);
            self.called_off = 0;
        }
    }

    /// Drops cancelled flows from the front.
    fn drop_called_off(&mut self) {
        while let Some(Reverse(due)) = self.due.peek() {
            if self.flows[due.flow as usize].order == due.order {
                break;
            }
            self.due.pop();
            self.called_off -= 1;
        }
    }
}

/// Beyond 32, and half of all, cancelled flows are removed.
const MOST_CALLED_OFF: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FLOWS: usize = 50;

    /// A reference model of the rules: a list, searched from end to end.
    #[derive(Default)]
    struct Model {
        tags: [u64; 10],
        due: Vec<usize>,
        present: u64,
        settled: u64,
    }

    impl Model {
        fn next(&self) -> Option<usize> {
            self.due.iter().copied().min_by_key(|&flow| self.tags[flow])
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// The smallest tag leaves first, and among equal ones the flow that became due first; a turn allows
        /// as many departures as flows were due.
        #[test]
        fn the_least_tag_leaves_first(ops in prop::collection::vec((0u8..8, 0usize..10, 0u64..50), 1..crate::effort::operations(400) as usize)) {
            let (mut shares, mut model) = (Shares::new(), Model::default());
            (0..10).for_each(|flow| shares.add(flow));
            let mut left = 0;
            for (op, flow, takes) in ops {
                let is_due = model.due.contains(&flow);
                match op {
                    0 => {
                        shares.begin();
                        prop_assert!(shares.is_new_turn());
                        shares.allow();
                        left = model.due.len();
                    }
                    1 => {
                        shares.withdraw(flow as u32);
                        model.due.retain(|&other| other != flow);
                    }
                    2..5 if !is_due => {
                        shares.file(flow as u32, op > 3);
                        model.tags[flow] = model.tags[flow].max(if op > 3 { model.present } else { model.settled });
                        model.due.push(flow);
                    }
                    _ => {
                        if let Some(next) = model.next() {
                            shares.take_first(takes);
                            model.present = model.present.max(model.tags[next]);
                            model.tags[next] += takes;
                            model.due.retain(|&other| other != next);
                            left = left.saturating_sub(1);
                        }
                    }
                }
                shares.settle();
                if model.due.is_empty() {
                    model.settled = model.present;
                }
                let next = model.next().map(|flow| flow as u32);
                prop_assert_eq!(shares.first(), next);
                prop_assert_eq!(shares.next(), next.filter(|_| left > 0));
            }
        }
    }

    /// However often flows are cancelled and due again, the heap stays bounded.
    #[test]
    fn what_was_called_off_is_cleared_away() {
        let mut shares = Shares::new();
        (0..FLOWS as u32).for_each(|flow| shares.add(flow));
        let room = shares.due.capacity();
        shares.file(0, true);
        for round in 0..2_000 {
            let flow = 1 + round % (FLOWS as u32 - 1);
            shares.withdraw(flow);
            shares.file(flow, true);
        }
        assert_eq!((shares.first(), shares.due.capacity()), (Some(0), room));
        assert_eq!(shares.due.len() - shares.called_off, FLOWS);
    }
}
