//! `compare`: the same figures of several runs side by side, from their objects of `--json`.
//!
//! ```text
//!   A.json ─┐  one schema ─▶ every number that all have ─▶ A │ B │ B ÷ A      of several runs in a file the median,
//!   B.json ─┘                (not the machine's, nor what was set)              with its interval; B ÷ A of pairs
//! ```

pub(crate) mod args;
mod figures;
mod show;

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use serde_json::Value;
use softtimers_measure::estimate::median;
use softtimers_measure::failure::Failure;

use crate::run::output::Output;
use crate::run::{Command, Disturbance, Outcome, Run};

use figures::numbers;
use show::Row;
pub(crate) use show::{CompareReport, shown, with_interval};

/// What to compare.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Compare {
    /// The files, in the order of their columns.
    pub(crate) files: Vec<String>,
    /// The schema of all of them.
    pub(crate) schema: String,
    /// The beginnings of keys that are wanted; all if there is none.
    pub(crate) only: Vec<String>,
    #[serde(skip)]
    runs: Vec<Vec<Value>>,
    #[serde(skip)]
    output: Output,
}

impl Command for Compare {
    type Config = Compare;
    type Report = CompareReport;
    const DISTURBED_BY: Disturbance = Disturbance::Unwatched;
    const FIELDS: &'static str = include_str!("compare/fields.txt");

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> Compare {
        self.clone()
    }

    fn header(&self) -> String {
        format!("compare: {} of {}", self.files.join(", "), self.schema)
    }

    fn example(&self) -> CompareReport {
        self.report()
    }

    fn run(&mut self, _run: &Run<'_>) -> Result<Outcome<CompareReport>, Failure> {
        Ok(Outcome::of(self.report()))
    }
}

impl Compare {
    /// Returns a row for each number that all runs of all files have.
    fn report(&self) -> CompareReport {
        let is_wanted =
            |key: &str| self.only.is_empty() || self.only.iter().any(|begin| key.starts_with(begin.as_str()));
        let files: Vec<HashMap<String, Vec<f64>>> = self.runs.iter().map(|runs| in_all(runs)).collect();
        let of_first = self.runs.first().and_then(|runs| runs.first()).map(numbers).unwrap_or_default();
        // Rounds of one run each are no pairs.
        let are_paired = [self.runs.first(), self.runs.last()].iter().flatten().all(|runs| runs.len() > 1);
        let row = |(key, _): (String, Vec<f64>)| {
            let rounds: Option<Vec<&[f64]>> =
                files.iter().map(|file| file.get(&key).map(Vec::as_slice)).collect();
            rounds.and_then(|rounds| Row::new(key, &rounds, are_paired))
        };
        let rows: Vec<Row> = of_first.into_iter().filter(|(key, _)| is_wanted(key)).filter_map(row).collect();
        let all = self.runs.iter().flatten().flat_map(numbers).map(|(key, _)| key);
        let all: BTreeSet<String> = all.filter(|key| is_wanted(key)).collect();
        CompareReport {
            left_out: all.len().saturating_sub(rows.len()),
            rows,
            inconclusive_runs: self.runs.iter().map(|runs| inconclusive(runs)).collect(),
            names: self.files.clone(),
        }
    }
}

/// Returns the numbers that all of these runs have, each in their order: of one run its rounds, of several their medians.
fn in_all(runs: &[Value]) -> HashMap<String, Vec<f64>> {
    let mut found: HashMap<String, (usize, Vec<f64>)> = HashMap::new();
    for (key, rounds) in runs.iter().flat_map(numbers) {
        let (seen, all) = found.entry(key).or_default();
        *seen += 1;
        if runs.len() == 1 {
            all.extend(rounds);
        } else {
            all.extend(median(rounds));
        }
    }
    found.into_iter().filter(|(_, (seen, _))| *seen == runs.len()).map(|(key, (_, all))| (key, all)).collect()
}

/// Why some of these runs prove nothing, if so.
fn inconclusive(runs: &[Value]) -> Option<String> {
    let reasons: Vec<&str> = runs.iter().filter_map(|run| run["inconclusive"].as_str()).collect();
    let reason = reasons.first()?;
    Some(if runs.len() == 1 {
        (*reason).to_owned()
    } else {
        format!("{} of {} runs: {reason}", reasons.len(), runs.len())
    })
}
