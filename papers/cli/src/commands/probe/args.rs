//! The arguments of `probe`, and its plan.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use softtimers_bpf::{ProbeConfig, Source};
use softtimers_measure::failure::Failure;
use softtimers_measure::units;

use super::series::SeriesPlan;
use softtimers_run::args::StreamArgs;
use softtimers_run::output::Output;

/// `softtimers probe`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = PROBE_EXAMPLES, next_help_heading = "Probe")]
pub(crate) struct ProbeArgs {
    /// Stop after this time: 10 (seconds), 500ms, 2min [default: until CMD ends]
    #[arg(short = 't', long, value_name = "TIME", value_parser = units::run_time)]
    pub(crate) duration: Option<Duration>,

    /// Only these CPUs, separated by commas [default: all]
    #[arg(long, value_name = "N", value_delimiter = ',', num_args = 1)]
    pub(crate) cpu: Option<Vec<u32>>,

    /// Only these kinds of trigger states, separated by commas [default: all]
    ///
    /// Each costs about a tenth of a microsecond every time it is passed.
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1, value_parser = source)]
    pub(crate) sources: Option<Vec<Source>>,

    /// Intervals to keep one by one, of all CPUs together: at most 64 million
    ///
    /// Medians of windows, and the intervals without a source, are those of the first N.
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(0..=MOST_SAMPLES), hide_short_help = true)]
    pub(crate) samples: u32,

    /// Write a page of HTML with the medians of windows of 1 and 10 ms over time
    ///
    /// The file must be new, unless --force is given. For a long run keep more --samples.
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,

    /// Overwrite the file of --series
    #[arg(long, hide_short_help = true)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) output: StreamArgs,

    /// Measure while this command runs; its output goes to stderr
    ///
    /// It runs as you: under sudo as the user who called sudo, with their groups and without capabilities; after a login as
    /// root as root.
    #[arg(value_name = "CMD", last = true)]
    pub(crate) command: Vec<OsString>,
}

/// A run of `probe`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct KernelProbe {
    /// The settings of the probe.
    pub(crate) probe: ProbeConfig,
    /// The length of the run, unless the command or a signal ends it.
    pub(crate) duration: Option<Duration>,
    /// The command to run meanwhile, with its arguments; empty for nothing.
    pub(crate) command: Vec<OsString>,
    /// The page of medians over time.
    pub(crate) series: Option<SeriesPlan>,
    pub(crate) output: Output,
}

impl KernelProbe {
    /// Interprets the arguments of `probe`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &ProbeArgs) -> Result<Self, Failure> {
        let cpus = args.cpu.clone().map(ascending);
        if let Some(cpus) = &cpus {
            let possible = softtimers_bpf::processors().map_err(Failure::check)?;
            if let Some(cpu) = cpus.iter().find(|&&cpu| cpu >= possible) {
                return Err(Failure::usage(format_args!("--cpu {cpu}: the CPUs are 0 to {}", possible - 1)));
            }
        }
        let sources = args.sources.clone().map_or_else(|| Source::ALL.to_vec(), ascending);
        Ok(KernelProbe {
            probe: ProbeConfig { sources, samples: args.samples, processors: cpus },
            duration: args.duration,
            command: args.command.clone(),
            series: args.series.clone().map(|path| SeriesPlan { path, force: args.force }),
            output: Output::from(&args.output),
        })
    }

    /// Says whether this CPU is measured.
    pub(crate) fn measures(&self, cpu: u32) -> bool {
        self.probe.processors.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }
}

fn ascending<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list.dedup();
    list
}

const MOST_SAMPLES: i64 = 64_000_000;

fn source(name: &str) -> Result<Source, String> {
    Source::named(name).ok_or_else(|| {
        let names = Source::ALL.map(Source::name).join(", ");
        format!("the sources are {names}")
    })
}

const PROBE_EXAMPLES: &str = "\
Examples:
  softtimers probe -t 10 --series medians.html
  softtimers probe --sources syscall,soft_interrupt,switch -- make
  softtimers probe --cpu 0 -t 5 --assert 'cpus.0.over_100us<0.06'

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, the run broke off, or CMD failed
   2  bad usage or input, or CMD cannot be started
  77  not possible on this machine; the message says what is missing";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::{Cli, Command};

    fn plan(words: &str) -> Result<KernelProbe, Failure> {
        match Cli::parse_from(format!("softtimers probe {words}").split_whitespace()).command {
            Command::Probe(args) => KernelProbe::new(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_is_measured_unless_something_is_named() {
        let all = plan("").unwrap();
        assert_eq!((&all.probe.processors, all.probe.samples), (&None, 2_000_000));
        assert!(all.probe.sources == Source::ALL && all.command.is_empty() && all.measures(63));
        let some = plan("--cpu 0,0 --sources switch,syscall,switch -- make -j 2").unwrap();
        assert_eq!(some.probe.sources, [Source::Syscall, Source::Switch]);
        assert_eq!(some.probe.processors, Some(vec![0]));
        assert_eq!(some.command[..], ["make", "-j", "2"].map(OsString::from));
        assert!(some.measures(0) && !some.measures(1));
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        let refused = plan("--cpu 0,4000000000").unwrap_err().to_string();
        assert!(refused.starts_with("--cpu 4000000000: the CPUs are 0 to "), "{refused}");
    }
}
