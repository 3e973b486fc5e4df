//! A controller that runs 10,000 times a second: reads, computes, writes. What a stall has made it miss is left out,
//! for a controller has no use for old inputs.
//!
//! `cargo run --release -p softtimers-tokio --example control_loop`

use std::time::Duration;

use softtimers_tokio::{Instant, MissedTickBehavior, Slack, interval};

const PERIOD: Duration = Duration::from_micros(100);
const TIME: Duration = Duration::from_millis(500);

/// A PI controller of a first-order system that is to go to 1.
#[derive(Default)]
struct Loop {
    state: f64,
    integral: f64,
}

impl Loop {
    fn step(&mut self, elapsed: Duration) {
        let dt = elapsed.as_secs_f64();
        let error = 1.0 - self.state;
        self.integral += error * dt;
        let output = 8.0 * error + 40.0 * self.integral;
        self.state += (output - self.state) * dt / 0.05;
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
    while last - start < TIME {
        let tick = ticks.tick().await;
        lateness.push(tick.elapsed());
        plant.step(Instant::now() - last);
        last = Instant::now();
    }
    lateness.sort();
    let asked = TIME.as_nanos() / PERIOD.as_nanos();
    let [median, high] = [2, 100].map(|part| lateness[lateness.len() - 1 - lateness.len() / part]);
    println!("{} of {asked} steps, late {median:?} in the median, {high:?} at p99", lateness.len());
    println!("the plant is at {:.3}", plant.state);
    assert!((plant.state - 1.0).abs() < 0.2);
}

#[test]
fn runs() {
    main();
}
