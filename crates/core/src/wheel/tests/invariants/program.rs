//! An owner of a wheel whose choices are drawn, with a check after each of them.
//!
//! It uses the wheel the way [`SoftTimers`](crate::SoftTimers) and [`KeyedTimers`](crate::KeyedTimers) do, in the ways
//! that lead to its corners: due times that meet, or lie at the end of time; re-arming in place; turns that are left, or
//! go on after time has; peaks of which few are left; a clock that jumps by a nanosecond or by hours.

#[cfg(test)]
extern crate std;

use alloc::collections::BTreeMap;

use super::Inside;
use crate::wheel::record::Record;
use crate::wheel::terms::{Key, Sequence, Terms};
use crate::wheel::tests::{BELOW_WRAP, MOST_FETCHED, Random};
use crate::wheel::{Step, Wheel};

/// An owner of a wheel, whose choices are drawn.
pub(super) struct Program {
    number: u64,
    operation: u64,
    random: Random,
    wheel: Wheel<()>,
    /// The timers that were set and have not come out.
    filed: BTreeMap<u32, Terms>,
    now: u64,
    sequence: Sequence,
    /// The limit of the turn that has begun, until it is over.
    turn: Option<Key>,
    tick: u64,
    /// Timers are below this.
    most: u64,
    meeting: Meeting,
}

/// Due times that lie together: shortly after multiples of a time.
struct Meeting {
    every: u64,
    within: u64,
    /// The number of timers of every eight.
    share: u64,
}

impl Program {
    pub(super) fn new(number: u64) -> Self {
        let mut random = Random(number);
        let tick = [1, 128, 1_000, 50_000, 1_000_000, 10_000_000_000][random.below(6) as usize];
        let small = [0, 1, 4, 7, 16, 64, 512][random.below(7) as usize];
        Program {
            number,
            operation: 0,
            wheel: Wheel::new(tick, small),
            filed: BTreeMap::new(),
            now: [0, 1_000, 1 << 40, u64::MAX - (1 << 44), u64::MAX - 1_000_000][random.below(5) as usize],
            sequence: BELOW_WRAP,
            turn: None,
            tick,
            most: [3, 20, 100, 400][random.below(if cfg!(miri) { 2 } else { 4 }) as usize],
            meeting: Meeting {
                every: [100_000, 4_000_000, 1_000_000_000, 60_000_000_000][random.below(4) as usize],
                within: [1, 500, 500_000][random.below(3) as usize],
                share: [0, 2, 7][random.below(3) as usize],
            },
            random,
        }
    }

    /// Everything that was set comes out in the end.
    pub(super) fn run(&mut self) {
        while self.operation < OPERATIONS {
            self.operate();
            self.check(false);
            self.operation += 1;
        }
        (self.now, self.turn) = (u64::MAX, None);
        self.go_on(1_000_000);
        assert!(self.turn.is_none() && self.filed.is_empty());
        self.check(true);
    }

    fn operate(&mut self) {
        match self.random.below(100) {
            0..50 => self.set(),
            50..68 => self.cancel(),
            68 => self.cancel_most(),
            69..75 => self.now = self.now.saturating_add(self.span() >> self.random.below(20)),
            75 if self.random.below(4) == 0 => self.shrink(),
            76..80 => self.look_when_told(),
            // To the end, or not.
            80..87 => self.go_on(1_000_000),
            _ => {
                let quanta = self.random.below(12);
                self.go_on(quanta);
            }
        }
    }

    /// Sets a timer, pending or not. A pending one may keep its place and get another deadline.
    fn set(&mut self) {
        let most = if self.random.below(4) == 0 { self.most.min(20) } else { self.most };
        let timer = self.random.below(most) as u32;
        let pending = self.filed.get(&timer).copied();
        let due = self.due(pending);
        let mut key = Key { due, sequence: self.sequence.advance() };
        while self.wheel.records.len() <= timer as usize {
            self.wheel.records.push(Record::new(1));
        }
        if let Some(pending) = pending {
            if self.random.below(6) == 0 {
                key = pending.key;
            }
        }
        let terms = self.terms(key);
        if pending.is_some() {
            if !self.wheel.put_off(timer, &terms) {
                self.wheel.move_to(self.now, timer, &terms);
            }
        } else {
            self.wheel.insert(self.now, timer, &terms, ());
        }
        self.filed.insert(timer, terms);
    }

    /// Not before the present: anywhere, together with others, near where it was, or at the end of time.
    fn due(&mut self, pending: Option<Terms>) -> u64 {
        let Meeting { every, within, share } = self.meeting;
        let due = match self.random.below(60) {
            0 => u64::MAX - self.random.below(3),
            1..13 => {
                let (later, sooner) = (self.span() % NEAR, self.span() % NEAR);
                pending.map_or(self.now, |terms| terms.due()).saturating_add(later).saturating_sub(sooner)
            }
            _ if self.random.below(8) < share => {
                (self.now / every + 1).saturating_mul(every).saturating_add(self.random.below(within))
            }
            _ => self.now.saturating_add(self.span()),
        };
        due.max(self.now)
    }

    fn terms(&mut self, key: Key) -> Terms {
        let late = match self.random.below(5) {
            0 => u64::MAX,
            1 => 0,
            2 => 50_000,
            _ => self.span(),
        };
        let early = if self.random.below(3) == 0 { self.span() } else { self.random.below(self.tick) };
        Terms { key, asked: key.due.saturating_sub(early), deadline: key.due.saturating_add(late) }
    }

    /// Up to ten hours, each power of two as likely as the next, and mostly whole ticks.
    fn span(&mut self) -> u64 {
        let bits = self.random.below(46);
        let span = self.random.below(1 << bits);
        if self.random.below(3) == 0 { span } else { span / self.tick * self.tick }
    }

    fn cancel(&mut self) {
        let from = self.random.below(self.most) as u32;
        if let Some((&timer, _)) = self.filed.range(from..).next() {
            self.filed.remove(&timer);
            self.wheel.remove(timer, |_| ());
        }
    }

    /// Few may be left, so that the front has them all.
    fn cancel_most(&mut self) {
        let Program { filed, wheel, random, .. } = self;
        let of = 1 + random.below(30);
        filed.retain(|&timer, _| {
            let stays = random.below(of) == 0;
            if !stays {
                wheel.remove(timer, |_| ());
            }
            stays
        });
    }

    fn shrink(&mut self) {
        let len = self.filed.last_key_value().map_or(0, |(&timer, _)| timer as usize + 1);
        self.wheel.records.truncate(len);
        self.wheel.shrink();
    }

    /// Time goes on until the wheel has asked for a look, and a turn begins; one that is not over is given up.
    fn look_when_told(&mut self) {
        let times = [self.wheel.gate(), self.wheel.next_due(), self.wheel.earliest_deadline()];
        let told = times[self.random.below(3) as usize];
        if told != u64::MAX {
            self.now = self.now.max(told);
        }
        self.turn = Some(Key { due: self.now, sequence: self.sequence });
    }

    /// Runs `quanta` quanta of a turn: as `next`, which asks the gate first, or as `step`.
    fn go_on(&mut self, quanta: u64) {
        let closed = self.now < self.wheel.gate() && self.random.below(2) == 0;
        let limit = if closed { Key::ZERO } else { Key { due: self.now, sequence: self.sequence } };
        let limit = *self.turn.get_or_insert(limit);
        let asks_first = self.random.below(4) != 0;
        for _ in 0..quanta {
            if asks_first && limit.due < self.wheel.gate() {
                assert!(self.filed.values().all(|terms| terms.due() > limit.due));
                self.turn = None;
                return;
            }
            if !self.quantum(limit) {
                self.turn = None;
                return self.check_end(limit.due);
            }
            if self.random.below(30) == 0 {
                self.check(false);
            }
        }
    }

    /// As `step`, or as `next`; false if the turn is over.
    fn quantum(&mut self, limit: Key) -> bool {
        if self.random.below(2) == 0 {
            let taken = self.wheel.take_due(limit);
            match taken {
                Some(timer) => self.take(timer, limit),
                None => self.assert_none_left(limit),
            }
            return taken.is_some();
        }
        let before = self.wheel.touched;
        let more = match self.wheel.pop(limit) {
            Step::Fired(timer) => {
                self.take(timer, limit);
                true
            }
            Step::MoreWork => true,
            Step::Done => {
                self.assert_none_left(limit);
                self.wheel.tidy(limit.due)
            }
        };
        assert!(self.wheel.touched - before <= MOST_FETCHED, "more than a quantum of work");
        more
    }

    /// One has come out: it is due, and the least.
    fn take(&mut self, timer: u32, limit: Key) {
        let taken = self.wheel.taken(timer, |record| record.due);
        let due_at = taken.expect("it was pending").2;
        let Terms { key, .. } = self.filed.remove(&timer).expect("a timer that is pending");
        assert_eq!(due_at, key.due);
        assert!(key.is_before(limit), "timer {timer} is early");
        assert!(self.filed.values().all(|other| key.is_before(other.key)), "it is not the least");
    }

    fn assert_none_left(&self, limit: Key) {
        assert!(!self.filed.values().any(|terms| terms.key.is_before(limit)), "a timer that is due was left");
    }

    fn check(&self, settled: bool) {
        Inside { wheel: &self.wheel, filed: &self.filed, settled }.check();
    }

    /// After a turn, whoever asks when to look next is not sent back to the past.
    fn check_end(&self, now: u64) {
        self.check(true);
        if !self.filed.is_empty() && self.filed.values().all(|terms| terms.due() > now) {
            let Program { wheel, .. } = self;
            let times = [wheel.gate(), wheel.next_due(), wheel.earliest_deadline()];
            assert!(times.iter().all(|&time| time > now), "a look at {times:?} after one at {now}");
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::eprintln!("program {}, operation {}", self.number, self.operation);
        }
    }
}

/// Operations of a program.
pub(super) const OPERATIONS: u64 = if cfg!(miri) { 30 } else { 1_000 };
/// A timer is moved by less than this.
const NEAR: u64 = 1_000_000;
