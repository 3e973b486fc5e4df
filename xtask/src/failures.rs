//! The failure matrix of the command: each of its commands under each fault. A step of [`full`](crate::full).
//!
//! It takes almost an hour, so it runs by kinds of faults, each of which leaves a part, and an interrupted run resumes:
//!
//! ```text
//!   cargo test --test failures -- ::KIND ──▶ target/assurance/failures/KIND.json ─┐ the parts of this commit
//!                                                                                 └─▶ target/assurance/failures.json
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use softtimers_measure::machine::Machine;
use softtimers_trials::result::{Cell, Results, Table};

use crate::program::{self, cargo, output};
use crate::report::Outcome;
use crate::workspace::Workspace;

/// Runs the kinds without a part of this commit, and adds all up.
pub(crate) fn matrix(workspace: &Workspace) -> Result<Outcome> {
    let directory = workspace.target("assurance").join("failures");
    fs::create_dir_all(&directory)?;
    let run = |words: &[&str]| {
        let mut cargo = cargo(workspace.root());
        cargo.args(["test", "-p", "softtimers-cli", "--test", "failures", "--"]).args(words);
        cargo.env("SOFTTIMERS_FULL", "1");
        cargo
    };
    let list = output(&mut run(&["--list"]))?;
    let kinds: BTreeSet<&str> =
        list.lines().filter_map(|line| Some(line.strip_suffix(": test")?.split_once("::")?.1)).collect();
    ensure!(!kinds.is_empty(), "the matrix has no cells");
    let mut results = Results::today(&Machine::read().line(), "cargo xtask full failures");
    let (mut problems, mut failed) = (vec![], vec![]);
    for kind in kinds {
        if pieces(&directory, kind, results.commit.as_deref())?.is_empty() {
            let path = directory.join(kind).with_extension("json");
            let done = program::check(run(&[&format!("::{kind}")]).env("SOFTTIMERS_RESULTS", &path))?;
            if let Outcome::Failed(found) = done {
                problems.extend(found);
                failed.push(path);
            }
        }
        for piece in pieces(&directory, kind, results.commit.as_deref())? {
            add(&mut results.tables, piece.tables);
        }
    }
    let path = workspace.target("assurance").join("failures.json");
    fs::write(&path, results.to_text()?)?;
    // The next run repeats these.
    failed.iter().filter(|piece| piece.exists()).try_for_each(fs::remove_file)?;
    Ok(Outcome::of(problems, path.display().to_string()))
}

/// Returns the files of a kind: `KIND.json`, or `KIND-1.json` and so on if it was run in parts.
fn pieces(directory: &Path, kind: &str, commit: Option<&str>) -> Result<Vec<Results>> {
    let mut pieces = vec![];
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if name.split('-').next() == Some(kind) {
            let piece = Results::parse(&fs::read_to_string(&path)?).map_err(anyhow::Error::msg);
            pieces.push(piece.with_context(|| path.display().to_string())?);
        }
    }
    pieces.retain(|piece| commit.is_some() && piece.commit.as_deref() == commit);
    Ok(pieces)
}

/// Adds the rows of the same names; the total comes last.
fn add(tables: &mut Vec<Table>, more: Vec<Table>) {
    for more in more {
        let Some(table) = tables.iter_mut().find(|table| table.key == more.key) else {
            tables.push(more);
            continue;
        };
        for row in more.rows {
            match table.rows.iter_mut().find(|known| known[0] == row[0]) {
                Some(known) => known.iter_mut().zip(row).for_each(|(sum, figure)| {
                    if let (Cell::Number(sum), Cell::Number(figure)) = (sum, figure) {
                        *sum += figure;
                    }
                }),
                None => table.rows.push(row),
            }
        }
        table.rows.sort_by_key(|row| row[0] == Cell::Text("all".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up() {
        let table = |rows: &[(&str, f64)]| {
            let mut table = Table::new("commands", &[("command", 0), ("runs", 0)]);
            rows.iter().for_each(|&(name, runs)| table.row([name.into(), runs.into()]));
            table
        };
        let mut tables = vec![];
        add(&mut tables, vec![table(&[("send", 2.0), ("all", 2.0)])]);
        add(&mut tables, vec![table(&[("recv", 3.0), ("send", 1.0), ("all", 4.0)])]);
        assert_eq!(tables, [table(&[("send", 3.0), ("recv", 3.0), ("all", 6.0)])]);
    }
}
