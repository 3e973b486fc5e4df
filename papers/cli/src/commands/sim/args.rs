//! The arguments of `sim`, and the plan made of them. Each experiment is a subcommand whose flags are its parameters.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use softtimers_measure::failure::{Exit, Failure};
use softtimers_sim::{Axis, Experiment, Kind, Parameter, Parameters, Part, Runs, Setting, Sweep, csv};

use super::common::{MACHINE, MERGE, SimCommonArgs};
use super::setting::TYPED;
use super::{build, machine, registry};
use softtimers_run::file::Resumed;
use softtimers_run::output::Output;

/// `softtimers sim`.
#[derive(Debug, Clone)]
pub(crate) enum SimArgs {
    /// Runs an experiment.
    Run(Box<SimRunArgs>),
    /// Merges the parts of a sweep.
    Merge(SimMergeArgs),
    /// Prints a machine.
    Machine(SimMachineArgs),
}

/// `softtimers sim EXPERIMENT`.
#[derive(Debug, Clone)]
pub(crate) struct SimRunArgs {
    /// The experiment to run.
    pub(crate) experiment: &'static Experiment,
    /// The parameters that were set, except the seed.
    pub(crate) set: Vec<(&'static str, Setting)>,
    /// The options that every experiment has.
    pub(crate) common: SimCommonArgs,
}

/// `softtimers sim merge`.
#[derive(Args, Debug, Clone)]
#[command(
    about = "Put the parts of a sweep together: the lines of the whole, in order",
    after_long_help = "Example:\n  softtimers sim livelock --part 1/2 > 1.csv\n  softtimers sim livelock --part 2/2 > 2.csv\n  softtimers sim merge 1.csv 2.csv"
)]
pub(crate) struct SimMergeArgs {
    /// Files of comma-separated values that parts of one sweep have written
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// `softtimers sim machine`.
#[derive(Args, Debug, Clone)]
#[command(
    about = "Print a machine for --machine, to be changed: every key with what it is and what is allowed",
    after_long_help = "Example:\n  softtimers sim machine alpha-3000 > mine.toml\n  softtimers sim livelock --machine mine.toml"
)]
pub(crate) struct SimMachineArgs {
    /// alpha-3000, pentium-ii, here, or a file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) name: String,
}

impl Subcommand for SimArgs {
    fn augment_subcommands(command: Command) -> Command {
        let experiments = registry::all().iter().map(|experiment| {
            let command =
                Command::new(experiment.name).args(experiment.parameters.iter().enumerate().map(argument));
            SimCommonArgs::augment_args(command)
                .about(experiment.about)
                .long_about(format!("{}\n\n{}", experiment.about, experiment.details))
                .after_long_help(after_help(experiment))
        });
        command
            .subcommands(experiments)
            .subcommand(SimMergeArgs::augment_args(Command::new(MERGE)))
            .subcommand(SimMachineArgs::augment_args(Command::new(MACHINE)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        [MERGE, MACHINE].contains(&name) || registry::find(name).is_some()
    }
}

impl FromArgMatches for SimArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Err(Error::new(clap::error::ErrorKind::MissingSubcommand));
        };
        let Some(experiment) = registry::find(name) else {
            return Ok(if name == MACHINE {
                SimArgs::Machine(SimMachineArgs::from_arg_matches(matches)?)
            } else {
                SimArgs::Merge(SimMergeArgs::from_arg_matches(matches)?)
            });
        };
        let set = experiment.parameters.iter().filter_map(|parameter| {
            Some((parameter.name, matches.get_one::<Setting>(parameter.name)?.clone()))
        });
        let set = set.collect();
        let common = SimCommonArgs::from_arg_matches(matches)?;
        Ok(SimArgs::Run(Box::new(SimRunArgs { experiment, set, common })))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn argument((place, parameter): (usize, &Parameter)) -> Arg {
    let kind = parameter.kind;
    Arg::new(parameter.name)
        .help_heading("Parameters")
        .hide_short_help(place >= IN_SHORT_HELP)
        .long(parameter.name)
        .value_name(value_name(kind))
        .value_parser(move |text: &str| TYPED.setting(kind, text))
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

/// Describes the columns, the table that is made without `--sweep`, and the exit codes.
fn after_help(experiment: &Experiment) -> String {
    let width = experiment.columns.iter().map(|column| column.key().len()).max().unwrap_or(0);
    let columns =
        experiment.columns.iter().map(|column| format!("  {:width$}  {}\n", column.key(), column.about));
    let sweep = experiment.sweep.iter().map(|(name, values)| format!("\n  --sweep {name}={values}"));
    let sweep: String = sweep.collect();
    let by_itself = if sweep.is_empty() { String::new() } else { format!("Without --sweep:{sweep}\n\n") };
    format!(
        "Example:\n  softtimers sim {}\n\n{by_itself}Columns:\n{}\n{}",
        experiment.name,
        columns.collect::<String>(),
        Exit::HELP
    )
}

/// A sweep, and the destination of its rows.
#[derive(Debug)]
pub(crate) struct SimPlan {
    /// The points of the sweep.
    pub(crate) sweep: Arc<Sweep>,
    /// The part of the points to run.
    pub(crate) part: Part,
    /// The number of CPUs to use.
    pub(crate) threads: NonZeroUsize,
    /// Whether to print lines as points are finished, instead of a table at the end.
    pub(crate) csv: bool,
    /// A file for these lines.
    pub(crate) out: Option<OutPlan>,
    /// The form of the output.
    pub(crate) output: Output,
}

/// The file that lines are written to.
#[derive(Debug)]
pub(crate) struct OutPlan {
    pub(crate) path: PathBuf,
    /// Whether an existing file is replaced.
    pub(crate) force: bool,
    /// The lines of it to keep, for a run that resumes after them.
    pub(crate) kept: String,
    /// The locked file of such a run.
    pub(crate) resumed: Option<Resumed>,
}

impl SimPlan {
    /// Interprets the arguments of an experiment.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed, or the file that cannot be written.
    pub(crate) fn new(args: &SimRunArgs) -> Result<Self, Failure> {
        let SimRunArgs { experiment, set, common } = args;
        let given: Vec<&'static str> = set.iter().map(|(name, _)| *name).collect();
        let parameters = parameters(experiment, set, common)?;
        let axes = axes(experiment, common, &given, &parameters)?;
        let sweep = Sweep::new(experiment, parameters, axes, runs(common)?);
        // As the flags are written.
        sweep.check_runs().map_err(|error| Failure::usage(format_args!("--{error}")))?;
        if sweep.points() > MOST_POINTS {
            let message = format!("--sweep: {} points; at most {MOST_POINTS}", sweep.points());
            return Err(Failure::usage(message));
        }
        let swept = if common.sweeps.is_empty() { &[] } else { sweep.axes() };
        let given: Vec<_> = given.iter().copied().chain(swept.iter().map(|axis| axis.name)).collect();
        sweep.check(&given).map_err(Failure::usage)?;
        let mut part = common.part.unwrap_or_default();
        let mut out = common.out.clone().map(|path| OutPlan {
            path,
            force: common.force,
            kept: String::new(),
            resumed: None,
        });
        if let (true, Some(out)) = (common.resume, &mut out)
            && let Some(resumed) = Resumed::open(&out.path, "--resume")?
        {
            let (done, kept) = finished(&sweep, part, &out.path, &resumed.text)?;
            // It has been read and belongs to this sweep, even if none of its lines is kept.
            (out.kept, out.force, out.resumed) = (kept, true, Some(resumed));
            part = part.after(done);
        }
        let all = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Ok(SimPlan {
            sweep: Arc::new(sweep),
            part,
            threads: common.threads.unwrap_or(all),
            csv: common.csv || common.part.is_some() || common.resume,
            out,
            output: Output::from(&common.output),
        })
    }
}

/// Returns the parameters to sweep: the requested ones, or else those of the paper's table that are not `given`.
fn axes(
    experiment: &Experiment,
    common: &SimCommonArgs,
    given: &[&'static str],
    parameters: &Parameters,
) -> Result<Vec<Axis>, Failure> {
    let typed = if common.sweeps.is_empty() {
        TYPED.of_paper(experiment, given, parameters)
    } else {
        common.sweeps.iter().map(|text| TYPED.axis(experiment, text)).collect()
    };
    let axes = typed.map_err(|why| Failure::usage(format_args!("--sweep {why}")))?;
    for (index, axis) in axes.iter().enumerate() {
        let name = axis.name;
        if given.contains(&name) || axes[..index].iter().any(|other| other.name == name) {
            return Err(Failure::usage(format_args!("--sweep '{name}': {name} is set already")));
        }
    }
    Ok(axes)
}

/// Returns the papers' values, or those of the given machine, with the values that were set.
fn parameters(
    experiment: &Experiment,
    set: &[(&'static str, Setting)],
    common: &SimCommonArgs,
) -> Result<Parameters, Failure> {
    let base = match &common.machine {
        None => Parameters::new(experiment.parameters),
        Some(name) => {
            let refused = |problem: String| Failure::usage(format_args!("--machine '{name}': {problem}"));
            machine::parameters(name, experiment).map_err(refused)?
        }
    };
    Ok(set.iter().fold(base, |all, (name, setting)| all.with(name, setting.clone())))
}

/// Returns how each point is run.
fn runs(common: &SimCommonArgs) -> Result<Runs, Failure> {
    Ok(Runs {
        seed: common.seed,
        seeds: NonZeroU32::new(common.seeds).unwrap_or(NonZeroU32::MIN),
        precision: common.precision.clone(),
        skips: common.skip_infeasible,
        build: build::sha256(),
    })
}

/// Returns the points in the file of an earlier run, and their lines.
fn finished(sweep: &Sweep, part: Part, path: &Path, text: &str) -> Result<(usize, String), Failure> {
    let (done, kept) = csv::finished(sweep, part, &path.display().to_string(), text)
        .map_err(|error| Failure::usage(format_args!("--resume: {error}")))?;
    Ok((done, kept.to_owned()))
}

/// The number of parameters in short help, the most important first.
const IN_SHORT_HELP: usize = 6;
/// Each takes memory, and as many take more than a day to run.
const MOST_POINTS: usize = 1_000_000;
