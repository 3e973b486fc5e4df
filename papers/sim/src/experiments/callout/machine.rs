//! The machine for the facilities: one CPU, a clock that interrupts it, and a stream of timers.
//!
//! ```text
//!   process     │ call │ set ▓ │ cancel ▓ │ call │ set ▓ …          ▓ interrupts are held off
//!   clock       '              ╵                    '               one that comes meanwhile waits, a second is lost
//!   softclock                     ▓ ▓ ▓                             let in between any two that expire
//! ```

use std::collections::VecDeque;

use super::Callout;
use super::facility::{Facility, Name};
use super::occupancy::Occupancy;
use crate::{Parameters, Steps, Streams};

/// A CPU, its clock, and its timers. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct CalloutMachine {
    pub(super) facility: Facility,
    pub(super) occupancy: Occupancy,
    pub(super) now: u64,
    next_tick: u64,
    period: u64,
    pub(super) instruction: u64,
    /// Softclock is running, so it does not start again.
    soft: bool,
    pub(super) found: CalloutStats,
}

/// The sums of a run.
#[derive(Debug, Default)]
pub(super) struct CalloutStats {
    pub(super) busy: u64,
    /// The part of it for hardclock and softclock.
    pub(super) clock: u64,
    pub(super) longest: u64,
    pub(super) ticks: u64,
    pub(super) lost: u64,
    /// Sum over all ticks.
    pub(super) outstanding: u64,
    pub(super) expired: u64,
}

impl CalloutMachine {
    pub(super) fn new(parameters: &Parameters, buckets: u64) -> Self {
        let period = 1_000_000_000 / parameters.count("hz");
        CalloutMachine {
            facility: Facility::new(parameters.choice("kernel"), &parameters.machine().callout),
            occupancy: Occupancy::new(buckets),
            now: 0,
            next_tick: period,
            period,
            instruction: parameters.time("instruction").as_nanos() as u64,
            soft: false,
            found: CalloutStats::default(),
        }
    }

    /// Before the clock is started. The latest first: the old list is walked from the earliest.
    pub(super) fn fill(&mut self, parameters: &Parameters, timers: u64, streams: Streams) {
        let (far, mut random) = (parameters.count("far"), streams.of("outstanding"));
        let mut ahead: Vec<u64> = (0..timers).map(|_| far - random.below(far / 2)).collect();
        ahead.sort_unstable_by(|one, other| other.cmp(one));
        for ticks in ahead {
            let number = self.occupancy.set(ticks);
            self.facility.set(ticks, call(number));
        }
    }

    /// Runs all iterations; returns how many were cancelled.
    pub(super) fn work(&mut self, parameters: &Parameters, streams: Streams, steps: &Steps) -> u64 {
        let (far, timeout) = (parameters.count("far"), parameters.limit("timeout"));
        let answer = parameters.time("answer").as_nanos() as u64;
        let around = parameters.time("call").as_nanos() as u64;
        let interval = parameters.limit("rate").map(|rate| 1e9 / rate as f64);
        let share = parameters.real("cancelled") / 100.0 * (1u64 << 32) as f64;
        let (mut ahead, mut fate) = (streams.of("ahead"), streams.of("fate"));
        let mut answers: VecDeque<(u64, Name, usize)> = VecDeque::new();
        let (mut sets, mut cancels) = (0, 0);
        loop {
            let at = interval.map_or(0, |interval| (sets as f64 * interval) as u64).max(self.now);
            let more = sets < parameters.count("iterations");
            if !steps.go_on(sets, parameters.count("iterations")) {
                return cancels;
            }
            let answer_first = answers.front().is_some_and(|(when, ..)| !more || *when <= at);
            if let Some((when, name, number)) = answer_first.then(|| answers.pop_front()).flatten() {
                self.wait_until(when);
                let (was_set, price) = self.facility.cancel(name);
                if was_set {
                    self.occupancy.leave(number);
                    cancels += 1;
                }
                self.change(price);
            } else if more {
                self.wait_until(at);
                self.compute(around);
                let ticks = timeout.unwrap_or_else(|| far + 1 + ahead.below(far));
                let number = self.occupancy.set(self.found.ticks + ticks);
                let (name, price) = self.facility.set(ticks, call(number));
                sets += 1;
                if (fate.below(1 << 32) as f64) < share {
                    answers.push_back((self.now + answer, name, number));
                }
                self.change(price);
            } else {
                return cancels;
            }
        }
    }

    /// Timers are changed, with interrupts disabled.
    fn change(&mut self, instructions: u64) {
        self.hold(instructions);
        self.clock();
    }

    fn hold(&mut self, instructions: u64) {
        let nanos = instructions * self.instruction;
        self.now += nanos;
        self.found.busy += nanos;
        self.found.longest = self.found.longest.max(nanos);
    }

    /// Other work is done, which clock interrupts prolong.
    fn compute(&mut self, nanos: u64) {
        let (before, end) = (self.found.busy, self.now + nanos);
        self.wait_until(end);
        self.now = end + (self.found.busy - before);
        self.found.busy += nanos;
    }

    fn wait_until(&mut self, at: u64) {
        while self.next_tick <= at {
            self.now = self.now.max(self.next_tick);
            self.clock();
        }
        self.now = self.now.max(at);
    }

    /// Takes a pending clock interrupt, if any. One stays pending while interrupts are disabled; further ones
    /// are lost.
    fn clock(&mut self) {
        if self.next_tick > self.now {
            return;
        }
        let missed = (self.now - self.next_tick) / self.period;
        self.next_tick += (missed + 1) * self.period;
        let busy = self.found.busy;
        self.found.lost += missed;
        self.found.ticks += 1;
        self.found.outstanding += self.occupancy.tick(self.found.ticks);
        let (softclock, price) = self.facility.hardclock();
        self.hold(price);
        if let Some(begin) = softclock.filter(|_| !self.soft) {
            self.soft = true;
            self.hold(begin);
            self.softclock();
            self.soft = false;
        }
        if !self.soft {
            self.found.clock += self.found.busy - busy;
        }
    }

    fn softclock(&mut self) {
        loop {
            let (due, price) = self.facility.softclock();
            self.hold(price);
            let Some([_, argument]) = due else { return };
            self.found.expired += 1;
            self.occupancy.leave(argument / STRIDE);
            self.clock();
        }
    }
}

/// One function, and structures in an array.
fn call(number: usize) -> Callout {
    [0x4000, number * STRIDE]
}

const STRIDE: usize = 64;
