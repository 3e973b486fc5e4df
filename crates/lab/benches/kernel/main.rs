//! The soft timers paper's experiments in this kernel (§5.1 to §5.4 and §5.9: Tables I to V and XIII, figures 2 to 4):
//! `cargo bench -p softtimers-lab --bench kernel [-- SECTION… --pairs N --rounds N --seconds N --quick --json FILE]`, as root, with
//! nginx and wrk.
//!
//! | section | question |
//! |---|---|
//! | `verifier` | how much work has the kernel's verifier with the programs, and how long does it take? |
//! | `agree` | does the meter count what `perf` counts? |
//! | `workloads` | how often are trigger states met by six kinds of work, over time, and without each source? |
//! | `costs` | what do events cost a web server, at its trigger states and by `bpf_timer`; what does the meter? |
//! | `deadlines` | what do deadlines cost, and how many events miss them? |
//! | `batches` | the worked use: batches flushed from an XDP program, by soft events and by `bpf_timer` |
//!
//! One processor has the server and what is measured, another the load and this process.
#![forbid(unsafe_code)]

mod agree;
mod analogues;
mod batches;
mod contest;
mod costs;
mod intervals;
mod server;
mod workloads;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use softtimers::{Clock, Monotonic};
use softtimers_bpf::{Facility, Probe, ProbeConfig, Source};
use softtimers_lab::bench::{self, Asked, Done, Section};
use softtimers_measure::bar::Bar;
use softtimers_measure::machine::Host;
use softtimers_measure::processor::Processor;
use softtimers_measure::result::Table;

/// The soft timers paper's experiments in this kernel.
#[derive(Parser, Debug)]
#[command(name = "kernel", disable_version_flag = true)]
struct Arguments {
    /// `--rounds`: windows of a second for the rows of `costs` without a bar, and for those of `deadlines`; 3
    #[command(flatten)]
    asked: Asked,

    /// Windows of a second for each row of `costs` that has a bar, each beside one without
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,

    /// The longest time for each of the `workloads`, whose two million samples are 3 to 80 s on a quiet machine
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seconds: u32,
}

const SECTIONS: [Section<Bench>; 6] = [
    ("verifier", |bench| verifier(bench)),
    ("agree", |bench| watched(agree::run, bench)),
    ("workloads", |bench| watched(workloads::run, bench)),
    ("costs", |bench| watched(costs::run, bench)),
    ("deadlines", |bench| watched(costs::deadlines, bench)),
    ("batches", |bench| watched(batches::run, bench)),
];

/// Where things run, and what has come of them so far.
#[derive(Debug)]
struct Bench {
    /// What is measured.
    server: Processor,
    /// The load.
    client: Processor,
    pairs: usize,
    rounds: usize,
    longest: Duration,
}

fn main() -> ExitCode {
    if let Some(name) = analogues::asked_for() {
        return analogues::run(&name);
    }
    if batches::is_inside() {
        return batches::inside();
    }
    bench::main("kernel", measure)
}

fn measure(given: &[String]) -> Done {
    let Arguments { asked, pairs, seconds } = bench::parse("kernel", given, &SECTIONS);
    if let Err(why) = Probe::start(&ProbeConfig { samples: 0, ..ProbeConfig::default() }) {
        println!("skipped: {why}");
        return Ok(());
    }
    let Some([server, client]) = Processor::two() else {
        println!("skipped: this needs two processors");
        return Ok(());
    };
    let quick = |usual| if asked.quick { 1 } else { usual };
    let bench = Bench {
        server: Processor::new(server)?,
        client: Processor::new(client)?,
        pairs: quick(pairs) as usize,
        rounds: asked.rounds(3),
        longest: Duration::from_secs(quick(seconds).into()),
    };
    // Children inherit it; what is measured is put where it belongs.
    let _kept = bench.client.keep()?;
    asked.run("kernel", "", &SECTIONS, &bench)
}

/// The tables of a section, which are inconclusive if the host took too much meanwhile. Other programs are the experiment.
fn watched(section: fn(&Bench) -> Done<Vec<Table>>, bench: &Bench) -> Done<Vec<Table>> {
    let host = Host::watch();
    let mut tables = section(bench)?;
    if let Some(reason) = host.so_far().inconclusive() {
        for table in &mut tables {
            table.bars = table.bars.drain(..).map(|bar| bar.unless(true)).collect();
            table.inconclusive = Some(reason.clone());
        }
    }
    Ok(tables)
}

/// A table that only says why there is none.
fn skipped(section: &str, why: impl std::fmt::Display) -> Table {
    let mut table = Table::new(section, &[("skipped", 0)]);
    table.row([why.to_string().into()]);
    table
}

/// Loading is reading the object, verifying and compiling; attaching is not part of it.
fn verifier(_: &Bench) -> Done<Vec<Table>> {
    let begun = Monotonic.now();
    let facility = Facility::load(&Source::ALL)?;
    let took = Monotonic.now().saturating_duration_since(begun).as_secs_f64();
    let instructions = facility.verified().iter().filter_map(|program| program.instructions);
    let columns = ["programs", "ms to load", "instructions that the verifier followed", "of one at most"];
    let mut table = Table::new("verifier", &columns.map(|name| (name, 0)));
    table.row([
        (facility.verified().len() as f64).into(),
        (took * 1e3).into(),
        (instructions.clone().map(u64::from).sum::<u64>() as f64).into(),
        f64::from(instructions.max().unwrap_or(0)).into(),
    ]);
    table.bar(Bar::at_most("seconds to load all programs", 2.0, took));
    Ok(vec![table])
}
