//! Random schedules of arrivals, time-outs and drops, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use softtimers_core::Random;

use super::*;

const INTERVAL: Duration = Duration::from_millis(1);
/// The shortest gap while catching up: nine sixteenths.
const SHORTEST: u64 = 562_500;

fn line() -> Line<u64> {
    Line::new(RateClock::from(Rate::every(INTERVAL).unwrap()), CatchUp::default())
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(1_000_000 + micros)
}

fn nanos_between(first: Timestamp, last: Timestamp) -> u64 {
    last.saturating_duration_since(first).as_nanos() as u64
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// The task is polled: by a wake-up, or for another reason.
    Poll(u64),
    /// Dropped: it has timed out, or its client went away.
    Drop(u64),
    Arrive,
    /// A departure that was taken is given back, unused.
    GiveBack,
}

/// How the callers of a run behave.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The mean time between two arrivals, and how long a caller waits, at most; in microseconds.
    arrivals: u64,
    patience: u64,
    /// In how many of 64 cases one that was woken is never polled; and a departure is given back.
    stuck: u64,
    given_back: u64,
}

/// A run of the line: tasks are its callers, and their tickets their wakers.
struct Run {
    line: Line<u64>,
    random: Random,
    load: Load,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    filed: u64,
    /// The time in line of those who wait and are polled when they are woken.
    waiting: BTreeMap<u64, Timestamp>,
    stuck: Vec<u64>,
    left: Vec<(Timestamp, u64)>,
    /// The time in which somebody waited who would have come.
    busy: Duration,
    spells: u64,
    given_back: u64,
}

impl Run {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound.max(1)
    }

    fn file(&mut self, time: Timestamp, event: Event) {
        self.filed += 1;
        self.events.push(Reverse((time, self.filed, event)));
    }

    fn handle(&mut self, now: Timestamp, event: Event) {
        match event {
            Event::Arrive => {
                let next = self.below(2 * self.load.arrivals);
                self.file(now + Duration::from_micros(next), Event::Arrive);
                if self.line.try_leave(now, 1).is_ok() {
                    assert!(self.waiting.is_empty(), "overtaken");
                    return self.leaves(now, u64::MAX);
                }
                let ticket = self.line.join(0);
                self.line.wait(ticket, ticket);
                let patience = self.below(2 * self.load.patience);
                if self.below(64) < self.load.stuck {
                    self.stuck.push(ticket);
                } else {
                    self.spells += u64::from(self.waiting.is_empty());
                    self.waiting.insert(ticket, now);
                }
                self.file(now + Duration::from_micros(patience), Event::Drop(ticket));
            }
            Event::Drop(ticket) => {
                self.line.give_up(ticket);
                self.waiting.remove(&ticket);
            }
            Event::Poll(ticket) if self.waiting.contains_key(&ticket) => {
                if self.line.leave(ticket, now, 1) {
                    assert_eq!(
                        self.waiting.first_key_value().map(|(first, _)| *first),
                        Some(ticket),
                        "overtaken"
                    );
                    self.waiting.remove(&ticket);
                    self.leaves(now, ticket);
                } else {
                    self.line.wait(ticket, ticket);
                }
            }
            Event::Poll(_) => {}
            Event::GiveBack => {
                self.given_back += 1;
                self.line.give_back();
            }
        }
    }

    fn leaves(&mut self, now: Timestamp, ticket: u64) {
        if let Some((latest, _)) = self.left.last() {
            let gap = nanos_between(*latest, now);
            assert!(gap >= SHORTEST, "two are {gap} ns apart");
        }
        self.left.push((now, ticket));
        if self.below(64) < self.load.given_back {
            let kept = self.below(3_000);
            self.file(now + Duration::from_micros(kept), Event::GiveBack);
        }
    }

    /// Runs for `length` from the beginning, and checks what holds in each schedule.
    fn over(length: Duration, load: Load, seed: u64) -> Run {
        let mut run = Run {
            line: line(),
            random: Random::stream(48, seed),
            load,
            events: BinaryHeap::new(),
            filed: 0,
            waiting: BTreeMap::new(),
            stuck: Vec::new(),
            left: Vec::new(),
            busy: Duration::ZERO,
            spells: 0,
            given_back: 0,
        };
        let (mut now, end) = (at(0), at(0) + length);
        run.file(now, Event::Arrive);
        while now < end {
            let timer = run.line.due(now).map(|due| due.max(now));
            let event = run.events.peek().map(|Reverse((time, ..))| *time);
            let next = timer.into_iter().chain(event).min().unwrap_or(end);
            if !run.waiting.is_empty() {
                run.busy += next.saturating_duration_since(now);
            }
            now = next;
            if timer == Some(now) {
                if let Some(ticket) = run.line.call(now) {
                    // A wake-up takes a while.
                    let late = run.below(60);
                    run.file(now + Duration::from_micros(late), Event::Poll(ticket));
                }
            } else if let Some(Reverse((_, _, event))) = run.events.pop() {
                run.handle(now, event);
            }
        }
        run.check_rate();
        run
    }

    fn check_rate(&self) {
        let intervals = self.busy.as_nanos() as f64 / INTERVAL.as_nanos() as f64;
        let enough = 0.98 * intervals - self.spells as f64 - 1.0;
        assert!(self.left.len() as f64 >= enough, "{} of {intervals} left: {:?}", self.left.len(), self.load);
        // Nowhere more than the rate, but for one that was late, those that were not used, and what is caught up with.
        let caught_up = if self.load.stuck > 0 { 10 } else { 0 };
        let most = |span: u64| span / INTERVAL.as_nanos() as u64 + 3 + caught_up;
        for first in (0..self.left.len()).step_by(7) {
            for last in (first + 1..self.left.len()).step_by(5).take(60) {
                let span = nanos_between(self.left[first].0, self.left[last].0);
                let unused = if self.load.given_back > 0 { self.given_back } else { 0 };
                assert!((last - first) as u64 <= most(span) + unused, "{first}..{last} in {span} ns");
            }
        }
    }
}

/// Whoever comes, waits and goes away: those who stay leave in order, at the rate while anybody waits, and never faster.
#[test]
fn whoever_goes_away_the_others_leave_in_order_and_at_the_rate() {
    let rounds = if cfg!(miri) { 2 } else { 60 };
    for seed in 0..rounds {
        for (arrivals, patience) in [(500, 200_000), (500, 2_000), (300, 700), (1_000, 5_000), (1_500, 3_000)]
        {
            for given_back in [0, 8, 60] {
                let load = Load { arrivals, patience, stuck: 0, given_back };
                let run = Run::over(INTERVAL * 300, load, seed);
                assert!(run.left.len() > 100, "{load:?}: {}", run.left.len());
            }
        }
    }
}

/// The case: twice as many come as can leave, and each waits for 200 intervals. Afterwards the next leaves at once.
#[test]
fn after_an_overload_nothing_is_owed() {
    let load = Load { arrivals: 500, patience: 200_000, stuck: 0, given_back: 0 };
    let mut run = Run::over(INTERVAL * 5_000, load, 1);
    assert!(run.left.len() >= 4_900, "{}", run.left.len());
    let waiting: Vec<u64> = run.waiting.keys().copied().collect();
    for ticket in waiting {
        run.line.give_up(ticket);
    }
    assert_eq!(run.line.len(), 0);
    assert!(run.line.try_leave(at(5_001_000), 1).is_ok());
}

/// One whose task is not polled any more costs the others 2 ms, once, and the rate is made up for.
#[test]
fn one_that_never_comes_is_passed_over() {
    for seed in 0..20 {
        let load = Load { arrivals: 800, patience: 60_000, stuck: 3, given_back: 0 };
        let run = Run::over(INTERVAL * 500, load, seed);
        assert!(!run.stuck.is_empty());
    }
    let mut line = line();
    assert!(line.try_leave(at(0), 1).is_ok());
    let [stuck, next] = [line.join(1), line.join(2)];
    assert_eq!(line.call(at(1_000)), Some(1));
    assert_eq!((line.due(at(1_000)), line.call(at(2_999))), (Some(at(3_000)), None));
    assert!(!line.may_leave(next, at(2_999)));
    assert_eq!(line.call(at(3_000)), Some(2));
    assert!(line.leave(next, at(3_000), 1));
    // It leaves when it comes at last, behind nobody.
    assert!(!line.leave(stuck, at(3_001), 1) && line.leave(stuck, at(3_600), 1));
}

/// A burst is saved up by idle time alone, and the rate holds over all.
#[test]
fn a_burst_is_saved_up_in_idle_time() {
    let mut line = line();
    line.set_burst(4);
    let leave = |line: &mut Line<u64>, now| (0..10).filter(|_| line.try_leave(now, 1).is_ok()).count();
    assert_eq!(leave(&mut line, at(0)), 4);
    assert_eq!(leave(&mut line, at(500)), 0);
    assert_eq!(leave(&mut line, at(1_000)), 1);
    assert_eq!(leave(&mut line, at(4_100)), 3);
    assert_eq!(leave(&mut line, at(90_000)), 4);
    assert!(!line.is_as_new(at(90_500)) && !line.is_as_new(at(93_500)) && line.is_as_new(at(95_500)));
}

/// A faster rate holds at once, a slower one from the next on.
#[test]
fn a_new_rate_holds_for_the_next() {
    let mut line = line();
    line.set_rate(at(0), Rate::every(10_000 * INTERVAL).unwrap());
    assert!(line.try_leave(at(0), 1).is_ok());
    assert!(line.try_leave(at(100_000), 1).is_err());
    line.set_rate(at(100_000), Rate::every(INTERVAL).unwrap());
    assert!(line.try_leave(at(101_000), 1).is_ok());
    assert_eq!(line.try_leave(at(101_000), 1), Err(line.clock().place()));
}
