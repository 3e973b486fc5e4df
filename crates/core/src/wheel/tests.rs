//! Tests of the wheel's internals: how much one call does, and how timers move through it.

mod front;
mod horizon;
mod invariants;
mod small;

#[cfg(test)]
extern crate std;

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::level::{BLOCK_BITS, LEVELS};
use super::record::{Filed, Record};
use super::sizes::CHUNK_ROOM;
use super::terms::{Key, Sequence, Terms};
use super::{Step, Wheel};
use crate::effort::operations;

/// A wheel with a clock and its own sequence.
struct Driver {
    wheel: Wheel<()>,
    now: u64,
    sequence: Sequence,
    /// The most records touched by one quantum, and by one turn beyond those that came out.
    most_in_quantum: usize,
    most_in_turn: usize,
}

impl Driver {
    fn new(now: u64) -> Self {
        let wheel = Wheel::new(TICK, 0);
        Driver { wheel, now, sequence: BELOW_WRAP, most_in_quantum: 0, most_in_turn: 0 }
    }

    fn set(&mut self, timer: u32, due: u64) {
        while self.wheel.records.len() <= timer as usize {
            self.wheel.records.push(Record::new(1));
        }
        let key = Key { due, sequence: self.sequence.advance() };
        let terms = Terms { key, asked: due, deadline: due };
        if !self.wheel.records[timer].is_filed() {
            self.wheel.insert(self.now, timer, &terms, ());
        } else if !self.wheel.put_off(timer, &terms) {
            self.wheel.move_to(self.now, timer, &terms);
        }
    }

    /// Removes a timer, and returns whether it was pending.
    fn remove(&mut self, timer: u32) -> bool {
        let pending = self.wheel.records[timer].is_filed();
        if pending {
            self.wheel.remove(timer, |_| ());
        }
        pending
    }

    /// Runs a turn at `now`; returns the timers that come out.
    fn turn(&mut self, now: u64) -> Vec<u32> {
        self.now = now;
        let mut out = Vec::new();
        let before = self.wheel.touched;
        if now < self.wheel.gate() {
            return out;
        }
        loop {
            let quantum = self.wheel.touched;
            let more = match self.wheel.pop(Key { due: now, sequence: self.sequence }) {
                Step::Fired(timer) => {
                    assert!(self.wheel.taken(timer, |_| ()).is_some());
                    out.push(timer);
                    true
                }
                Step::MoreWork => true,
                Step::Done => self.wheel.tidy(now),
            };
            self.most_in_quantum = self.most_in_quantum.max(self.wheel.touched - quantum);
            if !more {
                break;
            }
        }
        self.most_in_turn = self.most_in_turn.max((self.wheel.touched - before).saturating_sub(out.len()));
        out
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 >> 11) * u128::from(limit)) >> 53) as u64
    }
}

/// A server that checks every tick never moves more than a few chunks at a time, whichever level boundary it
/// passes and however many timers wait behind it. Without pacing it would move a whole slot.
#[test]
fn a_turn_moves_a_few_chunks_whichever_boundary_it_passes() {
    let timers = operations(50_000) as u32;
    for level in 1..=4 {
        let boundary = 1u64 << (9 + 12 * level);
        // From two blocks of level 0 before the boundary to two after.
        let (block, mut random) = (1u64 << (9 + 12), Random(level));
        let start = boundary - (2 * block).min(boundary);
        let mut driver = Driver::new(start);
        // Set long ago, so that they lie on every level that leads here.
        driver.now = start - start.min(boundary / 2);
        driver.turn(driver.now);
        for timer in 0..timers {
            driver.set(timer, start + random.below(boundary + 2 * block - start) / TICK * TICK + TICK);
        }
        // The first check after a long time: the timers of all levels here cascade at once.
        let mut out = driver.turn(start).len();
        driver.most_in_turn = 0;
        let step = if cfg!(miri) { 512 * TICK } else { TICK };
        for now in (start + TICK..=boundary + 2 * block + TICK).step_by(step as usize) {
            out += driver.turn(now).len();
        }
        out += driver.turn(boundary + 2 * block + TICK).len();
        assert_eq!(out, timers as usize);
        assert!(driver.most_in_quantum <= MOST_FETCHED, "{} records in a quantum", driver.most_in_quantum);
        // A slot of level 1 holds some 12,000 here.
        let most = if cfg!(miri) { usize::MAX } else { 4 * MOST_FETCHED };
        assert!(driver.most_in_turn <= most, "{} records in a turn, level {level}", driver.most_in_turn);
    }
}

/// A slot far ahead is prepared in time although there is no other work until then.
#[test]
fn pacing_begins_a_slot_ahead_also_after_a_quiet_time() {
    let timers = operations(20_000) as u32;
    for level in 1..=3 {
        let slot = 1u64 << (9 + 12 * level);
        let (mut driver, mut random) = (Driver::new(0), Random(level));
        let start = 40 * slot;
        let width = 1_000_000;
        (0..timers).for_each(|timer| driver.set(timer, start + random.below(width) + TICK));
        // Another timer's turn in between does not change that.
        driver.set(timers, 10 * TICK);
        assert_eq!(driver.turn(10 * TICK), [timers]);
        // A program that checks a thousand times in each slot of each level below, and every tick at the end.
        let mut out = 0;
        let mut look = |driver: &mut Driver, from: u64, to: u64, steps: u64| {
            for at in 1..=steps {
                out += driver.turn(from + (to - from) / steps * at).len();
            }
        };
        look(&mut driver, 0, start - slot, 100);
        for below in (0..level).rev() {
            let (wide, narrow) = (1u64 << (9 + 12 * (below + 1)), 1u64 << (9 + 12 * below));
            look(&mut driver, start - wide, start - narrow, operations(4_096));
        }
        look(&mut driver, start, start + 2 * width, operations(2_000));
        assert_eq!(out, timers as usize);
        let most = if cfg!(miri) { usize::MAX } else { 4 * MOST_FETCHED };
        assert!(driver.most_in_turn <= most, "{} records in a turn, level {level}", driver.most_in_turn);
    }
}

/// After a jump a quantum is still one chunk, and everything comes out in order.
#[test]
fn a_jump_is_worked_off_in_quanta() {
    let timers = operations(100_000) as u32;
    let mut random = Random(1);
    let mut driver = Driver::new(0);
    let due: Vec<u64> = (0..timers).map(|_| random.below(1_000_000) * TICK).collect();
    (0..timers).for_each(|timer| driver.set(timer, due[timer as usize]));
    let out = driver.turn(1_000_000_000);
    assert_eq!(out.len(), timers as usize);
    assert!(out.is_sorted_by_key(|&timer| (due[timer as usize], timer)));
    assert!(driver.most_in_quantum <= MOST_FETCHED);
    assert!(driver.wheel.touched >= timers as usize, "each was fetched out of its slot");
}

/// Timers that fall due together come out in the order they were set, from a slot however full, while others of
/// that slot are cancelled and new ones set for the same time.
#[test]
fn a_full_slot_is_handed_out_in_order_while_it_changes() {
    let timers = operations(100_000) as u32;
    let mut driver = Driver::new(0);
    let due = 700 * TICK;
    (0..timers).for_each(|timer| driver.set(timer, due));
    driver.now = due;
    let (mut out, mut cancelled, mut quanta) = (Vec::new(), 0, 0);
    loop {
        quanta += 1;
        match driver.wheel.pull(due) {
            Step::Fired(timer) => {
                driver.remove(timer);
                out.push(timer);
                if timer == 50 {
                    driver.set(timers, due);
                }
            }
            Step::MoreWork => {
                // The cursor is somewhere in between: everything around it is cancelled.
                for timer in (quanta as u32 * 13..quanta as u32 * 13 + 40)
                    .filter(|&timer| timer < timers && timer > 50)
                {
                    cancelled += u32::from(driver.remove(timer));
                }
            }
            Step::Done => break,
        }
    }
    assert!(out.is_sorted(), "not in the order they were set");
    assert_eq!(out.len() as u32 + cancelled, timers + 1);
    assert!(cancelled > timers / 4);
    assert_eq!(driver.wheel.len(), 0);
}

/// A timer that went straight to level 0 does not overtake an older one with the same due time that came by
/// way of higher levels, or was postponed to it.
#[test]
fn equal_times_come_out_in_the_order_they_were_set_whatever_way_they_came() {
    for level in 1..=3 {
        let due = (3u64 << (9 + 12 * level)) + 5 * TICK;
        let due = due.next_multiple_of(TICK);
        let mut driver = Driver::new(0);
        driver.set(0, due);
        driver.set(1, due - TICK * 4);
        driver.set(1, due);
        for (timer, before) in [(2, 1 << 25), (3, 1 << 20), (4, 1 << 12)] {
            let now = due - before.min(due);
            for now in [now - now.min(1_000_000), now] {
                driver.turn(now);
            }
            driver.set(timer, due);
        }
        assert_eq!(driver.turn(due - 1), []);
        assert_eq!(driver.turn(due), [0, 1, 2, 3, 4], "level {level}");
    }
}

/// Postponing writes the record; the timer moves when its slot comes up, and does not come out before.
#[test]
fn putting_off_touches_no_chunk() {
    let mut driver = Driver::new(0);
    (0..200).for_each(|timer| driver.set(timer, 1_000 * TICK));
    driver.wheel.pull(0);
    let places =
        |driver: &Driver| (0..200).map(|timer| driver.wheel.records[timer].place).collect::<Vec<_>>();
    let before = places(&driver);
    for round in 1..50 {
        (0..200).for_each(|timer| driver.set(timer, (1_000 + 100 * round) * TICK));
    }
    assert_eq!((driver.wheel.touched, places(&driver)), (0, before));
    assert_eq!(driver.turn(5_899 * TICK), []);
    assert!(driver.wheel.touched <= 3 * 200, "looked at, handed on to level 1, and down again");
    assert_eq!(driver.turn(5_900 * TICK), (0..200).collect::<Vec<_>>());
}

/// A timer that is cancelled before the wheel is checked is never inserted, whatever else waits.
#[test]
fn what_is_cancelled_young_touches_no_slot() {
    let mut driver = Driver::new(0);
    (0..1_000).for_each(|timer| driver.set(timer, (50_000 + u64::from(timer)) * TICK));
    driver.wheel.pull(0);
    for round in 0..operations(10_000) as u32 {
        let timer = 1_000 + round % 10;
        if round >= 10 {
            assert!(matches!(driver.wheel.records[timer].place.filed(), Filed::Inbox { .. }));
            driver.remove(timer);
        }
        driver.set(timer, (60_000 + u64::from(round)) * TICK);
    }
    assert_eq!(driver.turn(50_500 * TICK).len(), 501);
    assert_eq!(driver.wheel.len(), 499 + 10);
}

/// Few timers come out in order, in whatever order they come and go.
#[test]
fn a_run_of_few_keeps_the_order() {
    let mut random = Random(3);
    for few in [1, 7, 9, 40, 64] {
        let mut driver = Driver::new(0);
        driver.wheel = Wheel::new(TICK, 64);
        let mut due = [0; 64];
        for now in 1..operations(3_000) {
            for timer in 0..few {
                if due[timer as usize] <= now && driver.wheel.len() < few as usize {
                    due[timer as usize] = now + 1 + random.below(200);
                    driver.set(timer, due[timer as usize] * TICK);
                }
            }
            if random.below(4) == 0 {
                let timer = random.below(u64::from(few)) as u32;
                if driver.remove(timer) {
                    due[timer as usize] = 0;
                }
            }
            let out = driver.turn(now * TICK);
            assert!(out.iter().all(|&timer| due[timer as usize] <= now));
            assert!(out.is_sorted_by_key(|&timer| due[timer as usize]));
            assert!((0..few).all(|timer| {
                !driver.wheel.records.get(timer).is_some_and(Record::is_filed) || due[timer as usize] > now
            }));
        }
    }
}

/// A check while nothing is due finds a closed gate: no slot is visited, however many are passed.
#[test]
fn empty_slots_are_passed_without_a_look() {
    let mut driver = Driver::new(0);
    driver.set(0, 1_000 * TICK);
    driver.set(1, 1_200 * TICK);
    assert_eq!((1..1_000).filter(|now| now * TICK >= driver.wheel.gate()).count(), 0);
    assert_eq!(driver.turn(1_000 * TICK), [0]);
    assert_eq!((1_001..1_200).filter(|now| now * TICK >= driver.wheel.gate()).count(), 0);
    assert_eq!(driver.turn(1_200 * TICK), [1]);
    assert_eq!(driver.wheel.gate(), u64::MAX);
}

/// Taking a timer out changes no other timer, and touches only its place in the chunk.
#[test]
fn removal_leaves_every_other_timer_where_it_is() {
    let mut driver = Driver::new(0);
    (0..1_000).for_each(|timer| driver.set(timer, (1 + u64::from(timer) % 7) * 100 * TICK));
    // Insert the timers that are still in the inbox.
    assert!(matches!(driver.wheel.pull(0), Step::Done));
    let places: Vec<_> = (0..1_000).map(|timer| driver.wheel.records[timer].place).collect();
    (0..1_000).filter(|timer| timer % 3 == 0).for_each(|timer| assert!(driver.remove(timer)));
    for timer in 0..1_000u32 {
        let record = &driver.wheel.records[timer];
        assert!(if timer % 3 == 0 { !record.is_filed() } else { record.place == places[timer as usize] });
        assert!(timer % 3 != 0 || !driver.remove(timer), "removed twice");
    }
    assert_eq!(driver.wheel.touched, 0);
}

/// The wheel grows up to the limit on records, and each chunk of a slot has at most 13 timers.
#[test]
fn it_grows_a_million_beyond_where_it_began() {
    let timers = operations(1_000_000) as u32;
    let mut driver = Driver::new(0);
    let mut random = Random(9);
    (0..timers).for_each(|timer| driver.set(timer, (1 + random.below(1 << 30)) * TICK));
    assert_eq!(driver.wheel.len(), timers as usize);
    (0..timers).for_each(|timer| assert!(driver.remove(timer)));
    assert_eq!((driver.wheel.len(), driver.wheel.gate()), (0, u64::MAX));
    assert_eq!(driver.turn(1 << 50), []);
}

/// Nothing is inserted twice and nothing lost when a wheel shrinks at any moment of a turn.
#[test]
fn shrinking_loses_nothing() {
    for moment in if cfg!(miri) { 59 } else { 0 }..60 {
        let mut random = Random(moment);
        let mut driver = Driver::new(0);
        for timer in 0..300 {
            driver.set(timer, (random.below(1 << (5 + timer % 30)) + 1) * TICK);
        }
        (0..100).for_each(|timer| driver.set(timer, 900_000 * TICK));
        driver.turn(1_000 * TICK);
        let before = driver.wheel.len();
        let mut out = 0;
        for _ in 0..moment {
            if let Step::Fired(timer) = driver.wheel.pull(900_000 * TICK) {
                if driver.wheel.records[timer].due > 900_000 * TICK {
                    break;
                }
                driver.remove(timer);
                out += 1;
            }
        }
        driver.wheel.shrink();
        let mut last = Key::ZERO;
        let end = 1 << 60;
        loop {
            match driver.wheel.pull(end) {
                Step::Fired(timer) => {
                    let key = driver.wheel.records[timer].key();
                    assert!(last.is_before(key));
                    last = key;
                    driver.remove(timer);
                    out += 1;
                }
                Step::MoreWork => {}
                Step::Done => break,
            }
        }
        assert_eq!((out, driver.wheel.len()), (before, 0));
    }
}

/// "2.10 ms" in nanoseconds.
fn span(number: &str, unit: &str) -> f64 {
    let units = [("ns", 1.0), ("ms", 1e6), ("s", 1e9), ("h", 3.6e12), ("years", 3.155_76e16)];
    let (_, nanos) = units.iter().find(|(name, _)| *name == unit).expect("a unit of time");
    number.parse::<f64>().expect("a number") * nanos
}

/// The table of levels agrees with the constants: in the module's documentation, and on the page about the
/// wheel.
#[test]
fn the_table_of_levels_is_true() {
    let is_row = |line: &&str| line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit());
    let rows: Vec<&str> =
        include_str!("../wheel.rs").lines().filter_map(|line| line.strip_prefix("//! ")).collect();
    let rows: Vec<&str> = rows.into_iter().filter(is_row).collect();
    assert_eq!(rows.len(), LEVELS);
    let shift = Wheel::<()>::new(TICK, 0).shift;
    let is_about = |said: f64, width: u64| (said / width as f64 - 1.0).abs() < 0.015;
    for (level, row) in rows.iter().enumerate() {
        let words: Vec<&str> = row.split(' ').filter(|&word| word != "|").collect();
        let slot = 1u64 << (shift + BLOCK_BITS * level as u32);
        assert_eq!(words[0].parse(), Ok(level));
        assert!(is_about(span(words[1], words[2]), slot), "{row}");
        match words[3..] {
            // One block and two.
            [one, "to", two, unit] => {
                assert!(is_about(span(one, unit), slot << BLOCK_BITS), "{row}");
                assert!(is_about(span(two, unit), slot << (BLOCK_BITS + 1)), "{row}");
            }
            ref all => assert!(level == LEVELS - 1 && *all == ["all", "of", "time"], "{row}"),
        }
    }
}

/// The most records that a quantum fetches.
const MOST_FETCHED: usize = 4 * CHUNK_ROOM;
/// A few timers before the sequence begins anew, so that each test has it in its midst.
const BELOW_WRAP: Sequence = Sequence::starting(NonZeroU32::new(u32::MAX - 60).unwrap());
/// A microsecond, as multiples of which the tests set timers.
const TICK: u64 = 1_000;
