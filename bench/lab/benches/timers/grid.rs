//! Five workloads at every size, and three with a million timers: where a structure does well, and where it does not.

use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Round};

use crate::MILLION;

const SIZES: [usize; 7] = [1, 8, 64, 1_000, 10_000, 100_000, MILLION];
/// The workloads measured at every size, each with its main figure.
const EVERYWHERE: [(&str, &str); 5] = [
    ("mix", "step_ns"),
    ("W6", "request_ns"),
    ("idle", "rearm_ns"),
    ("ticks", "event_ns"),
    ("flows", "event_ns"),
];
/// The additional workloads with a million timers.
const AT_A_MILLION: [(&str, &str); 3] = [("W2", "insert_ns"), ("W2", "expire_ns"), ("jump", "jump_ns")];

/// One cell: the workload, its figure, and the number of timers.
pub(crate) struct Cell {
    pub(crate) workload: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) timers: usize,
}

pub(crate) fn cells() -> impl Iterator<Item = Cell> {
    let everywhere = EVERYWHERE.into_iter().flat_map(|(workload, figure)| {
        SIZES.into_iter().map(move |timers| Cell { workload, figure, timers })
    });
    let most = AT_A_MILLION.map(|(workload, figure)| Cell { workload, figure, timers: MILLION });
    everywhere.chain(most)
}

impl Cell {
    /// The name in the table.
    pub(crate) fn name(&self) -> String {
        let Cell { workload, figure, timers } = self;
        let workload = if *workload == "W6" { "all cancelled" } else { workload };
        match *figure {
            "insert_ns" => format!("set/{timers}"),
            "expire_ns" => format!("expire/{timers}"),
            _ => format!("{workload}/{timers}"),
        }
    }
}

const HEAP: &str = "4-ary heap";

/// Returns the bars of one of ours, for each round.
pub(crate) fn bars(measured: &Measured, ours: &'static str) -> Vec<Bar> {
    let figure = |round: &Round, cell: &str, who: &str| round.figure(cell, who);
    let names: Vec<String> = cells().map(|cell| cell.name()).collect();
    let mean = measured.over(|round| {
        let ratios: Option<Vec<f64>> =
            names.iter().map(|name| Some(figure(round, name, ours)? / figure(round, name, HEAP)?)).collect();
        let ratios = ratios?;
        Some((ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp())
    });
    let mut bars =
        vec![Bar::at_most(format!("{ours}: geometric mean of all cells against {HEAP}"), 0.8, mean)];
    let excess = |round: &Round, name: &str| {
        let heap = figure(round, name, HEAP)?;
        Some(figure(round, name, ours)? / (1.5 * heap).max(heap + 10.0))
    };
    let beyond = measured.over(|round| {
        let cells: Option<Vec<f64>> = names.iter().map(|name| excess(round, name)).collect();
        Some(cells?.into_iter().filter(|&excess| excess > 1.0).count() as f64)
    });
    bars.push(Bar::at_most(format!("{ours}: cells above 1.5 × {HEAP} and 10 ns more"), 0.0, beyond));
    for name in &names {
        let excess = measured.over(|round| excess(round, name));
        let what = format!("{name}: {ours} against 1.5 × {HEAP}, or 10 ns more");
        bars.push(Bar::at_most(what, 1.0, excess));
    }
    for name in ["idle/1000000", "expire/1000000", "ticks/1000000"] {
        let ratio =
            measured.over(|round| Some(figure(round, name, ours)? / figure(round, name, "DelayQueue")?));
        bars.push(Bar::at_most(format!("{name}: {ours} against DelayQueue"), 0.15, ratio));
    }
    bars
}
