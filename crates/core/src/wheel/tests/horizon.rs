//! Where the horizon is after a turn, and when the gate opens next: what is set for the present does not go by way of
//! the slots, what is postponed stays where it is, and nobody is asked to look at a time that has gone by.

use super::{Driver, TICK};
use crate::wheel::record::Filed;
use crate::wheel::sizes::MOST_WITHOUT_LEVELS;
use crate::wheel::terms::{Key, Terms};
use crate::wheel::{Step, Wheel};

/// A timer that is set for the granule that time is in goes to the front at once: when the horizon is put at the
/// present, and when a turn has brought it there.
#[test]
fn what_is_due_within_the_present_granule_is_not_filed_in_a_slot() {
    for (small, now) in [(0, 0), (0, 5_000 * GRANULE), (4, 0), (4, 5_000 * GRANULE)] {
        let mut driver = Driver::new(now);
        driver.wheel = Wheel::new(TICK, small);
        (0..5).for_each(|timer| driver.set(timer, now + GRANULE - 1));
        driver.set(5, now + GRANULE);
        assert!(matches!(driver.wheel.pull(0), Step::Fired(_)));
        let is_in_front = |driver: &Driver, timer| driver.wheel.records[timer].place.is_at_front();
        assert!((0..5).all(|timer| is_in_front(&driver, timer)) && !is_in_front(&driver, 5));
        let later = now + 100 * GRANULE;
        assert_eq!(driver.turn(later).len(), 6);
    }
    let mut driver = Driver::new(0);
    driver.set(0, 200 * GRANULE);
    assert_eq!(driver.wheel.pull(100 * GRANULE), Step::Done);
    driver.set(1, 101 * GRANULE - 1);
    assert!(matches!(driver.wheel.pull(0), Step::Fired(1)));
    assert!(matches!(driver.wheel.records[1].place.filed(), Filed::Run { .. }));
}

/// A timer in the very next slot stays there when it is postponed.
#[test]
fn a_timer_of_the_next_slot_is_put_off_in_place() {
    let mut driver = Driver::new(0);
    driver.set(0, GRANULE);
    assert_eq!(driver.wheel.pull(0), Step::Done);
    let place = driver.wheel.records[0].place;
    let key = Key { due: 2 * GRANULE, sequence: driver.sequence.advance() };
    let terms = Terms { key, asked: key.due, deadline: key.due };
    assert!(driver.wheel.put_off(0, &terms));
    assert_eq!(driver.wheel.records[0].place, place);
}

/// Time has come to the very end of a block, and nobody has emptied the slot that begins there: the next look is then.
#[test]
fn a_slot_that_was_not_emptied_in_time_is_looked_at_when_it_begins() {
    let mut driver = Driver::new(0);
    (0..40).for_each(|timer| driver.set(timer, 3 * BLOCK + 5 * TICK));
    assert_eq!(driver.turn(3 * BLOCK - 10), []);
    assert_eq!((driver.wheel.gate(), driver.wheel.next_due()), (3 * BLOCK, 3 * BLOCK));
    assert_eq!(driver.turn(3 * BLOCK + 5 * TICK).len(), 40);
}

/// A slot of one chunk is emptied half a slot before it begins, one of three a quarter into it, and until then
/// nobody looks: also where many blocks of lower levels begin meanwhile.
#[test]
fn the_gate_opens_when_a_chunk_is_to_be_moved() {
    for (timers, parts) in [(1, 2), (39, 4)] {
        for slot in [BLOCK, BLOCK << 12] {
            let mut driver = Driver::new(0);
            (0..timers).for_each(|timer| driver.set(timer, 3 * slot + 5 * TICK));
            assert_eq!(driver.wheel.pull(0), Step::Done);
            assert_eq!(driver.wheel.gate(), 2 * slot, "the slot before begins");
            let first = 2 * slot + slot / parts;
            for now in [2 * slot - 10, 2 * slot + slot / 10, 2 * slot + slot / 5] {
                assert_eq!(driver.wheel.pull(now), Step::Done);
                assert!(!driver.wheel.tidy(now));
                assert_eq!(driver.wheel.gate(), first, "{timers} timers at {now}");
            }
            for part in 1..parts {
                let now = 2 * slot + slot / parts * part;
                assert_eq!((driver.wheel.gate(), driver.turn(now).len()), (now, 0), "{timers} timers");
            }
            assert_eq!(driver.wheel.next_due(), 3 * slot + 5 * TICK);
            assert_eq!(driver.turn(3 * slot + 5 * TICK).len(), timers as usize);
        }
    }
}

/// Blocks have gone by without a look when the inbox is full: the horizon comes up to the present, so that what is set
/// now is inserted near. Within a block it stays.
#[test]
fn the_horizon_catches_up_by_blocks() {
    for (now, horizon) in [(10 * BLOCK + 5 * GRANULE, 10 * 4_096 + 5), (100 * GRANULE, 1)] {
        let mut driver = Driver::new(0);
        (0..16).for_each(|timer| driver.set(timer, 1_000 * BLOCK));
        driver.now = now;
        driver.set(16, now + 10 * GRANULE);
        assert_eq!(driver.wheel.horizon, horizon);
        assert_eq!(driver.turn(now + 10 * GRANULE), [16]);
    }
}

/// The look for the earliest deadline, for who has asked for it before, goes through 128 slots of a level and says where
/// the next one begins: no deadline is before that.
#[test]
fn the_look_for_the_earliest_deadline_ends_after_so_many_slots() {
    for (now, first, width) in [(0, 10, GRANULE), (4_000, 4_010, GRANULE), (0, 3, BLOCK), (0, 4_000, BLOCK)] {
        let mut driver = Driver::new(now * GRANULE);
        for timer in 0..300u32 {
            driver.set(timer, (first + u64::from(timer)) * width + 7);
            driver.remove(timer);
            // Every 32 slots there is an earlier deadline, so that none of them is passed over.
            let due = (first + u64::from(timer)) * width + 7;
            let deadline = due + (u64::from(400 - timer / 32) << 32);
            let key = Key { due, sequence: driver.sequence.advance() };
            driver.wheel.insert(driver.now, timer, &Terms { key, asked: due, deadline }, ());
        }
        driver.set(300, (first + 1_000) * width);
        assert!(driver.remove(300), "the one whose deadline was the earliest");
        driver.wheel.earliest_deadline();
        assert_eq!(driver.wheel.pull(driver.now), Step::Done);
        assert!(!driver.wheel.tidy(driver.now));
        assert_eq!(driver.wheel.earliest_deadline(), (first + 128) * width);
    }
}

/// Whoever has asked once hears of the earliest deadline after each turn; not only after the next one.
#[test]
fn the_earliest_deadline_is_looked_for_after_each_turn() {
    let mut driver = Driver::new(0);
    (0..20).for_each(|timer| driver.set(timer, (7_000 + u64::from(timer)) * TICK));
    driver.wheel.earliest_deadline();
    for _ in 0..3 {
        driver.set(20, 5_000 * TICK);
        assert!(driver.remove(20));
        assert_eq!(driver.wheel.pull(0), Step::Done);
        assert!(!driver.wheel.tidy(0));
    }
    assert_eq!(driver.wheel.earliest_deadline(), 7_000 * TICK);
}

/// Of those that come later than what is near 128 are asked; the answer is then no later than any of the others.
#[test]
fn the_look_for_the_earliest_deadline_ends_after_so_many_that_come_later() {
    for many in [100, 400] {
        let mut driver = Driver::new(0);
        driver.wheel = Wheel::new(TICK, many as usize);
        for timer in 0..many {
            let due = (u64::from(timer * 37 % many) + 10) * TICK;
            let key = Key { due, sequence: driver.sequence.advance() };
            driver.wheel.records.push(crate::wheel::record::Record::new(1));
            driver.wheel.insert(0, timer, &Terms { key, asked: due, deadline: due + 9_000 * TICK }, ());
        }
        driver.wheel.earliest_deadline();
        // One stays in a slot; of one that has gone the deadline was the earliest.
        driver.set(many, 20_000 * TICK);
        driver.set(many + 1, TICK);
        assert!(driver.remove(many + 1) && driver.wheel.pull(0) == Step::Done);
        assert!(!driver.wheel.tidy(0) && !driver.wheel.is_small());
        let until = driver.wheel.later.until.due;
        assert!(driver.wheel.later.len() > many as usize / 2);
        assert_eq!(driver.wheel.earliest_deadline(), if many > 128 { until } else { 9_010 * TICK });
    }
}

/// As many timers as the front takes, each of which may wait until after most of the others are due: the answer is exact, so
/// that whoever sleeps is woken once for all of them.
#[test]
fn the_earliest_deadline_of_all_at_the_front_is_exact() {
    let mut driver = Driver::new(0);
    for timer in 0..MOST_WITHOUT_LEVELS as u32 {
        // In no order, and the earliest deadline is neither the first's nor the last's.
        let due = (u64::from(timer) * 389 % MOST_WITHOUT_LEVELS as u64 + 10) * TICK;
        driver.set(timer, due);
        driver.remove(timer);
        let slack = if due == 700 * TICK { 600 } else { 2_000 } * TICK;
        let key = Key { due, sequence: driver.sequence.advance() };
        driver.wheel.insert(driver.now, timer, &Terms { key, asked: due, deadline: due + slack }, ());
    }
    driver.set(MOST_WITHOUT_LEVELS as u32 - 1, 9 * TICK);
    driver.wheel.earliest_deadline();
    assert!(driver.remove(MOST_WITHOUT_LEVELS as u32 - 1), "the one whose deadline was the earliest");
    assert!(!driver.wheel.tidy(driver.now));
    assert_eq!(driver.wheel.earliest_deadline(), 1_300 * TICK);
}

/// Whoever asks for the first time for the earliest deadline, when the timer that had it is long gone, hears of those that
/// were set since and that no look has inserted.
#[test]
fn the_earliest_deadline_may_be_in_the_inbox() {
    let mut driver = Driver::new(0);
    for (timer, due) in [(0, 100), (1, 900_000)] {
        driver.set(timer, due * TICK);
    }
    assert_eq!(driver.wheel.pull(0), Step::Done);
    assert!(driver.remove(0));
    assert_eq!(driver.turn(100 * TICK), []);
    driver.set(2, 300 * TICK);
    assert!(matches!(driver.wheel.records[2].place.filed(), Filed::Inbox { .. }));
    assert_eq!(driver.wheel.earliest_deadline(), 300 * TICK);
}

/// The timer that is one too many for the front goes to a slot, and no other moves; once that slot is empty the front is
/// alone again. While few are left, what is set goes to the front, so that the slots become empty.
#[test]
fn the_wheel_ends_when_its_slots_are_empty() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 64);
    let due = |timer: u32| (100_000 + u64::from(timer)) * TICK;
    let at_front = |driver: &Driver, timer: u32| {
        let place = driver.wheel.records[timer].place;
        place.is_at_front() || place.at_later().is_some()
    };
    (0..66).for_each(|timer| driver.set(timer, due(timer)));
    assert_eq!(driver.turn(TICK), []);
    assert!((0..64).all(|timer| at_front(&driver, timer)) && !at_front(&driver, 64));
    for timer in 1..52 {
        assert!(driver.remove(timer));
    }
    driver.set(1, due(200));
    assert!(driver.wheel.len() == 16 && at_front(&driver, 1));
    driver.set(2, due(2));
    assert!(!at_front(&driver, 2), "more than a quarter");
    for timer in [2, 64] {
        assert!(driver.remove(timer));
    }
    assert!(driver.turn(2 * TICK).is_empty() && !driver.wheel.is_small(), "one is in a slot");
    assert_eq!(
        driver.turn(due(65)),
        [0].into_iter().chain(52..64).chain([65]).collect::<alloc::vec::Vec<_>>()
    );
    assert!(driver.wheel.is_small());
    assert_eq!(driver.turn(due(200)), [1]);
}

/// Timers that have been at the front since there were few, and those in slots, come out in one order; also where a
/// slot of many begins in the granule of one at the front.
#[test]
fn what_is_at_the_front_and_what_is_in_slots_come_out_in_one_order() {
    for many in [0, 80] {
        let mut driver = Driver::new(0);
        driver.wheel = Wheel::new(TICK, 8);
        let first = 10_000 * TICK;
        (0..8).for_each(|timer| driver.set(timer, first + u64::from(timer) * 10 * TICK + 1));
        (8..16).for_each(|timer| driver.set(timer, first + u64::from(15 - timer) * 10 * TICK + 5 * TICK));
        (16..16 + many).for_each(|timer| driver.set(timer, first + 30 * TICK));
        let mut expected: alloc::vec::Vec<u32> = alloc::vec::Vec::new();
        for at in 0..8 {
            expected.extend((16..16 + many).filter(|_| at == 3));
            expected.extend([at, 15 - at]);
        }
        assert_eq!(driver.turn(first + 100 * TICK), expected);
    }
}

/// At the front as in a slot a timer that is postponed stays where it is, and moves on when its old time comes.
#[test]
fn what_is_put_off_at_the_front_moves_when_its_old_time_comes() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(TICK, 8);
    for (timer, due) in [(0, 100), (1, 50), (2, 200)] {
        driver.set(timer, due * TICK);
    }
    let places: alloc::vec::Vec<_> = (0..3).map(|timer| driver.wheel.records[timer].place).collect();
    for (timer, due) in [(0, 300), (1, 250), (0, 400), (1, 300)] {
        driver.set(timer, due * TICK);
        assert_eq!(driver.wheel.records[timer].place, places[timer as usize]);
    }
    let when = (driver.wheel.gate(), driver.wheel.next_due(), driver.wheel.earliest_deadline());
    assert_eq!(when, (50 * TICK, 200 * TICK, 200 * TICK), "by the records, not by where they are filed");
    assert_eq!(driver.turn(199 * TICK), []);
    assert_eq!(driver.wheel.next_due(), 200 * TICK);
    driver.set(3, 300 * TICK);
    assert_eq!(driver.turn(300 * TICK), [2, 1, 3]);
    assert_eq!(driver.turn(400 * TICK), [0]);
}

/// A granule, in nanoseconds, of a tick of a microsecond; and a block of them.
const GRANULE: u64 = 512;
const BLOCK: u64 = GRANULE << 12;
