//! Receiving under overload, and what surviving it costs when there is none: `cargo bench -p softtimers-bench --bench
//! overload [-- [--rounds 5] [--quick] [--json FILE] [SECTION …]]`, about five minutes.
//!
//! | section | question |
//! |---|---|
//! | `curve` | what is delivered at five times the capacity, and does a timer of 20 ms fire meanwhile? |
//! | `cost` | how does the capacity fall as a packet costs more? |
//! | `limit` | has a receiver no more than its share of the processor, and a computation beside it the rest? |
//! | `low` | what does a receiver that survives cost at 2,000 packets/s, and when nothing comes? |
//! | `modes` | wake-ups and latency at a low, a medium and a high rate, HIP's beside them |
//! | `quota` | what a larger quota does to the longest waits |
//! | `relay` | how many packets/s does `forward --udp` relay, and how many `socat`? |
//!
//! The receivers are those of `softtimers bench`, the sender is `softtimers send` on the other processor. Contenders of a
//! round follow each other at once, another one first each time, and a figure is the median over the rounds. A round in
//! which the host or other programs took more than 5% of the processors is set aside; if there is no other, the figures
//! are printed as inconclusive. A bar that is missed is reported and does not fail the bench.
#![forbid(unsafe_code)]

mod curve;
mod limit;
mod low;
mod relay;

use std::error::Error;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use softtimers_bench::rounds::Section;
use softtimers_bench::turns;
use softtimers_cli::args::Beside;
use softtimers_cli::bench::load::Offer;
use softtimers_cli::bench::report::Point;
use softtimers_cli::bench::trial::Bench;
use softtimers_cli::forward::mode::{Looking, Mode};
use softtimers_cli::machine::Machine;
use softtimers_cli::plan::ReceiverPlan;

#[derive(Parser, Debug)]
#[command(about = "receiving under overload", disable_version_flag = true)]
struct Arguments {
    /// How often each is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Once, and shortly: proves only that all of it runs
    #[arg(long)]
    quick: bool,
    /// Also write all figures to this new file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these
    #[arg(value_name = "SECTION", value_parser = ["curve", "cost", "limit", "low", "modes", "quota", "relay"])]
    sections: Vec<String>,
}

/// Makes the figures of a section.
type Measure = fn(Effort) -> Result<Section, Box<dyn Error>>;

/// How thoroughly.
#[derive(Clone, Copy, Debug)]
struct Effort {
    rounds: usize,
    trial: Duration,
}

fn main() -> ExitCode {
    turns::main("overload", |given| {
        let line = std::iter::once("overload".to_owned()).chain(given.iter().cloned());
        measure(&Arguments::parse_from(line))
    })
}

fn measure(arguments: &Arguments) -> turns::Done {
    let effort = match arguments.quick {
        true => Effort { rounds: 1, trial: Duration::from_millis(100) },
        false => Effort { rounds: arguments.rounds.max(1), trial: Duration::from_millis(500) },
    };
    let wanted =
        |name: &str| arguments.sections.is_empty() || arguments.sections.iter().any(|one| one == name);
    println!("{}\n", Machine::read().line());
    let sections: [(&str, Measure); 7] = [
        ("curve", curve::measure),
        ("cost", curve::costs),
        ("limit", limit::measure),
        ("low", low::quiet),
        ("modes", low::modes),
        ("quota", low::quotas),
        ("relay", relay::measure),
    ];
    let mut all = serde_json::Map::new();
    for (name, section) in sections.into_iter().filter(|(name, _)| wanted(name)) {
        let section = section(effort)?;
        println!("## {name}\n\n{section}");
        all.insert(name.to_owned(), section.to_json());
    }
    let Some(path) = &arguments.json else { return Ok(()) };
    let object =
        json!({ "schema": "softtimers.bench.overload/1", "machine": Machine::read(), "sections": all });
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    serde_json::to_writer_pretty(file.map_err(|error| format!("{}: {error}", path.display()))?, &object)?;
    Ok(())
}

/// A receiver of one stage in this mode, with this work for each packet.
fn receiver(mode: Mode, work: Duration) -> ReceiverPlan {
    let max_delay = mode.default_delay();
    ReceiverPlan {
        looking: Looking { mode, quota: 64, aggregate: 5, max_delay },
        stages: 1,
        work,
        cpu_limit: None,
        nice: 0,
        beside: Beside::None,
        recv_buffer: 1 << 20,
    }
}

/// What a receiver makes of so many packets/s; in longer bursts if the sender has to.
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

/// What a second stage costs a packet: rules, a database, whatever takes longer than receiving.
const WORK: Duration = Duration::from_micros(10);
