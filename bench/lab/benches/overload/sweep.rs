//! Delivered against offered, for the picture of docs/overload.md: `cargo lab publish FILE overload-curve`.

use softtimers_lab::bench::Done;
use softtimers_load::mode::Mode;
use softtimers_load::overload::Receiver;
use softtimers_trials::result::Table;

use super::{Effort, WORK, bench_of, offered, receiver};

/// The receivers by name: mode, stages, nice value of the second.
const CONTENDERS: [(&str, Mode, u8, u8); 4] = [
    ("softtimers", Mode::HYBRID, 1, 0),
    ("softtimers, two stages", Mode::HYBRID, 2, 19),
    ("naive", Mode::NAIVE, 1, 0),
    ("naive, two stages", Mode::NAIVE, 2, 19),
];
/// Thousands of packets a second.
const RATES: [u32; 12] = [10, 20, 30, 40, 50, 60, 80, 100, 130, 160, 200, 250];

/// Offers each rate to each receiver in turn, so that a drifting machine is the same for all of them.
pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let mut contenders = Vec::new();
    for (name, mode, stages, nice) in CONTENDERS {
        contenders.push((name, bench_of(Receiver { stages, nice, ..receiver(mode, WORK) })?));
    }
    let measured = effort.rounds.contest(&RATES, &mut contenders, |&rate, (name, bench), round| {
        let point = offered(bench, f64::from(rate) * 1e3, 1, effort.trial)?;
        round.put(&rate.to_string(), name, point.delivered_pps / 1e3);
        Done::Ok(())
    })?;
    Ok(vec![Table::of("sweep", &measured, RATES, &CONTENDERS.map(|(name, ..)| (name, 1)))])
}
