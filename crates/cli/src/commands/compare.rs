//! `compare`: the same figures of several runs side by side, from their objects of `--json`.
//!
//! ```text
//!   A.json ─┐  one schema ─▶ every number that all have ─▶ A │ B │ B ÷ A
//!   B.json ─┘                (not the machine's, nor what was set)
//! ```

pub(crate) mod args;
mod figures;
mod show;

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;
use softtimers_measure::failure::Failure;

use crate::run::output::Output;
use crate::run::{Command, Disturbance, Outcome, Run};

use figures::numbers;
pub(crate) use show::CompareReport;
use show::Row;

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
    objects: Vec<Value>,
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
    /// Returns a row for each number that all objects have.
    fn report(&self) -> CompareReport {
        let Some((first, others)) = self.objects.split_first() else { return CompareReport::default() };
        let others: Vec<HashMap<String, f64>> =
            others.iter().map(|object| numbers(object).into_iter().collect()).collect();
        let is_wanted =
            |key: &str| self.only.is_empty() || self.only.iter().any(|begin| key.starts_with(begin.as_str()));
        let row = |(key, value): (String, f64)| {
            let of_others = others.iter().map(|other| other.get(&key).copied());
            let values: Option<Vec<f64>> = std::iter::once(Some(value)).chain(of_others).collect();
            values.map(|values| Row::new(key, values))
        };
        let rows = numbers(first).into_iter().filter(|(key, _)| is_wanted(key)).filter_map(row);
        let inconclusive = |object: &Value| object["inconclusive"].as_str().map(str::to_owned);
        CompareReport {
            rows: rows.collect(),
            inconclusive_runs: self.objects.iter().map(inconclusive).collect(),
            names: self.files.clone(),
        }
    }
}
