//! How long the lock of shared timers is held, when very many timers fall due together.
//!
//! A thread that sets or cancels a timer waits for the lock's holder. A program that expires all due timers under one
//! hold keeps the others out for that long (Costello & Varghese, figure 5); `Shared` lets them in after each step. All
//! timers are due in the same microsecond, and between two holds some of the next ones are cancelled.
//!
//! ```text
//!   one hold     ▐████████████████████████████████▌         grows with what is due
//!   Shared       ▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌ …          does not
//! ```
//!
//! A hold is the shortest of three identical runs; shown are the longest hold and the 99.9th percentile.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use softtimers::shared::{Remote, Shared};
use softtimers::{Clock, Config, Monotonic, Slack, SoftTimers, Step, TimerId, Timestamp, TriggerState, Turn};
use softtimers_lab::bench::Done;
use softtimers_lab::least::Least;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;

pub(crate) fn holds(rounds: &usize) -> Done<Vec<Table>> {
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
    // Nearly all holds take the same time for any number of timers; and the longest, whose memory has left the cache
    // when there are many timers, is within the limit of one step.
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
/// Its name, and its measurement with N timers.
type Contender = (&'static str, fn(usize) -> Measured);

const SHARED: Contender = ("Shared", measure::<Steps>);

/// Timers that threads share.
trait Shares {
    fn new() -> Self;
    fn set(&self, delay: Duration, number: u32) -> TimerId;
    fn cancel(&self, id: TimerId);
    /// Holds the lock once, and returns timers due at [`DUE`]; says whether there are more.
    fn hold(&mut self, came: &mut Vec<u32>) -> bool;
}

/// The library's: one step per hold.
struct Steps {
    timers: Shared<u32>,
    remote: Remote<u32>,
    turn: Option<Turn>,
}

impl Shares for Steps {
    fn new() -> Self {
        let timers = Shared::new(Config::default()).expect("two descriptors");
        Steps { remote: timers.remote(), timers, turn: None }
    }

    fn set(&self, delay: Duration, number: u32) -> TimerId {
        self.remote.schedule(Timestamp::ZERO, delay, Slack::EXACT, number)
    }

    fn cancel(&self, id: TimerId) {
        self.remote.cancel(id);
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

/// The plain solution: all due timers under one hold.
struct OneHold(Mutex<SoftTimers<u32>>);

impl OneHold {
    fn lock(&self) -> MutexGuard<'_, SoftTimers<u32>> {
        self.0.lock().expect("nobody panics with the lock")
    }
}

impl Shares for OneHold {
    fn new() -> Self {
        OneHold(Mutex::new(SoftTimers::new(Config::default())))
    }

    fn set(&self, delay: Duration, number: u32) -> TimerId {
        self.lock().schedule(Timestamp::ZERO, delay, Slack::EXACT, number)
    }

    fn cancel(&self, id: TimerId) {
        self.lock().cancel(id);
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

fn measure<S: Shares>(count: usize) -> Measured {
    let mut holds = Least::default();
    for _ in 0..3 {
        holds.begin();
        expire::<S>(count, |nanos| holds.add(nanos));
    }
    [holds.longest(), holds.quantile(0.999)].map(f64::from)
}

/// Sets `count` timers for [`DUE`] and lets them expire; in every other window a timer that is about to expire is
/// cancelled. `held` is called with the time of each hold.
fn expire<S: Shares>(count: usize, mut held: impl FnMut(u64)) {
    let mut timers = S::new();
    let delay = DUE.saturating_duration_since(Timestamp::ZERO);
    let ids: Vec<TimerId> = (0..count as u32).map(|number| timers.set(delay, number)).collect();
    // The bench's own memory is touched before, or its page faults would happen under the lock.
    let (mut came, mut holds) = (vec![0; count], 0_usize);
    came.clear();
    loop {
        let start = Monotonic.now();
        let more = timers.hold(&mut came);
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

const TIMERS: [usize; 3] = [1_000, 10_000, 100_000];
const LONGEST_HOLD: &str = "longest hold, ns";
const HOLD: &str = "hold p99.9, ns";
const FIGURES: [&str; 2] = [LONGEST_HOLD, HOLD];
/// The limit of a single step with a million timers, in nanoseconds.
const LONGEST: f64 = 5_000.0;
/// The due time of all timers.
const DUE: Timestamp = Timestamp::from_micros(700);
