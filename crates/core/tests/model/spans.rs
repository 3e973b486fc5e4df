//! Thousands of timers over spans from 50 ticks to 2⁴⁰ of them, with handles and with keys at once, against two
//! `BTreeMap`s: by order and by deadline. Where [`lockstep`](super::lockstep) asks everything about a few
//! timers, this asks the essential about many: what comes out, in which order, and never a look too late.

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use softtimers_core::{Config, KeyedTimers, Slack, SoftTimers, TimerId, Timestamp, TriggerState};

/// Both kinds of timers and the model, of which timer `i` is known as event and key `i`.
pub(crate) struct Spans {
    random: Random,
    timers: SoftTimers<u32>,
    keyed: KeyedTimers,
    pending: Vec<Option<Pending>>,
    order: BTreeMap<(u64, u64), u32>,
    deadlines: BTreeMap<(u64, u32), ()>,
    /// Handles that are dead.
    dead: Vec<TimerId>,
    now: u64,
    sequence: u64,
}

#[derive(Clone, Copy)]
struct Pending {
    id: TimerId,
    effective: u64,
    sequence: u64,
    deadline: u64,
}

const TICK: u64 = 1_000;

impl Spans {
    /// Draws what is done from `choices`, and when they are used up from their number.
    pub(crate) fn new(choices: &[u8], seed: u64, first_generation: u32) -> Self {
        let mut random = Random { choices: choices.iter().copied().collect(), state: seed };
        let few = [0, 16, 64][random.below(3) as usize];
        let config = Config::default().few(few).first_generation(NonZeroU32::new(first_generation).unwrap());
        let config = config.first_sequence(NonZeroU32::new(u32::MAX - 50).unwrap());
        let end = u64::MAX;
        let begins = [0, 1, 1 << 33, 1 << 45, end >> 1, end - (1 << 43), end - (1 << 25), end - (1 << 12)];
        let now = begins[random.below(begins.len() as u64) as usize];
        Spans {
            random,
            timers: SoftTimers::new(config),
            keyed: KeyedTimers::new(Duration::from_nanos(TICK)),
            pending: Vec::new(),
            order: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            dead: Vec::new(),
            now,
            sequence: 0,
        }
    }

    /// Performs `operations` on up to `most` timers, due within `span` ticks; then lets all of them expire.
    pub(crate) fn run(&mut self, operations: u64, most: u64, span: u64) {
        for _ in 0..operations {
            match self.random.below(10) {
                0..=3 => self.set(most, span),
                4..=5 => self.cancel(),
                6..=7 => self.put_off(span),
                _ => self.advance(span),
            }
            if self.random.below(operations) < 3 {
                self.timers.shrink_to_fit();
                self.keyed.shrink_to_fit();
            }
        }
        while let Some((&(due, _), _)) = self.order.last_key_value() {
            self.now = due - due.saturating_sub(self.now) / 2;
            self.turn();
            if due - self.now < 2 {
                self.now = due;
                self.turn();
            }
        }
        assert!(self.timers.is_empty() && self.keyed.is_empty());
    }

    fn due(&mut self, span: u64) -> u64 {
        // Most anywhere, some at round times that many share, some at once.
        let ticks = match self.random.below(8) {
            // Near the end of time many are for its end, or just before.
            3 | 4 if self.now > u64::MAX >> 1 => return u64::MAX - self.random.below(3),
            0 => (1 + self.random.below(4)) * span / 4,
            1 => self.random.below(3),
            _ => self.random.below(span),
        };
        self.now.saturating_add(ticks.saturating_mul(TICK)) / TICK * TICK
    }

    fn slack(&mut self) -> u64 {
        self.random.below(3) * self.random.below(1_000_000)
    }

    fn set(&mut self, most: u64, span: u64) {
        let index = self.random.below(most.min(self.pending.len() as u64 + 1)) as usize;
        if index == self.pending.len() {
            self.pending.push(None);
        }
        if self.pending[index].is_some() {
            return;
        }
        let (due, slack) = (self.due(span), self.slack());
        let (now, at) = (Timestamp::from_nanos(self.now), Timestamp::from_nanos(due));
        let id = self.timers.schedule_at(now, at, Slack::within(Duration::from_nanos(slack)), index as u32);
        self.keyed.set(now, index as u32, at_tick(at, self.now));
        self.enter(index, id, due, slack);
    }

    fn put_off(&mut self, span: u64) {
        let Some(index) = self.pick() else { return };
        let (due, slack) = (self.due(span), self.slack());
        let Some(before) = self.leave(index) else {
            if let Some(&id) = self.dead.last() {
                let now = Timestamp::from_nanos(self.now);
                assert!(self.timers.reschedule_at(now, id, now, Slack::EXACT).is_err());
            }
            return;
        };
        let now = Timestamp::from_nanos(self.now);
        // A timer that may stay where it is keeps its place; for the keys, and the model, it has to move.
        let slack = if (due..=due.saturating_add(slack)).contains(&before.effective) { 0 } else { slack };
        let due = if due == before.effective { due.checked_add(1).unwrap_or_else(|| due - 1) } else { due };
        let at = Timestamp::from_nanos(due);
        let slack_of = Slack::within(Duration::from_nanos(slack));
        self.timers.reschedule_at(now, before.id, at, slack_of).unwrap();
        self.keyed.set(now, index as u32, at_tick(at, self.now));
        self.enter(index, before.id, due, slack);
    }

    fn cancel(&mut self) {
        let Some(index) = self.pick() else { return };
        let before = self.leave(index);
        assert_eq!(self.keyed.cancel(index as u32), before.is_some());
        if let Some(before) = before {
            assert_eq!(self.timers.cancel(before.id), Some(index as u32));
            self.dies(before.id);
        } else if let Some(&id) = self.dead.last() {
            assert_eq!(self.timers.cancel(id), None);
        }
    }

    /// A step, a small jump, a large one, or to where the first timer is due.
    fn advance(&mut self, span: u64) {
        let first = self.order.first_key_value().map_or(self.now, |(&(due, _), _)| due);
        let nanos = match self.random.below(5) {
            0 => TICK,
            1 => self.random.below(span * TICK / 1_000 + 2),
            2 => self.random.below(span * TICK / 50 + 2),
            3 => self.random.below(span * TICK / 2 + 2),
            _ => first.saturating_sub(self.now),
        };
        self.now = self.now.saturating_add(nanos).min(u64::MAX - 1);
        self.turn();
    }

    fn turn(&mut self) {
        let now = Timestamp::from_nanos(self.now);
        self.compare();
        let turn = self.timers.trigger(TriggerState::SyscallExit, now);
        let keyed_turn = self.keyed.turn(now);
        while let Some((&(due, _), &index)) = self.order.first_key_value() {
            if due > self.now {
                break;
            }
            let fired = self.timers.next(&turn).expect("a timer is due");
            let before = self.leave(index as usize).expect("it is pending");
            assert_eq!((fired.event, fired.id), (index, before.id));
            assert_eq!(self.keyed.next(&keyed_turn).map(|(key, _)| key), Some(index));
            self.dies(before.id);
        }
        assert!(self.timers.next(&turn).is_none(), "early");
        assert_eq!(self.keyed.next(&keyed_turn), None);
        self.compare();
        // A turn that is over leaves nothing behind that would be looked for again at once.
        assert!(self.timers.next_due().is_none_or(|due| due > now));
        assert!(self.timers.poll_at().is_none_or(|at| at > now));
        assert!(self.keyed.next_due().is_none_or(|due| due > now));
    }

    fn compare(&self) {
        assert_eq!((self.timers.len(), self.keyed.len()), (self.order.len(), self.order.len()));
        // Nobody has to look at the end of time.
        let deadline = self.deadlines.first_key_value().map(|(&(at, _), ())| at).filter(|&at| at < u64::MAX);
        let due = self.order.first_key_value().map(|(&(at, _), _)| at);
        let no_later = |ours: Option<Timestamp>, model: Option<u64>| match (ours, model) {
            (Some(ours), Some(model)) => ours.as_nanos() <= model,
            (None, Some(_)) => false,
            (_, None) => true,
        };
        assert!(no_later(self.timers.poll_at(), deadline));
        assert!(no_later(self.timers.next_due(), due));
        assert!(no_later(self.keyed.next_due(), due));
    }

    fn pick(&mut self) -> Option<usize> {
        let len = self.pending.len() as u64;
        (len > 0).then(|| self.random.below(len) as usize)
    }

    fn enter(&mut self, index: usize, id: TimerId, due: u64, slack: u64) {
        let effective = at_tick(Timestamp::from_nanos(due), self.now).as_nanos();
        let deadline = due.saturating_add(slack).max(effective);
        self.pending[index] = Some(Pending { id, effective, sequence: self.sequence, deadline });
        self.order.insert((effective, self.sequence), index as u32);
        self.deadlines.insert((deadline, index as u32), ());
        self.sequence += 1;
    }

    fn leave(&mut self, index: usize) -> Option<Pending> {
        let pending = self.pending[index].take()?;
        self.order.remove(&(pending.effective, pending.sequence));
        self.deadlines.remove(&(pending.deadline, index as u32));
        Some(pending)
    }

    fn dies(&mut self, id: TimerId) {
        assert!(!self.timers.is_pending(id));
        self.dead.push(id);
        if self.dead.len() > 1_000 {
            self.dead.swap_remove(self.random.below(1_000) as usize);
        }
        let any = self.dead[self.random.below(self.dead.len() as u64) as usize];
        assert!(!self.timers.is_pending(any), "a dead handle came back to life");
    }
}

/// The effective due of an exact timer.
fn at_tick(due: Timestamp, now: u64) -> Timestamp {
    let nanos = due.as_nanos();
    let effective = if nanos <= now { now } else { nanos.checked_next_multiple_of(TICK).unwrap_or(u64::MAX) };
    Timestamp::from_nanos(effective)
}

/// Numbers out of the bytes of a fuzzer, and without an end.
struct Random {
    choices: VecDeque<u8>,
    state: u64,
}

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        if let Some(choice) = self.choices.pop_front() {
            let more = if limit > 256 { self.choices.pop_front().unwrap_or(0) } else { 0 };
            let share = u128::from(u16::from_be_bytes([choice, more]));
            return ((share * u128::from(limit)) >> 16) as u64;
        }
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.state) * u128::from(limit)) >> 64) as u64
    }
}
