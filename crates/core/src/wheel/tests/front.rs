//! How a slot that has come due is handed out: from where it lies, in order, and what cannot be is put in order first.

use alloc::vec::Vec;

use super::Driver;
use crate::wheel::record::{Filed, Record};
use crate::wheel::sizes::CHUNK_ROOM;
use crate::wheel::{Step, Wheel};

/// Sets timers of one slot, a chunk for each of `times`: its timers are due that long after the slot's begin.
fn slot_of(times: &[u64]) -> Driver {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(1, 0);
    let timers = times.iter().flat_map(|&time| [time; CHUNK_ROOM]);
    (0..).zip(timers).for_each(|(timer, time)| driver.set(timer, SLOT + time));
    assert_eq!(driver.wheel.pull(0), Step::Done, "what is in the inbox is filed");
    driver
}

/// The timers of a chunk.
fn chunk(number: usize) -> core::ops::Range<u32> {
    (number * CHUNK_ROOM) as u32..((number + 1) * CHUNK_ROOM) as u32
}

fn is_in_heap(record: &Record<()>) -> bool {
    matches!(record.place.filed(), Filed::Heap { .. })
}

/// A chunk that is cancelled ahead of the look through its slot does not take the look past what lies between.
#[test]
fn the_look_through_a_slot_passes_nothing_over() {
    let mut driver = slot_of(&[100, 100, 100, 100, 50, 100, 100, 100]);
    for _ in 0..3 {
        assert_eq!(driver.wheel.pull(SLOT + 100), Step::MoreWork);
    }
    for timer in chunk(6).chain(chunk(7)) {
        assert!(driver.remove(timer));
    }
    let expected: Vec<u32> = chunk(4).chain(0..chunk(4).start).chain(chunk(5)).collect();
    assert_eq!(driver.turn(SLOT + 100), expected);
}

/// A timer that is cancelled behind the look, or under it, does not begin it anew.
#[test]
fn the_look_through_a_slot_goes_on_when_what_it_has_seen_is_cancelled() {
    for gone in [[0, 1], [1, 2], [2, 3]] {
        let mut driver = slot_of(&[100; 8]);
        for _ in 0..3 {
            assert_eq!(driver.wheel.pull(SLOT + 100), Step::MoreWork);
        }
        let touched = driver.wheel.touched;
        for timer in gone.into_iter().flat_map(chunk) {
            assert!(driver.remove(timer));
        }
        let (mut looks, left) = (0, 6 * CHUNK_ROOM);
        while driver.wheel.pull(SLOT + 100) == Step::MoreWork {
            looks += 1;
        }
        assert!(looks <= 8 && driver.wheel.touched - touched <= left + CHUNK_ROOM, "{gone:?}: {looks} looks");
        assert_eq!(driver.turn(SLOT + 100).len(), left);
    }
}

/// Timers that a handler sets for now, or moves within the slot, come after those left in the slot.
#[test]
fn what_is_set_while_a_slot_is_handed_out_waits_for_its_turn() {
    let half_way = || {
        let mut driver = slot_of(&[100; 8]);
        while driver.wheel.pull(SLOT + 100) == Step::MoreWork {}
        driver.now = SLOT + 100;
        driver
    };
    let all = (8 * CHUNK_ROOM) as u32;
    let mut driver = half_way();
    driver.set(200, SLOT + 100);
    assert_eq!(driver.turn(SLOT + 100), (0..all).chain([200]).collect::<Vec<_>>());
    let mut driver = half_way();
    driver.set(0, SLOT + 110);
    assert_eq!(driver.turn(SLOT + 100), (1..all).collect::<Vec<_>>());
    assert_eq!(driver.turn(SLOT + 110), [0]);
    // One that is still in a chunk, with others behind it.
    let mut driver = half_way();
    driver.set(30, SLOT + 110);
    assert!(driver.turn(SLOT + 100).into_iter().eq((0..all).filter(|&timer| timer != 30)));
    assert_eq!(driver.turn(SLOT + 110), [30]);
}

/// A slot in order never goes through the heap: neither all of it at once, nor chunk by chunk, nor when a timer
/// in it has been postponed to the very next slot.
#[test]
fn what_is_in_order_is_not_sorted() {
    for chunks in [1, 4, 5, 9] {
        let mut driver = slot_of(&[100].repeat(chunks));
        driver.set(3, SLOT + 128);
        let timers = (chunks * CHUNK_ROOM) as u32;
        let mut out = Vec::new();
        loop {
            assert!((0..timers).all(|timer| !is_in_heap(&driver.wheel.records[timer])), "{chunks} chunks");
            match driver.wheel.pull(SLOT + 100) {
                Step::Fired(timer) => {
                    driver.remove(timer);
                    out.push(timer);
                }
                Step::MoreWork => {}
                Step::Done => break,
            }
        }
        assert!(out.iter().copied().eq((0..timers).filter(|&timer| timer != 3)));
        assert_eq!(driver.turn(SLOT + 128), [3]);
    }
}

/// Up to four chunks in no order are sorted, and do not go through the heap.
#[test]
fn a_few_chunks_in_no_order_are_sorted() {
    let mut driver = slot_of(&[30, 10, 40, 20]);
    assert!(matches!(driver.wheel.pull(SLOT + 100), Step::Fired(_)));
    assert!((0..chunk(4).start).all(|timer| !is_in_heap(&driver.wheel.records[timer])));
    assert!(driver.turn(SLOT + 100).into_iter().eq([1, 3, 0, 2].into_iter().flat_map(chunk)));
}

/// While a slot is handed out time goes on, and so much is set that the inbox is inserted: what was postponed within
/// that slot does not come before what is still in it.
#[test]
fn the_horizon_stays_while_a_slot_is_handed_out() {
    let mut driver = slot_of(&[100; 8]);
    driver.set(13, SLOT + 500);
    while driver.wheel.pull(SLOT + 100) == Step::MoreWork {}
    driver.now = SLOT + 10 * BLOCK;
    (200..217).for_each(|timer| driver.set(timer, SLOT + 100 * BLOCK));
    let out = driver.turn(driver.now);
    assert!(out.into_iter().eq((0..104).filter(|&timer| timer != 13).chain([13])));
}

/// A timer that is cancelled in a slot that is handed out leaves the one alone that has its place in the level two
/// blocks later. It is the last slot of a block: only then is so much reached.
#[test]
fn a_chunk_that_is_handed_out_is_not_counted_where_its_slot_was() {
    let mut driver = Driver::new(0);
    driver.wheel = Wheel::new(1, 0);
    let (before, after) = (BLOCK - 100, 3 * BLOCK - 100);
    (0..chunk(8).start).for_each(|timer| driver.set(timer, before));
    while driver.wheel.pull(before) == Step::MoreWork {}
    chunk(8).chain(chunk(9)).for_each(|timer| driver.set(timer, after));
    driver.wheel.pull(before);
    let chunks = |driver: &Driver| driver.wheel.slots.levels[0].slot(4_095).map(|slot| slot.chunks);
    assert_eq!(chunks(&driver), Some(2));
    (chunk(2).start..chunk(6).start).for_each(|timer| assert!(driver.remove(timer)));
    assert_eq!(chunks(&driver), Some(2));
    let left = (0..chunk(2).start).chain(chunk(6)).chain(chunk(7));
    assert!(driver.turn(before).into_iter().eq(left));
    assert!(driver.turn(after).into_iter().eq(chunk(8).chain(chunk(9))));
}

/// A slot knows how many chunks it has: of those that are emptied all but the last, which is kept, are gone.
#[test]
fn an_emptied_chunk_is_counted_out() {
    let mut driver = slot_of(&[100; 6]);
    (chunk(1).start..chunk(5).start).for_each(|timer| assert!(driver.remove(timer)));
    let slot = driver.wheel.slots.levels[0].slot((SLOT / 128) as usize).expect("two chunks are left");
    assert_eq!(slot.chunks, 3);
}

/// The width of a slot in nanoseconds: granules are 128 ns.
const SLOT: u64 = 128_000;
/// The width of 4,096 granules, in nanoseconds.
const BLOCK: u64 = 128 << 12;
