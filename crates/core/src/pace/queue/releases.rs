//! The order in which flows leave: by release time, and among equal ones as they were filed.
//!
//! A heap of ten thousand flows costs more than all the rest of a departure: fourteen levels of cache lines, and of
//! branches that nobody predicts. So the order is made only where it is needed, among the flows whose time has
//! come:
//!
//! ```text
//!   calendar   … │ │▣│ │▣▣│▣│ │  now      a slot that has begun is taken out and sorted
//!                          └──────▶ ┌───────────────────┐
//!   run                             │ a c f b …         │ ──▶ the next to leave
//!                                   └───────────────────┘
//!   filed for the present ───────────────────────▲
//! ```
//!
//! The calendar is looked into as time goes by and not ahead of it: what is filed later may still come first. A flow that
//! is the only one filed is in neither: it is the next, whenever that is.

use alloc::vec::Vec;

use super::calendar::{Calendar, List};
use super::node::{Filed, Node, Place};
use super::run::Run;
use crate::Timestamp;

/// For each flow with packets: when its first may leave, and its turn among equal ones.
#[derive(Debug)]
pub(super) struct Releases {
    /// By the flow's index.
    nodes: Vec<Node>,
    calendar: Calendar,
    /// The least time in the calendar, if it is known.
    least: Option<u64>,
    run: Run,
    /// The only flow that is filed, if there is one alone.
    sole: Option<u32>,
    sequence: u64,
}

impl Releases {
    pub(super) fn new() -> Self {
        Releases {
            nodes: Vec::new(),
            calendar: Calendar::new(),
            least: None,
            run: Run::new(),
            sole: None,
            sequence: 0,
        }
    }

    /// Makes room for a flow.
    pub(super) fn add(&mut self, flow: u32) {
        if self.nodes.len() <= flow as usize {
            self.nodes.resize(flow as usize + 1, Node::NOWHERE);
            self.run.reserve(self.nodes.len());
        }
    }

    /// The least, if it is before `limit`.
    #[inline]
    pub(super) fn before(&mut self, limit: Filed) -> Option<u32> {
        if let Some(flow) = self.sole {
            return (self.nodes[flow as usize].filed() < limit).then_some(flow);
        }
        loop {
            if let Some((filed, flow)) = self.run.first() {
                return (filed < limit).then_some(flow);
            }
            match self.calendar.next(limit.time().as_nanos(), &mut self.nodes) {
                Some(list) => self.load(list),
                None => {
                    if self.least.is_none() {
                        self.least = Some(self.calendar.least(&self.nodes));
                    }
                    return None;
                }
            }
        }
    }

    /// A flow that leaves soon, if one is known.
    #[inline]
    pub(super) fn ahead(&self) -> Option<u32> {
        self.run.ahead()
    }

    /// The least time. After a turn O(1); after changes since, O(flows in the same slot).
    #[inline]
    pub(super) fn first(&self) -> Option<Timestamp> {
        if let Some(flow) = self.sole {
            return Some(Timestamp::from_nanos(self.nodes[flow as usize].time));
        }
        if let Some((filed, _)) = self.run.first() {
            return Some(filed.time());
        }
        let least = || Timestamp::from_nanos(self.least.unwrap_or_else(|| self.calendar.least(&self.nodes)));
        (!self.calendar.is_empty()).then(least)
    }

    /// A time that everything filed from here on sorts behind, if its time is not before `now`.
    #[inline]
    pub(super) fn line(&self, now: Timestamp) -> Filed {
        Filed::new(now, self.sequence)
    }

    /// Files a flow under a release time, anew if it was filed before.
    ///
    /// What is due at `now` already queues behind all that is due by then.
    #[inline(always)]
    pub(super) fn file(&mut self, flow: u32, release: Timestamp, now: Timestamp) {
        if self.nodes[flow as usize].place != Place::NOWHERE {
            self.withdraw(flow);
        }
        let node = &mut self.nodes[flow as usize];
        (node.time, node.sequence) = (release.max(now).as_nanos(), self.sequence);
        self.sequence += 1;
        if self.sole.is_none() && self.run.first().is_none() && self.calendar.is_empty() {
            node.place = Place::SOLE;
            self.sole = Some(flow);
        } else {
            self.file_beside(flow, now);
        }
    }

    /// Files a flow that is not alone.
    #[inline(always)]
    fn file_beside(&mut self, flow: u32, now: Timestamp) {
        if let Some(sole) = self.sole.take() {
            self.put(sole, now);
        }
        self.put(flow, now);
        self.calendar.tidy(&mut self.nodes);
    }

    /// Puts a flow into the run or the calendar.
    #[inline]
    fn put(&mut self, flow: u32, now: Timestamp) {
        self.calendar.begin(now.as_nanos());
        let node = &mut self.nodes[flow as usize];
        if self.calendar.is_past(node.time) {
            node.place = Place::RUN;
            self.run.insert(node.filed(), flow);
        } else {
            self.least = self.least.map(|least| least.min(node.time));
            self.calendar.link(flow, &mut self.nodes);
        }
    }

    /// Takes out the flow that is [before](Self::before) all others.
    #[inline]
    pub(super) fn take_first(&mut self, flow: u32) {
        let place = core::mem::replace(&mut self.nodes[flow as usize].place, Place::NOWHERE);
        if place == Place::SOLE {
            self.sole = None;
        } else {
            self.run.take_first();
        }
    }

    /// Takes a flow out, if it is filed.
    pub(super) fn withdraw(&mut self, flow: u32) {
        let node = &mut self.nodes[flow as usize];
        match core::mem::replace(&mut node.place, Place::NOWHERE) {
            Place::NOWHERE => {}
            Place::SOLE => self.sole = None,
            Place::RUN => self.run.remove(node.filed()),
            place => {
                if self.least == Some(node.time) {
                    self.least = None;
                }
                node.place = place;
                self.calendar.unlink(flow, &mut self.nodes);
                self.nodes[flow as usize].place = Place::NOWHERE;
            }
        }
    }

    /// Puts the flows of a slot in order. The run is empty.
    #[inline]
    fn load(&mut self, mut list: List) {
        self.least = None;
        while let Some(flow) = self.calendar.pop(&mut list, &self.nodes) {
            let node = &mut self.nodes[flow as usize];
            node.place = Place::RUN;
            self.run.push(node.filed(), flow);
        }
        self.run.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// At all scales of time, the nearest more often.
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
        /// To a time, and so many of what is due by then; each is filed again that much later.
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
        order: BTreeMap<Filed, u32>,
        now: Timestamp,
    }

    impl Pair {
        fn file(&mut self, flow: u32, after: Option<u64>) {
            let release = after.map(|nanos| self.now.after(nanos));
            let filed = self.releases.line(release.unwrap_or(self.now));
            match release {
                Some(release) => self.releases.file(flow, release, self.now),
                None => self.releases.withdraw(flow),
            }
            self.order.retain(|_, other| *other != flow);
            release.map(|_| self.order.insert(filed, flow));
        }

        fn apply(&mut self, op: Op) {
            match op {
                Op::File(flow, after) => self.file(flow, after),
                Op::Turn(step, most, again) => {
                    // Most of the steps go to the next release.
                    let next = self.order.keys().next().map_or(self.now, |filed| filed.time());
                    self.now = if step % 2 == 0 { self.now.max(next) } else { self.now.after(step) };
                    let limit = self.releases.line(self.now);
                    for _ in 0..most {
                        let first = self.order.iter().next().filter(|(filed, _)| **filed < limit);
                        let first = first.map(|(_, flow)| *flow);
                        assert_eq!(self.releases.before(limit), first);
                        let Some(flow) = first else { break };
                        self.releases.take_first(flow);
                        self.file(flow, again);
                    }
                }
            }
            assert_eq!(self.releases.first(), self.order.keys().next().map(|filed| filed.time()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a map: the same flows at the same times in the same order, whatever is moved or called off.
        #[test]
        fn agrees_with_a_map(start in spans(), ops in prop::collection::vec(ops(), 1..300)) {
            let mut pair = Pair { releases: Releases::new(), order: BTreeMap::new(), now: Timestamp::from_nanos(start) };
            (0..60).for_each(|flow| pair.releases.add(flow));
            ops.into_iter().for_each(|op| pair.apply(op));
        }
    }

    /// Just before a boundary of all levels: what moves down from the highest comes to lie on the lowest, and is the
    /// next nevertheless.
    #[test]
    fn what_moves_down_several_levels_is_not_passed_over() {
        for boundary in [1u64 << 26, 1 << 33, 1 << 40, 1 << 47, 1 << 54, 1 << 61] {
            let mut pair = Pair { releases: Releases::new(), order: BTreeMap::new(), now: Timestamp::ZERO };
            (0..60).for_each(|flow| pair.releases.add(flow));
            // One at the boundary, filed from afar, one long after it, and one that leads the horizon close to it.
            for (flow, time) in [(1, boundary), (2, boundary + boundary / 2), (3, boundary - 100_000)] {
                pair.apply(Op::File(flow, Some(time)));
            }
            (0..3).for_each(|_| pair.apply(Op::Turn(0, 60, None)));
            assert!(pair.order.is_empty(), "{boundary:#x}");
        }
    }

    /// Ten thousand flows of all rates for a while: what is in a block's slot has moved down before the block begins.
    #[test]
    fn slots_are_emptied_in_time() {
        let flows = if cfg!(miri) { 50 } else { 10_000u32 };
        let mut pair =
            Pair { releases: Releases::new(), order: BTreeMap::new(), now: Timestamp::from_micros(1) };
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
}
