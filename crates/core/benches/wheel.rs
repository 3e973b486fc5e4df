//! The cost of timers by their number: `cargo bench -p softtimers-core --bench wheel [-- WORKLOAD…]`.
//!
//! Compares the wheel with the standard library's `BinaryHeap` with lazy cancels, in turns within one run.
//! The clock is simulated, in steps of a microsecond; each figure is this thread's CPU time, the minimum over
//! the rounds.
//!
//! | workload | |
//! |---|---|
//! | w1 | set a timer far away and cancel it, while N others wait |
//! | w1r | postpone a random one of a million |
//! | w2 | a million timers within a second: set them all, let them expire in steps of 1 µs |
//! | w3 | a million connections with a time-out of 2 to 4.3 s each; every microsecond one is postponed |
//! | w4 | F flows, each set again from 10 µs to 1 ms ahead when it is due |
//! | w5 | "anything due?" and `poll_at` while nothing is |
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Duration;

use softtimers_core::{Config, KeyedTimers, Slack, SoftTimers, TimerId, Timestamp, TriggerState};

fn main() {
    println!(
        "| workload | handles | handles, slack | keyed | BinaryHeap | ours / BinaryHeap |\n|---|---|---|---|---|---|"
    );
    for n in [0, 200, 1_000, 10_000, 100_000, 1_000_000] {
        row(&format!("w1 {n}"), |it| w1(it, n));
    }
    row("w1r 1M", w1r);
    row("w2 1M, set", |it| w2(it).0);
    row("w2 1M, expire", |it| w2(it).1);
    row("w3 1M", w3);
    for flows in [1, 8, 32, 64, 65, 1_000, 10_000, 100_000] {
        row(&format!("w4 {flows}, steps"), |it| w4(it, flows, false));
        row(&format!("w4 {flows}, jumps"), |it| w4(it, flows, true));
    }
    row("w5 1M, due?", |it| w5(it, false));
    row("w5 1M, poll_at", |it| w5(it, true));
}

/// One contender. Times are microseconds.
trait Timers {
    fn set(&mut self, now: u64, id: u32, due: u64);
    fn cancel(&mut self, id: u32);
    fn put_off(&mut self, now: u64, id: u32, due: u64) {
        self.cancel(id);
        self.set(now, id, due);
    }
    fn expire(&mut self, now: u64, out: &mut Vec<u32>);
    fn next(&self) -> u64;
    fn poll_at(&self) -> u64 {
        self.next()
    }
}

/// One row of the table: the minimum over several rounds, the contenders in turns.
fn row(name: &str, run: impl Fn(&mut dyn Timers) -> f64) {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if !asked.is_empty() && !asked.iter().any(|asked| name.starts_with(asked.as_str())) {
        return;
    }
    let mut least = [f64::MAX; 4];
    for _ in 0..ROUNDS {
        let mut note = |at: usize, nanos: f64| least[at] = nanos.min(least[at]);
        note(0, run(&mut Handles::new(Slack::EXACT)));
        note(1, run(&mut Handles::new(Slack::micros(150))));
        note(2, run(&mut Keyed { timers: KeyedTimers::new(Duration::from_micros(1)) }));
        note(3, run(&mut Heap::default()));
    }
    let [a, b, c, d] = least;
    println!("| {name} | {a:.1} | {b:.1} | {c:.1} | {d:.1} | {:.2} {:.2} {:.2} |", a / d, b / d, c / d);
}

struct Handles {
    timers: SoftTimers<u32>,
    ids: Vec<Option<TimerId>>,
    slack: Slack,
}

impl Handles {
    fn new(slack: Slack) -> Self {
        Handles { timers: SoftTimers::new(Config::default()), ids: vec![None; MOST_TIMERS], slack }
    }
}

impl Timers for Handles {
    #[inline]
    fn set(&mut self, now: u64, id: u32, due: u64) {
        let handle = self.timers.schedule_at(at(now), at(due), self.slack, id);
        self.ids[id as usize] = Some(handle);
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.ids[id as usize].take().map(|id| self.timers.cancel(id));
    }

    #[inline]
    fn put_off(&mut self, now: u64, id: u32, due: u64) {
        if let Some(handle) = self.ids[id as usize] {
            let _ = self.timers.reschedule_at(at(now), handle, at(due), self.slack);
        }
    }

    #[inline]
    fn expire(&mut self, now: u64, out: &mut Vec<u32>) {
        let turn = self.timers.trigger(TriggerState::SyscallExit, at(now));
        while let Some(fired) = self.timers.next(&turn) {
            out.push(fired.event);
        }
    }

    #[inline]
    fn next(&self) -> u64 {
        self.timers.next_due().map_or(u64::MAX, |due| due.as_nanos().div_ceil(1_000))
    }

    #[inline]
    fn poll_at(&self) -> u64 {
        self.timers.poll_at().map_or(u64::MAX, Timestamp::as_nanos)
    }
}

struct Keyed {
    timers: KeyedTimers,
}

impl Timers for Keyed {
    #[inline]
    fn set(&mut self, now: u64, id: u32, due: u64) {
        self.timers.set(at(now), id, at(due));
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.timers.cancel(id);
    }

    #[inline]
    fn put_off(&mut self, now: u64, id: u32, due: u64) {
        self.set(now, id, due);
    }

    #[inline]
    fn expire(&mut self, now: u64, out: &mut Vec<u32>) {
        let turn = self.timers.turn(at(now));
        while let Some((key, _)) = self.timers.next(&turn) {
            out.push(key);
        }
    }

    #[inline]
    fn next(&self) -> u64 {
        self.timers.next_due().map_or(u64::MAX, |due| due.as_nanos().div_ceil(1_000))
    }
}

/// `BinaryHeap` of (due, serial number, id); a cancelled timer stays until it comes up or half of all are.
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    serial: Vec<u32>,
    dead: usize,
}

impl Timers for Heap {
    #[inline]
    fn set(&mut self, _: u64, id: u32, due: u64) {
        if self.serial.len() <= id as usize {
            self.serial.resize(id as usize + 1, 0);
        }
        self.heap.push(Reverse((due, self.serial[id as usize], id)));
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.serial[id as usize] += 1;
        self.dead += 1;
        if self.dead > self.heap.len() / 2 + 32 {
            let serial = &self.serial;
            self.heap.retain(|&Reverse((_, number, id))| serial[id as usize] == number);
            self.dead = 0;
        }
    }

    #[inline]
    fn expire(&mut self, now: u64, out: &mut Vec<u32>) {
        while let Some(&Reverse((due, number, id))) = self.heap.peek() {
            if due > now {
                break;
            }
            self.heap.pop();
            if self.serial[id as usize] == number {
                self.serial[id as usize] += 1;
                out.push(id);
            } else {
                self.dead -= 1;
            }
        }
    }

    #[inline]
    fn next(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |&Reverse((due, ..))| due)
    }
}

fn w1(timers: &mut dyn Timers, n: u32) -> f64 {
    let mut random = Random(1);
    for id in 0..n {
        timers.set(0, id, 60_000_000 + random.below(60_000_000));
    }
    const PAIRS: u32 = 5_000_000;
    nanos(|| {
        for _ in 0..PAIRS {
            timers.set(0, n, 120_000_000 + random.below(10_000_000));
            timers.cancel(n);
        }
    }) / f64::from(PAIRS)
}

fn w1r(timers: &mut dyn Timers) -> f64 {
    let mut random = Random(1);
    for id in 0..MILLION {
        timers.set(0, id, 60_000_000 + random.below(60_000_000));
    }
    nanos(|| {
        for _ in 0..MILLION {
            let id = random.below(u64::from(MILLION)) as u32;
            timers.put_off(0, id, 120_000_000 + random.below(10_000_000));
        }
    }) / f64::from(MILLION)
}

fn w2(timers: &mut dyn Timers) -> (f64, f64) {
    let mut random = Random(1);
    let due: Vec<u64> = (0..MILLION).map(|_| 1 + random.below(1_000_000)).collect();
    let mut out = Vec::with_capacity(64);
    let set = nanos(|| due.iter().zip(0..).for_each(|(&due, id)| timers.set(0, id, due)));
    let mut expired = 0;
    let expire = nanos(|| {
        for now in 1..=1_000_000 {
            timers.expire(now, &mut out);
            expired += out.len();
            out.clear();
        }
    });
    assert_eq!(expired, MILLION as usize);
    (set / f64::from(MILLION), expire / f64::from(MILLION))
}

fn w3(timers: &mut dyn Timers) -> f64 {
    let mut random = Random(1);
    let mut now = 0;
    for id in 0..MILLION {
        timers.set(now, id, now + 1 + random.below(4_300_000));
    }
    let mut out = Vec::with_capacity(64);
    let mut run = |steps: u32| {
        for _ in 0..steps {
            now += 1;
            timers.expire(now, &mut out);
            for id in out.drain(..) {
                timers.set(now, id, now + 2_000_000 + random.below(2_300_000));
            }
            if random.below(100) < 95 {
                let id = random.below(u64::from(MILLION)) as u32;
                timers.put_off(now, id, now + 2_000_000 + random.below(2_300_000));
            }
        }
    };
    run(4_300_000);
    nanos(|| run(MILLION)) / f64::from(MILLION)
}

fn w4(timers: &mut dyn Timers, flows: u32, jump: bool) -> f64 {
    let mut random = Random(1);
    let intervals: Vec<u64> = (0..flows).map(|_| 10 + random.below(990)).collect();
    for (id, interval) in (0..).zip(&intervals) {
        timers.set(0, id, 1 + random.below(*interval));
    }
    let mut now = 0;
    let mut out = Vec::with_capacity(flows as usize);
    let mut run = |most: u32| {
        let (mut events, mut calls) = (0, 0);
        while events < most && calls < 2 * most {
            calls += 1;
            now = if jump { timers.next().max(now) } else { now + 1 };
            timers.expire(now, &mut out);
            events += out.len() as u32;
            for id in out.drain(..) {
                timers.set(now, id, now + intervals[id as usize]);
            }
        }
        if jump || flows > 1 { events } else { calls }
    };
    run(300_000);
    let mut count = 0;
    nanos(|| count = run(1_000_000)) / f64::from(count)
}

fn w5(timers: &mut dyn Timers, next: bool) -> f64 {
    let mut random = Random(1);
    for id in 0..MILLION {
        timers.set(0, id, 60_000_000 + random.below(60_000_000));
    }
    let mut out = Vec::new();
    timers.expire(5, &mut out);
    nanos(|| {
        for now in 0..u64::from(MILLION) {
            if next {
                black_box(black_box(&mut *timers).poll_at());
            } else {
                timers.expire(black_box(5 + now), &mut out);
            }
        }
    }) / f64::from(MILLION)
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Nanoseconds for which this thread had a CPU.
fn nanos(run: impl FnOnce()) -> f64 {
    let start = on_cpu();
    run();
    on_cpu() - start
}

fn on_cpu() -> f64 {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    account.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds on a processor")
}

struct Random(u64);

impl Random {
    #[inline]
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 32) * limit) >> 32
    }
}

const MILLION: u32 = 1_000_000;
const MOST_TIMERS: usize = MILLION as usize + 1;
const ROUNDS: usize = 3;
