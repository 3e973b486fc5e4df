//! All contenders in one table: a few workloads that distinguish them, memory, and the longest single calls.

use softtimers_lab::bench::Done;
use softtimers_trials::paired::{Paired, in_turn};
use softtimers_trials::result::Table;

use crate::{Effort, MILLION, contenders, figures_of};

/// A figure of a workload, its column, and its decimals.
type Column = (&'static str, &'static str, usize);

/// The workloads, each with its number of timers.
const WORKLOADS: [(&str, usize, &[Column]); 8] = [
    ("W1", 1_000, &[("set_cancel_ns", "set and cancel/1000, ns", 1)]),
    ("mix", 1_000, &[("step_ns", "mix/1000, ns", 1)]),
    ("ticks", 1_000, &[("event_ns", "ticks/1000, ns", 1)]),
    ("mix", MILLION, &[("step_ns", "mix/1000000, ns", 1)]),
    ("ticks", MILLION, &[("event_ns", "ticks/1000000, ns", 1)]),
    ("W5", MILLION, &[("same_ns", "nothing due/1000000, ns", 1)]),
    ("W2", MILLION, &[("expire_ns", "expire/1000000, ns", 1), ("bytes", "bytes a timer", 1)]),
    (
        "stalls",
        MILLION,
        &[
            ("advance_max_ns", "longest step, ns", 0),
            ("set_max_ns", "longest set, ns", 0),
            ("grow_max_ns", "longest set as it grows, ns", 0),
        ],
    ),
];

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let able = WORKLOADS.map(|(workload, timers, _)| contenders::who_can(workload, timers));
    let measured = Paired::new(effort.rounds).rounds(|number, round| {
        for ((workload, timers, columns), able) in WORKLOADS.iter().zip(&able) {
            eprintln!("{workload}/{timers} ({number})");
            for turn in in_turn(number, able.len()) {
                let figures = figures_of(able[turn], workload, *timers, effort)?;
                for (figure, column, _) in *columns {
                    round.put(able[turn], column, figures.get(*figure).copied());
                }
            }
        }
        Done::Ok(())
    })?;
    let columns = WORKLOADS.iter().flat_map(|(.., columns)| *columns);
    let columns: Vec<_> = columns.map(|(_, column, decimals)| (*column, *decimals)).collect();
    let names = contenders::ALL.iter().map(|(name, _)| *name);
    let names = names.filter(|name| able.iter().any(|able| able.contains(name)));
    let mut table = Table::of("contenders", &measured, names, &columns);
    "contender".clone_into(&mut table.columns[0]);
    Ok(vec![table])
}
