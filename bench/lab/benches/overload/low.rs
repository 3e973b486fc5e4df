//! Without overload: the cost of stability there. And how the modes differ.

use softtimers_lab::bench::Done;
use softtimers_load::mode::Mode;
use softtimers_load::overload::{Bench, Offer, Point};
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Round;
use softtimers_trials::result::Table;

use super::{Effort, bench_of, offered, receiver};

/// The modes, each by its name; plain `epoll` is one receive a wait, with nothing else around it.
const MODES: [(&str, Mode); 4] = [
    ("plain epoll", Mode::NAIVE),
    ("interrupt", Mode::INTERRUPT),
    ("hybrid", Mode::HYBRID),
    ("hip", Mode::HIP),
];

/// At 2,000 packets/s, and without packets.
pub(crate) fn quiet(effort: &Effort) -> Done<Vec<Table>> {
    let mut contenders = contenders(&MODES[..3])?;
    let measured = effort.rounds.contest(&[()], &mut contenders, |(), (name, bench), round| {
        put(round, name, &offered(bench, 2_000.0, 1, effort.trial)?);
        let idle = Offer { rate: 0.0, burst: 1, length: 2 * effort.trial };
        round.put(name, IDLE, 100.0 * bench.trial(idle)?.cpu_share);
        Done::Ok(())
    })?;
    let rows = ["plain epoll", "interrupt", "hybrid"];
    let columns = [(P50, 1), (P99, 1), (WAKEUPS, 2), (CPU, 1), (IDLE, 3)];
    let mut table = Table::of("low", &measured, rows, &columns);
    for row in &rows[1..] {
        let ratio = measured.ratio(P50, row, "plain epoll");
        table.bar(Bar::at_most(format!("{row}: p50 / plain epoll's"), 1.3, ratio));
        table.bar(Bar::at_most(format!("{row}: CPU when idle, %"), 0.5, measured.estimate(row, IDLE)));
    }
    Ok(vec![table])
}

/// Wake-ups and latency by rate.
pub(crate) fn modes(effort: &Effort) -> Done<Vec<Table>> {
    let rates = [("500/s", 500.0), ("5,000/s", 5_000.0), ("50,000/s", 50_000.0)];
    let mut contenders = contenders(&MODES)?;
    let measured = effort.rounds.contest(&rates, &mut contenders, |(at, rate), (name, bench), round| {
        put(round, &format!("{at}, {name}"), &offered(bench, *rate, 1, effort.trial)?);
        Done::Ok(())
    })?;
    let rows = rates.iter().flat_map(|(at, _)| MODES.map(|(name, _)| format!("{at}, {name}")));
    let columns = [(WAKEUPS, 3), (P50, 1), (P99, 1), (CPU, 1), (POLLS, 3), (EMPTY, 2)];
    let mut table = Table::of("modes", &measured, rows, &columns);
    let fewer = measured.ratio(WAKEUPS, "50,000/s, hip", "50,000/s, plain epoll");
    table.bar(Bar::at_most("hip at 50,000/s: wake-ups a packet / plain epoll's", 1.0, fewer));
    Ok(vec![table])
}

/// Receivers without work of their own, so that only receiving is measured.
fn contenders(modes: &[(&'static str, Mode)]) -> Done<Vec<(&'static str, Bench)>> {
    modes.iter().map(|&(name, mode)| Ok((name, bench_of(receiver(mode, 0))?))).collect()
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
