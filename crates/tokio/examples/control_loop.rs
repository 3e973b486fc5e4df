//! A controller that runs 10,000 times a second: reads, computes, writes. Steps missed in a stall are
//! skipped, because a controller cannot use old inputs, and are not counted as controlled time.
//!
//! `cargo run --release -p softtimers-tokio --example control_loop`

use std::time::Duration;

use softtimers_tokio::{Instant, MissedTickBehavior, Slack, interval};

const PERIOD: Duration = Duration::from_micros(100);
const STEPS: usize = 5_000;

/// A PI controller of a first-order system with set point 1.
#[derive(Default)]
struct Loop {
    state: f64,
    integral: f64,
}

impl Loop {
    fn step(&mut self, elapsed: Duration) {
        let error = 1.0 - self.state;
        self.integral += error * elapsed.min(PERIOD).as_secs_f64();
        let output = 8.0 * error + 40.0 * self.integral;
        // During a stall the system continues towards the last output.
        self.state += (output - self.state) * (1.0 - (-elapsed.as_secs_f64() / 0.05).exp());
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut ticks = interval(PERIOD).with_slack(Slack::EXACT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.set_missed_tick_tolerance(PERIOD); // not tokio's 5 ms
    let (mut plant, mut lateness) = (Loop::default(), Vec::new());
    let start = ticks.tick().await;
    let mut last = start;
    while lateness.len() < STEPS {
        let tick = ticks.tick().await;
        lateness.push(tick.elapsed());
        plant.step(Instant::now() - last);
        last = Instant::now();
    }
    lateness.sort();
    let asked = (last - start).as_nanos() / PERIOD.as_nanos();
    let [median, high] = [2, 100].map(|part| lateness[lateness.len() - 1 - lateness.len() / part]);
    println!("{} of {asked} steps, late {median:?} in the median, {high:?} at p99", lateness.len());
    println!("the plant is at {:.3}", plant.state);
    assert!((plant.state - 1.0).abs() < 0.2);
}

#[test]
fn runs() {
    main();
}
