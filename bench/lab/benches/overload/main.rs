//! Receiving under overload, and the cost of stability when there is none: `cargo bench --manifest-path
//! bench/Cargo.toml --bench overload [-- [--rounds 5] [--quick] [--json FILE] [SECTION …]]`, about five minutes.
//!
//! | section | question |
//! |---|---|
//! | `curve` | what is delivered at five times the capacity, and does a timer of 20 ms still fire? |
//! | `sweep` | what is delivered at each rate, as drawn in docs/overload.md? |
//! | `limit` | does a receiver keep to its share of the CPU, and a computation next to it get the rest? |
//! | `low` | what does a stable receiver cost at 2,000 packets/s, and without packets? |
//! | `modes` | wake-ups and latency at a low, a medium and a high rate, including HIP's |
//!
//! The receivers are those of `softtimers bench`, the sender is `softtimers send` on the other CPU. Contenders of a
//! round run directly after each other, in rotating order. A missed bar is reported and does not fail the bench.
#![forbid(unsafe_code)]

mod curve;
mod limit;
mod low;
mod sweep;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use softtimers_lab::bench::{self, Section};
use softtimers_load::mode::{Mode, PollingPlan};
use softtimers_load::overload::{Bench, Offer, Point, Receiver};
use softtimers_trials::command::Program;
use softtimers_trials::paired::Paired;

const SECTIONS: [Section<Effort>; 5] = [
    ("curve", curve::measure),
    ("sweep", sweep::measure),
    ("limit", limit::measure),
    ("low", low::quiet),
    ("modes", low::modes),
];

/// The effort of the bench.
#[derive(Clone, Copy, Debug)]
struct Effort {
    rounds: Paired,
    trial: Duration,
}

fn main() -> ExitCode {
    bench::main("overload", &SECTIONS, |asked| {
        let trial = Duration::from_millis(if asked.quick { 100 } else { 500 });
        Ok(Effort { rounds: Paired::new(asked.rounds()), trial })
    })
}

/// Returns a receiver of one stage in this mode, with this number of rules for each packet.
fn receiver(mode: Mode, rules: u32) -> Receiver {
    Receiver {
        looking: looking(mode, 64),
        stages: 1,
        rules,
        cpu_limit: None,
        nice: 0,
        computes: false,
        recv_buffer: 1 << 20,
    }
}

/// Returns the mode with this quota, and with `softtimers bench`'s number of packets wanted in a poll.
fn looking(mode: Mode, quota: u32) -> PollingPlan {
    PollingPlan::new(mode, quota, mode.aggregates().then_some(5), None).expect("modes with defaults")
}

/// Makes a bench that measures `receiver`.
fn bench_of(receiver: Receiver) -> anyhow::Result<Bench> {
    Ok(Bench::new(receiver, Program::build()?.path().to_owned()))
}

/// Offers a receiver `rate` packets/s; in longer bursts if the sender has to.
fn offered(bench: &mut Bench, rate: f64, burst: u32, length: Duration) -> Result<Point, Box<dyn Error>> {
    let mut offer = Offer { rate, burst, length };
    loop {
        let point = bench.trial(offer)?;
        match offer.in_longer_bursts() {
            Some(longer) if !offer.was_reached(point.offered_pps) => offer = longer,
            _ => return Ok(point),
        }
    }
}

/// Rules of the second stage: about 10 µs a packet on the machine of the published figures.
const WORK: u32 = 20_000;
