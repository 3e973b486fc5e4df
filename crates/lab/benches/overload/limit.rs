//! The processor limit, beside a computation and under a flood.

use std::error::Error;

use softtimers::Percent;
use softtimers_cli::args::Beside;
use softtimers_cli::bench::trial::Bench;
use softtimers_cli::forward::mode::Mode;
use softtimers_cli::plan::ReceiverPlan;

use super::{Effort, WORK, offered, receiver};
use softtimers_bench::rounds::{Round, Section, in_turn};

/// No limit, and three.
const LIMITS: [(&str, u32); 4] = [("no limit", 100), ("75%", 75), ("50%", 50), ("25%", 25)];
/// Several times what the receiver can do.
const FLOOD: f64 = 300_000.0;

pub(crate) fn measure(effort: Effort) -> Result<Section, Box<dyn Error>> {
    let mut contenders = Vec::new();
    for (name, percent) in LIMITS {
        let cpu_limit = (percent < 100).then(|| Percent::new(percent)).transpose()?;
        let plan = ReceiverPlan { cpu_limit, beside: Beside::Compute, ..receiver(Mode::Hybrid, WORK) };
        contenders.push((name, percent, Bench::new(plan)));
    }
    let section = Section::of(effort.rounds, |number| {
        let mut round = Round::default();
        for turn in in_turn(number, contenders.len()) {
            let (name, percent, bench) = &mut contenders[turn];
            let point = offered(bench, FLOOD, 1, effort.trial)?;
            round.put(name, DELIVERED, point.delivered_pps / 1e3);
            round.put(name, USED, point.cpu_share);
            round.put(name, BESIDE, point.beside_share);
            round.put(name, OFF, 100.0 * (point.cpu_share - f64::from(*percent) / 100.0).abs());
            round.put(name, "timer", point.timer_share);
        }
        Ok(round)
    })?;
    let rows = LIMITS.map(|(name, _)| name);
    let columns = [(DELIVERED, 1), (USED, 2), (BESIDE, 2), (OFF, 1), ("timer", 2)];
    let mut section = section.shown(rows, &columns);
    for (name, percent) in LIMITS.into_iter().skip(1) {
        let off = section.median(name, OFF);
        section.bar(&format!("limit {name}: points off"), off, "at most 8", off <= 8.0);
        let (beside, least) = (section.median(name, BESIDE), 0.5 * (1.0 - f64::from(percent) / 100.0));
        section.bar(
            &format!("limit {name}: share of the computation"),
            beside,
            &format!("at least {least:.3}, half of the rest"),
            beside >= least,
        );
    }
    let without = section.median("no limit", BESIDE);
    section.bar("no limit: share of the computation", without, "below 0.02", without < 0.02);
    Ok(section)
}

const DELIVERED: &str = "delivered kpps";
const USED: &str = "receiver's share";
const BESIDE: &str = "computation's share";
const OFF: &str = "points off";
