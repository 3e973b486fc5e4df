//! Five times the capacity, in bursts of one and of four.

use std::error::Error;
use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_load::mode::Mode;
use softtimers_load::overload::{Bench, Receiver};
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Round;
use softtimers_trials::result::Table;

use super::{Effort, WORK, bench_of, offered, receiver};

/// The receivers by name: mode, stages, nice value of the second.
const CONTENDERS: [(&str, Mode, u8, u8); 6] = [
    ("poller, two stages", Mode::HYBRID, 2, 0),
    ("poller, two stages, receiver first", Mode::HYBRID, 2, 19),
    ("poller, to completion", Mode::HYBRID, 1, 0),
    ("naive, two stages", Mode::NAIVE, 2, 0),
    ("naive, two stages, receiver first", Mode::NAIVE, 2, 19),
    ("naive, one thread", Mode::NAIVE, 1, 0),
];
const BURSTS: [u32; 2] = [1, 4];
/// The lower loads, as multiples of the rate of a stable receiver that is offered as much as the sender can send.
const LOWER: [f64; 3] = [0.7, 0.9, 1.1];
const HIGHEST: f64 = 5.0;

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let mut contenders = Vec::new();
    for (name, mode, stages, nice) in CONTENDERS {
        contenders.push((name, bench_of(Receiver { stages, nice, ..receiver(mode, WORK) })?));
    }
    let row = |name: &str, burst: u32| format!("{name}, bursts of {burst}");
    let measured = effort.rounds.contest(&BURSTS, &mut contenders, |&burst, (name, bench), round| {
        one(&row(name, burst), bench, burst, effort, round)
    })?;
    let rows: Vec<String> =
        BURSTS.iter().flat_map(|&burst| CONTENDERS.map(|(name, ..)| row(name, burst))).collect();
    let mut table = Table::of("curve", &measured, &rows, &COLUMNS);
    for row in rows.iter().filter(|row| row.starts_with("poller")) {
        let of = |figure| measured.estimate(row, figure);
        table.bar(Bar::at_least(format!("{row}: delivered at 5 x capacity / peak"), 0.9, of(KEPT)));
        table.bar(Bar::at_least(format!("{row}: 20 ms timer"), 0.95, of(TIMER)));
    }
    Ok(vec![table])
}

/// Measures one curve, and the highest offered rate's throughput relative to the best lower one's. The maximum of
/// several scattered figures is biased upwards; so the curve only selects that rate, and then both are measured again,
/// one right after the other.
fn one(
    row: &str,
    bench: &mut Bench,
    burst: u32,
    effort: &Effort,
    round: &mut Round,
) -> Result<(), Box<dyn Error>> {
    let capacity = capacity(bench, burst, effort)?;
    let mut best = (1.0, 0.0);
    for multiple in LOWER {
        let delivered = offered(bench, multiple * capacity, burst, effort.trial)?.delivered_pps;
        if delivered > best.1 {
            best = (multiple, delivered);
        }
    }
    let peak = offered(bench, best.0 * capacity, burst, effort.trial)?.delivered_pps;
    let point = offered(bench, HIGHEST * capacity, burst, effort.trial)?;
    let [ring, queue] = [point.dropped.ring, point.dropped.queue].map(|n| n as f64 / point.sent as f64);
    for (name, figure) in [
        (PEAK, peak / 1e3),
        (OFFERED, point.offered_pps / capacity),
        ("sent in bursts of", f64::from(point.burst)),
        (AT_FIVE, point.delivered_pps / 1e3),
        (KEPT, point.delivered_pps / peak.max(1.0)),
        ("dropped in the ring", ring),
        ("at the queue", queue),
    ] {
        round.put(row, name, figure);
    }
    round.put(row, TIMER, point.timer_share);
    round.put(row, "no progress", point.livelock.stalled_share);
    Ok(())
}

/// Returns the highest delivered rate: about what the work alone allows.
fn capacity(bench: &mut Bench, burst: u32, effort: &Effort) -> Result<f64, Box<dyn Error>> {
    let guess = 1.0 / (bench.work_cost()? + BESIDE_WORK).as_secs_f64();
    let mut most: f64 = 0.0;
    for share in [0.4, 0.6, 0.8, 1.0, 1.2] {
        most = most.max(offered(bench, share * guess, burst, effort.trial / 2)?.delivered_pps);
    }
    Ok(most)
}

/// The approximate cost of a packet apart from the work.
const BESIDE_WORK: Duration = Duration::from_micros(3);
const PEAK: &str = "peak kpps";
const OFFERED: &str = "offered / capacity";
const AT_FIVE: &str = "delivered kpps";
const KEPT: &str = "of the peak";
const TIMER: &str = "timer";
const COLUMNS: [(&str, usize); 9] = [
    (PEAK, 1),
    (OFFERED, 1),
    ("sent in bursts of", 0),
    (AT_FIVE, 1),
    (KEPT, 2),
    (TIMER, 2),
    ("no progress", 2),
    ("dropped in the ring", 2),
    ("at the queue", 2),
];
