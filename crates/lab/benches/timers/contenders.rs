//! Who takes part, by name.

mod btree;
mod delay_queue;
mod hash_wheel;
mod heap;
mod libuv;
mod nexus;
mod nobody;
mod ours;
mod sleep;
mod timerfd;

use std::error::Error;

use crate::contender::Contender;
use crate::family::{Family, Workload};
use crate::report::Figures;
use crate::{stalls, workloads};

const MILLION: usize = 1_000_000;

/// A workload, and by how much it is made smaller.
#[derive(Debug)]
pub(crate) struct Contest {
    pub(crate) workload: Workload,
    pub(crate) shrink: usize,
}

/// Runs a workload with one type of contender.
type Runner = fn(&Contest) -> Figures;
/// Why a contender cannot take part in it.
type Absent = fn(&Workload) -> Option<String>;

const ALL: [(&str, Runner, Absent); 11] = [
    ("nobody", run_one::<nobody::Nobody>, |_| None),
    ("softtimers", run_one::<ours::Handles>, |_| None),
    ("softtimers keyed", run_one::<ours::Keyed>, |_| None),
    ("BinaryHeap", run_one::<heap::Heap>, |_| None),
    ("BTreeMap", run_one::<btree::Tree>, |_| None),
    ("DelayQueue", run_one::<delay_queue::Queue>, |_| None),
    ("Sleep::reset", run_one::<sleep::Sleeps>, |_| None),
    ("hash_wheel", run_one::<hash_wheel::HashWheel>, |_| None),
    ("nexus", run_one::<nexus::Nexus>, |_| None),
    ("libuv", run_one::<libuv::Libuv>, |_| libuv::missing()),
    ("timerfd", run_one::<timerfd::Descriptors>, timerfd::beyond),
];

/// The contenders of these names, or all.
pub(crate) fn named(names: &[String]) -> Result<Vec<&'static str>, String> {
    let known: Vec<&'static str> = ALL.iter().map(|(name, ..)| *name).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("no contender {name:?}; there are {}", known.join(", "))),
        None => {
            Ok(known.into_iter().filter(|name| names.is_empty() || names.iter().any(|n| n == name)).collect())
        }
    }
}

/// Measures one. Empty figures with a reason on stderr if it is not here.
pub(crate) fn run(name: &str, contest: &Contest) -> Result<Figures, Box<dyn Error>> {
    let found = ALL.iter().find(|(known, ..)| *known == name);
    let (_, runner, absent) = found.ok_or_else(|| format!("no contender {name:?}"))?;
    match absent(&contest.workload) {
        Some(reason) => {
            eprintln!("skipped: {name} on {}: {reason}", contest.workload);
            Ok(Figures::new())
        }
        None => Ok(runner(contest)),
    }
}

fn run_one<C: Contender>(contest: &Contest) -> Figures {
    let Contest { workload: Workload { family, timers }, shrink } = *contest;
    // Small ones are small already.
    let timers = if timers >= 10_000 { timers / shrink } else { timers };
    let operations = MILLION / shrink;
    match family {
        Family::W1 => workloads::w1::<C>(timers, operations),
        Family::W1R => workloads::w1r::<C>(timers, operations),
        Family::W2 => workloads::w2::<C>(timers),
        Family::W3 => workloads::w3::<C>(timers, operations),
        Family::W4 => workloads::w4::<C>(timers, 4 * operations as u64),
        Family::W5 => workloads::w5::<C>(timers, operations),
        Family::Stalls => stalls::stalls::<C>(timers, operations),
    }
}
