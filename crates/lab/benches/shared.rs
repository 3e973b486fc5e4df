//! How long the lock of timers that threads share is held, when very many fall due together: `cargo bench -p
//! softtimers-lab --bench shared [-- --rounds 7 --quick --json FILE]`.
//!
//! Whoever sets or cancels a timer waits for whoever has the lock. A program that expires all that is due under one
//! hold keeps the others out for as long as that takes (Costello & Varghese, figure 5); `Shared` lets them in after
//! each step. All timers are due in the same microsecond, and between two holds some that are about to come
//! are cancelled.
//!
//! ```text
//!   one hold     ▐████████████████████████████████▌         grows with what is due
//!   Shared       ▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌ …          does not
//! ```
//!
//! | figure | |
//! |---|---|
//! | hold | of each hold the shortest of three identical runs: the longest, and what 99.9% do not exceed |
//! | wait | another thread sets a far timer and cancels it, over and over: what each operation takes |
//!
//! A wait also has in it what the host and the scheduler do, and if the lock's holder loses its processor, the
//! whole of that; a hold has not.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use clap::Parser;
use softtimers::shared::{Remote, Shared};
use softtimers::{
    Clock, Config, Histogram, Monotonic, Slack, SoftTimers, Step, TimerId, Timestamp, TriggerState, Turn,
};
use softtimers_lab::bench::{self, Asked, Done, Section};
use softtimers_lab::least::Least;
use softtimers_measure::bar::Bar;
use softtimers_measure::paired::Paired;
use softtimers_measure::result::Table;

#[derive(Parser, Debug)]
#[command(about = "how long the lock of shared timers is held", disable_version_flag = true)]
struct Arguments {
    #[command(flatten)]
    asked: Asked,
}

const SECTIONS: [Section<usize>; 1] = [("holds", holds)];

fn main() -> ExitCode {
    bench::main("shared", |given| {
        let Arguments { asked } = bench::parse("shared", given, &SECTIONS);
        asked.run("shared", "", &SECTIONS, &asked.rounds(7))
    })
}

fn holds(rounds: &usize) -> Done<Vec<Table>> {
    let mut contenders = [SHARED, ("one hold", measure::<OneHold>)];
    let measured =
        Paired::new(*rounds).contest(&TIMERS, &mut contenders, |&timers, (name, measure), round| {
            for (figure, nanos) in FIGURES.into_iter().zip(measure(timers)) {
                round.put(&row(timers, name), figure, nanos);
            }
            Done::Ok(())
        })?;
    let rows = TIMERS.iter().flat_map(|&timers| contenders.map(|(name, _)| row(timers, name)));
    let mut table = Table::of("holds", &measured, rows, &FIGURES.map(|figure| (figure, 0)));
    // Nearly all holds are as long however many timers there are; and the longest, whose memory is no longer in the cache
    // among many, is not beyond what one step may take.
    let [few, _, many] = TIMERS;
    let ratio = measured.ratio(HOLD, &row(many, SHARED.0), &row(few, SHARED.0));
    table.bar(Bar::at_most(format!("shared: {HOLD}, {many} timers due together against {few}"), 2.0, ratio));
    let longest = measured.estimate(&row(many, SHARED.0), LONGEST_HOLD);
    table.bar(Bar::at_most(format!("shared: {LONGEST_HOLD}, {many} timers due together"), LONGEST, longest));
    Ok(vec![table])
}

fn row(timers: usize, name: &str) -> String {
    format!("{timers} timers due together, {name}")
}

/// The [`FIGURES`] of a round.
type Measured = [f64; FIGURES.len()];
/// Its name, and what it does with so many timers.
type Contender = (&'static str, fn(usize) -> Measured);

const SHARED: Contender = ("Shared", measure::<Steps>);

/// Timers that many threads set and cancel.
trait Timers: Send + 'static {
    fn set(&self, delay: Duration, number: u32) -> TimerId;
    fn cancel(&self, id: TimerId);
}

/// The thread that expires them.
trait Owner {
    type Timers: Timers;

    fn new() -> Self;
    fn timers(&self) -> Self::Timers;
    /// Holds the lock once, and hands out what is due at [`DUE`]; whether there is more.
    fn hold(&mut self, came: &mut Vec<u32>) -> bool;
}

/// As it is: a step a hold.
struct Steps {
    timers: Shared<u32>,
    turn: Option<Turn>,
}

impl Timers for Remote<u32> {
    fn set(&self, delay: Duration, number: u32) -> TimerId {
        self.schedule(Timestamp::ZERO, delay, Slack::EXACT, number)
    }

    fn cancel(&self, id: TimerId) {
        Remote::cancel(self, id);
    }
}

impl Owner for Steps {
    type Timers = Remote<u32>;

    fn new() -> Self {
        Steps { timers: Shared::new(Config::default()).expect("two descriptors"), turn: None }
    }

    fn timers(&self) -> Remote<u32> {
        self.timers.remote()
    }

    fn hold(&mut self, came: &mut Vec<u32>) -> bool {
        let turn = match self.turn {
            Some(turn) => turn,
            None => *self.turn.insert(self.timers.trigger(TriggerState::Idle, DUE).expect("some are due")),
        };
        match self.timers.step(&turn) {
            Step::Fired(fired) => came.push(fired.event),
            Step::MoreWork => {}
            Step::Done => return false,
        }
        true
    }
}

/// What one would write: all that is due under one hold.
#[derive(Clone)]
struct OneHold(Arc<Mutex<SoftTimers<u32>>>);

impl OneHold {
    fn lock(&self) -> MutexGuard<'_, SoftTimers<u32>> {
        self.0.lock().expect("nobody panics with the lock")
    }
}

impl Timers for OneHold {
    fn set(&self, delay: Duration, number: u32) -> TimerId {
        self.lock().schedule(Timestamp::ZERO, delay, Slack::EXACT, number)
    }

    fn cancel(&self, id: TimerId) {
        self.lock().cancel(id);
    }
}

impl Owner for OneHold {
    type Timers = OneHold;

    fn new() -> Self {
        OneHold(Arc::new(Mutex::new(SoftTimers::new(Config::default()))))
    }

    fn timers(&self) -> OneHold {
        self.clone()
    }

    fn hold(&mut self, came: &mut Vec<u32>) -> bool {
        let mut timers = self.lock();
        let turn = timers.trigger(TriggerState::Idle, DUE);
        while let Some(fired) = timers.next(&turn) {
            came.push(fired.event);
        }
        false
    }
}

fn measure<O: Owner>(count: usize) -> Measured {
    let mut holds = Least::default();
    for _ in 0..3 {
        holds.begin();
        expire::<O>(count, |nanos| holds.add(nanos));
    }
    let waits = waits::<O>(count);
    let wait = |share: f64| waits.quantile(share).unwrap_or(0) as f64;
    let held = [f64::from(holds.longest()), f64::from(holds.quantile(0.999))];
    [held[0], held[1], wait(1.0), wait(0.999), wait(0.5)]
}

/// Sets so many timers for [`DUE`] and lets them expire; in every other window the one that is soon to come
/// is cancelled. `held` is told how long each hold took.
fn expire<O: Owner>(count: usize, mut held: impl FnMut(u64)) {
    let mut owner = O::new();
    let timers = owner.timers();
    let delay = DUE.saturating_duration_since(Timestamp::ZERO);
    let ids: Vec<TimerId> = (0..count as u32).map(|number| timers.set(delay, number)).collect();
    // The bench's own memory is touched before, or its pages would be faulted in under the lock.
    let (mut came, mut holds) = (vec![0; count], 0_usize);
    came.clear();
    loop {
        let start = Monotonic.now();
        let more = owner.hold(&mut came);
        held(Monotonic.now().saturating_duration_since(start).as_nanos() as u64);
        if !more {
            break;
        }
        holds += 1;
        if holds.is_multiple_of(2) {
            let about = came.last().map_or(holds, |&last| last as usize + 1 + holds % 40);
            ids.get(about).into_iter().for_each(|&id| timers.cancel(id));
        }
    }
    assert!(came.is_sorted() && came.len() > count / 4, "timers were lost, or came out of order");
}

/// What another thread waits while timers expire: each of its operations takes so long.
fn waits<O: Owner>(count: usize) -> Histogram {
    let mut owner = O::new();
    let delay = DUE.saturating_duration_since(Timestamp::ZERO);
    let timers = owner.timers();
    for number in 0..count as u32 {
        timers.set(delay, number);
    }
    let phase = Arc::new(AtomicU8::new(BEFORE));
    let seen = phase.clone();
    let other = thread::spawn(move || {
        let mut waits = Histogram::new();
        while seen.load(Ordering::Relaxed) != OVER {
            let start = Monotonic.now();
            let id = timers.set(FAR, u32::MAX);
            let between = Monotonic.now();
            timers.cancel(id);
            if seen.load(Ordering::Relaxed) == BEFORE {
                seen.store(READY, Ordering::Relaxed);
            } else {
                for (from, to) in [(start, between), (between, Monotonic.now())] {
                    waits.record(to.saturating_duration_since(from).as_nanos() as u64);
                }
            }
        }
        waits
    });
    // Both have a processor by now.
    while phase.load(Ordering::Relaxed) == BEFORE {
        thread::yield_now();
    }
    let mut came = Vec::with_capacity(count);
    while owner.hold(&mut came) {}
    phase.store(OVER, Ordering::Relaxed);
    assert_eq!(came.len(), count, "timers were lost");
    other.join().expect("it does not panic")
}

const TIMERS: [usize; 3] = [1_000, 10_000, 100_000];
const LONGEST_HOLD: &str = "longest hold, ns";
const HOLD: &str = "hold p99.9, ns";
const FIGURES: [&str; 5] = [LONGEST_HOLD, HOLD, "longest wait, ns", "wait p99.9, ns", "wait p50, ns"];
/// What a single step may take at a million timers, in nanoseconds.
const LONGEST: f64 = 5_000.0;
/// When they are due, all of them.
const DUE: Timestamp = Timestamp::from_micros(700);
/// Phases of a drain beside another thread: that has not run yet, it has, and there is nothing left.
const BEFORE: u8 = 0;
const READY: u8 = 1;
const OVER: u8 = 2;
const FAR: Duration = Duration::from_secs(100);
