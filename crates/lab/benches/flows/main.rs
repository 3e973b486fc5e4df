//! Many flows from one thread, by softtimers and by what programs use today: `cargo bench -p softtimers-lab
//! --bench flows [-- --seconds 30 --rounds 3 --json FILE]`.
//!
//! All send the same datagrams to the same receiver, `softtimers recv`, in another process on another
//! processor, and are judged by what came there. They differ in who knows when the next of all flows is due:
//!
//! ```text
//!   soft      DepartureQueue, EventLoop: one deadline, due plus slack        ┐ one kernel timer, for the
//!   heap      BinaryHeap of due times, epoll_pwait2 at 1 ns of timer slack   ┘ earliest of all flows
//!   heap, 20 us slack   the same, and a wait that ends 20 us after the earliest: what else is due leaves with it
//!   timerfd   one descriptor a flow in one epoll, each of its own period       one a flow
//!   tokio     one task a flow, each with an interval and a send                tokio's wheel, in milliseconds
//!   iperf3    -u -P, where it is installed and has as many streams (128)       its own account only
//! ```
//!
//! All but tokio's and iperf3 send what is due in one `sendmmsg`; so does each flow's task in a `send` of its own. The first
//! two are the command's (`--timer soft`, `--timer loop`) with its accounts of each datagram, which the other two
//! do without. CPU time is that of the sending thread, system calls and, on loopback, the receiving half of
//! the network stack included.
//!
//! Contenders of one round follow each other at once; a round that was disturbed is made again once.
#![forbid(unsafe_code)]

mod contender;
mod heap_slack;
mod iperf;
mod lanes;
mod task_each;
mod timerfd_each;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use softtimers_lab::bench::{self, Done, Section};
use softtimers_lab::figures;
use softtimers_measure::bar::Bar;
use softtimers_measure::paired::{Measured, Paired};
use softtimers_measure::processor::Processor;
use softtimers_measure::result::Table;

use contender::{ALL, COST, CPU, DEVIATION, HEAP_SLACK};

/// The traffic that is sent.
#[derive(Clone, Copy, Debug)]
struct Load {
    flows: u32,
    /// The rate of each flow.
    packets_per_second: u32,
    bytes: u32,
    time: Duration,
}

impl Load {
    fn name(&self) -> String {
        let Load { flows, packets_per_second, bytes, .. } = self;
        format!("{flows} x {packets_per_second}/s of {bytes} B")
    }

    /// Between two of one flow.
    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.packets_per_second
    }
}

const SECTIONS: [Section<(Paired, Duration)>; 1] = [("flows", measure)];

fn main() -> ExitCode {
    bench::main("flows", &SECTIONS, |asked| Ok((Paired::new(asked.rounds()).repeating(2), asked.seconds(2))))
}

/// A table for each load.
fn measure(&(paired, time): &(Paired, Duration)) -> Done<Vec<Table>> {
    let processors = Processor::two();
    if processors.is_none() {
        eprintln!("one processor only: sender and receiver share it");
    }
    let short = time.min(Duration::from_secs(10));
    let loads = [
        (64, 1_000, 200, time),
        (1_000, 100, 200, time),
        (10_000, 10, 200, time),
        (1, 10_000, 1_200, short),
        (1, 1, 1_200, short),
    ];
    let mut tables = Vec::new();
    for (flows, packets_per_second, bytes, time) in loads {
        let load = Load { flows, packets_per_second, bytes, time };
        let mut contenders: Vec<_> = ALL.into_iter().filter(|(_, how)| how.can(&load)).collect();
        let measured = paired.contest(&[()], &mut contenders, |(), (name, how), round| {
            eprintln!("{}: {name}", load.name());
            how.run(&load, processors, (round, name)).with_context(|| format!("{}, {name}", load.name()))
        })?;
        tables.push(table(&load, contenders.iter().map(|(name, _)| *name), &measured));
    }
    Ok(tables)
}

/// The table of a load, with what is asked of softtimers under it.
fn table<'a>(load: &Load, names: impl Iterator<Item = &'a str>, measured: &Measured) -> Table {
    let mut table = figures::table(&load.name(), measured, names, &contender::FIGURES);
    table.against("of heap's", measured, COST, "heap");
    let soft = |figure| measured.estimate("soft", figure);
    let against = |peer| measured.ratio(COST, "soft", peer);
    let bars = match (load.flows, load.packets_per_second) {
        (1, 1) => vec![Bar::at_most("CPU %", 0.1, soft(CPU))],
        (1, _) => vec![Bar::at_most("back to back %", 3.0, soft("back to back %"))],
        _ => vec![
            Bar::at_least("rate of the slowest flow, %", 99.9, soft("slowest flow %")),
            Bar::at_most("rate of the fastest flow, %", 100.1, soft("fastest flow %")),
            Bar::at_most("gap deviation of the median flow, µs", 20.0, soft(DEVIATION)),
            Bar::at_most("gap deviation of the worst flow, µs", 20.0, soft("gap deviation, worst flow µs")),
            Bar::at_most("longest train over all flows", 8.0, soft("longest train")),
            Bar::at_most("CPU per packet, against the heap loop's", 1.1, against("heap")),
            Bar::at_most("CPU per packet, against the heap's with slack", 1.0, against(HEAP_SLACK)),
            Bar::at_most("CPU per packet, against one timerfd a flow", 1.0, against("timerfd each")),
        ],
    };
    for bar in bars {
        let figure = format!("{}: {}", load.name(), bar.figure);
        table.bar(Bar { figure, ..bar });
    }
    table
}
