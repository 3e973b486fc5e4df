use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::Random;
use crate::effort::operations;

/// The kernel's structure before the wheel: a list in the order of expiry, searched from one end to the
/// other.
#[derive(Default)]
struct Model {
    /// Tick, number, call, handle.
    list: Vec<(u64, u64, [usize; 2], Option<Handle>)>,
    ticks: u64,
    number: u64,
}

impl Model {
    fn set(&mut self, call: [usize; 2], ticks: u64, handle: Option<Handle>) {
        self.list.push((self.ticks.saturating_add(ticks.max(1)), self.number, call, handle));
        self.number += 1;
        self.list.sort_by_key(|&(due, number, ..)| (due, number));
    }

    fn untimeout(&mut self, call: [usize; 2]) -> Option<[usize; 2]> {
        let same = self.list.iter().enumerate().filter(|(_, entry)| entry.2 == call && entry.3.is_none());
        let newest = same.max_by_key(|(_, entry)| entry.1)?.0;
        Some(self.list.remove(newest).2)
    }

    fn unset(&mut self, handle: Handle) -> Option<[usize; 2]> {
        let at = self.list.iter().position(|entry| entry.3 == Some(handle))?;
        Some(self.list.remove(at).2)
    }

    fn is_due(&self) -> bool {
        self.list.first().is_some_and(|first| first.0 <= self.ticks)
    }

    fn due(&mut self) -> Option<[usize; 2]> {
        self.is_due().then(|| self.list.remove(0).2)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Timeout(usize, u64),
    Untimeout(usize),
    Set(usize, u64),
    /// The handle that was returned N sets ago, dead or alive.
    Unset(usize),
    Invented(u64),
    Tick,
    /// N calls of softclock.
    Soft(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let ticks = || prop_oneof![4 => 0u64..6, 2 => 0u64..5_000, 1 => 0u64..1 << 40, 1 => Just(u64::MAX)];
    let op = prop_oneof![
        3 => (0usize..40, ticks()).prop_map(|(call, ticks)| Op::Timeout(call, ticks)),
        2 => (0usize..40).prop_map(Op::Untimeout),
        3 => (0usize..40, ticks()).prop_map(|(call, ticks)| Op::Set(call, ticks)),
        2 => (0usize..60).prop_map(Op::Unset),
        1 => any::<u64>().prop_map(Op::Invented),
        4 => Just(Op::Tick),
        3 => (0usize..8).prop_map(Op::Soft),
    ];
    prop::collection::vec(op, 1..operations(200) as usize)
}

/// Few functions, few arguments, so that the same pair comes often.
fn call(number: usize) -> [usize; 2] {
    [number % 5 * 16, number / 5 * 64]
}

fn agree(ops: &[Op]) -> Result<(), TestCaseError> {
    let (mut callouts, mut model) = (Callouts::new(1), Model::default());
    let mut handles: Vec<Handle> = Vec::new();
    for op in ops {
        match *op {
            Op::Timeout(number, ticks) => {
                callouts.timeout(call(number), ticks);
                model.set(call(number), ticks, None);
            }
            Op::Untimeout(number) => {
                prop_assert_eq!(callouts.untimeout(&call(number)), model.untimeout(call(number)));
            }
            Op::Set(number, ticks) => {
                let handle = callouts.setcallout(call(number), ticks);
                prop_assert!(!handles.contains(&handle), "a handle came twice");
                handles.push(handle);
                model.set(call(number), ticks, Some(handle));
            }
            Op::Unset(ago) => {
                if let Some(&handle) = handles.len().checked_sub(ago + 1).and_then(|at| handles.get(at)) {
                    prop_assert_eq!(callouts.unsetcallout(handle), model.unset(handle));
                }
            }
            Op::Invented(bits) => prop_assert_eq!(callouts.unsetcallout(Handle(bits)), None),
            Op::Tick => {
                model.ticks += 1;
                let lagged = callouts.lag() > 0 && callouts.softticks + 1 != model.ticks;
                prop_assert_eq!(callouts.tick(), lagged || model.is_due());
            }
            Op::Soft(times) => {
                for _ in 0..times {
                    prop_assert_eq!(callouts.softclock(), model.due());
                }
            }
        }
        prop_assert_eq!(callouts.len(), model.list.len());
        let hashed = model.list.iter().filter(|entry| entry.3.is_none()).count();
        prop_assert_eq!(callouts.hashed(), hashed);
        prop_assert_eq!(callouts.hash.lengths(&callouts.slots).iter().sum::<usize>(), hashed);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    //= CV-016, CV-019, CV-020 (BSD timers, "New timer implementation")
    #[test]
    fn they_do_what_the_sorted_list_did(ops in ops()) {
        agree(&ops)?;
    }
}

//= CV-016 (BSD timers, "New timer implementation")
#[test]
fn of_duplicates_one_is_cancelled_and_the_others_are_called() {
    let mut callouts = Callouts::new(1);
    (1..=3).for_each(|ticks| callouts.timeout([8, 16], ticks));
    assert_eq!(callouts.untimeout(&[8, 16]), Some([8, 16]));
    let mut called = 0;
    for _ in 0..3 {
        callouts.hardclock(|_, _| called += 1);
    }
    assert_eq!((called, callouts.len(), callouts.hashed()), (2, 0, 0));
}

//= CV-017 (BSD timers, "New timer implementation")
#[test]
fn a_miss_looks_at_no_more_callouts_than_a_hit() {
    const SET: usize = operations(4_096) as usize;
    let mut callouts = Callouts::new(1);
    (0..SET).for_each(|i| callouts.timeout([0x4000, 0x7f00_0000 + i * 64], 1 << 40));
    let (mut hits, mut misses) = (0, 0);
    for i in 0..SET {
        let mut find = |call: [usize; 2]| {
            let before = callouts.stats().passed;
            let found = callouts.untimeout(&call).is_some();
            let looked_at = callouts.stats().passed - before + u64::from(found);
            if found {
                callouts.timeout(call, 1 << 40);
            }
            (found, looked_at)
        };
        let (found, cost) = find([0x4000, 0x7f00_0000 + i * 64]);
        assert!(found);
        hits += cost;
        let (found, cost) = find([0x4000, 0x1000_0000 + i * 64]);
        assert!(!found);
        misses += cost;
    }
    // A hit compares at least one callout; a miss searches a chain, which has one callout on average.
    assert!(misses <= hits, "{misses} callouts compared for misses, {hits} for hits");
    let longest = callouts.hash.lengths(&callouts.slots).into_iter().max();
    assert!(longest < Some(8), "a chain of {longest:?}");
}

//= CV-019 (BSD timers, "New timer implementation")
#[test]
fn only_what_has_no_handle_is_in_the_hash_and_expiry_takes_it_out() {
    let mut callouts = Callouts::new(1);
    let many = operations(1_000) as usize;
    for i in 0..many {
        callouts.setcallout([1, i], 5);
    }
    assert_eq!((callouts.hashed(), callouts.len()), (0, many));
    assert_eq!(callouts.hash.lengths(&callouts.slots).len(), 16, "the table did not grow for them");
    for i in 0..many {
        callouts.timeout([1, i], 5);
    }
    assert_eq!(callouts.hashed(), many);
    (0..5).for_each(|_| {
        callouts.tick();
    });
    while callouts.softclock().is_some() {}
    assert_eq!((callouts.hashed(), callouts.len()), (0, 0));
}

//= CV-009 (BSD timers, "New timer implementation")
#[test]
fn softclock_is_not_wanted_for_empty_slots_also_when_they_held_what_was_cancelled() {
    let mut callouts = Callouts::new(1);
    for i in 0..200 {
        callouts.timeout([1, i], 100 + i as u64);
        callouts.timeout([2, i], 100 + i as u64);
    }
    (0..200).for_each(|i| assert!(callouts.untimeout(&[1, i]).is_some()));
    (0..100).for_each(|i| assert!(callouts.untimeout(&[2, i * 2]).is_some()));
    let mut wanted = 0;
    for _ in 0..500 {
        if callouts.tick() {
            wanted += 1;
            assert!(callouts.softclock().is_some(), "softclock for an empty slot");
            assert_eq!(callouts.softclock(), None);
        }
    }
    assert_eq!((wanted, callouts.lag(), callouts.stats().raised), (100, 0, 100));
}

//= CV-010 (BSD timers, figure 4)
#[test]
fn hardclock_calls_at_once_unless_something_is_held() {
    let mut callouts = Callouts::new(1);
    let mut called = Vec::new();
    callouts.timeout([1, 0], 1);
    callouts.timeout([2, 0], 2);
    assert!(!callouts.hardclock(|_, call| called.push(call)));
    assert_eq!(called, [[1, 0]]);

    callouts.hold();
    assert!(callouts.hardclock(|_, call| called.push(call)), "it is wanted, and not run");
    assert_eq!((called.len(), callouts.lag()), (1, 1));
    assert!(callouts.release());
    callouts.run(|_, call| called.push(call));
    assert_eq!((called.as_slice(), callouts.lag()), ([[1, 0], [2, 0]].as_slice(), 0));
    assert_eq!((callouts.stats().raised, callouts.stats().inline), (2, 1));
}

//= CV-010, CV-014, CV-015 (BSD timers, figures 4 and 5)
#[test]
fn a_call_that_takes_ticks_makes_later_ones_late_in_order() {
    let mut callouts = Callouts::new(1);
    (1..=6).for_each(|i| callouts.timeout([i, 0], i as u64));
    let mut called = Vec::new();
    callouts.hardclock(|callouts, call| {
        called.push((call[0], callouts.lag()));
        if call[0] == 1 {
            // Three ticks pass meanwhile: nothing runs inside, and callouts set now come later.
            (0..3).for_each(|_| assert!(callouts.hardclock(|_, _| panic!("softclock in softclock"))));
            callouts.timeout([9, 0], 0);
            assert_eq!(callouts.untimeout(&[3, 0]), Some([3, 0]));
        }
    });
    assert_eq!(called, [(1, 0), (2, 2), (4, 0)]);
    assert_eq!(callouts.stats().most_lag, 3);
    callouts.hardclock(|_, call| called.push((call[0], 0)));
    assert_eq!(called[3..], [(5, 0), (9, 0)]);
}

//= CV-012 (BSD timers, figure 5)
/// A slot is a tick wide: callouts of later ticks are not visited.
#[test]
fn a_tick_with_a_few_callouts_needs_no_step_between_them() {
    let mut callouts = Callouts::new(1);
    let ticks = operations(100);
    (0..10 * ticks).for_each(|i| callouts.timeout([i as usize, 0], 1 + i / 10));
    let mut called = 0;
    for tick in 1..=ticks {
        callouts.hardclock(|_, _| called += 1);
        assert_eq!((called, callouts.stats().moves), (10 * tick, 0));
    }
}

//= CV-021, CV-022 (BSD timers, "New timer implementation")
#[test]
fn stale_foreign_and_invented_handles_cancel_nothing() {
    let mut random = Random::stream(7, 0);
    let (mut mine, mut other) = (Callouts::new(1), Callouts::new(2));
    let mut stale = Vec::new();
    for i in 0..operations(20_000) as usize {
        let live = mine.setcallout([1, i], 10);
        let foreign = other.setcallout([2, i], 1 << 40);
        stale.iter().rev().take(3).for_each(|&stale| assert_eq!(mine.unsetcallout(stale), None));
        assert_eq!(mine.unsetcallout(foreign), None);
        assert_eq!(mine.unsetcallout(Handle(random.next_u64())), None);
        assert_eq!(mine.unsetcallout(Handle(i as u64)), None);
        assert_eq!(mine.unsetcallout(Handle(1 << 32 | i as u64)), None);
        assert_eq!(mine.len(), 1);
        assert_eq!(mine.unsetcallout(live), Some([1, i]));
        stale.push(live);
    }
}

//= CV-012 (BSD timers, figure 5)
/// After a few steps others may enter, and softclock goes on where it was.
#[test]
fn between_two_steps_of_softclock_others_set_and_cancel() {
    const CALLOUTS: usize = operations(4_000) as usize;
    let mut callouts = Callouts::new(1);
    // From the last to the first, over more ticks than the finest level of the wheel has slots.
    for number in (0..CALLOUTS).rev() {
        callouts.timeout(call(number), 1 + 5 * number as u64);
    }
    // Meanwhile something is held.
    (0..5 * CALLOUTS).for_each(|_| {
        callouts.tick();
    });
    let (mut called, mut more, mut between) = (Vec::new(), 0, 0);
    loop {
        match callouts.step() {
            Step::Fired(due) => called.push(due),
            Step::MoreWork => more += 1,
            Step::Done => break,
        }
        // Others come: one sets and cancels its own, another cancels what is due at the very end.
        let handle = callouts.setcallout(call(CALLOUTS), 3);
        assert_eq!(callouts.unsetcallout(handle), Some(call(CALLOUTS)));
        if callouts.untimeout(&call(CALLOUTS - 1)).is_some() {
            between += 1;
        }
    }
    // Under Miri they are too few for a wheel.
    assert!((more > 0 || cfg!(miri)) && between == 1, "{more} {between}");
    assert_eq!(called, (0..CALLOUTS - 1).map(call).collect::<Vec<_>>());
    assert_eq!((callouts.lag(), callouts.len(), callouts.step()), (0, 0, Step::Done));
}
