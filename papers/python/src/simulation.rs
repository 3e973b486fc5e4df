//! The simulator of the papers: [`experiments`] lists them, [`sweep`] and [`csv`] run one, [`merge`] puts
//! parts together.
//!
//! A run may take hours and needs no Python, so it has its own threads. The calling thread sleeps without the
//! interpreter's lock, and wakes up from time to time for signals and the progress callback.
//!
//! ```text
//!   caller    plan │ sleeps 50 ms │ signals, progress │ sleeps … │ columns
//!   threads        └── point ── point ── point ──────────────────┘
//! ```

use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use softtimers::{Clock, Monotonic};
use softtimers_sim::{
    Experiment, Parameter, Part, PointError, PointRows, Sha256, Watch, csv as lines, experiments as all,
};

use crate::columns;
use crate::plan::{How, Plan, underscored, wrong};

/// A name or key, and its description.
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
pub(crate) fn sweep<'py>(
    py: Python<'py>,
    experiment: &str,
    parameters: &Bound<'py, PyDict>,
    axes: Option<&Bound<'py, PyDict>>,
    how: How<'py>,
) -> PyResult<Vec<columns::Column<'py>>> {
    let plan = Plan::new(experiment, parameters, axes, &how, Part::default(), None)?;
    let found = run(py, &plan, how.progress.as_ref())?;
    columns::from_found(py, &plan.sweep, &found)
}

/// Runs one ``part`` of the same, ``"I/N"``, and returns the text that the command prints; ``build`` is the SHA-256, in
/// hexadecimal digits, that its column has.
#[pyfunction]
pub(crate) fn csv<'py>(
    py: Python<'py>,
    experiment: &str,
    parameters: &Bound<'py, PyDict>,
    axes: Option<&Bound<'py, PyDict>>,
    how: How<'py>,
    part: &str,
    build: &str,
) -> PyResult<String> {
    let part = part.parse().map_err(|why| wrong(format!("part={part}: {why}")))?;
    let build: Sha256 = build.parse().map_err(|why| wrong(format!("build={build}: {why}")))?;
    let plan = Plan::new(experiment, parameters, axes, &how, part, Some(build))?;
    let found = run(py, &plan, how.progress.as_ref())?;
    let mut text = lines::header(&plan.sweep);
    for point in &found {
        text += &lines::lines(&plan.sweep, point);
    }
    Ok(text)
}

/// Puts the parts of one sweep together, which the messages name by their numbers from one.
#[pyfunction]
pub(crate) fn merge(py: Python<'_>, texts: Vec<String>) -> PyResult<String> {
    let merged = py.detach(|| {
        let mut merge = lines::Merge::default();
        for (text, number) in texts.iter().zip(1..) {
            merge.add(&number.to_string(), text)?;
        }
        merge.finish()
    });
    merged.map_err(wrong)
}

fn run(py: Python<'_>, plan: &Plan, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<PointRows>> {
    let (watch, Plan { sweep, part, threads }) = (&Watch::new(), plan);
    let points = part.indices(sweep.points()).count();
    let all = 1_000.0 * points as f64 * f64::from(sweep.runs().seeds.get());
    let (sender, results) = mpsc::channel();
    // Only one thread uses it, but without the interpreter's lock its type must be `Sync`.
    let results = Mutex::new(results);
    thread::scope(|scope| {
        let work = move || {
            sweep.run(*part, *threads, watch, |point| {
                // An error means that the run was ended.
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
            // Checked even if points come so fast that there is no wait.
            if Monotonic.now() < next_look {
                continue;
            }
            let looked = look(py, progress, watch.done() as f64 / all.max(1.0));
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

/// Handles signals, and reports the progress.
fn look(py: Python<'_>, progress: Option<&Bound<'_, PyAny>>, share: f64) -> PyResult<()> {
    py.check_signals()?;
    progress.map_or(Ok(()), |progress| progress.call1((share,)).map(drop))
}

fn panicked() -> PyErr {
    PyRuntimeError::new_err("the simulation has panicked")
}

/// How long a signal waits at most.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
