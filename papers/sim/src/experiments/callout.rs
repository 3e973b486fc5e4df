//! **Redesigned callouts** (Costello, Varghese 1998, Tables I and II, figure 8): the cost of setting and
//! cancelling a timer while others are outstanding, and for how long that blocks clock interrupts.
//!
//! ```text
//!   outstanding    ·  ·    ·   · ·     ·   ··   far in the future
//!   one more                                        ╷ set    ╳ cancelled, again and again
//!   old list       ──▶──▶────▶───▶─▶─────▶───▶▶─────┘        passes all others, twice
//!   wheel                                           ╷        passes none
//! ```
//!
//! Both structures run: the old list, and [`core::bsd`](softtimers_core::bsd) as programs use it. Their steps
//! are counted and have the costs of the paper's Table II (`facility`); the machine adds two numbers, the
//! time of an instruction and the cost of the system call itself. The paper's own wheel is not rebuilt: only
//! the number of timers in each of its buckets is counted (`occupancy`).

mod delta_list;
mod facility;
mod machine;
mod occupancy;

use std::time::Duration;

pub use delta_list::{Callout, DeltaList};

use crate::{Column, Experiment, Parameter, Parameters, Row, RunError, Steps, Streams};
use facility::Kernel;
use machine::CalloutMachine;

/// The cost of a set and a cancel by the number of timers, in the old list and on a wheel.
pub(crate) static CALLOUT: Experiment = Experiment {
    name: "callout",
    about: "To set and cancel a timer while others are outstanding (Costello, Varghese 1998, Tables I and II)",
    details: "Timers are set for random times far ahead; then, --iterations times, one more is set later \
              than all of them and cancelled. With --answer it is cancelled later, and with --cancelled \
              below 100 not always; --timeout, --rate and --call 0ns make it model the timers of a protocol. \
              The steps of the old list and of core's wheel are counted, and have the costs of Table II. \
              Interrupts are disabled while a structure is changed.",
    parameters: PARAMETERS,
    columns: &[
        Column::words("kernel", "the old list, or the wheel by hash or by handle"),
        Column::new("outstanding", "timers outstanding all the time, without the kernel's own").given(),
        Column::new("set_cancel_us", "cost of a set and a cancel, the clock's share included").digits(1),
        Column::new("paper_us", "the paper's").digits(1).given(),
        Column::share("off", "relative difference from the paper's"),
        Column::new("passed", "timers passed in searches, for each set and cancel").digits(2),
        Column::new("tick_us", "hardclock and softclock, for each tick").digits(2),
        Column::new("moves", "cascade steps of the wheel, for each tick").digits(4),
        Column::new("longest_us", "longest time for which clock interrupts were disabled").digits(1),
        Column::new("lost_ticks", "clock interrupts lost because of that"),
        Column::new("buckets", "buckets of the paper's wheel"),
        Column::new("scan", "timers in the bucket that a tick scans in the paper's wheel").digits(2),
        Column::new("expected_scan", "outstanding timers divided by buckets").digits(2),
        Column::new("scan_us", "longest scan with interrupts disabled in the paper's wheel").digits(1),
        Column::share("cancelled", "share of timers that were cancelled before they expired"),
        Column::new("expired", "timers that expired"),
        Column::share("cpu_share", "CPU share for timers and the call"),
    ],
    sweep: &[("kernel", "old,hash,handles"), ("outstanding", "0,200,400,600,800,1000")],
    check,
    run,
};

const PAPERS: crate::constants::Callout = crate::constants::Machine::PAPERS.callout;
const PARAMETERS: &[Parameter] = &[
    Parameter::choice_or::<Kernel>(
        "kernel",
        "The old list; the wheel, by function and argument; the wheel, by handle",
        "hash",
    ),
    Parameter::count("outstanding", "Timers that are outstanding all the time", 0..=1_000_000, 1_000),
    Parameter::count(
        "kernel-timers",
        "Timers of the kernel itself: \"only five or six\"",
        0..=1_000,
        PAPERS.kernel_timers,
    ),
    Parameter::count("iterations", "How often one more timer is set", 1..=1_000_000, 10_000),
    Parameter::real("cancelled", "% of them that are cancelled; the others expire", 0.0..=100.0, 100.0)
        .in_unit("percent"),
    Parameter::time(
        "answer",
        "Time from set to cancel; zero: at once",
        Duration::ZERO..=Duration::from_secs(1_000),
        Duration::ZERO,
    ),
    Parameter::limit(
        "timeout",
        "Ticks to the expiry of that timer; none: later than all outstanding ones",
        1..=1 << 40,
        None,
    ),
    Parameter::count(
        "far",
        "Most ticks to the expiry of the outstanding timers; at least half of that",
        2..=1 << 40,
        1 << 31,
    ),
    Parameter::limit("rate", "Sets a second; none: one after the other", 1..=1_000_000, None)
        .in_unit("per_s"),
    Parameter::limit(
        "buckets",
        "Buckets of the paper's wheel, a power of two; none: the smallest that is at least the number of outstanding timers",
        1..=1 << 24,
        None,
    ),
    Parameter::limit(
        "steps",
        "Timers scanned there before interrupts are enabled: FreeBSD's MAX_SOFTCLOCK_STEPS; none: all",
        1..=1_000_000,
        Some(100),
    ),
    Parameter::count("hz", "Clock interrupts a second", 1..=100_000, 100),
    Parameter::time(
        "instruction",
        "Time of an instruction: the old list's 1.324 us for each timer passed, of 22 instructions, give 60 ns",
        Duration::ZERO..=Duration::from_micros(10),
        PAPERS.instruction,
    ),
    Parameter::time(
        "call",
        "setitimer's own cost: the rest of the old list's 136.7 us without other timers",
        Duration::ZERO..=Duration::from_millis(100),
        PAPERS.call,
    ),
];

/// Table I: seconds for 10,000 iterations of the old list, by hash and by handles, by the number outstanding.
const PAPER: [(u64, [f64; 3]); 6] = [
    (0, [1.367, 1.366, 1.319]),
    (200, [3.969, 1.360, 1.325]),
    (400, [6.638, 1.377, 1.329]),
    (600, [9.404, 1.363, 1.327]),
    (800, [12.017, 1.379, 1.325]),
    (1_000, [14.608, 1.364, 1.329]),
];

fn check(parameters: &Parameters) -> Result<(), RunError> {
    let outstanding = parameters.count("outstanding");
    let (timers, iterations) = (timers(parameters), parameters.count("iterations"));
    if parameters.choice::<Kernel>("kernel") == Kernel::Old && timers * iterations > MOST_PASSED {
        return Err(RunError::new(format_args!(
            "kernel old with outstanding {outstanding} passes them {iterations} times; outstanding times iterations is at \
             most {MOST_PASSED}"
        )));
    }
    match parameters.limit("buckets").filter(|buckets| !buckets.is_power_of_two()) {
        Some(buckets) => {
            Err(RunError::new(format_args!("buckets {buckets}: a wheel has a power of two of them")))
        }
        None => Ok(()),
    }
}

/// The timers outstanding all the time, with the kernel's own.
fn timers(parameters: &Parameters) -> u64 {
    parameters.count("outstanding") + parameters.count("kernel-timers")
}

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    check(parameters)?;
    let outstanding = parameters.count("outstanding");
    let (timers, iterations) = (timers(parameters), parameters.count("iterations"));
    let buckets = parameters.limit("buckets").unwrap_or_else(|| timers.next_power_of_two());
    let mut machine = CalloutMachine::new(parameters, buckets);
    machine.fill(parameters, timers, streams);
    let passed = machine.facility.passed();
    let cancels = machine.work(parameters, streams, steps);
    let found = &machine.found;
    let per_tick = |sum: u64| (found.ticks > 0).then(|| sum as f64 / found.ticks as f64);
    let micros = |nanos: f64| nanos / 1e3;
    let each = micros(found.busy as f64 / iterations as f64);
    let as_in_paper = ["timeout", "rate"].iter().all(|name| parameters.limit(name).is_none())
        && parameters.real("cancelled") == 100.0
        && parameters.time("answer").is_zero();
    let row = PAPER.iter().find(|(of, _)| as_in_paper && *of == outstanding);
    let paper = row.map(|(_, seconds)| {
        let [old, hash, handles] = *seconds;
        let seconds = match parameters.choice("kernel") {
            Kernel::Old => old,
            Kernel::Hash => hash,
            Kernel::Handles => handles,
        };
        seconds * 100.0
    });
    let scanned = parameters.limit("steps").unwrap_or(u64::MAX).min(machine.occupancy.longest());
    Ok(vec![vec![
        parameters.word("kernel").into(),
        outstanding.into(),
        each.into(),
        paper.into(),
        paper.map(|paper| each / paper - 1.0).into(),
        ((machine.facility.passed() - passed) as f64 / iterations as f64).into(),
        per_tick(found.clock).map(micros).into(),
        per_tick(machine.facility.moves()).into(),
        micros(found.longest as f64).into(),
        found.lost.into(),
        buckets.into(),
        per_tick(machine.occupancy.looks()).into(),
        per_tick(found.outstanding).map(|sum| sum / buckets as f64).into(),
        micros((parameters.machine().callout.wheel_traversed * scanned * machine.instruction) as f64).into(),
        (cancels as f64 / iterations as f64).into(),
        found.expired.into(),
        (found.busy as f64 / machine.now.max(1) as f64).into(),
    ]])
}

/// The old list passes about a hundred million timers a second.
const MOST_PASSED: u64 = 1_000_000_000;

#[cfg(test)]
mod tests;
