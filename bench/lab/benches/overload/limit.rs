//! The CPU limit, beside a computation and under a flood.

use softtimers::Percent;
use softtimers_lab::bench::Done;
use softtimers_load::mode::Mode;
use softtimers_load::overload::Receiver;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::Table;

use super::{Effort, WORK, bench_of, offered, receiver};

/// No limit, and three.
const LIMITS: [(&str, u32); 4] = [("no limit", 100), ("75%", 75), ("50%", 50), ("25%", 25)];
/// Several times the receiver's capacity.
const FLOOD: f64 = 300_000.0;

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let mut contenders = Vec::new();
    for (name, percent) in LIMITS {
        let cpu_limit = (percent < 100).then(|| Percent::new(percent)).transpose()?;
        let plan = Receiver { cpu_limit, computes: true, ..receiver(Mode::HYBRID, WORK) };
        contenders.push((name, percent, bench_of(plan)?));
    }
    let measured = effort.rounds.contest(&[()], &mut contenders, |(), (name, percent, bench), round| {
        let point = offered(bench, FLOOD, 1, effort.trial)?;
        round.put(name, DELIVERED, point.delivered_pps / 1e3);
        round.put(name, USED, point.cpu_share);
        round.put(name, BESIDE, point.beside_share);
        round.put(name, OFF, 100.0 * (point.cpu_share - f64::from(*percent) / 100.0).abs());
        round.put(name, "timer", point.timer_share);
        Done::Ok(())
    })?;
    let columns = [(DELIVERED, 1), (USED, 2), (BESIDE, 2), (OFF, 1), ("timer", 2)];
    let mut table = Table::of("limit", &measured, LIMITS.map(|(name, _)| name), &columns);
    let beside = |name| measured.estimate(name, BESIDE);
    for (name, percent) in LIMITS.into_iter().skip(1) {
        table.bar(Bar::at_most(format!("limit {name}: points off"), 8.0, measured.estimate(name, OFF)));
        let least = 0.5 * (1.0 - f64::from(percent) / 100.0);
        let what = format!("limit {name}: share of the computation, half of the rest");
        table.bar(Bar::at_least(what, least, beside(name)));
    }
    table.bar(Bar::at_most("no limit: share of the computation", 0.02, beside("no limit")));
    Ok(vec![table])
}

const DELIVERED: &str = "delivered kpps";
const USED: &str = "receiver's share";
const BESIDE: &str = "computation's share";
const OFF: &str = "points off";
