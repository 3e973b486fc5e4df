//! The contenders, by name.

mod btree;
mod delay_queue;
mod foreign;
mod hash_wheel;
mod heap;
mod heap4;
mod nexus;
mod ours;
mod sleep;
mod slots;
mod timerfd;

use softtimers_lab::bench::Done;

use foreign::{Foreign, Libuv, Timeout};

use crate::contender::Contender;
use crate::{Figures, MILLION, stalls, workloads};

/// Runs a workload of N timers, made M times smaller, with one type of contender.
type Runner = fn(&str, usize, usize) -> Done<Figures>;

pub(crate) const ALL: [(&str, Runner); 12] = [
    ("softtimers", run_one::<ours::Handles>),
    ("softtimers keyed", run_one::<ours::Keyed>),
    ("BinaryHeap", run_one::<heap::Heap>),
    ("4-ary heap", run_one::<heap4::Heap4>),
    ("BTreeMap", run_one::<btree::Tree>),
    ("DelayQueue", run_one::<delay_queue::Queue>),
    ("Sleep::reset", run_one::<sleep::Sleeps>),
    ("hash_wheel", run_one::<hash_wheel::HashWheel>),
    ("nexus", run_one::<nexus::Nexus>),
    (LIBUV, run_one::<Foreign<Libuv>>),
    (TIMEOUT, run_one::<Foreign<Timeout>>),
    (TIMERFD, run_one::<timerfd::Timerfds>),
];

const LIBUV: &str = "libuv's heap";
const TIMEOUT: &str = "timeout.c";
const TIMERFD: &str = "timerfd";

/// Returns those that can do a workload with `timers` timers, and prints why the others cannot.
pub(crate) fn who_can(workload: &str, timers: usize) -> Vec<&'static str> {
    let can = |name: &str| match name {
        LIBUV => foreign::directory::<Libuv>().map(drop),
        TIMEOUT => foreign::directory::<Timeout>().map(drop),
        TIMERFD => timerfd::can(workload, timers),
        _ => Ok(()),
    };
    let able = |name: &&str| can(name).inspect_err(|why| eprintln!("skipped: {name}: {why}")).is_ok();
    ALL.iter().map(|(name, _)| *name).filter(able).collect()
}

/// Measures the contender of this name.
pub(crate) fn run(name: &str, workload: &str, timers: usize, shrink: usize) -> Done<Figures> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    let (_, runner) = found.ok_or_else(|| format!("no contender {name:?}"))?;
    runner(workload, timers, shrink)
}

fn run_one<C: Contender>(workload: &str, timers: usize, shrink: usize) -> Done<Figures> {
    // Small ones are not made smaller.
    let timers = if timers >= 10_000 { timers / shrink } else { timers };
    let operations = MILLION / shrink;
    let figures = match workload {
        "W1" => workloads::w1::<C>(timers, operations),
        "W2" => workloads::w2::<C>(timers),
        "W5" => workloads::w5::<C>(timers, operations),
        "W6" => workloads::w6::<C>(timers, operations),
        "mix" => workloads::mix::<C>(timers, operations),
        "idle" => workloads::idle::<C>(timers, operations),
        "ticks" => workloads::periodic::<C>(timers, operations, 10_000),
        "flows" => workloads::periodic::<C>(timers, operations, 40),
        "jump" => workloads::jump::<C>(timers),
        "stalls" => stalls::stalls::<C>(timers, operations),
        other => return Err(format!("no workload {other:?}").into()),
    };
    Ok(figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect())
}
