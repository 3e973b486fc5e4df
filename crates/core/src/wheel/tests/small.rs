//! Few timers, of which most come later: where they are, the room for them, and how a wheel begins and ends beside
//! them.

use alloc::vec::Vec;

use super::{Driver, TICK};
use crate::wheel::Wheel;
use crate::wheel::later;
use crate::wheel::record::Filed;

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

/// Two that come in no order are no crowd. When as many as a quarter of those that come later have come before these,
/// the others of them come later, too.
#[test]
fn a_crowd_out_of_order_comes_later() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 500);
    let is_in_heap =
        |driver: &Driver, timer: u32| matches!(driver.wheel.records[timer].place.filed(), Filed::Heap { .. });
    driver.set(0, 1_000 * TICK);
    (1..200).for_each(|timer| driver.set(timer, u64::from(5 + timer) * TICK));
    assert!([1, 2].into_iter().all(|timer| is_in_heap(&driver, timer)));
    assert!((3..200).all(|timer| driver.wheel.records[timer].place.at_later().is_some()));
    assert_eq!(driver.turn(7 * TICK), [1, 2]);
    let (until, later) = (driver.wheel.later.until.due, driver.wheel.later.len());
    assert!(until > 10 * TICK && later > 100);
    let comes_next = |timer: &u32| {
        driver.set(*timer, until - 1 - u64::from(timer % 2));
        is_in_heap(&driver, *timer)
    };
    assert_eq!((200..400).take_while(comes_next).count(), later / 4 + 2);
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
    assert!(until > 9 * TICK && room < later::MOST);
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
    assert!(room(&driver).0 >= 500 && room(&driver).1 >= later::MOST);
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
