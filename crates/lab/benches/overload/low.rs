//! Where there is no overload: what the cure costs then. And how the modes and quotas differ.

use std::error::Error;

use softtimers_cli::bench::load::Offer;
use softtimers_cli::bench::report::Point;
use softtimers_cli::bench::trial::Bench;
use softtimers_cli::forward::mode::{Looking, Mode};
use softtimers_cli::plan::ReceiverPlan;

use super::{Effort, WORK, offered, receiver};
use softtimers_bench::rounds::{Round, Section, in_turn};

/// The modes, each by its name; plain `epoll` is one receive a wait, with nothing else around it.
const MODES: [(&str, Mode); 4] = [
    ("plain epoll", Mode::Naive),
    ("interrupt", Mode::Interrupt),
    ("hybrid", Mode::Hybrid),
    ("hip", Mode::Hip),
];

/// At 2,000 packets/s, and when nothing comes.
pub(crate) fn quiet(effort: Effort) -> Result<Section, Box<dyn Error>> {
    let mut contenders = contenders(&MODES[..3]);
    let section = Section::of(effort.rounds, |number| {
        let mut round = Round::default();
        for turn in in_turn(number, contenders.len()) {
            let (name, bench) = &mut contenders[turn];
            put(&mut round, name, &offered(bench, 2_000.0, 1, effort.trial)?);
            let idle = Offer { rate: 0.0, burst: 1, length: 2 * effort.trial };
            round.put(name, IDLE, 100.0 * bench.trial(idle)?.cpu_share);
        }
        Ok(round)
    })?;
    let rows = ["plain epoll", "interrupt", "hybrid"];
    let mut section = section.shown(rows, &[(P50, 1), (P99, 1), (WAKEUPS, 2), (CPU, 1), (IDLE, 3)]);
    for row in &rows[1..] {
        let ratio = section.median(row, P50) / section.median("plain epoll", P50);
        section.bar(&format!("{row}: p50 / plain epoll's"), ratio, "at most 1.3", ratio <= 1.3);
        let idle = section.median(row, IDLE);
        section.bar(&format!("{row}: CPU when idle, %"), idle, "below 0.5", idle < 0.5);
    }
    Ok(section)
}

/// Wake-ups and latency by rate.
pub(crate) fn modes(effort: Effort) -> Result<Section, Box<dyn Error>> {
    let rates = [("500/s", 500.0), ("5,000/s", 5_000.0), ("50,000/s", 50_000.0)];
    let mut contenders = contenders(&MODES);
    let section = Section::of(effort.rounds, |number| {
        let mut round = Round::default();
        for (at, rate) in rates {
            for turn in in_turn(number, contenders.len()) {
                let (name, bench) = &mut contenders[turn];
                put(&mut round, &format!("{at}, {name}"), &offered(bench, rate, 1, effort.trial)?);
            }
        }
        Ok(round)
    })?;
    let rows: Vec<String> =
        rates.iter().flat_map(|(at, _)| MODES.map(|(name, _)| format!("{at}, {name}"))).collect();
    let columns = [(WAKEUPS, 3), (P50, 1), (P99, 1), (CPU, 1), (POLLS, 3), (EMPTY, 2)];
    let mut section = section.shown(&rows, &columns);
    let fewer = section.median("50,000/s, hip", WAKEUPS) / section.median("50,000/s, plain epoll", WAKEUPS);
    section.bar("hip at 50,000/s: wake-ups a packet / plain epoll's", fewer, "below 1", fewer < 1.0);
    Ok(section)
}

/// Twice the capacity in two stages, by quota.
pub(crate) fn quotas(effort: Effort) -> Result<Section, Box<dyn Error>> {
    let quotas = [("quota 4", 4), ("quota 16", 16), ("quota 64", 64), ("quota 256", 256)];
    let mut contenders = Vec::new();
    for (name, quota) in quotas {
        let plan = receiver(Mode::Hybrid, WORK);
        let looking = Looking { quota, ..plan.looking };
        contenders.push((name, Bench::new(ReceiverPlan { looking, ..plan })));
    }
    let section = Section::of(effort.rounds, |number| {
        let mut round = Round::default();
        for turn in in_turn(number, contenders.len()) {
            let (name, bench) = &mut contenders[turn];
            // Below capacity, so that it is not the receive buffer's length that is seen.
            put(&mut round, name, &offered(bench, 40_000.0, 16, effort.trial)?);
            let flooded = offered(bench, 200_000.0, 16, effort.trial)?;
            round.put(name, FLOODED, flooded.delivered_pps / 1e3);
        }
        Ok(round)
    })?;
    let rows = quotas.map(|(name, _)| name);
    Ok(section.shown(rows, &[(P50, 1), (P99, 1), (FLOODED, 1)]))
}

/// Without work of their own: what is seen is the receiver.
fn contenders(modes: &[(&'static str, Mode)]) -> Vec<(&'static str, Bench)> {
    let bench = |&(name, mode)| (name, Bench::new(receiver(mode, 0)));
    modes.iter().map(bench).collect()
}

fn put(round: &mut Round, row: &str, point: &Point) {
    let micros = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e3);
    let packets = point.received.max(1) as f64;
    round.put(row, P50, micros(point.latency_ns.p50));
    round.put(row, P99, micros(point.latency_ns.p99));
    round.put(row, WAKEUPS, point.wakeups_per_packet);
    round.put(row, CPU, 100.0 * point.cpu_share);
    if point.polls > 0 {
        round.put(row, POLLS, point.polls as f64 / packets);
        round.put(row, EMPTY, point.empty_polls as f64 / point.polls as f64);
    }
}

const P50: &str = "p50 µs";
const P99: &str = "p99 µs";
const WAKEUPS: &str = "wake-ups a packet";
const CPU: &str = "CPU %";
const IDLE: &str = "CPU % idle";
const POLLS: &str = "looks a packet";
const EMPTY: &str = "of them empty";
const FLOODED: &str = "delivered of 200 kpps";
