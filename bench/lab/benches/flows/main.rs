//! Many flows from one thread, by softtimers and by what programs use today: `cargo bench --manifest-path
//! bench/Cargo.toml --bench flows [-- flows-mixed --seconds 2 --rounds 4 --json FILE]`.
//!
//! All send the same datagrams to the same receiver, `softtimers recv`, in another process on another CPU, and are
//! judged by what arrives there. They differ in how they find the next due flow:
//!
//! ```text
//!   soft      the command: DepartureQueue, EventLoop: one deadline, due plus slack  ┐
//!   heap      the command: BinaryHeap of due times, epoll_pwait2                    │ one kernel timer, for the
//!   library   DepartureQueue and EventLoop as a program has them, same slack        │ earliest of all flows
//!   …, slots  the same, departures collected at slots that divide the intervals     │
//!   heap, 20 us slack   a heap, and a wait that ends 20 us after the earliest       ┘
//!   timerfd   one descriptor a flow in one epoll, each of its own period       one a flow
//!   tokio     one task a flow, each with an interval and a send                tokio's wheel, in milliseconds
//!   Pacer     one task a flow, each with a Pacer and a send                    softtimers-tokio's timers, 20 us slack
//!   PacedSender  all flows in one sender: awaited by a task each, or queued    DepartureQueue, one sendmmsg
//!   governor  one task a flow, each with a limiter that it waits for           futures-timer's heap and thread
//!   iperf3    -u -P, where it is installed and has as many streams (128)       its own account only
//! ```
//!
//! All but the tasks and iperf3 send the due datagrams in one `sendmmsg`; a task has its own `send`. The command counts
//! each datagram, which the contenders of this bench do not; `library` is `soft` without those counts. The command has
//! one rate for all of its flows, so it isn't in the load of mixed rates. CPU time is that of the sending process (for
//! the command, its sending thread), system calls and, on loopback, the receiving half of the network stack included.
//!
//! Contenders of one round run directly after each other; no round is repeated, so that everything ends within five
//! minutes.
#![forbid(unsafe_code)]

mod contender;
mod governed;
mod heap_slack;
mod iperf;
mod lanes;
mod library;
mod paced_tokio;
mod task_each;
mod timerfd_each;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use softtimers::Timestamp;
use softtimers_lab::bench::{self, Done, Section};
use softtimers_lab::figures;
use softtimers_measure::processor::Processor;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Paired};
use softtimers_trials::result::Table;

use contender::{ALL, COST, DEVIATION, DEVIATION_P99, HEAP_SLACK, LIBRARY, LIBRARY_SLOTS, SLOTS};

/// The traffic that is sent.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    flows: u32,
    /// Packets a second of the flows, used in turn.
    rates: &'static [u32],
    bytes: u32,
    time: Duration,
}

impl Load {
    /// The rate of a flow.
    fn rate(&self, flow: u32) -> u32 {
        self.rates[flow as usize % self.rates.len()]
    }

    /// The time between two packets of one flow.
    fn interval(&self, flow: u32) -> Duration {
        Duration::from_secs(1) / self.rate(flow)
    }

    /// Returns when a flow begins, if the first one does at `start`: spread over the flow's own interval.
    fn start(&self, flow: u32, start: Timestamp) -> Timestamp {
        start + self.offset(flow)
    }

    fn offset(&self, flow: u32) -> Duration {
        self.interval(flow) * flow / self.flows
    }

    /// The rate of every flow, if they are equal.
    fn common_rate(&self) -> Option<u32> {
        (self.rates.len() == 1).then_some(self.rates[0])
    }

    /// The mean rate of a flow.
    fn mean_rate(&self) -> f64 {
        f64::from(self.rates.iter().sum::<u32>()) / self.rates.len() as f64
    }

    /// The time between two collections, for up to `most` packets each: a whole part of every flow's interval, to the
    /// nanosecond. Flows of one rate are spread evenly, so a slot has at most one more of each rate than on average.
    fn slot(&self, most: u32) -> Duration {
        let is_common = |common: &u32| self.rates.iter().all(|rate| common.is_multiple_of(*rate));
        let common = (1..u32::MAX).find(is_common).unwrap_or(u32::MAX);
        let each = f64::from(self.flows) / self.rates.len() as f64 / f64::from(common);
        let fits = |&parts: &u32| {
            let of_rate = |&rate: &u32| (each * f64::from(rate) / f64::from(parts)).ceil();
            self.rates.iter().map(of_rate).sum::<f64>() <= f64::from(most)
        };
        Duration::from_secs(1) / common / (1..common).find(fits).unwrap_or(common)
    }

    /// The time between two packets of all flows together, if they were even.
    fn common_interval(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.mean_rate()) / self.flows
    }
}

/// In the order of the pages. The mean of the mixed rates is 10 packets a second.
const SECTIONS: [Section<(Paired, Duration)>; 3] = [
    ("flows-64", |plan| measure("flows-64", 64, &[1_000], *plan)),
    ("flows-1000", |plan| measure("flows-1000", 1_000, &[100], *plan)),
    ("flows-mixed", |plan| measure("flows-mixed", 10_000, &[2, 4, 10, 24], *plan)),
];
const BYTES: u32 = 200;

fn main() -> ExitCode {
    bench::main("flows", &SECTIONS, |asked| Ok((Paired::new(asked.rounds()), asked.seconds(1))))
}

/// The table of a load.
fn measure(
    name: &'static str,
    flows: u32,
    rates: &'static [u32],
    (paired, time): (Paired, Duration),
) -> Done<Vec<Table>> {
    let processors = Processor::two();
    if processors.is_none() {
        eprintln!("one processor only: sender and receiver share it");
    }
    let load = Load { name, flows, rates, bytes: BYTES, time };
    let mut contenders: Vec<_> = ALL.into_iter().filter(|(_, how)| how.can(&load)).collect();
    let measured = paired.contest(&[()], &mut contenders, |(), (name, how), round| {
        how.run(&load, processors, (round, name)).with_context(|| format!("{}, {name}", load.name))
    })?;
    Ok(vec![table(&load, contenders.iter().map(|(name, _)| *name), &measured)])
}

/// Returns the table of a load, with softtimers' bars below it.
fn table<'a>(load: &Load, names: impl Iterator<Item = &'a str>, measured: &Measured) -> Table {
    let mut table = figures::table(load.name, measured, names, &contender::FIGURES);
    "by".clone_into(&mut table.columns[0]);
    table.against("of heap's with slack", measured, COST, HEAP_SLACK);
    let who = if load.common_rate().is_some() { "soft" } else { LIBRARY };
    let own = |figure| measured.estimate(who, figure);
    let mut bar = |bar: Bar| table.bar(Bar { figure: format!("{}: {}", load.name, bar.figure), ..bar });
    bar(Bar::at_least("rate of the slowest flow, %", 99.9, own("slowest flow %")));
    bar(Bar::at_most("rate of the fastest flow, %", 100.1, own("fastest flow %")));
    bar(Bar::at_most("longest train over all flows", 8.0, own("longest train")));
    let slots = if who == LIBRARY { LIBRARY_SLOTS } else { SLOTS };
    let mut bars = vec![
        (who, COST, 1.0),
        (LIBRARY, COST, 1.0),
        (slots, COST, 0.75),
        (who, DEVIATION, 1.0),
        (slots, DEVIATION, 0.5),
        (slots, DEVIATION_P99, 1.0),
    ];
    bars.dedup();
    for (who, figure, most) in bars {
        let figure_of = format!("{figure} of {who}, against the heap's with slack");
        bar(Bar::at_most(figure_of, most, measured.ratio(figure, who, HEAP_SLACK)));
    }
    table
}
