//! Many runs of one experiment: [`Sweep`], cut into [`Part`]s if wanted.
//!
//! Points are independent, so they run on all processors, and rows come out in the order of the points whichever is
//! finished first. All points have the same seed: they meet the same packets and differ in what is swept alone.
//!
//! ```text
//!   --sweep quota=2,5,8 --sweep rate=4000,8000        --part 2/3
//!     1  quota 2  rate 4000                             2  quota 2  rate 8000
//!     2  quota 2  rate 8000                             5  quota 8  rate 4000
//!     3  quota 5  rate 4000  …                          point k of part i of n: k ≡ i (mod n)
//! ```

mod fingerprint;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::engine::{Steps, Streams, Watch};
use crate::experiment::{Experiment, RunError};
use crate::parameter::{Parameter, Parameters};
use crate::setting::Setting;
use crate::table::Row;

/// One parameter that is swept, and the values it takes in turn.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The name of the parameter.
    pub name: &'static str,
    /// At least one value, each with the text that it was given as.
    pub values: Vec<(String, Setting)>,
}

/// Runs of one experiment with all combinations of some parameters' values.
#[derive(Clone, Debug)]
pub struct Sweep {
    experiment: &'static Experiment,
    base: Parameters,
    axes: Vec<Axis>,
    seed: u64,
    fingerprint: u64,
}

/// The rows of one point of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct PointRows {
    /// The index of the point, from zero.
    pub point: usize,
    /// The values of the axes at this point, as they were given.
    pub at: Vec<String>,
    /// The rows that the run returned.
    pub rows: Vec<Row>,
}

impl Sweep {
    /// Plans a sweep of an experiment, whose other parameters are those of `base`. The last axis varies fastest.
    ///
    /// # Panics
    /// If an axis has no value or names no parameter of the experiment.
    pub fn new(experiment: &'static Experiment, base: Parameters, axes: Vec<Axis>, seed: u64) -> Self {
        for axis in &axes {
            assert!(!axis.values.is_empty(), "{} takes no value", axis.name);
            assert!(base.iter().any(|(name, _)| name == axis.name), "no parameter {}", axis.name);
        }
        let fingerprint = fingerprint::fingerprint(experiment.name, &base, &axes, seed);
        Sweep { experiment, base, axes, seed, fingerprint }
    }

    /// Returns the experiment that the sweep is of.
    pub fn experiment(&self) -> &'static Experiment {
        self.experiment
    }

    /// Returns the parameters that are swept.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the axes that are not columns anyway, each with its index: what is swept is to be seen in every row.
    pub fn axes_beside_columns(&self) -> impl Iterator<Item = (usize, &'static str)> + '_ {
        let is_column = |name| self.experiment.columns.iter().any(|column| column.name == name);
        let axes = self.axes.iter().enumerate().map(|(index, axis)| (index, axis.name));
        axes.filter(move |(_, name)| !is_column(*name))
    }

    /// Returns the parameters that hold for all points, where they are not swept.
    pub fn base(&self) -> &Parameters {
        &self.base
    }

    /// Returns the number of points, at least one.
    pub fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).fold(1, usize::saturating_mul)
    }

    /// Returns a number that is the same for the same sweep by the same version, so that parts of different ones are not
    /// mixed. A recording counts by its packets.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Checks that each point can be run, and that each parameter that was `given` by name has an effect at some point.
    ///
    /// # Errors
    /// The first point that cannot be run, and how many more; or the first parameter that would change nothing.
    ///
    /// # Cost
    /// Some hundred nanoseconds for each point: nothing is simulated.
    pub fn check(&self, given: &[&str]) -> Result<(), PointError> {
        let needs = |parameter: &'static Parameter| Some((parameter.name, parameter.needs?));
        let mut unused: Vec<_> = self.experiment.parameters.iter().filter_map(needs).collect();
        unused.retain(|(name, _)| given.contains(name));
        let mut first = None;
        let mut others = 0u64;
        for point in 0..self.points() {
            let (parameters, at) = self.parameters(point);
            match ((self.experiment.check)(&parameters), &first) {
                (Ok(()), _) => unused.retain(|(_, need)| !(need.met)(&parameters)),
                (Err(error), None) => first = Some(self.error(&at, error)),
                (Err(_), Some(_)) => others += 1,
            }
        }
        if let Some(first) = first {
            return Err(PointError { others, ..first });
        }
        match unused.first() {
            Some((name, need)) => {
                let why = format!("{name}: used with {} only; it would change nothing here", need.with);
                Err(PointError { at: vec![], error: RunError::new(why), others: 0 })
            }
            None => Ok(()),
        }
    }

    /// Runs the points of a part on `threads` threads and hands their rows to `each`, in order. [`Watch::stop`] gives up the
    /// points that are under way, and that is no error.
    ///
    /// The rows of a point have been handed over before an error of a later one is returned.
    ///
    /// # Errors
    /// The error of the first point, in order, that cannot be run; or the error of `each`, at which the sweep ends.
    pub fn run<E: From<PointError>>(
        &self,
        part: Part,
        threads: NonZeroUsize,
        watch: &Watch,
        mut each: impl FnMut(PointRows) -> Result<(), E>,
    ) -> Result<(), E> {
        let points: Vec<usize> = part.of(self.points()).collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (sender, results) = mpsc::channel();
            for count in 0..threads.get().min(points.len()) {
                let (sender, points, next) = (sender.clone(), &points, &next);
                let work = move || {
                    while let Some(&point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if watch.is_stopped() {
                            return;
                        }
                        let steps = watch.steps();
                        let found = self.point(point, &steps);
                        if !steps.end() || sender.send((point, found)).is_err() {
                            return;
                        }
                    }
                };
                // With fewer threads than wanted it takes longer; with none, this one does it all before any row is handed over.
                if thread::Builder::new().spawn_scoped(scope, work.clone()).is_err() {
                    if count == 0 {
                        work();
                    }
                    break;
                }
            }
            drop(sender);
            let mut early = BTreeMap::new();
            let mut expected = points.iter();
            let mut awaited = expected.next();
            for (point, found) in results {
                early.insert(point, found);
                while let Some(found) = awaited.and_then(|point| early.remove(point)) {
                    let handed = found.map_err(E::from).and_then(&mut each);
                    if handed.is_err() {
                        watch.stop();
                        return handed;
                    }
                    awaited = expected.next();
                }
            }
            Ok(())
        })
    }

    /// The parameters of a point, and the values of the axes there.
    fn parameters(&self, point: usize) -> (Parameters, Vec<String>) {
        let mut rest = point;
        let mut at = vec![];
        let mut parameters = self.base.clone();
        for axis in self.axes.iter().rev() {
            let (text, setting) = &axis.values[rest % axis.values.len()];
            rest /= axis.values.len();
            at.push(text.clone());
            parameters = parameters.with(axis.name, setting.clone());
        }
        at.reverse();
        (parameters, at)
    }

    fn error(&self, at: &[String], error: RunError) -> PointError {
        let axes = self.axes.iter().zip(at).map(|(axis, text)| format!("{}={text}", axis.name));
        PointError { at: axes.collect(), error, others: 0 }
    }

    fn point(&self, point: usize, steps: &Steps) -> Result<PointRows, PointError> {
        let (parameters, at) = self.parameters(point);
        let found = (self.experiment.run)(&parameters, Streams::new(self.seed), steps);
        let rows = found.map_err(|error| self.error(&at, error))?;
        let (name, columns) = (self.experiment.name, self.experiment.columns.len());
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row.len() == columns),
            "{name}: a row of {columns}"
        );
        Ok(PointRows { point, at, rows })
    }
}

/// A point of a sweep that could not be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointError {
    at: Vec<String>,
    error: RunError,
    /// Points that cannot be run either.
    others: u64,
}

impl fmt::Display for PointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "at {}: ", self.at.join(" "))?;
        }
        self.error.fmt(f)?;
        match self.others {
            0 => Ok(()),
            1 => f.write_str("; one more point cannot be run"),
            others => write!(f, "; {others} more points cannot be run"),
        }
    }
}

impl std::error::Error for PointError {}

/// One of `n` parts of a sweep: every n-th point, so that each part has cheap and expensive ones.
///
/// ```
/// use softtimers_sim::Part;
///
/// let part: Part = "2/3".parse()?;
/// assert!(part.of(7).eq([1, 4]));
/// assert!(Part::default().of(3).eq([0, 1, 2]));
/// assert!("4/3".parse::<Part>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The number of the part, from one.
    number: usize,
    of: usize,
}

impl Part {
    /// Iterates over the indices of this part's points, of `points` in all.
    pub fn of(self, points: usize) -> impl Iterator<Item = usize> {
        (self.number - 1..points).step_by(self.of)
    }
}

/// The whole sweep is one part.
impl Default for Part {
    fn default() -> Self {
        Part { number: 1, of: 1 }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Part { number, of }),
            _ => Err("a part is I/N with 1 ≤ I ≤ N, such as 3/16".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
