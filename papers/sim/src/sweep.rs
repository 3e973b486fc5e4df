//! Many runs of one experiment: [`Sweep`], optionally split into [`Part`]s.
//!
//! Points are independent, so they run on all CPUs, and rows are returned in the order of the points,
//! whichever finishes first. All points have the same seeds: they meet the same packets and differ only in
//! the swept parameters. With several seeds the rows of a point are means, each with its deviation and its
//! interval.
//!
//! ```text
//!   --sweep quota=2,5,8 --sweep rate=4000,8000        --part 2/3
//!     1  quota 2  rate 4000                             2  quota 2  rate 8000
//!     2  quota 2  rate 8000                             5  quota 8  rate 4000
//!     3  quota 5  rate 4000  …                          point k of part i of n: k ≡ i (mod n)
//! ```

mod fingerprint;
mod gathered;
mod part;
mod runs;
mod summary;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::engine::{Steps, Streams, Watch};
use crate::experiment::{Experiment, RunError};
use crate::parameter::{Parameter, Parameters};
use crate::recording::Recording;
use crate::setting::{Kind, Setting};
use crate::table::{Column, Row};
use gathered::{Found, Gathered};

pub use part::Part;
pub use runs::{Precision, Runs};

/// A swept parameter and its values.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The name of the parameter, or `seed`.
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
    runs: Runs,
    fingerprint: u64,
}

/// The rows of one point of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct PointRows {
    /// The index of the point, from zero.
    pub point: usize,
    /// The values of the axes at this point, as they were given.
    pub at: Vec<String>,
    /// The rows that the run returned, or the means of several.
    pub rows: Vec<Row>,
    /// The seeds that the rows are of.
    pub seeds: u32,
    /// Why the point is not possible; then its only row has no values.
    pub skipped: Option<String>,
}

impl Sweep {
    /// Plans a sweep of an experiment; the other parameters are those of `base`. The last axis varies
    /// fastest.
    ///
    /// # Panics
    /// If an axis has no value, or names neither a parameter of the experiment nor `seed`.
    pub fn new(
        experiment: &'static Experiment,
        base: Parameters,
        axes: Vec<Axis>,
        runs: impl Into<Runs>,
    ) -> Self {
        let runs = runs.into();
        for axis in &axes {
            assert!(!axis.values.is_empty(), "{} takes no value", axis.name);
            let known = axis.name == SEED || base.iter().any(|(name, _)| name == axis.name);
            assert!(known, "no parameter {}", axis.name);
        }
        let fingerprint = fingerprint::fingerprint(experiment.name, &base, &axes, &runs);
        Sweep { experiment, base, axes, runs, fingerprint }
    }

    /// Returns the experiment.
    pub fn experiment(&self) -> &'static Experiment {
        self.experiment
    }

    /// Returns the swept parameters.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns how the points are run.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Returns whether a column has means, with a deviation and an interval beside each.
    pub fn has_means(&self, column: &Column) -> bool {
        self.runs.seeds.get() > 1 && column.is_measured()
    }

    /// Returns the values of the axes at a point, each with the text that it was given as.
    pub fn at(&self, point: usize) -> Vec<&(String, Setting)> {
        let mut rest = point;
        let mut at = vec![];
        for Axis { values, .. } in self.axes.iter().rev() {
            at.push(&values[rest % values.len()]);
            rest /= values.len();
        }
        at.reverse();
        at
    }

    /// Returns the recordings of all points, each file once.
    pub fn recordings(&self) -> Vec<&Recording> {
        let swept = self.axes.iter().flat_map(|axis| axis.values.iter().map(|(_, setting)| setting));
        let unswept = |name| !self.axes.iter().any(|axis| axis.name == name);
        let fixed = self.base.iter().filter(|(name, _)| unswept(*name)).map(|(_, setting)| setting);
        let mut all: Vec<&Recording> = vec![];
        for setting in fixed.chain(swept) {
            if let Setting::Trace(Some(recording)) = setting {
                let is_known =
                    |known: &&Recording| (known.name == recording.name) & (known.sha256 == recording.sha256);
                if !all.iter().any(is_known) {
                    all.push(recording);
                }
            }
        }
        all
    }

    /// Returns the axes that are not already columns, each with its index, so that every row shows the swept
    /// values.
    pub fn axes_beside_columns(&self) -> impl Iterator<Item = (usize, &'static str)> + '_ {
        let is_column = |name| self.experiment.columns.iter().any(|column| column.name == name);
        let axes = self.axes.iter().enumerate().map(|(index, axis)| (index, axis.name));
        axes.filter(move |(_, name)| !is_column(*name))
    }

    /// Returns the parameters of all points, except the swept ones.
    pub fn base(&self) -> &Parameters {
        &self.base
    }

    /// Returns the key of a parameter in JSON and CSV: its name, with its unit.
    ///
    /// # Panics
    /// If there is no such parameter.
    pub fn key(&self, name: &str) -> String {
        let parameter = self.experiment.parameters.iter().find(|parameter| parameter.name == name);
        match parameter.map(|parameter| (parameter.kind, parameter.unit)) {
            Some((_, Some(unit))) => format!("{name}_{unit}"),
            Some((Kind::Time { .. }, None)) => format!("{name}_ns"),
            Some((Kind::PerSecond { .. }, None)) => format!("{name}_pps"),
            Some(_) => name.to_owned(),
            None if name == SEED => name.to_owned(),
            None => panic!("no parameter {name}"),
        }
    }

    /// Returns the number of points, at least one.
    pub fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).fold(1, usize::saturating_mul)
    }

    /// Returns a number that identifies the sweep and the version, so that parts of different sweeps are not
    /// mixed. A recording counts by its packets.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Checks that no seed is asked for twice, and that a precision is of a column that has means.
    ///
    /// # Errors
    /// Names what was asked for, and says what is possible.
    pub fn check_runs(&self) -> Result<(), RunError> {
        let runs = &self.runs;
        if runs.seeds.get() > 1 && self.axes.iter().any(|axis| axis.name == SEED) {
            return Err(RunError::new("seeds: seed is swept already; one of the two is possible"));
        }
        let Some(Precision { column, .. }) = &runs.precision else { return Ok(()) };
        let means = self.experiment.columns.iter().filter(|column| self.has_means(column));
        let means: Vec<&str> = means.map(|column| column.name).collect();
        match runs.seeds.get() {
            // The precision is first checked after ten seeds, when these are over.
            ..=10 if means.contains(&column.as_str()) => {
                Err(RunError::new("precision: more than ten seeds are needed; it is first checked after ten"))
            }
            _ if means.contains(&column.as_str()) => Ok(()),
            _ if means.is_empty() => Err(RunError::new(format_args!(
                "precision '{column}': no column with a mean: more seeds are needed"
            ))),
            _ => Err(RunError::new(format_args!(
                "precision '{column}': no column with a mean; there are {}",
                means.join(", ")
            ))),
        }
    }

    /// Checks that each point can be run, and that each parameter that was `given` by name has an effect at some point.
    ///
    /// If impossible points are skipped, one possible point is enough.
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
        let (mut others, mut possible) = (0u64, false);
        for point in 0..self.points() {
            let (parameters, _) = self.parameters(point);
            match ((self.experiment.check)(&parameters), &first) {
                (Ok(()), _) => {
                    possible = true;
                    unused.retain(|(_, need)| !(need.met)(&parameters));
                }
                (Err(error), None) => first = Some(self.error(point, error)),
                (Err(_), Some(_)) => others += 1,
            }
        }
        if let Some(first) = first.filter(|_| !(self.runs.skips && possible)) {
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

    /// Runs the points of a part on `threads` threads and hands their rows to `each`, in order.
    /// [`Watch::stop`] abandons the running points; that is not an error.
    ///
    /// The rows are the same for any number of threads and parts. The rows of a point are handed over before
    /// the error of a later one is returned.
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
        let points: Vec<usize> = part.indices(self.points()).collect();
        let jobs = Jobs {
            sweep: self,
            watch,
            points: &points,
            next: AtomicUsize::new(0),
            settled: settled(&points),
        };
        thread::scope(|scope| {
            let (sender, results) = mpsc::channel();
            for count in 0..threads.get().min(jobs.count()) {
                let (sender, jobs) = (sender.clone(), &jobs);
                let work = move || jobs.work(&sender);
                // With fewer threads than requested it takes longer; with none, this thread does all the work
                // before any row is handed over.
                if thread::Builder::new().spawn_scoped(scope, work.clone()).is_err() {
                    if count == 0 {
                        work();
                    }
                    break;
                }
            }
            drop(sender);
            let mut waiting: BTreeMap<usize, Gathered> = BTreeMap::new();
            let mut awaited = 0;
            for (place, seed, found) in results {
                if waiting.entry(place).or_default().add(self, seed, found) {
                    jobs.settled[place].store(true, Ordering::Relaxed);
                }
                while jobs.settled.get(awaited).is_some_and(|settled| settled.load(Ordering::Relaxed)) {
                    // Later results are discarded.
                    let point = points[awaited];
                    let rows =
                        waiting.get_mut(&awaited).map(std::mem::take).and_then(|all| all.rows(self, point));
                    awaited += 1;
                    let Some(rows) = rows else { continue };
                    let handed = rows.map_err(|error| E::from(self.error(point, error))).and_then(&mut each);
                    if handed.is_err() {
                        watch.stop();
                        return handed;
                    }
                }
                waiting.retain(|place, _| *place >= awaited);
            }
            Ok(())
        })
    }

    /// The parameters of a point, and its first seed.
    fn parameters(&self, point: usize) -> (Parameters, u64) {
        let (mut parameters, mut seed) = (self.base.clone(), self.runs.seed);
        for (axis, (_, setting)) in self.axes.iter().zip(self.at(point)) {
            match setting {
                Setting::Count(count) if axis.name == SEED => seed = *count,
                _ => parameters = parameters.with(axis.name, setting.clone()),
            }
        }
        (parameters, seed)
    }

    fn error(&self, point: usize, error: RunError) -> PointError {
        let at = self.axes.iter().zip(self.at(point));
        PointError {
            at: at.map(|(axis, (text, _))| format!("{}={text}", axis.name)).collect(),
            error,
            others: 0,
        }
    }

    fn found(&self, point: usize, seed: usize, steps: &Steps) -> Found {
        let (parameters, first) = self.parameters(point);
        let streams = Streams::new(first.wrapping_add(seed as u64));
        let Experiment { name, columns, check, run, .. } = self.experiment;
        if self.runs.skips {
            check(&parameters)?;
        }
        let rows = run(&parameters, streams, steps)?;
        let is_row = |row: &Row| {
            row.len() == columns.len() && columns.iter().zip(row).all(|(column, value)| column.holds(value))
        };
        assert!(!rows.is_empty() && rows.iter().all(is_row), "{name}: rows of its columns: {rows:?}");
        Ok(rows)
    }
}

/// The runs for the threads: every seed of every point of a part.
struct Jobs<'a> {
    sweep: &'a Sweep,
    watch: &'a Watch,
    points: &'a [usize],
    next: AtomicUsize,
    /// By the point's index in the part: whether no more seeds are needed.
    settled: Vec<AtomicBool>,
}

fn settled(points: &[usize]) -> Vec<AtomicBool> {
    points.iter().map(|_| AtomicBool::new(false)).collect()
}

impl Jobs<'_> {
    fn count(&self) -> usize {
        self.points.len().saturating_mul(self.sweep.runs.seeds.get() as usize)
    }

    /// Does the remaining runs and sends the results, with the index of the point in its part and the index
    /// of the seed.
    fn work(&self, sender: &mpsc::Sender<(usize, usize, Found)>) {
        let seeds = self.sweep.runs.seeds.get() as usize;
        loop {
            let job = self.next.fetch_add(1, Ordering::Relaxed);
            let (place, seed) = (job / seeds, job % seeds);
            let Some(&point) = self.points.get(place) else { return };
            if self.watch.is_stopped() {
                return;
            }
            let steps = self.watch.steps();
            if self.settled[place].load(Ordering::Relaxed) {
                steps.end();
                continue;
            }
            let found = self.sweep.found(point, seed, &steps);
            if !steps.end() || sender.send((place, seed, found)).is_err() {
                return;
            }
        }
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

/// The axis that is not a parameter.
pub(crate) const SEED: &str = "seed";

#[cfg(test)]
pub(crate) mod tests;
