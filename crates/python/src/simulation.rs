//! The simulator of the papers: [`experiments`] says what there is, [`sweep`] runs one.
//!
//! A run may take hours and needs no Python, so it has threads of its own. The one that called it sleeps without the
//! interpreter's lock, and wakes up now and then for signals and for whoever watches the progress.
//!
//! ```text
//!   caller    plan │ sleeps 50 ms │ signals, progress │ sleeps … │ columns
//!   threads        └── point ── point ── point ──────────────────┘
//! ```

use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use softtimers::{Clock, Monotonic};
use softtimers_sim::{
    Axis, Experiment, Parameter, Parameters, Part, PointError, PointRows, Runs, Setting, Sweep, Watch,
    experiments as all,
};

use crate::{columns, setting};

/// A name or key, and what it is about.
type Named = (String, &'static str);
/// An experiment: name, one line, a paragraph, parameters with their defaults, columns.
type Described = (&'static str, &'static str, &'static str, Vec<(Named, String)>, Vec<Named>);

/// Each experiment's name and purpose, its parameters with their defaults, and its columns.
#[pyfunction]
pub(crate) fn experiments() -> Vec<Described> {
    let described = |experiment: &&'static Experiment| {
        let Experiment { name, about, details, parameters, columns, .. } = **experiment;
        let parameter = |parameter: &'static Parameter| {
            ((underscored(parameter.name), parameter.about), parameter.default.to_string())
        };
        let columns = columns.iter().map(|column| (column.key().into_owned(), column.about));
        (name, about, details, parameters.iter().map(parameter).collect(), columns.collect())
    };
    all::ALL.iter().map(described).collect()
}

/// Runs an experiment at all combinations of the values of ``axes``, or at those of the paper's table for ``None``, and
/// returns ``(name, type, values)`` of each column.
#[pyfunction]
#[pyo3(signature = (experiment, parameters, axes, *, seed, seeds, threads, skip_infeasible, progress))]
#[expect(clippy::too_many_arguments, reason = "Python's keyword arguments, each with its name at the call")]
pub(crate) fn sweep<'py>(
    py: Python<'py>,
    experiment: &str,
    parameters: &Bound<'py, PyDict>,
    axes: Option<&Bound<'py, PyDict>>,
    seed: &Bound<'py, PyAny>,
    seeds: &Bound<'py, PyAny>,
    threads: Option<&Bound<'py, PyAny>>,
    skip_infeasible: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Vec<columns::Column<'py>>> {
    let seed = whole(SEED, seed, 0..=u64::MAX)?;
    // Both are within bounds that the types hold.
    let seeds = u32::try_from(whole("seeds", seeds, 1..=MOST_SEEDS)?).ok().and_then(NonZeroU32::new);
    let seeds = seeds.unwrap_or(NonZeroU32::MIN);
    let threads = match threads {
        None => thread::available_parallelism().ok(),
        Some(threads) => NonZeroUsize::new(whole("threads", threads, 1..=MOST_THREADS)? as usize),
    };
    let threads = threads.unwrap_or(NonZeroUsize::MIN);
    let runs = Runs { seed, seeds, precision: None, skips: skip_infeasible, build: None };
    let sweep = plan(experiment, parameters, axes, runs)?;
    let found = run(py, &sweep, threads, progress)?;
    columns::of(py, &sweep, &found)
}

fn plan(
    experiment: &str,
    given: &Bound<'_, PyDict>,
    axes: Option<&Bound<'_, PyDict>>,
    runs: Runs,
) -> PyResult<Sweep> {
    let Some(experiment) = all::find(experiment) else {
        let names: Vec<_> = all::ALL.iter().map(|experiment| experiment.name).collect();
        return Err(wrong(format!("no experiment '{experiment}'; there are {}", names.join(", "))));
    };
    let (mut parameters, mut names) = (Parameters::new(experiment.parameters), vec![]);
    for (name, value) in given {
        let parameter = find(experiment, &name.extract::<String>()?)?;
        parameters = parameters.with(parameter.name, setting::read(parameter, &value)?);
        names.push(parameter.name);
    }
    let axes_given = axes.is_some();
    let axes = match axes {
        Some(axes) => axes.iter().map(|(name, values)| axis(experiment, &name, &values)).collect(),
        None => of_paper(experiment, &names, &parameters),
    }?;
    for axis in &axes {
        if names.contains(&axis.name) {
            return Err(wrong(format!("{}: it is swept, and set as well", underscored(axis.name))));
        }
    }
    if axes_given {
        names.extend(axes.iter().map(|axis| axis.name).filter(|name| *name != SEED));
    }
    if runs.seeds.get() > 1 && axes.iter().any(|axis| axis.name == SEED) {
        return Err(wrong("seeds: seed is swept already; one of the two is possible"));
    }
    let sweep = Sweep::new(experiment, parameters, axes, runs);
    if sweep.points() > MOST_POINTS {
        return Err(wrong(format!("{} points; at most {MOST_POINTS}", sweep.points())));
    }
    sweep.check(&names).map_err(wrong)?;
    Ok(sweep)
}

fn find(experiment: &'static Experiment, name: &str) -> PyResult<&'static Parameter> {
    let is = |parameter: &&Parameter| parameter.name == name || underscored(parameter.name) == name;
    experiment.parameters.iter().find(is).ok_or_else(|| {
        let known: Vec<_> =
            experiment.parameters.iter().map(|parameter| underscored(parameter.name)).collect();
        wrong(format!("no parameter '{name}' in {}; there are {}", experiment.name, known.join(", ")))
    })
}

fn axis(
    experiment: &'static Experiment,
    name: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
) -> PyResult<Axis> {
    let name: String = name.extract()?;
    let mut settings = vec![];
    let name = if name == SEED {
        for value in values.try_iter()? {
            settings.push(Setting::Count(whole(SEED, &value?, 0..=u64::MAX)?));
        }
        SEED
    } else {
        let parameter = find(experiment, &name)?;
        for value in values.try_iter()? {
            settings.push(setting::read(parameter, &value?)?);
        }
        parameter.name
    };
    if settings.is_empty() {
        return Err(wrong(format!("{}: an axis has at least one value", underscored(name))));
    }
    let with_text = |setting: Setting| (setting.to_string(), setting);
    Ok(Axis { name, values: settings.into_iter().map(with_text).collect() })
}

/// The sweep of the paper's table, but for what is set, and for what would change nothing.
fn of_paper(experiment: &'static Experiment, given: &[&str], set: &Parameters) -> PyResult<Vec<Axis>> {
    let is_used = |name: &str| {
        let needs = experiment.parameters.iter().find(|one| one.name == name).and_then(|one| one.needs);
        needs.is_none_or(|need| (need.met)(set))
    };
    let wanted = experiment.sweep.iter().filter(|(name, _)| !given.contains(name) && is_used(name));
    let axis = |(name, values): &(&str, &str)| {
        let parameter = find(experiment, name)?;
        let value = |text: &str| {
            let setting = setting::parse(parameter.kind, text).map_err(wrong)?;
            Ok((text.to_owned(), setting))
        };
        Ok(Axis { name: parameter.name, values: values.split(',').map(value).collect::<PyResult<_>>()? })
    };
    wanted.map(axis).collect()
}

fn run(
    py: Python<'_>,
    sweep: &Sweep,
    threads: NonZeroUsize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<PointRows>> {
    let watch = &Watch::new();
    let all = 1_000.0 * sweep.points() as f64 * f64::from(sweep.runs().seeds.get());
    let (sender, results) = mpsc::channel();
    // One thread has it; without the interpreter's lock it must be of a kind that others could share.
    let results = Mutex::new(results);
    thread::scope(|scope| {
        let work = move || {
            sweep.run(Part::default(), threads, watch, |point| {
                // Nobody waits any more if the run was ended.
                let _ = sender.send(point);
                Ok::<_, PointError>(())
            })
        };
        let worker = thread::Builder::new().spawn_scoped(scope, work)?;
        let mut found = vec![];
        let mut next_look = Monotonic.now() + BETWEEN_LOOKS;
        let looked = loop {
            let left = next_look.saturating_duration_since(Monotonic.now());
            match py.detach(|| results.lock().ok().map(|results| results.recv_timeout(left))) {
                Some(Ok(point)) => found.push(point),
                Some(Err(RecvTimeoutError::Timeout)) => {}
                Some(Err(RecvTimeoutError::Disconnected)) | None => break Ok(()),
            }
            // Also where points come so fast that none is waited for.
            if Monotonic.now() < next_look {
                continue;
            }
            let looked = look(py, progress, watch.done() as f64 / all);
            if looked.is_err() {
                watch.stop();
                break looked;
            }
            next_look = Monotonic.now() + BETWEEN_LOOKS;
        };
        let ended = py.detach(|| worker.join()).map_err(|_| panicked())?;
        looked?;
        ended.map_err(wrong)?;
        look(py, progress, 1.0)?;
        Ok(found)
    })
}

/// Hears signals, and says how much is done.
fn look(py: Python<'_>, progress: Option<&Bound<'_, PyAny>>, share: f64) -> PyResult<()> {
    py.check_signals()?;
    progress.map_or(Ok(()), |progress| progress.call1((share,)).map(drop))
}

/// A whole number within bounds; one that no type holds is beyond them too.
fn whole(name: &str, given: &Bound<'_, PyAny>, allowed: RangeInclusive<u64>) -> PyResult<u64> {
    match given.extract::<u64>() {
        Ok(number) if allowed.contains(&number) => Ok(number),
        Err(error) if !error.is_instance_of::<PyOverflowError>(given.py()) => Err(error),
        _ => Err(wrong(format!("{name}: a whole number from {} to {}", allowed.start(), allowed.end()))),
    }
}

/// A parameter as Python spells it.
fn underscored(name: &str) -> String {
    name.replace('-', "_")
}

fn wrong(why: impl ToString) -> PyErr {
    PyValueError::new_err(why.to_string())
}

fn panicked() -> PyErr {
    PyRuntimeError::new_err("the simulation has panicked")
}

/// The axis that is no parameter.
const SEED: &str = "seed";
/// As the command has them.
const MOST_SEEDS: u64 = 1_000;
const MOST_THREADS: u64 = 1_024;
const MOST_POINTS: usize = 1_000_000;
/// How long a signal waits at most.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
