//! Many flows from one thread, by softtimers and by what programs use today: `cargo bench -p softtimers-bench
//! --bench flows [-- [--json] [SECONDS [ROUNDS]]]`, 30 seconds and 3 rounds unless given. It prints a table, and
//! with `--json` an object in the last line.
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
//! Contenders of one round follow each other at once. A round in which the host or other programs took more
//! than 5% of the processors is set aside; if there is no other, its figures are printed as inconclusive.
#![forbid(unsafe_code)]

mod contender;
mod figures;
mod iperf;
mod lanes;
mod task_each;
mod timerfd_each;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use softtimers_bench::turns;
use softtimers_cli::machine::Neighbours;
use softtimers_cli::processor::Processor;

use contender::Contender;
use figures::{HEADER, Rounds};

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

fn main() -> ExitCode {
    turns::main("flows", |given| measure(given).map_err(|error| Box::<dyn Error>::from(format!("{error:#}"))))
}

fn measure(given: &[String]) -> Result<()> {
    let mut arguments = given.to_vec();
    let as_json = arguments.iter().position(|word| word == "--json").map(|at| arguments.remove(at)).is_some();
    let mut numbers = arguments
        .iter()
        .map(|word| word.parse::<u64>().with_context(|| format!("`{word}`: a whole number is allowed")));
    let seconds = numbers.next().transpose()?.unwrap_or(30).max(1);
    let rounds = numbers.next().transpose()?.unwrap_or(3).max(1) as usize;
    let processors = Processor::two();
    if processors.is_none() {
        eprintln!("one processor only: sender and receiver share it");
    }
    let mut objects = Vec::new();
    println!("{}\n\n{}", turns::machine(), HEADER);
    for load in loads(seconds) {
        let made = made(&load, rounds, processors)?;
        print!("{}", made.table(&load));
        objects.push(made.json(&load));
    }
    if as_json {
        println!("{}", json!({ "machine": turns::machine(), "seconds": seconds, "loads": objects }));
    }
    Ok(())
}

/// Rounds of all contenders under one load, until enough of them were quiet.
fn made(load: &Load, rounds: usize, processors: Option<[usize; 2]>) -> Result<Rounds> {
    let mut made = Rounds::default();
    for _ in 0..TRIES * rounds {
        let neighbours = Neighbours::watch();
        let mut round = Vec::new();
        for &contender in load.contenders {
            eprintln!("{}: {}", load.name(), contender.name());
            match contender.run(load, processors) {
                Ok(figures) => round.push((contender, figures)),
                Err(error) if contender == Contender::Iperf => {
                    made.skip(format!("skipped: iperf3: {error:#}"));
                }
                Err(error) => return Err(error.context(format!("{}, {}", load.name(), contender.name()))),
            }
        }
        made.add(round, neighbours.so_far().inconclusive());
        if made.quiet() == rounds {
            break;
        }
    }
    Ok(made)
}

/// As many rounds as this are tried for each quiet one.
const TRIES: usize = 2;
