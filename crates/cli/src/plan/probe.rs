//! What a run of `probe` will do.

use std::ffi::OsString;
use std::time::Duration;

use softtimers_bpf::{ProbeConfig, Source};
use softtimers_measure::failure::Failure;

use crate::args::ProbeArgs;
use crate::output::Output;

/// A run of `probe`.
#[derive(Clone, PartialEq, Debug)]
pub struct ProbePlan {
    /// What is measured.
    pub probe: ProbeConfig,
    /// When the run ends, unless the command or a signal ends it.
    pub duration: Option<Duration>,
    /// What to run meanwhile, and its arguments; empty for nothing.
    pub command: Vec<OsString>,
    /// How to print the report.
    pub output: Output,
}

impl ProbePlan {
    /// Understands the arguments of `probe`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn new(args: &ProbeArgs) -> Result<Self, Failure> {
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
        Ok(ProbePlan {
            probe: ProbeConfig { sources, samples: args.samples, processors: cpus },
            duration: args.duration,
            command: args.command.clone(),
            output: Output::from(&args.output),
        })
    }

    /// Whether this processor is measured.
    pub fn measures(&self, cpu: u32) -> bool {
        self.probe.processors.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }
}

fn ascending<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn plan(words: &str) -> Result<ProbePlan, Failure> {
        match Cli::parse_from(format!("softtimers probe {words}").split_whitespace()).command {
            Command::Probe(args) => ProbePlan::new(&args),
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
