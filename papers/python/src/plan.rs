//! A request as a sweep of the simulator: [`Plan`].

use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::RangeInclusive;
use std::thread;

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use softtimers_sim::{
    Axis, Experiment, Parameter, Parameters, Part, Precision, Runs, Setting, Sha256, Sweep,
    experiments as all,
};

use crate::{machine, setting};

/// The keyword arguments that all sweeps take, as Python gives them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct How<'py> {
    seed: Bound<'py, PyAny>,
    seeds: Bound<'py, PyAny>,
    threads: Bound<'py, PyAny>,
    precision: Option<String>,
    skip_infeasible: bool,
    machine: Option<Bound<'py, PyAny>>,
    pub(crate) progress: Option<Bound<'py, PyAny>>,
}

/// A sweep, and how it is run.
pub(crate) struct Plan {
    pub(crate) sweep: Sweep,
    pub(crate) part: Part,
    pub(crate) threads: NonZeroUsize,
}

impl Plan {
    /// Reads and checks a request.
    ///
    /// # Errors
    /// `ValueError` that says what is allowed.
    pub(crate) fn new(
        experiment: &str,
        parameters: &Bound<'_, PyDict>,
        axes: Option<&Bound<'_, PyDict>>,
        how: &How<'_>,
        part: Part,
        build: Option<Sha256>,
    ) -> PyResult<Self> {
        let seed = whole(SEED, &how.seed, 0..=u64::MAX)?;
        // Both are within bounds that the types hold.
        let seeds = u32::try_from(whole("seeds", &how.seeds, 1..=MOST_SEEDS)?).ok().and_then(NonZeroU32::new);
        let seeds = seeds.unwrap_or(NonZeroU32::MIN);
        let threads = if how.threads.is_none() {
            thread::available_parallelism().ok()
        } else {
            NonZeroUsize::new(whole("threads", &how.threads, 1..=MOST_THREADS)? as usize)
        };
        let threads = threads.unwrap_or(NonZeroUsize::MIN);
        let precision = how
            .precision
            .as_ref()
            .map(|text| text.parse::<Precision>().map_err(|why| wrong(format!("precision={text}: {why}"))));
        let runs = Runs { seed, seeds, precision: precision.transpose()?, skips: how.skip_infeasible, build };
        let sweep = planned(experiment, parameters, axes, how.machine.as_ref(), runs)?;
        Ok(Plan { sweep, part, threads })
    }
}

fn planned(
    experiment: &str,
    given: &Bound<'_, PyDict>,
    axes: Option<&Bound<'_, PyDict>>,
    on: Option<&Bound<'_, PyAny>>,
    runs: Runs,
) -> PyResult<Sweep> {
    let Some(experiment) = all::find(experiment) else {
        let names: Vec<_> = all::ALL.iter().map(|experiment| experiment.name).collect();
        return Err(wrong(format!("no experiment '{experiment}'; there are {}", names.join(", "))));
    };
    let papers = || Ok(Parameters::new(experiment.parameters));
    let mut parameters = on.map_or_else(papers, |on| machine::defaults(on, experiment))?;
    let mut names = vec![];
    for (name, value) in given {
        let parameter = find(experiment, &name.extract::<String>()?)?;
        parameters = parameters.with(parameter.name, setting::read(parameter, &value)?);
        names.push(parameter.name);
    }
    let axes_given = axes.is_some();
    let axes = match axes {
        Some(axes) => axes.iter().map(|(name, values)| axis(experiment, &name, &values)).collect(),
        None => setting::TYPED.of_paper(experiment, &names, &parameters).map_err(wrong),
    }?;
    for axis in &axes {
        if names.contains(&axis.name) {
            return Err(wrong(format!("{}: it is swept, and set as well", underscored(axis.name))));
        }
    }
    if axes_given {
        names.extend(axes.iter().map(|axis| axis.name).filter(|name| *name != SEED));
    }
    let sweep = Sweep::new(experiment, parameters, axes, runs);
    sweep.check_runs().map_err(wrong)?;
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
    // A text is kept as the command keeps it, which numbers a sweep by the words of its axes.
    let mut add = |value: &Bound<'_, PyAny>, setting: Setting| {
        settings.push((value.extract().unwrap_or_else(|_| setting.to_string()), setting));
    };
    let name = if name == SEED {
        for value in values.try_iter()? {
            let value = value?;
            add(&value, Setting::Count(whole(SEED, &value, 0..=u64::MAX)?));
        }
        SEED
    } else {
        let parameter = find(experiment, &name)?;
        for value in values.try_iter()? {
            let value = value?;
            add(&value, setting::read(parameter, &value)?);
        }
        parameter.name
    };
    if settings.is_empty() {
        return Err(wrong(format!("{}: an axis has at least one value", underscored(name))));
    }
    Ok(Axis { name, values: settings })
}

/// A whole number within bounds; one beyond every type is out of bounds too.
fn whole(name: &str, given: &Bound<'_, PyAny>, allowed: RangeInclusive<u64>) -> PyResult<u64> {
    match given.extract::<u64>() {
        Ok(number) if allowed.contains(&number) => Ok(number),
        Err(error) if !error.is_instance_of::<PyOverflowError>(given.py()) => Err(error),
        _ => Err(wrong(format!("{name}: a whole number from {} to {}", allowed.start(), allowed.end()))),
    }
}

/// A parameter as Python spells it.
pub(crate) fn underscored(name: &str) -> String {
    name.replace('-', "_")
}

pub(crate) fn wrong(why: impl ToString) -> PyErr {
    PyValueError::new_err(why.to_string())
}

/// The axis that is no parameter.
const SEED: &str = "seed";
/// As in the command.
const MOST_SEEDS: u64 = 1_000;
const MOST_THREADS: u64 = 1_024;
const MOST_POINTS: usize = 1_000_000;
