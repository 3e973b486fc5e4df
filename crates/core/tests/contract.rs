//! Invariants 1–7 as properties: random schedules, cancels, re-arms, slack, jumps, handlers that
//! schedule, cancel and panic, and slots near the end of their generations, all against the model.

mod model;
#[path = "model/spans.rs"]
mod spans;

use core::time::Duration;
use std::collections::BTreeSet;

use model::ModelSlack;
use model::lockstep::{Handler, Op, Pair};
use proptest::prelude::*;
use softtimers_core::{Config, KeyedTimers, Slack, SoftTimers, Timestamp, TriggerState};

fn delays() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1u64..50, 0u64..5_000, 0u64..2_000_000, Just(u64::MAX - 7)]
}

fn slacks() -> impl Strategy<Value = ModelSlack> {
    prop_oneof![
        Just(ModelSlack::Exact),
        (0u64..5_000).prop_map(ModelSlack::Within),
        (0u64..50).prop_flat_map(|bits| 0..2u64 << bits).prop_map(ModelSlack::Within),
        (0u64..20_000).prop_map(ModelSlack::Rounded),
        Just(ModelSlack::Default),
        Just(ModelSlack::Deferrable),
    ]
}

fn handlers() -> impl Strategy<Value = Handler> {
    prop_oneof![
        3 => Just(Handler::Nothing),
        2 => Just(Handler::ScheduleNow),
        3 => (delays(), slacks()).prop_map(|(delay, slack)| Handler::ScheduleAgain { delay, slack }),
        2 => any::<usize>().prop_map(Handler::CancelOther),
        2 => (any::<usize>(), delays(), slacks())
            .prop_map(|(pick, delay, slack)| Handler::RearmOther { pick, delay, slack }),
        1 => Just(Handler::Panic),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => prop_oneof![0u64..3, 0u64..3_000, 0u64..5_000_000, Just(1_000_000_000)].prop_map(Op::Advance),
        6 => (delays(), slacks()).prop_map(|(delay, slack)| Op::Schedule { delay, slack }),
        2 => (-10_000i64..10_000, slacks()).prop_map(|(offset, slack)| Op::ScheduleAt { offset, slack }),
        2 => any::<usize>().prop_map(Op::Cancel),
        3 => (any::<usize>(), delays(), slacks()).prop_map(|(pick, delay, slack)| Op::Rearm { pick, delay, slack }),
        1 => (any::<usize>(), -10_000i64..10_000, slacks())
            .prop_map(|(pick, offset, slack)| Op::RearmAt { pick, offset, slack }),
        4 => (prop_oneof![Just(usize::MAX), 0usize..4], prop::collection::vec(handlers(), 0..6), any::<bool>())
            .prop_map(|(take, handlers, stepwise)| Op::Turn { take, handlers, stepwise }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 2_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Never early, in order, FIFO among equal ones, exactly once, turns that end, handles that never
    /// alias, panics that lose nothing, and `poll_at` as exact as it says, after every operation.
    #[test]
    fn every_invariant_holds_against_the_model(
        tick in prop_oneof![Just(1u64), Just(1_000), 1u64..5_000],
        clock_step in prop_oneof![Just(0u64), Just(1_000)],
        first_generation in prop_oneof![Just(1u32), u32::MAX - 3..=u32::MAX],
        few in prop_oneof![Just(64usize), 0usize..12],
        unasked in prop_oneof![Just(0usize), 0usize..80],
        program in prop::collection::vec(ops(), 1..80),
    ) {
        Pair::new(tick, clock_step, first_generation, few).asking_after(unasked).run(&program);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 1_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The same where time ends: programs that begin at its last nanosecond, or up to 13 days before it, so that most due
    /// times and deadlines are at its end, or would be beyond.
    #[test]
    fn every_invariant_holds_at_the_end_of_time(
        tick in prop_oneof![Just(1u64), Just(1_000), 1u64..5_000],
        clock_step in prop_oneof![Just(0u64), Just(1_000)],
        few in prop_oneof![Just(64usize), 0usize..12],
        left in prop_oneof![Just(0u64), 0u64..20, 0u64..20_000, 0u64..20_000_000, 0u64..1 << 50],
        program in prop::collection::vec(ops(), 1..80),
    ) {
        Pair::new(tick, clock_step, 1, few).beginning_at(u64::MAX - left).run(&program);
    }
}

/// Returns the number of operations of a long test: as many as the environment says, or `default`.
fn operations(default: u64) -> u64 {
    let default = if cfg!(miri) { 1_500 } else { default };
    let asked = std::env::var("SOFTTIMERS_OPERATIONS").ok();
    asked.map_or(default, |count| count.parse().expect("a number of operations"))
}

/// Handles and keys over spans from 50 ticks to 2⁴⁰, with jumps, cancels, re-arms, slack, growth and shrinking,
/// and records near the end of their generations. `SOFTTIMERS_OPERATIONS` says how many (`cargo xtask full`:
/// 10⁸), `SOFTTIMERS_SEED` with which seed to begin: a failure names its own.
#[test]
fn many_timers_agree_with_a_map_over_every_span() {
    let operations = operations(300_000);
    const SPANS: [u64; 7] = [50, 1_000, 5_000, 500_000, 20_000_000, 3_000_000_000, 1 << 40];
    let round = if cfg!(miri) { 200 } else { 20_000 };
    let first = std::env::var("SOFTTIMERS_SEED").ok().map_or(0, |seed| seed.parse().expect("a seed"));
    for seed in first..first + operations.div_ceil(round) {
        let _named = NamedIfFailing(seed);
        let most = [100, 3_000, 30_000][seed as usize % 3];
        let first_generation = if seed % 4 == 0 { u32::MAX - 3 } else { 1 };
        spans::Spans::new(&[], seed, first_generation).run(round, most, SPANS[seed as usize % SPANS.len()]);
        tell((seed - first + 1) * round, operations);
    }
}

/// Names the seed of a program that fails.
struct NamedIfFailing(u64);

impl Drop for NamedIfFailing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed: {}", self.0);
        }
    }
}

/// Tells how far a long test is, ten times a hundred million, and what it has done in the end: `cargo xtask full
/// models` reads it.
fn tell(done: u64, of: u64) {
    if done >= of || done % 10_000_000 == 0 {
        println!("operations: {done}");
    }
}

/// Many timers in one record (`cargo xtask full`: 10⁷), and a handle of each: none ever reaches the next.
#[test]
fn a_stale_handle_never_reaches_the_next_timer() {
    let mut timers = SoftTimers::new(Config::default());
    let (now, delay) = (Timestamp::from_micros(5), Duration::from_micros(9));
    let mut stale = timers.schedule(now, delay, Slack::EXACT, 0);
    timers.cancel(stale);
    let operations = operations(1_000_000).min(10_000_000);
    for event in 1..operations as u32 {
        let id = timers.schedule(now, delay, Slack::EXACT, event);
        assert_eq!((timers.cancel(stale), timers.is_pending(id)), (None, true));
        assert_eq!(timers.cancel(id), Some(event));
        stale = id;
    }
    tell(operations, operations);
}

/// When handlers take longer than a tick, what falls due meanwhile is late by that much, and in order.
#[test]
fn work_beyond_a_tick_makes_later_timers_late_in_order() {
    for few in [0, 64] {
        let mut timers = SoftTimers::new(Config::default().few(few));
        let at = Timestamp::from_micros;
        for event in 0..100u64 {
            timers.schedule_at(at(0), at(10 + event), Slack::EXACT, event);
        }
        let (mut now, mut expected) = (at(10), 0);
        while !timers.is_empty() {
            let turn = timers.trigger(TriggerState::HandlerExit, now);
            let began = now;
            while let Some(fired) = timers.next(&turn) {
                assert_eq!((fired.event, fired.due), (expected, at(10 + expected)));
                assert_eq!(fired.lateness, began.saturating_duration_since(fired.due));
                expected += 1;
                now += Duration::from_micros(3);
            }
        }
        assert_eq!(expected, 100);
        assert!(timers.lateness().max() > Some(20_000), "three times too slow, and not late");
    }
}

/// Two blocks of the wheel's lowest level later the same slot is filled again, while what lay in it before is still
/// being handed out: neither loses what is cancelled in the other. The slot is the last of its block (2,097 µs of a
/// granule of 512 ns), for only then is so much reached.
#[test]
fn a_slot_that_is_handed_out_is_not_the_one_that_is_filled_again() {
    let timers_of_each = if cfg!(miri) { 150 } else { 1_000 };
    let at = Timestamp::from_micros;
    let mut timers = SoftTimers::new(Config::default().few(0));
    let set = |timers: &mut SoftTimers<u32>, now, due, from: u32| -> Vec<_> {
        (from..from + timers_of_each)
            .map(|event| timers.schedule_at(at(now), at(due), Slack::EXACT, event))
            .collect()
    };
    let before = set(&mut timers, 0, 2_097, 0);
    let turn = timers.trigger(TriggerState::Idle, at(2_097));
    let mut came = vec![timers.next(&turn).expect("they are due").event];
    let after = set(&mut timers, 2_097, 6_291, timers_of_each);
    // Whole chunks of both, in turns: those of the later ones are the first and the last of their slot.
    let (each, mut gone) = (timers_of_each as usize, BTreeSet::new());
    for at in 0..40 {
        for (ids, at) in [(&after, at), (&before, each / 2 + at), (&after, each - 1 - at)] {
            gone.extend(timers.cancel(ids[at]));
        }
    }
    assert_eq!(gone.len(), 120);
    came.extend(std::iter::from_fn(|| timers.next(&turn)).map(|fired| fired.event));
    let turn = timers.trigger(TriggerState::Idle, at(6_291));
    came.extend(std::iter::from_fn(|| timers.next(&turn)).map(|fired| fired.event));
    let left: Vec<u32> = (0..2 * timers_of_each).filter(|event| !gone.contains(event)).collect();
    assert_eq!(came, left);
    assert!(timers.is_empty());
}

/// A key tells when it is due, whether anything is pending at all, and a turn what time it is of.
#[test]
fn a_key_says_when_it_is_due_and_a_turn_when_it_was() {
    let at = Timestamp::from_micros;
    let mut timers = KeyedTimers::new(Duration::from_micros(1));
    assert_eq!((timers.due(0), timers.next_due(), timers.cancel(3)), (None, None, false));
    timers.set(at(10), 3, at(50));
    timers.set(at(10), 1, at(5)); // overdue: from now on
    assert_eq!([0, 1, 2, 3, 4].map(|key| timers.due(key)), [None, Some(at(10)), None, Some(at(50)), None]);
    assert_eq!((timers.len(), timers.is_empty(), timers.next_due()), (2, false, Some(at(10))));
    let turn = timers.turn(at(9));
    assert_eq!(turn.now(), at(10), "time does not go back");
    assert_eq!(timers.next(&turn), Some((1, at(10))));
    assert_eq!((timers.next(&turn), timers.due(1), timers.due(3)), (None, None, Some(at(50))));
    timers.set(at(20), 3, at(70)); // put off
    assert_eq!(
        (timers.due(3), timers.cancel(3), timers.cancel(3), timers.due(3)),
        (Some(at(70)), true, false, None)
    );
    assert!(timers.is_empty() && timers.next_due().is_none());
    timers.shrink_to_fit(); // of all that there was
    assert_eq!((timers.due(3), timers.cancel(3)), (None, false));
}

/// A few that are set beside the slots of many, and of which the next are cancelled, come in order: those that wait for later are not
/// passed over by what came in no order.
#[test]
fn a_few_beside_slots_come_in_order_when_the_next_are_cancelled() {
    let at = Timestamp::from_micros;
    let mut timers = KeyedTimers::new(Duration::from_micros(1));
    (0..1_025).for_each(|key| timers.set(at(0), key, at(5_000 - u64::from(key))));
    (0..1_025).for_each(|key| assert!(timers.cancel(key)));
    for due in [1_000, 900, 950, 800, 700, 850] {
        timers.set(at(0), due, at(due.into()));
    }
    assert!(timers.cancel(700) && timers.cancel(800));
    timers.set(at(0), 600, at(600));
    let turn = timers.turn(at(2_000));
    let came: Vec<u32> = std::iter::from_fn(|| timers.next(&turn)).map(|(key, _)| key).collect();
    assert_eq!(came, [600, 850, 900, 950, 1_000]);
}

/// A turn that also has to bring nearer what is due later does all of that, and leaves nothing to be looked for at once.
#[test]
fn a_turn_of_keys_ends_with_nothing_left_to_do() {
    let (at, keys) = (Timestamp::from_micros, if cfg!(miri) { 200 } else { 5_000 });
    let mut timers = KeyedTimers::new(Duration::from_micros(1));
    (0..keys).for_each(|key| timers.set(at(0), key, at(100 + u64::from(key) * 12_000 / u64::from(keys))));
    let mut came = 0;
    for now in (0..=12_100).step_by(97).map(at) {
        let turn = timers.turn(now);
        came += std::iter::from_fn(|| timers.next(&turn)).count();
        assert!(timers.next_due().is_none_or(|due| due > now), "something is left at {now:?}");
    }
    let turn = timers.turn(at(12_200));
    assert_eq!(came + std::iter::from_fn(|| timers.next(&turn)).count(), keys as usize);
}

/// Timers of one slot that were set in no order come in order, and so do the few that are left then.
#[test]
fn a_few_are_served_after_a_slot_that_was_in_no_order() {
    let at = Timestamp::from_nanos;
    let mut timers = KeyedTimers::new(Duration::from_nanos(1));
    (0..100).for_each(|key| timers.set(at(0), key, at(if key < 70 { 128_100 } else { 128_050 })));
    timers.set(at(0), 100, at(300_000));
    let turn = timers.turn(at(200_000));
    let came = std::iter::from_fn(|| timers.next(&turn)).map(|(key, _)| key);
    assert!(came.eq((70..100).chain(0..70)));
    timers.set(at(200_000), 7, at(250_000));
    let turn = timers.turn(at(300_000));
    let came = std::iter::from_fn(|| timers.next(&turn));
    assert!(came.eq([(7, at(250_000)), (100, at(300_000))]));
}

#[test]
#[should_panic(expected = "key 268435455 is not below 268435455")]
fn a_key_beyond_the_records_is_refused_before_memory_is_taken() {
    KeyedTimers::new(Duration::from_micros(1)).set(Timestamp::ZERO, (1 << 28) - 1, Timestamp::ZERO);
}

/// A handler that always schedules for "now" cannot keep a turn going.
#[test]
fn a_turn_ends_although_its_handlers_schedule_at_now() {
    let mut timers = SoftTimers::new(Config::default());
    let now = Timestamp::from_micros(10);
    for event in 0..5u32 {
        timers.schedule(now, Duration::ZERO, Slack::EXACT, event);
    }
    for turn_number in 0..100u32 {
        let turn = timers.trigger(TriggerState::HandlerExit, now);
        let mut handed_out = Vec::new();
        while let Some(fired) = timers.next(&turn) {
            timers.schedule(now, Duration::ZERO, Slack::EXACT, fired.event);
            handed_out.push(fired.event);
        }
        assert_eq!(handed_out, [0, 1, 2, 3, 4], "turn {turn_number}");
    }
}

/// "Maximum frequency" (soft timers §5.1): an event that re-arms itself with T = 0 runs at every
/// trigger state exactly once, whether or not the clock has moved in between.
#[test]
fn an_event_with_t_zero_fires_once_per_turn() {
    let mut timers = SoftTimers::new(Config::default());
    let mut now = Timestamp::from_nanos(123);
    timers.schedule(now, Duration::ZERO, Slack::EXACT, ());
    for step in [0u64, 1, 0, 999, 3, 1_000_000, 0].repeat(50) {
        now += Duration::from_nanos(step);
        let turn = timers.trigger(TriggerState::SyscallExit, now);
        assert!(timers.next(&turn).is_some());
        timers.schedule(now, Duration::ZERO, Slack::EXACT, ());
        assert!(timers.next(&turn).is_none());
    }
    let stats = timers.stats();
    assert_eq!(stats.fired.total(), stats.triggers.total());
    assert_eq!(stats.fired[TriggerState::SyscallExit], 350);
}

/// Time that runs backwards is taken as standing still: nothing comes early by the latest time seen.
#[test]
fn a_clock_that_goes_back_makes_nothing_early() {
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Timestamp::from_micros(100), Duration::from_micros(10), Slack::EXACT, 'a');
    let turn = timers.trigger(TriggerState::Idle, Timestamp::from_micros(50));
    assert_eq!(timers.next(&turn), None);
    timers.schedule(Timestamp::from_micros(50), Duration::from_micros(10), Slack::EXACT, 'b');
    let turn = timers.trigger(TriggerState::Idle, Timestamp::from_micros(105));
    assert_eq!(timers.next(&turn).map(|fired| fired.event), Some('b'));
    assert_eq!(timers.next(&turn), None);
}

/// The interval statistics do not change what fires.
#[test]
fn interval_statistics_are_kept_only_when_asked_for() {
    for keep in [false, true] {
        let mut timers = SoftTimers::new(Config::default().intervals(keep));
        timers.schedule(Timestamp::ZERO, Duration::from_micros(5), Slack::EXACT, ());
        let mut fired = 0;
        for micros in [2, 4, 7, 9] {
            let turn = timers.trigger(TriggerState::Readiness, Timestamp::from_micros(micros));
            while timers.next(&turn).is_some() {
                fired += 1;
            }
        }
        assert_eq!(fired, 1);
        let count = timers.intervals().map(|intervals| intervals.ended_by(TriggerState::Readiness).count());
        assert_eq!(count, keep.then_some(3));
    }
}

/// Few events in order of their deadlines' slots, gathered from slots whose bounds are stale: `poll_at` is exact again.
#[test]
fn poll_at_is_exact_again_when_few_are_left() {
    let us = Timestamp::from_micros;
    let mut timers = SoftTimers::new(Config::default());
    let set = |timers: &mut SoftTimers<u32>, now: u64, delay: u64, slack| {
        timers.schedule(us(now), Duration::from_micros(delay), slack, 0)
    };
    // 64 that no hardware has to look for fill the run.
    let fill: Vec<_> = (0..64).map(|_| set(&mut timers, 0, 900, Slack::DEFERRABLE)).collect();
    let earlier = [100, 50].map(|slack| set(&mut timers, 0, 500, Slack::micros(slack)));
    set(&mut timers, 0, 500, Slack::micros(1_000));
    for now in [10, 20, 30] {
        set(&mut timers, now - 10, 10, Slack::DEFERRABLE);
        let turn = timers.trigger(TriggerState::Backup, us(now));
        assert!(timers.next(&turn).is_some() && timers.next(&turn).is_none());
        let cancelled = if now == 10 { &earlier[..] } else { &fill };
        for &id in cancelled {
            timers.cancel(id);
        }
    }
    assert_eq!((timers.len(), timers.poll_at()), (1, Some(us(1_500))));
}
