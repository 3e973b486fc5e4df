//! What a run of `sim` will do.

use std::num::NonZeroUsize;

use softtimers_sim::sweep::Axis;
use softtimers_sim::{Experiment, Part, Sweep};

use crate::args::sim::SimRunArgs;
use crate::failure::Failure;
use crate::file::OutputFile;
use crate::output::Output;
use crate::sim::setting;

/// A sweep, and where its rows go.
#[derive(Debug)]
pub struct SimPlan {
    /// The points.
    pub sweep: Sweep,
    /// Which of them.
    pub part: Part,
    /// On so many processors.
    pub threads: NonZeroUsize,
    /// Decides what is random.
    pub seed: u64,
    /// Lines to stdout as points are finished, instead of a table at the end.
    pub csv: bool,
    /// A file for these lines.
    pub out: Option<OutputFile>,
    /// How to print.
    pub output: Output,
}

impl SimPlan {
    /// Understands the arguments of an experiment.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed, or the file that cannot be written.
    pub fn new(args: &SimRunArgs) -> Result<Self, Failure> {
        let SimRunArgs { experiment, parameters, given, common } = args;
        let axes = if common.sweeps.is_empty() {
            let wanted = experiment.sweep.iter().filter(|(name, _)| !given.contains(name));
            wanted.map(|(name, values)| axis(experiment, name, values)).collect::<Result<Vec<_>, _>>()?
        } else {
            let mut axes = vec![];
            for text in &common.sweeps {
                let Some((name, values)) = text.split_once('=') else {
                    return Err(Failure::usage(format_args!(
                        "--sweep '{text}': write NAME=A,B,… with a parameter's name"
                    )));
                };
                axes.push(axis(experiment, name, values)?);
            }
            axes
        };
        for (index, axis) in axes.iter().enumerate() {
            let name = axis.name;
            if given.contains(&name) || axes[..index].iter().any(|other| other.name == name) {
                return Err(Failure::usage(format_args!("--sweep '{name}': {name} is set already")));
            }
        }
        let all = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let sweep = Sweep::new(experiment, parameters.clone(), axes, common.seed);
        if sweep.points() > MOST_POINTS {
            let message = format!("--sweep: {} points; at most {MOST_POINTS}", sweep.points());
            return Err(Failure::usage(message));
        }
        let swept = if common.sweeps.is_empty() { &[] } else { sweep.axes() };
        let given: Vec<_> = given.iter().copied().chain(swept.iter().map(|axis| axis.name)).collect();
        sweep.check(&given).map_err(Failure::usage)?;
        let out = common.out.as_deref().map(|path| OutputFile::create(path, "--out", common.force));
        Ok(SimPlan {
            sweep,
            part: common.part.unwrap_or_default(),
            threads: common.threads.unwrap_or(all),
            seed: common.seed,
            csv: common.csv || common.part.is_some(),
            out: out.transpose()?,
            output: Output::from(&common.output),
        })
    }
}

fn axis(experiment: &Experiment, name: &str, values: &str) -> Result<Axis, Failure> {
    let Some(parameter) = experiment.parameters.iter().find(|parameter| parameter.name == name) else {
        let known: Vec<_> = experiment.parameters.iter().map(|parameter| parameter.name).collect();
        let known = known.join(", ");
        return Err(Failure::usage(format_args!("--sweep '{name}': no such parameter; there are {known}")));
    };
    let refused = |text: &str, why| Failure::usage(format_args!("--sweep '{name}={text}': {why}"));
    let value = |text: &str| match setting::parse(parameter.kind, text) {
        Ok(setting) => Ok((text.to_owned(), setting)),
        Err(why) => Err(refused(text, why)),
    };
    Ok(Axis { name: parameter.name, values: values.split(',').map(value).collect::<Result<_, _>>()? })
}

/// Each is a number in memory, and more than a day of runs.
const MOST_POINTS: usize = 1_000_000;
