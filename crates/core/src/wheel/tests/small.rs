//! Few timers, of which most come later: where they are, the room for them, and how a wheel begins and ends beside
//! them.

use alloc::vec::Vec;

use super::{Driver, TICK};
use crate::wheel::Wheel;
use crate::wheel::later;
use crate::wheel::record::Filed;
use crate::wheel::sizes::MOST_SORTED;

/// As many timers as need no slots, in no order, each so many ticks after the one before it in time.
fn few(timers: u32, apart: u64) -> Driver {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, timers as usize);
    (0..timers).for_each(|timer| driver.set(timer, due(timer, timers, apart)));
    driver
}

fn due(timer: u32, timers: u32, apart: u64) -> u64 {
    (u64::from(timer * 37 % timers) + 1) * apart * TICK
}

fn in_order(timers: u32, but: &[u32]) -> Vec<u32> {
    let mut all: Vec<u32> = (0..timers).filter(|timer| !but.contains(timer)).collect();
    all.sort_by_key(|&timer| due(timer, timers, 1));
    all
}

/// One that comes later is postponed where it is, to any time after those that come next; to a time before these it is
/// not.
#[test]
fn one_that_comes_later_is_postponed_in_place() {
    let mut driver = few(64, 10);
    let place = |driver: &Driver, timer: u32| driver.wheel.records[timer].place;
    let later: Vec<u32> = (0..64).filter(|&timer| place(&driver, timer).at_later().is_some()).collect();
    assert!(later.len() > 30, "{later:?}");
    // Not the last one, whose place would be free for itself.
    let (timer, before) = (later[0], place(&driver, later[0]));
    for ticks in [2_000, 700, 3_000] {
        driver.set(timer, ticks * TICK);
        assert_eq!(place(&driver, timer), before);
    }
    driver.set(later[1], 1);
    assert!(place(&driver, later[1]).is_at_front());
    assert_eq!(driver.turn(1), [later[1]]);
    assert_eq!(driver.turn(2_999 * TICK), in_order(64, &[timer, later[1]]));
    assert_eq!(driver.turn(3_000 * TICK), [timer]);
}

/// Some that come in no order are no crowd. When as many as a quarter of those that come later have come before these,
/// the others of them come later, too.
#[test]
fn a_crowd_out_of_order_comes_later() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 500);
    let is_in_heap =
        |driver: &Driver, timer: u32| matches!(driver.wheel.records[timer].place.filed(), Filed::Heap { .. });
    driver.set(0, 1_000 * TICK);
    (1..200).for_each(|timer| driver.set(timer, u64::from(5 + timer) * TICK));
    let crowd = later::LEAST_CROWD as u32 + 1;
    assert!((1..=crowd).all(|timer| is_in_heap(&driver, timer)));
    assert!((crowd + 1..200).all(|timer| driver.wheel.records[timer].place.at_later().is_some()));
    assert!(driver.turn(u64::from(5 + crowd) * TICK).into_iter().eq(1..=crowd));
    let (until, later) = (driver.wheel.later.until.due, driver.wheel.later.len());
    assert!(until > u64::from(8 + crowd) * TICK && later > 100);
    let comes_next = |timer: &u32| {
        driver.set(*timer, until - 1 - u64::from(timer % 2));
        is_in_heap(&driver, *timer)
    };
    assert_eq!((200..400).take_while(comes_next).count(), later / 4 + 1 + later::LEAST_CROWD);
}

/// A few that were set in no order are in the heap, all but those that came after all in the queue. Once they are set in order,
/// they are in the queue again: when eight in a row have shown it, not before.
#[test]
fn a_streak_in_order_is_queued_although_most_are_not() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 500);
    let is_queued = |driver: &Driver, timer: u32| {
        matches!(driver.wheel.records[timer].place.filed(), Filed::Queue { .. })
    };
    for (timer, ticks) in [5, 3, 8, 2, 4].into_iter().enumerate() {
        driver.set(timer as u32, ticks * TICK);
    }
    assert_eq!([0, 1, 2, 3, 4].map(|timer| is_queued(&driver, timer)), [true, false, true, false, false]);
    // As many in the heap as in the queue, then more.
    assert!(driver.remove(3));
    driver.set(3, 9 * TICK);
    assert!(is_queued(&driver, 3), "no more are in the heap");
    (5..7).for_each(|timer| driver.set(timer, TICK));
    let after = |timer: u32| u64::from(100 + timer) * TICK;
    (7..15).for_each(|timer| driver.set(timer, after(timer)));
    assert!((7..14).all(|timer| !is_queued(&driver, timer)));
    assert!(is_queued(&driver, 14), "the eighth in order");
    driver.set(15, 50 * TICK);
    driver.set(16, after(16));
    assert!(![15, 16].iter().any(|&timer| is_queued(&driver, timer)), "a streak that ended");
}

/// The only timer is moved where it is, later or sooner, and the gate with it: nobody looks at its old time.
#[test]
fn the_only_timer_takes_the_gate_along() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 500);
    driver.set(0, 10 * TICK);
    let place = driver.wheel.records[0].place;
    for ticks in [30, 20, 40] {
        driver.set(0, ticks * TICK);
        let wheel = &driver.wheel;
        assert_eq!((wheel.gate(), wheel.earliest_deadline()), (ticks * TICK, ticks * TICK));
        assert_eq!(driver.wheel.records[0].place, place);
    }
    driver.set(1, 35 * TICK);
    driver.set(0, 50 * TICK);
    assert_eq!(driver.wheel.gate(), 35 * TICK, "there are two");
    assert_eq!(driver.turn(50 * TICK), [1, 0]);
}

/// In the heap one that has none below it is postponed with its entry; the first of several keeps the entry until that comes
/// out.
#[test]
fn one_without_others_below_it_is_postponed_with_its_entry() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 500);
    driver.set(0, 100 * TICK);
    for timer in [1, 2, 3] {
        driver.set(timer, u64::from(10 * timer) * TICK);
    }
    let entry = |driver: &Driver, timer: u32| {
        let at = driver.wheel.records[timer].place.at_heap().expect("it is in the heap");
        driver.wheel.front.heap.at(at).map(|entry| entry.due / TICK)
    };
    driver.set(2, 60 * TICK);
    driver.set(1, 50 * TICK);
    assert_eq!([1, 2, 3].map(|timer| entry(&driver, timer)), [10, 60, 30].map(Some));
    assert_eq!(driver.turn(49 * TICK), [3]);
    assert_eq!([1, 2].map(|timer| entry(&driver, timer)), [50, 60].map(Some));
    assert_eq!(driver.turn(100 * TICK), [1, 2, 0]);
}

/// The least of all is alone in the heap, and postponed beyond those that come later: of these one is the next.
#[test]
fn the_least_of_all_is_not_postponed_beyond_those_that_come_later() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 500);
    driver.set(0, 1_000 * TICK);
    (1..200).for_each(|timer| driver.set(timer, u64::from(5 + timer) * TICK));
    let first_later = later::LEAST_CROWD as u32 + 2;
    assert!((2..first_later).all(|timer| driver.remove(timer)));
    assert_eq!((driver.wheel.front.heap.len(), driver.wheel.later.len()), (1, 200 - first_later as usize));
    driver.set(1, 900 * TICK);
    let due = u64::from(5 + first_later) * TICK;
    assert_eq!(driver.wheel.next_due(), due);
    assert_eq!(driver.turn(due), [first_later]);
    assert!(driver.turn(900 * TICK).into_iter().eq((first_later + 1..200).chain([1])));
}

/// When a crowd sends what was near back to those that come later, there is room near for all of these.
#[test]
fn room_near_grows_with_those_that_come_later() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 500);
    driver.set(0, 100_000 * TICK);
    (1..24).for_each(|timer| driver.set(timer, u64::from(5 + timer) * TICK));
    assert_eq!(driver.turn(7 * TICK), [1, 2]);
    let (until, room) = (driver.wheel.later.until.due, driver.wheel.later.room());
    assert!(until > 9 * TICK && room < MOST_SORTED);
    let mut timers = 24..;
    for timer in timers.by_ref().take(room - driver.wheel.later.len()) {
        driver.set(timer, u64::from(1_000 - timer) * TICK);
    }
    assert_eq!((driver.wheel.later.len(), driver.wheel.later.room()), (room, room));
    for timer in timers.by_ref().take(room / 4 + 2) {
        driver.set(timer, until - 1 - u64::from(timer % 2));
    }
    assert_eq!(driver.wheel.later.len(), room);
    // One too many, which comes first of all and so goes to the heap.
    driver.set(timers.start, 7_500);
    assert!(driver.wheel.later.room() > room);
    assert!(driver.wheel.front.near.room() >= driver.wheel.later.room());
}

/// The first timer makes room for some that come later or next, so that a program of a few never allocates again; after
/// a peak the room is given back.
#[test]
fn the_first_timer_makes_room_and_a_peak_gives_it_back() {
    let mut driver = few(64, 10);
    let room = |driver: &Driver| (driver.wheel.later.room(), driver.wheel.front.near.room());
    assert!(room(&driver).0 >= 30 && room(&driver).1 >= room(&driver).0);
    driver.wheel.shrink();
    assert!(room(&driver).0 < 64, "{:?}", room(&driver));
    (0..64).for_each(|timer| assert!(driver.remove(timer)));
    driver.wheel.shrink();
    assert_eq!(driver.wheel.later.room(), 0);
    driver.set(0, TICK);
    assert!(room(&driver).0 >= 16 && room(&driver).1 >= 16);
    driver.wheel.reserve(500);
    assert!(room(&driver).0 >= 500 && room(&driver).1 >= MOST_SORTED);
}

/// A granule is as wide as the timers are apart when they are too many, but no less than a tick and no more than 32.
#[test]
fn a_granule_is_as_wide_as_timers_are_apart() {
    let least = Wheel::<()>::new(TICK, 0).shift;
    for (apart, wider) in [(0, 0), (1, 0), (3, 2), (6, 3), (12, 4), (25, 5), (100, 5), (100_000, 5)] {
        let mut driver = few(64, apart);
        assert!(driver.wheel.is_small() && driver.wheel.shift == least);
        driver.set(64, 7 * TICK);
        assert!(!driver.wheel.is_small());
        assert_eq!(driver.wheel.shift, least + wider, "{apart} ticks apart");
    }
}

/// The wheel ends when its slots are empty although others are at the front in all its parts, or come later.
#[test]
fn the_wheel_ends_beside_those_that_come_later() {
    let mut driver = few(64, 1_000);
    driver.set(64, 50 * TICK);
    assert!(!driver.wheel.is_small());
    assert_eq!(driver.turn(49 * TICK), []);
    assert!(!driver.wheel.is_small(), "one is in a slot, or waits for it");
    assert_eq!(driver.turn(50 * TICK), [64]);
    let filed = |is: fn(Filed) -> bool| (0..64).any(|timer| is(driver.wheel.records[timer].place.filed()));
    assert!(filed(|filed| matches!(filed, Filed::Later { .. })));
    assert!(filed(|filed| matches!(filed, Filed::Heap { .. })));
    assert!(filed(|filed| matches!(filed, Filed::Queue { .. })));
    assert!(driver.wheel.is_small());
    assert_eq!(driver.turn(64_000 * TICK), in_order(64, &[]));
}
