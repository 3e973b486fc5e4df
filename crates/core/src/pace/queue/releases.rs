//! The order in which flows leave: by release time, and among equal ones as they were inserted.
//!
//! A heap of ten thousand flows costs more than the whole remainder of a departure: fourteen levels of cache
//! misses and mispredicted branches. So only the flows whose time has come are sorted:
//!
//! ```text
//!   calendar   … │ │▣│ │▣▣│▣│ │  now      a slot that has begun is taken out and sorted
//!                          └──────▶ ┌───────────────────┐
//!   run                             │ a c f b …         │ ──▶ the next to leave
//!                                   └───────────────────┘
//!   inserted for the present ────────────────────▲
//! ```
//!
//! The calendar is read as time passes and never ahead of it: a flow inserted later may still come first.
//!
//! A few flows need no calendar. They are all in the run, in order, whenever their time comes; for a single
//! one that costs nearly nothing. With more than [`FEW`] of them, those whose time has not come move to the
//! calendar together.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::calendar::{Calendar, List};
use super::node::{Bucket, Node};
use super::run::Run;
use crate::Timestamp;
use crate::wheel::terms::{Key, Sequence};

/// The order of the flows with packets: when the first packet of each may leave, and its turn among equal
/// ones.
#[derive(Debug)]
pub(super) struct Releases {
    /// By the flow's index.
    nodes: Vec<Node>,
    calendar: Calendar,
    /// The least time in the calendar; zero while it is unknown.
    least: u64,
    run: Run,
    /// The run may hold flows whose time has not come, and the calendar is empty.
    few: bool,
    sequence: Sequence,
}

impl Releases {
    pub(super) fn new() -> Self {
        Releases {
            nodes: Vec::new(),
            calendar: Calendar::new(),
            least: UNKNOWN,
            run: Run::new(),
            few: true,
            // Every queue's counter wraps soon, so that every test covers the wrap.
            sequence: Sequence::starting(NonZeroU32::MIN.saturating_add(u32::MAX - 1_000)),
        }
    }

    /// Makes room for a flow.
    pub(super) fn add(&mut self, flow: u32) {
        if self.nodes.len() <= flow as usize {
            self.nodes.resize(flow as usize + 1, Node::NOWHERE);
            self.run.reserve(self.nodes.len());
        }
    }

    /// Returns the first flow, if it is before `limit`.
    #[inline]
    pub(super) fn before(&mut self, limit: Key) -> Option<u32> {
        loop {
            if let Some(first) = self.run.first() {
                return first.key().is_before(limit).then_some(first.timer);
            }
            if self.few {
                return None;
            }
            match self.calendar.next(limit.due, &mut self.nodes) {
                Some(list) => self.load(list),
                None => {
                    if self.least == UNKNOWN {
                        self.least = self.calendar.least(&self.nodes);
                    }
                    return None;
                }
            }
        }
    }

    /// Returns flows that leave soon, a few at a time.
    #[inline]
    pub(super) fn upcoming(&self) -> impl Iterator<Item = u32> + '_ {
        self.run.upcoming()
    }

    /// Returns the least time. O(1) after a turn; O(flows in the same slot) if flows have changed since.
    #[inline]
    pub(super) fn first(&self) -> Option<Timestamp> {
        if let Some(first) = self.run.first() {
            return Some(Timestamp::from_nanos(first.due));
        }
        let least = || if self.least == UNKNOWN { self.calendar.least(&self.nodes) } else { self.least };
        (!self.calendar.is_empty()).then(|| Timestamp::from_nanos(least()))
    }

    /// Returns a key behind which all later insertions sort whose time is not before `now`.
    #[inline]
    pub(super) fn line(&self, now: Timestamp) -> Key {
        Key { due: now.as_nanos(), sequence: self.sequence }
    }

    /// Inserts a flow under a release time, anew if it was inserted before.
    ///
    /// A flow that is already due at `now` queues behind all that are due by then.
    #[inline(always)]
    pub(super) fn file(&mut self, flow: u32, release: Timestamp, now: Timestamp) {
        if self.nodes[flow as usize].place != Bucket::NOWHERE {
            self.withdraw(flow);
        }
        let to_run = self.calendar.is_empty() && self.has_room_for_few(now);
        let node = &mut self.nodes[flow as usize];
        node.key = Key { due: release.max(now).as_nanos(), sequence: self.sequence.advance() };
        if to_run || self.calendar.is_past(node.key.due) {
            node.place = Bucket::RUN;
            self.run.insert(node.key, flow);
        } else {
            self.least = self.least.min(node.key.due);
            self.calendar.link(flow, &mut self.nodes);
        }
        self.calendar.tidy(&mut self.nodes);
    }

    /// Returns whether one more flow goes to the run, whenever its time comes. The calendar is empty then;
    /// otherwise it begins at `now`.
    ///
    /// The calendar is abandoned only below half of [`FEW`], so that a load near the limit does not switch
    /// back and forth.
    #[inline]
    fn has_room_for_few(&mut self, now: Timestamp) -> bool {
        if self.run.len() < if self.few { FEW } else { FEW / 2 } {
            self.few = true;
        } else {
            self.calendar.begin(now.as_nanos());
            if self.few {
                self.spread();
            }
        }
        self.few
    }

    /// Moves the flows whose time has not come from the run to the calendar.
    #[inline(never)]
    fn spread(&mut self) {
        (self.few, self.least) = (false, UNKNOWN);
        let (calendar, nodes) = (&mut self.calendar, &mut self.nodes);
        self.run.retain(|entry| {
            let stays = calendar.is_past(entry.due);
            if !stays {
                calendar.link(entry.timer, nodes);
            }
            stays
        });
    }

    /// Takes out the flow that is [before](Self::before) all others.
    #[inline]
    pub(super) fn take_first(&mut self, flow: u32) {
        self.nodes[flow as usize].place = Bucket::NOWHERE;
        self.run.take_first();
    }

    /// Takes a flow out, if it is inserted.
    pub(super) fn withdraw(&mut self, flow: u32) {
        let Node { key, place, .. } = self.nodes[flow as usize];
        match place {
            Bucket::NOWHERE => return,
            Bucket::RUN => self.run.remove(key),
            _ => {
                if self.least == key.due {
                    self.least = UNKNOWN;
                }
                self.calendar.unlink(flow, &mut self.nodes);
            }
        }
        self.nodes[flow as usize].place = Bucket::NOWHERE;
    }

    /// Puts the flows of a slot in order. The run is empty.
    #[inline]
    fn load(&mut self, mut list: List) {
        self.least = UNKNOWN;
        while let Some(flow) = self.calendar.pop(&mut list, &self.nodes) {
            let node = &mut self.nodes[flow as usize];
            node.place = Bucket::RUN;
            self.run.push(node.key, flow);
        }
        self.run.sort(self.sequence);
    }
}

/// The least time must be searched for.
const UNKNOWN: u64 = 0;
/// Up to 32, moving the later entries up costs less than slots.
const FEW: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effort::operations;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// Spans at all scales of time, the nearest more often.
    fn spans() -> impl Strategy<Value = u64> {
        prop_oneof![
            3 => 0u64..300,
            3 => 0u64..20_000,
            3 => 0u64..3_000_000,
            2 => 0u64..500_000_000,
            1 => 0u64..1 << 45,
            1 => any::<u64>(),
        ]
    }

    #[derive(Clone, Debug)]
    enum Op {
        File(u32, Option<u64>),
        /// A turn to a time takes up to N of those due by then; each is inserted again that much later.
        Turn(u64, usize, Option<u64>),
    }

    fn ops() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0u32..60, prop::option::weighted(0.9, spans())).prop_map(|(flow, time)| Op::File(flow, time)),
            1 => (spans(), 0usize..100, prop::option::of(spans())).prop_map(|(step, most, again)| Op::Turn(step, most, again)),
        ]
    }

    struct Pair {
        releases: Releases,
        /// By time and how many were inserted before.
        order: BTreeMap<(Timestamp, u64), u32>,
        filed: u64,
        now: Timestamp,
    }

    impl Pair {
        fn file(&mut self, flow: u32, after: Option<u64>) {
            let release = after.map(|nanos| self.now.after(nanos));
            match release {
                Some(release) => self.releases.file(flow, release, self.now),
                None => self.releases.withdraw(flow),
            }
            self.order.retain(|_, other| *other != flow);
            if let Some(release) = release {
                self.order.insert((release, self.filed), flow);
                self.filed += 1;
            }
        }

        fn apply(&mut self, op: Op) {
            match op {
                Op::File(flow, after) => self.file(flow, after),
                Op::Turn(step, most, again) => {
                    // Most of the steps go to the next release.
                    let next = self.order.keys().next().map_or(self.now, |(time, _)| *time);
                    self.now = if step % 2 == 0 { self.now.max(next) } else { self.now.after(step) };
                    let (limit, model_limit) = (self.releases.line(self.now), (self.now, self.filed));
                    for _ in 0..most {
                        let first = self.order.iter().next().filter(|(filed, _)| **filed < model_limit);
                        let first = first.map(|(_, flow)| *flow);
                        assert_eq!(self.releases.before(limit), first);
                        let Some(flow) = first else { break };
                        self.releases.take_first(flow);
                        self.file(flow, again);
                    }
                }
            }
            assert_eq!(self.releases.first(), self.order.keys().next().map(|(time, _)| *time));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Releases agree with a map: the same flows at the same times in the same order, whatever is moved
        /// or cancelled.
        #[test]
        fn agrees_with_a_map(start in spans(), ops in prop::collection::vec(ops(), 1..operations(300) as usize)) {
            let mut pair = Pair { releases: Releases::new(), order: BTreeMap::new(), filed: 0, now: Timestamp::from_nanos(start) };
            (0..60).for_each(|flow| pair.releases.add(flow));
            ops.into_iter().for_each(|op| pair.apply(op));
        }
    }

    /// Just before a boundary of all levels, a flow that moves down from the highest level to the lowest is
    /// still found as the next.
    #[test]
    fn what_moves_down_several_levels_is_not_passed_over() {
        for boundary in [1u64 << 26, 1 << 33, 1 << 40, 1 << 47, 1 << 54, 1 << 61] {
            let mut pair =
                Pair { releases: Releases::new(), order: BTreeMap::new(), filed: 0, now: Timestamp::ZERO };
            (0..60).for_each(|flow| pair.releases.add(flow));
            // One at the boundary, inserted long before, one long after it, and one that moves the horizon
            // close to it.
            for (flow, time) in [(1, boundary), (2, boundary + boundary / 2), (3, boundary - 100_000)] {
                pair.apply(Op::File(flow, Some(time)));
            }
            (0..3).for_each(|_| pair.apply(Op::Turn(0, 60, None)));
            assert!(pair.order.is_empty(), "{boundary:#x}");
        }
    }

    /// With ten thousand flows of all rates, the flows in a block's slot have moved down before the block
    /// begins.
    #[test]
    fn slots_are_emptied_in_time() {
        let flows = operations(10_000) as u32;
        let mut pair = Pair {
            releases: Releases::new(),
            order: BTreeMap::new(),
            filed: 0,
            now: Timestamp::from_micros(1),
        };
        let interval = |flow: u32| 50_000 + u64::from(flow) * 7_919 % 60_000_000;
        for flow in 0..flows {
            pair.releases.add(flow);
            pair.releases.file(flow, pair.now.after(interval(flow)), pair.now);
        }
        let (mut last, mut left) = (Timestamp::ZERO, 0);
        while left < 20 * flows {
            pair.now = pair.releases.first().expect("all are filed");
            assert!(last <= pair.now);
            last = pair.now;
            let limit = pair.releases.line(pair.now);
            while let Some(flow) = pair.releases.before(limit) {
                pair.releases.file(flow, pair.now.after(interval(flow)), pair.now);
                left += 1;
            }
        }
    }

    /// Asking for the least time of an empty calendar caches that there is none. With more than a few flows
    /// again, it is the least of theirs.
    #[test]
    fn the_least_of_an_empty_calendar_is_forgotten() {
        let mut pair =
            Pair { releases: Releases::new(), order: BTreeMap::new(), filed: 0, now: Timestamp::ZERO };
        (0..60).for_each(|flow| pair.releases.add(flow));
        for _ in 0..3 {
            (0..60).for_each(|flow| pair.apply(Op::File(flow, Some(1_000_000 - u64::from(flow)))));
            (0..60).for_each(|flow| pair.apply(Op::File(flow, None)));
            // An odd step, so that none is due: the least time is cached.
            pair.apply(Op::Turn(2_000_001, 1, None));
            (0..60).for_each(|flow| pair.apply(Op::File(flow, Some(1_000 + u64::from(flow)))));
            pair.apply(Op::Turn(1, 0, None));
            (0..60).for_each(|flow| pair.apply(Op::File(flow, None)));
            pair.apply(Op::Turn(2_000_001, 1, None));
        }
    }
}
