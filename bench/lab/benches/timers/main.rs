//! Timer structures compared in one run: `cargo bench --manifest-path bench/Cargo.toml --bench timers
//! [-- grid --rounds 3 --quick --json FILE]`.
//!
//! Each pair of a contender and a workload is a process of its own, so that none inherits another's heap; the
//! contenders take turns, and the median of the rounds is shown. Costs are the thread's CPU time, to which other
//! programs do not add. Time is simulated: a tick is 1 µs, and 1 ms for contenders without finer units, which see the
//! same number of ticks.
//!
//! | workload | what happens |
//! |---|---|
//! | W1 | N timers 60 to 120 s away; one more, 120 to 130 s away, is set and cancelled |
//! | W2 | N timers within a second: set all, expire in steps of 1 µs |
//! | W5 | N timers 60 s away: is anything due, and when is the next? |
//! | W6 | N requests under way with a time-out of 1 to 2 s each; the oldest is answered, and another begins |
//! | grid | all sizes from one to a million: a server's mix, time-outs that are all cancelled, idle time-outs, ticks of 10 ms, flows at 40 µs; and set, expire, and a jump of a minute at a million |
//! | contenders | all who take part, with what of the above tells them apart: the mix, ticks, set and expire, bytes, the longest calls |
//! | stalls | N connections, each with a time-out of 2.0 to 4.3 s, one re-armed each µs, across 2^24 ticks and 2^36 ns, then a jump of a second: the longest single call; and the longest set of a million, with a million expected and with none |
//!
//! Pages are of 4 KiB: huge ones are switched off in the processes that measure.
//!
//! Contenders that cannot do a workload are left out, with the reason. libuv's heap and `timeout.c` are compiled from
//! sources that two variables name: see `contenders/foreign.rs`.

mod clock;
mod contender;
mod contenders;
mod everyone;
mod grid;
mod stalls;
mod workloads;

use std::collections::BTreeMap;
use std::process::ExitCode;

use softtimers_lab::bench::{self, Done, Section};
use softtimers_measure::child;
use softtimers_trials::command::output;
use softtimers_trials::paired::{Paired, in_turn};
use softtimers_trials::result::Table;

/// Figures of one contender on one workload, by name.
type Figures = BTreeMap<String, f64>;

const MILLION: usize = 1_000_000;

/// Each with its sizes.
const SECTIONS: [Section<Effort>; 2] = [("grid", measure_grid), ("contenders", everyone::measure)];

/// The contenders of the grid, ours first.
const IN_GRID: [&str; 6] =
    ["softtimers", "softtimers keyed", "4-ary heap", "BinaryHeap", "BTreeMap", "DelayQueue"];

struct Effort {
    rounds: usize,
    /// The factor by which timers and operations are reduced.
    shrink: usize,
}

fn main() -> ExitCode {
    bench::child(measure_one).unwrap_or_else(|| {
        bench::main("timers", &SECTIONS, |asked| {
            Ok(Effort { rounds: asked.rounds(), shrink: if asked.quick { 10 } else { 1 } })
        })
    })
}

/// The child process: one contender, one workload, its figures on stdout.
fn measure_one(words: &[&str]) -> Done {
    let &[contender, workload, timers, shrink] = words else { return Err("four words are wanted".into()) };
    clock::small_pages();
    let figures = contenders::run(contender, workload, timers.parse()?, shrink.parse()?)?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Returns one table: the cells, and the cost of each for each contender.
fn measure_grid(effort: &Effort) -> Done<Vec<Table>> {
    let measured = Paired::new(effort.rounds).rounds(|number, round| {
        for cell in grid::cells() {
            eprintln!("{} ({number})", cell.name());
            for turn in in_turn(number, IN_GRID.len()) {
                let figures = figures_of(IN_GRID[turn], cell.workload, cell.timers, effort)?;
                round.put(&cell.name(), IN_GRID[turn], figures.get(cell.figure).copied());
            }
        }
        Done::Ok(())
    })?;
    let rows = grid::cells().map(|cell| cell.name());
    let mut table = Table::of("grid", &measured, rows, &IN_GRID.map(|name| (name, 1)));
    IN_GRID[..2].iter().flat_map(|ours| grid::bars(&measured, ours)).for_each(|bar| table.bar(bar));
    Ok(vec![table])
}

/// Returns the figures of a contender under a workload, from a process of its own.
fn figures_of(contender: &str, workload: &str, timers: usize, effort: &Effort) -> Done<Figures> {
    let [timers, shrink] = [timers, effort.shrink].map(|number| number.to_string());
    let told = output(child::command()?.args([contender, workload, &timers, &shrink]))?;
    Ok(serde_json::from_str(&told)?)
}
