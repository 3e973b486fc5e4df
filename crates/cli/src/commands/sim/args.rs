//! The arguments of `sim`, and the plan that is made of them. Each experiment is a subcommand whose flags are its parameters.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use softtimers_measure::failure::{Exit, Failure};
use softtimers_sim::{Axis, Experiment, Kind, Parameter, Parameters, Part, Setting, Sweep, experiments};

use super::setting;
use crate::args::OutputArgs;
use crate::run::output::Output;

/// `softtimers sim`.
#[derive(Debug, Clone)]
pub(crate) enum SimArgs {
    /// Runs an experiment.
    Run(Box<SimRunArgs>),
    /// Merges the parts of a sweep.
    Merge(SimMergeArgs),
}

/// `softtimers sim EXPERIMENT`.
#[derive(Debug, Clone)]
pub(crate) struct SimRunArgs {
    /// The experiment that is run.
    pub(crate) experiment: &'static Experiment,
    /// The parameters, with the paper's values unless they were set.
    pub(crate) parameters: Parameters,
    /// The parameters that were set, beside the seed.
    pub(crate) given: Vec<&'static str>,
    /// The options that every experiment has.
    pub(crate) common: SimCommonArgs,
}

/// The options that every experiment has.
#[derive(Args, Debug, Clone)]
pub(crate) struct SimCommonArgs {
    /// Run once per value; with several parameters, all combinations; repeatable
    ///
    /// The last one varies fastest. Without it the table of the paper is made. Other flags hold for all points.
    #[arg(long = "sweep", value_name = "NAME=A,B,…", help_heading = "Runs")]
    pub(crate) sweeps: Vec<String>,

    /// Seed: the same seed, the same rows
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Runs")]
    pub(crate) seed: u64,

    /// Run part I of N of the points, for `sim merge`; prints CSV
    #[arg(long, value_name = "I/N", conflicts_with_all = ["json", "assertions"], help_heading = "Runs")]
    pub(crate) part: Option<Part>,

    /// CPUs to use: 1 to 1024 [default: all]
    #[arg(long, value_name = "N", value_parser = threads, help_heading = "Runs")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Print CSV, each line as soon as its point is finished
    #[arg(long, conflicts_with_all = ["json", "assertions"], help_heading = "Output")]
    pub(crate) csv: bool,

    /// Write CSV to this file too, which must not exist
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// Overwrite the file of --out
    #[arg(long, requires = "out", help_heading = "Output")]
    pub(crate) force: bool,

    /// The form of the output.
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) output: OutputArgs,
}

/// `softtimers sim merge`.
#[derive(Args, Debug, Clone)]
#[command(
    about = "Put the parts of a sweep together: the lines of the whole, in order",
    after_long_help = "Example:\n  softtimers sim livelock --part 1/2 > 1.csv & softtimers sim livelock --part 2/2 > 2.csv\n  softtimers sim merge 1.csv 2.csv"
)]
pub(crate) struct SimMergeArgs {
    /// Files of comma-separated values that parts of one sweep have written
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

impl Subcommand for SimArgs {
    fn augment_subcommands(command: Command) -> Command {
        let experiments = experiments::ALL.iter().map(|experiment| {
            let command =
                Command::new(experiment.name).args(experiment.parameters.iter().enumerate().map(argument));
            SimCommonArgs::augment_args(command)
                .about(experiment.about)
                .long_about(format!("{}\n\n{}", experiment.about, experiment.details))
                .after_long_help(after_help(experiment))
        });
        command.subcommands(experiments).subcommand(SimMergeArgs::augment_args(Command::new(MERGE)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        name == MERGE || experiments::find(name).is_some()
    }
}

impl FromArgMatches for SimArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Err(Error::new(clap::error::ErrorKind::MissingSubcommand));
        };
        let Some(experiment) = experiments::find(name) else {
            return Ok(SimArgs::Merge(SimMergeArgs::from_arg_matches(matches)?));
        };
        let mut parameters = Parameters::new(experiment.parameters);
        let mut given = vec![];
        for parameter in experiment.parameters {
            if let Some(setting) = matches.get_one::<Setting>(parameter.name) {
                parameters = parameters.with(parameter.name, setting.clone());
                given.push(parameter.name);
            }
        }
        let common = SimCommonArgs::from_arg_matches(matches)?;
        Ok(SimArgs::Run(Box::new(SimRunArgs { experiment, parameters, given, common })))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse().ok().filter(|&threads| threads <= MOST_THREADS);
    threads.ok_or_else(|| format!("a whole number from 1 to {MOST_THREADS}"))
}

fn argument((place, parameter): (usize, &Parameter)) -> Arg {
    let kind = parameter.kind;
    Arg::new(parameter.name)
        .help_heading("Parameters")
        .hide_short_help(place >= IN_SHORT_HELP)
        .long(parameter.name)
        .value_name(value_name(kind))
        .value_parser(move |text: &str| setting::parse(kind, text))
        .help(help(parameter))
}

fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Count { .. } | Kind::Limit { .. } => "N",
        Kind::PerSecond { .. } => "RATE",
        Kind::Real { .. } => "X",
        Kind::Time { .. } => "TIME",
        Kind::Choice(_) => "WORD",
        Kind::Trace => "FILE",
    }
}

fn help(parameter: &Parameter) -> String {
    let words = match parameter.kind {
        Kind::Choice(words) => format!(": {}", words.join(", ")),
        _ => String::new(),
    };
    format!("{}{words} [default: {}]", parameter.about, parameter.default)
}

/// The columns, the table that is made without `--sweep`, and the exit codes.
fn after_help(experiment: &Experiment) -> String {
    let width = experiment.columns.iter().map(|column| column.name.len()).max().unwrap_or(0);
    let columns =
        experiment.columns.iter().map(|column| format!("  {:width$}  {}\n", column.name, column.about));
    let sweep = experiment.sweep.iter().map(|(name, values)| format!(" --sweep {name}={values}"));
    format!(
        "Columns:\n{}\nExample, also made without --sweep:\n  softtimers sim {}{}\n\n{}",
        columns.collect::<String>(),
        experiment.name,
        sweep.collect::<String>(),
        Exit::HELP
    )
}

/// A sweep, and where its rows go.
#[derive(Debug)]
pub(crate) struct SimPlan {
    /// The points of the sweep.
    pub(crate) sweep: Arc<Sweep>,
    /// The part of the points that is run.
    pub(crate) part: Part,
    /// On so many processors.
    pub(crate) threads: NonZeroUsize,
    /// Decides what is random.
    pub(crate) seed: u64,
    /// Lines to stdout as points are finished, instead of a table at the end.
    pub(crate) csv: bool,
    /// A file for these lines, and whether one that is there is replaced.
    pub(crate) out: Option<(PathBuf, bool)>,
    /// The form of the output.
    pub(crate) output: Output,
}

impl SimPlan {
    /// Understands the arguments of an experiment.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed, or the file that cannot be written.
    pub(crate) fn new(args: &SimRunArgs) -> Result<Self, Failure> {
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
        Ok(SimPlan {
            sweep: Arc::new(sweep),
            part: common.part.unwrap_or_default(),
            threads: common.threads.unwrap_or(all),
            seed: common.seed,
            csv: common.csv || common.part.is_some(),
            out: common.out.clone().map(|path| (path, common.force)),
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

/// Parameters, the most telling first.
const IN_SHORT_HELP: usize = 6;
/// More than any machine has use for.
const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
/// The subcommand that is no experiment.
const MERGE: &str = "merge";
/// Each is a number in memory, and more than a day of runs.
const MOST_POINTS: usize = 1_000_000;
