//! What `probe` is asked for, and will do.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use softtimers_bpf::{ProbeConfig, Source};
use softtimers_measure::failure::Failure;
use softtimers_measure::units;

use crate::args::StreamArgs;
use crate::run::output::Output;

/// `softtimers probe`.
///
/// Between two trigger states nothing looks at a clock, so this is how late a soft timer in the kernel
/// would be: intervals by the source that ended them, those of idleness apart, and what they would be
/// without each source. BPF programs at the kernel's tracepoints count; they are gone when this process
/// is. Needs CAP_BPF and CAP_PERFMON (root has both), and Linux 5.8 with BTF.
///
/// Of a program built on softtimers the same is known without privilege, from within: see `Intervals` of
/// the library, and `trigger_interval_ns` and `fired` of `softtimers send --json`.
#[derive(Args, Debug, Clone)]
#[command(after_help = PROBE_EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// End after this time; without it, when the command ends, or on Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub(crate) duration: Option<Duration>,

    /// Only these processors, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', num_args = 1)]
    pub(crate) cpu: Option<Vec<u32>>,

    /// Only trigger states of these kinds, separated by commas [default: all]
    ///
    /// Each costs a tenth of a microsecond or so whenever it is passed.
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1, value_parser = source)]
    pub(crate) sources: Option<Vec<Source>>,

    /// Keep this many intervals one by one, of all processors together, at most 64 million
    ///
    /// Medians of windows, and what would be without a source, are those of the first so many.
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(0..=MOST_SAMPLES))]
    pub(crate) samples: u32,

    /// How to print.
    #[command(flatten)]
    pub(crate) output: StreamArgs,

    /// Measure while this command runs; what it prints goes to stderr
    ///
    /// It runs as you: under sudo as the user who called sudo, with their groups and without capabilities; after a login as
    /// root as root.
    #[arg(value_name = "CMD", last = true)]
    pub(crate) command: Vec<OsString>,
}

/// A run of `probe`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct KernelProbe {
    /// What is measured.
    pub(crate) probe: ProbeConfig,
    /// When the run ends, unless the command or a signal ends it.
    pub(crate) duration: Option<Duration>,
    /// What to run meanwhile, and its arguments; empty for nothing.
    pub(crate) command: Vec<OsString>,
    /// How to print the report.
    pub(crate) output: Output,
}

impl KernelProbe {
    /// Understands the arguments of `probe`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &ProbeArgs) -> Result<Self, Failure> {
        let cpus = args.cpu.clone().map(ascending);
        if let Some(cpus) = &cpus {
            let possible = softtimers_bpf::processors().map_err(Failure::check)?;
            if let Some(cpu) = cpus.iter().find(|&&cpu| cpu >= possible) {
                return Err(Failure::usage(format_args!(
                    "--cpu {cpu}: the processors are 0 to {}",
                    possible - 1
                )));
            }
        }
        let sources = args.sources.clone().map_or_else(|| Source::ALL.to_vec(), ascending);
        Ok(KernelProbe {
            probe: ProbeConfig { sources, samples: args.samples, processors: cpus },
            duration: args.duration,
            command: args.command.clone(),
            output: Output::from(&args.output),
        })
    }

    /// Whether this processor is measured.
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
  softtimers probe --duration 10s
  softtimers probe --sources syscall,soft_interrupt,switch -- make
  softtimers probe --cpu 0 --duration 5s --assert 'cpus.0.over_100us<0.06'

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
        assert!(refused.starts_with("--cpu 4000000000: the processors are 0 to "), "{refused}");
    }
}
