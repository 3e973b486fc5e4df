//! Many flows from one thread, by softtimers and by what programs use today: `cargo bench -p softtimers-lab
//! --bench flows [-- --seconds 30 --rounds 3 --json FILE]`.
//!
//! All send the same datagrams to the same receiver, `softtimers recv`, in another process on another
//! processor, and are judged by what came there. They differ in who knows when the next of all flows is due:
//!
//! ```text
//!   soft      DepartureQueue, EventLoop: one deadline, due plus slack        ┐ one kernel timer, for the
//!   heap      BinaryHeap of due times, epoll_pwait2 at 1 ns of timer slack   ┘ earliest of all flows
//!   timerfd   one descriptor a flow in one epoll, each of its own period       one a flow
//!   tokio     one task a flow, each with an interval and a send                tokio's wheel, in milliseconds
//! ```
//!
//! The first three send what is due in one `sendmmsg`; so does each flow's task in a `send` of its own. The first
//! two are the command's (`--timer soft`, `--timer loop`) with its accounts of each datagram, which the other two
//! do without. CPU time is that of the sending thread, system calls and, on loopback, the receiving half of
//! the network stack included.
//!
//! Contenders of one round follow each other at once; a round that was disturbed is made again once.
#![forbid(unsafe_code)]

mod contender;
mod figures;
mod iperf;
mod lanes;
mod task_each;
mod timerfd_each;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use softtimers_lab::bench::{self, Asked, Done, Section};
use softtimers_measure::paired::Paired;
use softtimers_measure::processor::Processor;
use softtimers_measure::result::Table;

use contender::Contender;

#[derive(Parser, Debug)]
#[command(about = "many flows from one thread", disable_version_flag = true)]
struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// Of each run of many flows; those of one take ten at the most
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
struct Load {
    flows: u32,
    /// Of each flow.
    packets_per_second: u32,
    bytes: u32,
    time: Duration,
    contenders: &'static [Contender],
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

const ALL: &[Contender] = &[Contender::Soft, Contender::Heap, Contender::TimerfdEach, Contender::TaskEach];
const WITH_IPERF: &[Contender] =
    &[Contender::Soft, Contender::Heap, Contender::TimerfdEach, Contender::TaskEach, Contender::Iperf];

fn loads(seconds: u64) -> [Load; 4] {
    let time = Duration::from_secs(seconds);
    let short = time.min(Duration::from_secs(10));
    let load = |flows, packets_per_second, bytes, time, contenders| Load {
        flows,
        packets_per_second,
        bytes,
        time,
        contenders,
    };
    [
        load(64, 1_000, 200, time, ALL),
        load(1_000, 100, 200, time, ALL),
        load(1, 10_000, 1_200, short, WITH_IPERF),
        load(1, 1, 1_200, short, &[Contender::Soft, Contender::Heap]),
    ]
}

const SECTIONS: [Section<Arguments>; 1] = [("flows", measure)];

fn main() -> ExitCode {
    bench::main("flows", |given| {
        let arguments: Arguments = bench::parse("flows", given, &SECTIONS);
        arguments.asked.run("flows", "", &SECTIONS, &arguments)
    })
}

fn measure(arguments: &Arguments) -> Done<Vec<Table>> {
    let processors = Processor::two();
    if processors.is_none() {
        eprintln!("one processor only: sender and receiver share it");
    }
    let paired = Paired::new(arguments.asked.rounds(3)).repeating(2);
    let seconds = if arguments.asked.quick { 2 } else { arguments.seconds };
    let tables = loads(seconds).into_iter().map(|load| made(&load, paired, processors));
    Ok(tables.collect::<Result<_>>().map_err(|error| format!("{error:#}"))?)
}

/// Rounds of all contenders under one load.
fn made(load: &Load, paired: Paired, processors: Option<[usize; 2]>) -> Result<Table> {
    let mut skipped = None;
    let measured = paired.contest(&[()], &mut load.contenders.to_vec(), |(), contender, round| {
        eprintln!("{}: {}", load.name(), contender.name());
        match contender.run(load, processors) {
            Ok(told) => figures::put(round, *contender, told),
            Err(error) if *contender == Contender::Iperf => {
                skipped = Some(format!("skipped: iperf3: {error:#}"));
            }
            Err(error) => return Err(error).context(format!("{}, {}", load.name(), contender.name())),
        }
        Ok(())
    })?;
    let mut table = figures::table(load, &measured);
    table.notes.extend(skipped);
    Ok(table)
}
