//! The counts of a run of the matrix, as a file of results.

use std::collections::BTreeMap;

use softtimers_measure::machine::Machine;
use softtimers_trials::result::{Cell as Figure, Results, Table};

use crate::outcome::End;

/// One command among one kind of fault.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) how: How,
    /// How often a run ended in which way.
    pub(crate) ends: BTreeMap<End, u32>,
}

/// The outcome of a cell.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum How {
    Passed,
    Failed,
    Skipped(String),
}

/// By command and kind of fault.
pub(crate) type Cells = BTreeMap<(&'static str, &'static str), Cell>;

/// The runs, by command and by kind of fault, and why cells were skipped.
pub(crate) fn results(cells: &Cells, full: bool) -> Results {
    let command = if full { "SOFTTIMERS_FULL=1 " } else { "" };
    let command = format!("{command}cargo test -p softtimers-cli --test failures");
    let mut results = Results::today(&Machine::read().line(), &command);
    let mut skipped = Table::new("skipped", &[("reason", 0), ("cells", 0)]);
    let mut reasons = BTreeMap::<&str, u32>::new();
    for cell in cells.values() {
        if let How::Skipped(why) = &cell.how {
            *reasons.entry(why).or_default() += 1;
        }
    }
    reasons.into_iter().for_each(|(why, count)| skipped.row([why.into(), f64::from(count).into()]));
    let commands = table("commands", "command", cells, |place| place.0);
    results.tables = vec![commands, table("faults", "kind of fault", cells, |place| place.1), skipped];
    results
}

const ENDS: [End; 6] =
    [End::Code(0), End::Code(1), End::Code(2), End::Code(77), End::Signal, End::NeverBegan];

type CellName = (&'static str, &'static str);

fn table(key: &str, head: &str, cells: &Cells, name: fn(&CellName) -> &'static str) -> Table {
    let columns = ["cells", "failed", "skipped", "runs", "exit 0", "1", "2", "77", "SIGHUP", "never began"];
    let heads: Vec<_> = [head].into_iter().chain(columns).map(|head| (head, 0)).collect();
    let mut sums = BTreeMap::<&str, [u32; 10]>::new();
    for (place, cell) in cells {
        let ends = ENDS.map(|end| cell.ends.get(&end).copied().unwrap_or(0));
        let (failed, skipped) = (cell.how == How::Failed, matches!(cell.how, How::Skipped(_)));
        let cell = [1, failed.into(), skipped.into(), ends.iter().sum()];
        for name in [name(place), ALL] {
            let counts = cell.iter().chain(&ends);
            sums.entry(name).or_default().iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    let all = sums.remove(ALL);
    let mut table = Table::new(key, &heads);
    for (name, sums) in sums.into_iter().chain(all.map(|all| (ALL, all))) {
        let counts = sums.map(|count| Figure::Number(count.into()));
        table.rows.push([Figure::Text(name.to_owned())].into_iter().chain(counts).collect());
    }
    table
}

/// The last row.
const ALL: &str = "all";
