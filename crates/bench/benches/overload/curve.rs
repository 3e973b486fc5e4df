//! Five times the capacity, in bursts of one and of four.

use std::error::Error;

use softtimers_cli::bench::trial::Bench;
use softtimers_cli::forward::mode::Mode;
use softtimers_cli::plan::ReceiverPlan;

use super::rounds::{Round, Section};
use super::{Effort, WORK, offered, receiver};

/// The receivers by name: mode, stages, nice value of the second.
const CONTENDERS: [(&str, Mode, u8, u8); 6] = [
    ("poller, two stages", Mode::Hybrid, 2, 0),
    ("poller, two stages, receiver first", Mode::Hybrid, 2, 19),
    ("poller, to completion", Mode::Hybrid, 1, 0),
    ("naive, two stages", Mode::Naive, 2, 0),
    ("naive, two stages, receiver first", Mode::Naive, 2, 19),
    ("naive, one thread", Mode::Naive, 1, 0),
];
const BURSTS: [u32; 2] = [1, 4];
/// Of what a receiver that survives does when it is offered all that the sender has.
const MULTIPLES: [f64; 4] = [0.7, 0.9, 1.1, 5.0];

pub(crate) fn measure(effort: Effort) -> Result<Section, Box<dyn Error>> {
    let mut contenders = Vec::new();
    for (name, mode, stages, nice) in CONTENDERS {
        contenders.push((name, Bench::new(ReceiverPlan { stages, nice, ..receiver(mode, WORK) })?));
    }
    let section = Section::of(effort.rounds, |number| {
        let mut round = Round::default();
        for burst in BURSTS {
            let count = contenders.len();
            for turn in 0..count {
                let (name, bench) = &mut contenders[(turn + number) % count];
                one(&format!("{name}, bursts of {burst}"), bench, burst, effort, &mut round)?;
            }
        }
        Ok(round)
    })?;
    let rows: Vec<String> = BURSTS
        .iter()
        .flat_map(|burst| CONTENDERS.map(|(name, ..)| format!("{name}, bursts of {burst}")))
        .collect();
    let shown: Vec<&str> = rows.iter().map(String::as_str).collect();
    let mut section = section.shown(&shown, &COLUMNS);
    for row in rows.iter().filter(|row| row.starts_with("poller")) {
        let (kept, timer) = (section.median(row, KEPT), section.median(row, TIMER));
        section.bar(&format!("{row}: delivered at 5 x capacity / peak"), kept, "at least 0.9", kept >= 0.9);
        section.bar(&format!("{row}: 20 ms timer"), timer, "at least 0.95", timer >= 0.95);
    }
    Ok(section)
}

/// One curve.
fn one(
    row: &str,
    bench: &mut Bench,
    burst: u32,
    effort: Effort,
    round: &mut Round,
) -> Result<(), Box<dyn Error>> {
    // Where it loses next to nothing: the naive ones do less beyond.
    let mut capacity = 0.0;
    for rate in [30_000.0, 45_000.0, 60_000.0, 75_000.0, 90_000.0] {
        let point = offered(bench, rate, burst, effort.trial / 2)?;
        capacity = f64::max(capacity, point.delivered_pps);
        if point.delivered_pps < 0.97 * point.offered_pps {
            break;
        }
    }
    let mut peak = capacity;
    for multiple in MULTIPLES {
        let point = offered(bench, multiple * capacity, burst, effort.trial)?;
        peak = f64::max(peak, point.delivered_pps);
        if multiple < 5.0 {
            continue;
        }
        let [ring, queue] = [point.dropped.ring, point.dropped.queue].map(|n| n as f64 / point.sent as f64);
        for (name, figure) in [
            (PEAK, peak / 1e3),
            (OFFERED, point.offered_pps / capacity),
            ("sent in bursts of", f64::from(point.burst)),
            (AT_FIVE, point.delivered_pps / 1e3),
            (KEPT, point.delivered_pps / peak),
            ("dropped in the ring", ring),
            ("at the queue", queue),
        ] {
            round.put(row, name, figure);
        }
        round.put(row, TIMER, point.timer_share);
        round.put(row, "no progress", point.livelock.stalled_share);
    }
    Ok(())
}

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
