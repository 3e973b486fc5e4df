//! **A UDP relay on N CPUs**: what `forward --udp --pollers N` could carry on machines with more CPUs than
//! were measured. It is not from a paper; the costs of a packet were measured with one poller on one CPU, and
//! everything else is assumed.
//!
//! ```text
//!   clients ─▶ the kernel's hash ─┬─▶ receiving (softirq) ─▶ buffer ─▶ poller: turns of at most a quota ─┐
//!                                 ├─▶ …                                                                  ├─▶ what all share
//!                                 └─▶ receiving (softirq) ─▶ buffer ─▶ poller ───────────────────────────┘
//! ```
//!
//! Three things keep N pollers from being N times as fast: the hash gives some of them more clients than
//! others, receiving may use their CPUs, and the serial part of each packet bounds them all (Amdahl).

mod machine;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::choice::choices;
use crate::{Column, Experiment, Parameter, Parameters, Row, RunError, Steps, Streams};
use machine::{Costs, Found, Machine, Receiving};

/// Throughput and delay by the number of pollers.
pub(crate) static RELAY: Experiment = Experiment {
    name: "relay",
    about: "A UDP relay with a poller on each of N CPUs (a model of forward --udp --pollers N; not from a paper)",
    details: "Clients send at random times, all at the same mean rate, and each belongs to one poller. A \
              poller sleeps until a packet comes; a turn takes at most --quota packets, which leave together \
              at its end. The costs were measured with one poller on one CPU; how they grow with N is the \
              model's assumption.",
    parameters: &[
        Parameter::count("pollers", "Pollers, each on its own CPU", 1..=1_024, 4),
        Parameter::count("load", "Offered packets, in % of N times the capacity of one poller", LOAD, 60)
            .in_unit("percent"),
        Parameter::count("clients", "Clients, all at the same rate", 1..=1_000_000, 1_000),
        Parameter::choice::<Hash>(
            "hash",
            "How clients are assigned to pollers: at random, as the kernel's hash does, or the same number each",
        ),
        Parameter::time("packet", "CPU time of a poller for each packet", COST, PACKET),
        Parameter::time("turn", "CPU time of a poller for each turn", COST, TURN),
        Parameter::time("wake-up", "CPU time of a poller for each turn after a sleep", COST, WAKE_UP),
        Parameter::time(
            "shared",
            "The serial part of each packet: one poller at a time can do it",
            COST,
            SHARED,
        ),
        Parameter::choice::<Receiving>(
            "softirq",
            "Where the kernel receives: on other CPUs, one for each poller, or on the pollers' CPUs",
        ),
        Parameter::time("receive", "CPU time to receive a packet, also if it is dropped", COST, RECEIVE),
        Parameter::count("quota", "Most packets in a turn", 1..=4_096, 64),
        Parameter::count("buffer", "Packets that can wait for a poller", 1..=1_000_000, 4_096),
        Parameter::time(
            "duration",
            "Simulated time; the first tenth of it is left out",
            Duration::from_millis(1)..=Duration::from_secs(100),
            Duration::from_millis(20),
        ),
    ],
    columns: &[
        Column::new("pollers", "N").given(),
        Column::new("load", "offered, in % of N times one poller's capacity").in_unit("percent"),
        Column::time("shared", "the serial part of each packet"),
        Column::new("offered_kpps", "packets that arrived, in thousands a second"),
        Column::new("relayed_kpps", "packets that left, in thousands a second"),
        Column::share("of_perfect", "packets that left, of N times one poller's capacity"),
        Column::new("bound_kpps", "upper bound: N times one poller, or the serial part").given(),
        Column::share("busiest", "share of the packets that belong to the busiest poller"),
        Column::share("lost", "share of the packets that were dropped"),
        Column::new("delay_us", "mean time from arrival to departure").digits(1),
        Column::new("p99_us", "99th percentile of that time").digits(1),
        Column::new("packets_per_turn", "packets in a turn").digits(1),
        Column::new("cpu_ns", "CPU time of the pollers for each packet that left"),
    ],
    sweep: &[("load", "60,100"), ("pollers", "1,2,4,8,16,32,64")],
    check,
    run,
};

const LOAD: RangeInclusive<u64> = 1..=1_000;
const COST: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(1);

choices! {
    /// The assignment of clients to pollers.
    enum Hash {
        /// At random.
        Random = "random",
        /// The same number each.
        Even = "even",
    }
}

/// Returns the costs, and one poller's time for a packet in a full turn.
fn capacity_of(parameters: &Parameters) -> (Costs, Duration) {
    let costs = Costs {
        packet: parameters.time("packet"),
        turn: parameters.time("turn"),
        wake_up: parameters.time("wake-up"),
        shared: parameters.time("shared"),
        receive: parameters.time("receive"),
        receiving: parameters.choice("softirq"),
        quota: parameters.count("quota"),
    };
    (costs, costs.of_a_packet())
}

fn check(parameters: &Parameters) -> Result<(), RunError> {
    let (_, packet) = capacity_of(parameters);
    if packet < LEAST {
        return Err(RunError::new(format_args!(
            "packet, turn, shared and receive: {packet:?} a packet, less than {LEAST:?}"
        )));
    }
    let packets = parameters.time("duration").as_secs_f64() / packet.as_secs_f64();
    let all = packets * parameters.count("pollers") as f64 * parameters.count("load") as f64 / 100.0;
    if all > MOST_PACKETS {
        return Err(RunError::new(format_args!(
            "pollers, load and duration: {all:.0} packets, more than {MOST_PACKETS:.0} in a run"
        )));
    }
    Ok(())
}

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    check(parameters)?;
    let (costs, packet) = capacity_of(parameters);
    let pollers = parameters.count("pollers");
    let one = 1.0 / packet.as_secs_f64();
    let perfect = one * pollers as f64;
    let bound = if costs.shared.is_zero() { perfect } else { perfect.min(1.0 / costs.shared.as_secs_f64()) };
    let machine = Machine {
        costs,
        buffer: parameters.count("buffer") as usize,
        rate: perfect * parameters.count("load") as f64 / 100.0,
        shares: shares(parameters, streams),
        duration: parameters.time("duration"),
    };
    let found = machine.run(streams, steps);
    let seconds = found.window.as_secs_f64();
    let Found { offered, relayed, lost, turns, busy, ref delays, .. } = found;
    let per = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
    Ok(vec![vec![
        pollers.into(),
        parameters.count("load").into(),
        costs.shared.into(),
        (offered as f64 / seconds / 1e3).into(),
        (relayed as f64 / seconds / 1e3).into(),
        (relayed as f64 / seconds / perfect).into(),
        (bound / 1e3).into(),
        machine.shares.iter().copied().fold(0.0, f64::max).into(),
        per(lost, offered).into(),
        delays.mean().map(|mean| mean / 1e3).into(),
        delays.quantile(0.99).map(|nanos| nanos as f64 / 1e3).into(),
        per(relayed, turns).into(),
        per(busy, relayed).into(),
    ]])
}

/// Returns each poller's share of the packets.
fn shares(parameters: &Parameters, streams: Streams) -> Vec<f64> {
    let (pollers, clients) = (parameters.count("pollers"), parameters.count("clients"));
    if parameters.choice::<Hash>("hash") == Hash::Even {
        return vec![1.0 / pollers as f64; pollers as usize];
    }
    let (mut random, mut of) = (streams.of("hash"), vec![0u64; pollers as usize]);
    (0..clients).for_each(|_| of[random.below(pollers) as usize] += 1);
    of.into_iter().map(|mine| mine as f64 / clients as f64).collect()
}

/// These are not from a paper, but from one run of `forward --udp` on one CPU on 2026-11-24 (commit
/// 90d3ff71). Under flood it relayed 570,000 packets a second: 1,754 ns each in full turns, which is this,
/// the serial part, and 1/64 of a turn.
const PACKET: Duration = Duration::from_nanos(1_703);
/// At 80,000 packets a second one cost 6,598 ns: the cost of a turn of one packet after a sleep, if each turn
/// was one. The division of the rest between the turn and the wake-up is a guess.
const TURN: Duration = Duration::from_micros(2);
const WAKE_UP: Duration = Duration::from_nanos(2_875);
/// A guess: a third of a packet's path through the relay. On loopback it runs on the sender's CPU, and was
/// not measured.
const RECEIVE: Duration = Duration::from_nanos(600);
/// A guess: one transfer for each packet of a cache line that all pollers write to, such as an interface's
/// counters.
const SHARED: Duration = Duration::from_nanos(20);
/// No machine handles a packet in less.
const LEAST: Duration = Duration::from_nanos(10);
/// About a minute's work.
const MOST_PACKETS: f64 = 1e9;

#[cfg(test)]
mod tests;
