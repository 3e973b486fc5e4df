//! Collects the runs of a point, in any order, into its rows: [`Gathered`].
//!
//! Seeds count in their order, up to the first one at which the mean is precise enough, however many have
//! been run by then, so the rows do not depend on the number of threads.

use std::collections::BTreeMap;

use super::runs::is_look;
use super::{PointRows, Sweep, summary};
use crate::experiment::RunError;
use crate::table::{Row, Value};

/// The result of one run of a point.
pub(super) type Found = Result<Vec<Row>, RunError>;

/// The runs of one point so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Runs that finished before one of an earlier seed.
    early: BTreeMap<usize, Found>,
    /// In the order of the seeds.
    seeds: Vec<Vec<Row>>,
    settled: Option<Found>,
}

impl Gathered {
    /// Adds the run of a seed; returns whether the point needs no more.
    pub(super) fn add(&mut self, sweep: &Sweep, seed: usize, found: Found) -> bool {
        self.early.insert(seed, found);
        while self.settled.is_none() {
            match self.early.remove(&self.seeds.len()) {
                None => break,
                Some(Err(error)) => self.settled = Some(Err(error)),
                Some(Ok(rows)) => {
                    self.seeds.push(rows);
                    self.settled = self.settle(sweep);
                }
            }
        }
        self.settled.is_some()
    }

    fn settle(&mut self, sweep: &Sweep) -> Option<Found> {
        let (runs, columns) = (sweep.runs(), sweep.experiment().columns);
        let most = runs.seeds.get() as usize;
        if most == 1 {
            return self.seeds.pop().map(Ok);
        }
        let precision = runs.precision.as_ref().filter(|_| is_look(self.seeds.len()));
        if self.seeds.len() < most && precision.is_none() {
            return None;
        }
        let joined = summary::summed(columns, &self.seeds);
        let certain = precision.is_some_and(|wanted| {
            joined.as_ref().map_or(true, |rows| summary::is_certain(columns, rows, wanted))
        });
        (self.seeds.len() == most || certain).then_some(joined)
    }

    /// Returns the rows of the point, or why there are none; `None` if runs are missing.
    pub(super) fn rows(self, sweep: &Sweep, point: usize) -> Option<Result<PointRows, RunError>> {
        let at = sweep.at(point).iter().map(|(text, _)| text.clone()).collect();
        let seeds = u32::try_from(self.seeds.len().max(1)).unwrap_or(u32::MAX);
        Some(match self.settled? {
            Ok(rows) => Ok(PointRows { point, at, rows, seeds, skipped: None }),
            Err(error) if sweep.runs().skips => {
                let row = vec![Value::Missing; sweep.experiment().columns.len()];
                let why = error.to_string();
                Ok(PointRows { point, at, rows: vec![row], seeds: 0, skipped: Some(why) })
            }
            Err(error) => Err(error),
        })
    }
}
