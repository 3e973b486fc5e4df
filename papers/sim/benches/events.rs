//! Simulated events a second on one CPU: `cargo bench -p softtimers-sim --bench events`.
//!
//! The engine with as many pending events as a simulated machine has, and with many more; and core's timing
//! wheel in the same role, to see whether it would be faster.

use std::hint::black_box;
use std::time::{Duration, Instant};

use softtimers_core::{Config as Timers, Random, Slack, SoftTimers, Timestamp, TriggerState};
use softtimers_sim::Engine;

fn main() {
    for pending in [10, 1_000, 100_000] {
        report(&format!("engine, {pending} pending"), || engine(pending));
        report(&format!("timing wheel, {pending} pending"), || wheel(pending));
    }
}

/// The median of nine runs.
fn report(name: &str, run: impl Fn() -> u64) {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = now();
            let events = black_box(run());
            events as f64 / (now() - begin).as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{name:32} {:6.2} million events/s", rates[ROUNDS / 2]);
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

/// Each event schedules another, at random within a millisecond.
fn engine(pending: u64) -> u64 {
    let (mut engine, mut random) = (Engine::new(), Random::stream(1, 0));
    for event in 0..pending {
        engine.at(Timestamp::from_nanos(random.below(1_000_000)), event);
    }
    for _ in 0..EVENTS {
        let Some(event) = engine.next(Timestamp::MAX) else { break };
        engine.after(Duration::from_nanos(random.below(1_000_000)), event);
    }
    engine.handled()
}

fn wheel(pending: u64) -> u64 {
    let config = Timers::default().tick(Duration::from_nanos(1));
    let (mut timers, mut random) = (SoftTimers::new(config), Random::stream(1, 0));
    let mut now = Timestamp::ZERO;
    for event in 0..pending {
        timers.schedule(now, Duration::from_nanos(random.below(1_000_000)), Slack::EXACT, event);
    }
    let mut handled = 0;
    while handled < EVENTS {
        let Some(next) = timers.poll_at() else { break };
        now = now.max(next);
        let turn = timers.trigger(TriggerState::Idle, now);
        while let Some(fired) = timers.next(&turn) {
            timers.schedule(now, Duration::from_nanos(random.below(1_000_000)), Slack::EXACT, fired.event);
            handled += 1;
        }
    }
    handled
}

const EVENTS: u64 = 1_000_000;
const ROUNDS: usize = 9;
