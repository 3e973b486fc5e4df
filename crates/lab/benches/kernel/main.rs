//! The soft timers paper's experiments in this kernel (§5.1 to §5.4 and §5.9: Tables I to V and XIII, figures 2 to 4):
//! `cargo bench -p softtimers-bench --bench kernel [-- SECTION… --pairs N --rounds N --seconds N --quick --json FILE]`, as root, with
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

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use softtimers::{Clock, Monotonic};
use softtimers_bench::pacing::record::Check;
use softtimers_bench::turns;
use softtimers_bpf::{Facility, Probe, ProbeConfig, Source};
use softtimers_cli::file::OutputFile;
use softtimers_cli::machine::Host;
use softtimers_cli::processor::Processor;

type Done<T> = Result<T, Box<dyn Error>>;

/// The soft timers paper's experiments in this kernel.
#[derive(Parser, Debug)]
#[command(name = "kernel")]
struct Arguments {
    /// Only these sections
    #[arg(value_enum, value_name = "SECTION")]
    only: Vec<Section>,

    /// Windows of a second for each row of `costs` that has a bar, each beside one without
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,

    /// Windows of a second for each other row of `costs` and for those of `deadlines`
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// The longest time for each of the `workloads`, whose two million samples are 3 to 80 s on a quiet machine
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seconds: u32,

    /// One round, and a second for each workload: to see that it works, not to quote
    #[arg(long)]
    quick: bool,

    /// Write the figures of `workloads` to this file: distributions, shares, medians over time
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Overwrite that file
    #[arg(long)]
    force: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Section {
    Verifier,
    Agree,
    Workloads,
    Costs,
    Deadlines,
    Batches,
}

impl Section {
    const ALL: [Section; 6] = {
        use Section::*;
        [Verifier, Agree, Workloads, Costs, Deadlines, Batches]
    };

    fn run(self, bench: &mut Bench) -> Done<()> {
        match self {
            Section::Verifier => verifier(bench),
            Section::Agree => agree::run(bench),
            Section::Workloads => workloads::run(bench),
            Section::Costs => costs::run(bench),
            Section::Deadlines => costs::deadlines(bench),
            Section::Batches => batches::run(bench),
        }
    }
}

/// Where things run, and what has come of them so far.
#[derive(Debug)]
struct Bench {
    /// What is measured.
    server: Processor,
    /// The load.
    client: Processor,
    pairs: u32,
    rounds: u32,
    longest: Duration,
    checks: Vec<Check>,
    json: Value,
}

fn main() -> ExitCode {
    if let Some(name) = analogues::asked_for() {
        return analogues::run(&name);
    }
    if batches::is_inside() {
        return batches::inside();
    }
    turns::main("kernel", measure)
}

fn measure(arguments: &[String]) -> Done<()> {
    let program = std::iter::once("kernel");
    let arguments = Arguments::parse_from(program.chain(arguments.iter().map(String::as_str)));
    let file = arguments.json.as_ref().map(|path| OutputFile::create(path, "--json", arguments.force));
    let file = file.transpose()?;
    if let Err(why) = Probe::start(&ProbeConfig { samples: 0, ..ProbeConfig::default() }) {
        println!("skipped: {why}");
        return Ok(());
    }
    let Some([server, client]) = Processor::two() else {
        println!("skipped: this needs two processors");
        return Ok(());
    };
    let quick = |usual, quick| if arguments.quick { quick } else { usual };
    let mut bench = Bench {
        server: Processor::new(server)?,
        client: Processor::new(client)?,
        pairs: quick(arguments.pairs, 1),
        rounds: quick(arguments.rounds, 1),
        longest: Duration::from_secs(quick(arguments.seconds, 1).into()),
        checks: vec![],
        json: json!({ "machine": turns::machine() }),
    };
    println!("{}", turns::machine());
    // Children inherit it; what is measured is put where it belongs.
    let _kept = bench.client.keep()?;
    let host = Host::watch();
    let mut failed = vec![];
    for section in Section::ALL {
        if arguments.only.is_empty() || arguments.only.contains(&section) {
            // What the others found is not to be lost with it.
            if let Err(why) = section.run(&mut bench) {
                println!("\nfailed: {section:?}: {why}");
                failed.push(format!("{section:?}: {why}"));
            }
        }
    }
    println!("\n### What is to hold\n\n| figure | bound | measured | |\n|---|---|---|---|");
    bench.checks.iter().for_each(|check| println!("{}", check.row()));
    if let Some(reason) = host.so_far().inconclusive() {
        println!("\ninconclusive: {reason}");
    }
    if let Some(file) = file {
        file.write(&format!("{:#}\n", bench.json))?;
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// Loading is reading the object, verifying and compiling; attaching is not part of it.
fn verifier(bench: &mut Bench) -> Done<()> {
    let begun = Monotonic.now();
    let facility = Facility::load(&Source::ALL)?;
    let took = Monotonic.now().saturating_duration_since(begun);
    let instructions = facility.verified().iter().filter_map(|program| program.instructions);
    println!(
        "\n{} programs loaded in {} ms; the verifier followed {} instructions, {} of one program at most",
        facility.verified().len(),
        took.as_millis(),
        instructions.clone().map(u64::from).sum::<u64>(),
        instructions.max().unwrap_or(0)
    );
    bench.checks.push(Check::at_most("seconds to load all programs", 2.0, Some(took.as_secs_f64())));
    Ok(())
}
