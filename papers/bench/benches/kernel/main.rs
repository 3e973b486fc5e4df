//! The soft timers paper's experiments in this kernel (§5.1 to §5.4 and §5.9: Tables I to V and XIII, figures 2 to 4):
//! `cargo bench --manifest-path papers/Cargo.toml --bench kernel [-- SECTION… --pairs N --rounds N --seconds N --quick --json FILE]`, as root, with
//! nginx and wrk.
//!
//! | section | question |
//! |---|---|
//! | `workloads` | how often do six kinds of work pass trigger states, over time, and without each source? |
//! | `costs` | what do events cost a web server, at its trigger states and by `bpf_timer`; what does the meter? |
//! | `deadlines` | what do deadlines cost, and how many events miss them? |
//!
//! One CPU has the server and the measurement, another the load and this process.
#![forbid(unsafe_code)]

mod analogues;
mod contest;
mod costs;
mod intervals;
mod server;
mod workloads;

use std::process::ExitCode;
use std::time::Duration;

use softtimers_bpf::{Probe, ProbeConfig};
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::{Kept, Processor};
use softtimers_papers_bench::bench::{self, Asked, Done, Section};

const SECTIONS: [Section<Bench>; 3] =
    [("workloads", workloads::run), ("costs", costs::run), ("deadlines", costs::deadlines)];

/// The CPUs of the bench, and its effort.
#[derive(Debug)]
struct Bench {
    /// The CPU of the server that is measured.
    server: Processor,
    /// The CPU of the load.
    client: Processor,
    pairs: usize,
    rounds: usize,
    longest: Duration,
    /// Children inherit it; measured processes are pinned elsewhere.
    _kept: Kept,
}

fn main() -> ExitCode {
    bench::child(analogues::run).unwrap_or_else(|| bench::main("kernel", &SECTIONS, plan))
}

fn plan(asked: &Asked) -> Done<Bench> {
    Probe::start(&ProbeConfig { samples: 0, ..ProbeConfig::default() }).map_err(Failure::not_possible)?;
    let [server, client] = Processor::two().ok_or_else(|| Failure::not_possible("this needs two CPUs"))?;
    let (server, client) = (Processor::new(server)?, Processor::new(client)?);
    Ok(Bench {
        server,
        client,
        pairs: if asked.quick { 1 } else { asked.number("pairs") as usize },
        rounds: asked.rounds(),
        longest: asked.seconds(1),
        _kept: client.keep()?,
    })
}
