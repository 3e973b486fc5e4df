//! The paper's experiments with rate-based clocking, on this machine, beside what the paper and an
//! independent model say.
//!
//! | experiment | of soft timers | question |
//! |---|---|---|
//! | `burst` | §5.6, Tables VIII and IX | which mean gap does a burst interval leave, and what does a periodic timer lose? |
//! | `overhead` | §5.5, Tables VI and VII | what does pacing cost a saturated server, by each kind of timer? |
//! | `sources` | §5.4, Table V and figure 4 | which trigger states matter, and what would be without them? |
//!
//! All contenders of an experiment take turns in one process. Figures are medians over the rounds with their
//! middle half; an experiment in which the host or other programs took more than 5% of the processors is
//! inconclusive, and its checks are.

mod burst;
mod overhead;
pub mod record;
pub mod reference;
mod sources;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use softtimers_cli::failure::Failure;
use softtimers_cli::file::OutputFile;
use softtimers_cli::machine::{Machine, Neighbours};
use softtimers_cli::output::{self, Run};
use softtimers_cli::progress::Progress;

use crate::turns;
use record::{Check, Findings, Record};

/// The pacing experiments of the soft timers paper, live.
#[derive(Parser, Debug)]
#[command(name = "pacing")]
struct Arguments {
    /// Only this experiment; may be repeated
    #[arg(long, value_enum, value_name = "EXPERIMENT")]
    only: Vec<Experiment>,

    /// Few rounds: to see that it works, not to quote
    #[arg(long)]
    quick: bool,

    /// Write every figure to this file, a line each
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write every figure to this file, as one object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Overwrite those files
    #[arg(long)]
    force: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Experiment {
    /// Mean gap by burst interval, at 40 and 60 µs (Tables VIII and IX)
    Burst,
    /// What pacing costs a saturated server, by timer (Tables VI and VII)
    Overhead,
    /// Shares of the trigger states, and the intervals without some (Table V, figure 4)
    Sources,
}

impl Experiment {
    const ALL: [Experiment; 3] = [Experiment::Burst, Experiment::Overhead, Experiment::Sources];

    fn takes(self, quick: bool) -> Duration {
        match self {
            Experiment::Burst => burst::time(quick) * 2,
            Experiment::Overhead => overhead::time(quick) * overhead::CONTESTS,
            Experiment::Sources => sources::time(quick),
        }
    }

    fn run(self, quick: bool, found: &mut Found) -> Result<(), Box<dyn Error>> {
        match self {
            Experiment::Burst => burst::run(quick, found),
            Experiment::Overhead => overhead::run(quick, found),
            Experiment::Sources => sources::run(quick, found),
        }
    }
}

/// What has been found so far, and what disturbed it.
#[derive(Debug, Default)]
struct Found {
    findings: Findings,
    disturbances: Vec<String>,
}

impl Found {
    fn record(&mut self, record: Record) {
        self.findings.records.push(record);
    }

    /// Adds a check, which is inconclusive if `disturbed`.
    fn check(&mut self, check: Check, disturbed: bool) {
        self.findings.checks.push(Check { measured: check.measured.filter(|_| !disturbed), ..check });
    }

    /// Notes how a contest went; whether others disturbed it.
    fn note(&mut self, interrupted: bool, disturbed: Option<&String>) -> bool {
        self.findings.interrupted |= interrupted;
        self.disturbances.extend(disturbed.cloned());
        disturbed.is_some()
    }
}

/// Makes the experiments, and prints and writes what they find; after Ctrl-C what there is.
///
/// # Errors
/// What keeps a run from starting or breaks it off; a file that is not written. On this way usage errors
/// end the process, as clap does.
pub fn measure(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let program = std::iter::once("pacing");
    let arguments = Arguments::parse_from(program.chain(arguments.iter().map(String::as_str)));
    // Before anything is measured that could not be written.
    let [csv, json] = [(&arguments.csv, "--csv"), (&arguments.json, "--json")]
        .map(|(path, flag)| path.as_ref().map(|path| OutputFile::create(path, flag, arguments.force)));
    let (csv, json) = (csv.transpose()?, json.transpose()?);

    let wanted: Vec<Experiment> = Experiment::ALL
        .into_iter()
        .filter(|experiment| arguments.only.is_empty() || arguments.only.contains(experiment))
        .collect();
    let machine = Machine::read();
    let neighbours = Neighbours::watch();
    say(format_args!("{}\n", turns::machine()))?;
    let progress =
        Progress::start("pacing", Some(wanted.iter().map(|wanted| wanted.takes(arguments.quick)).sum()));
    let mut found = Found::default();
    for experiment in wanted {
        experiment.run(arguments.quick, &mut found)?;
        if found.findings.interrupted {
            say(format_args!("interrupted: what follows is missing, and the last experiment is short\n"))?;
            break;
        }
    }
    drop(progress);
    let Found { findings, disturbances } = found;
    print_checks(&findings.checks)?;
    if let Some(reason) = disturbances.first() {
        say(format_args!("\ninconclusive in {} runs: {reason}", disturbances.len()))?;
    }
    if let Some(file) = csv {
        file.write(&findings.to_csv())?;
    }
    if let Some(file) = json {
        let run = Run {
            machine: &machine.during(neighbours.so_far()),
            seed: None,
            config: &serde_json::json!({ "quick": arguments.quick }),
            fallbacks: &[],
            inconclusive: disturbances.first().cloned(),
            report: &findings,
        };
        file.write(&format!("{:#}\n", run.to_json()?))?;
    }
    Ok(())
}

/// A line on stdout; nobody reading any more is no error.
fn say(line: std::fmt::Arguments<'_>) -> Result<(), Failure> {
    output::print(&format!("{line}\n"))
}

fn print_checks(checks: &[Check]) -> Result<(), Failure> {
    say(format_args!("### What is to hold\n\n| figure | bound | measured | |\n|---|---|---|---|"))?;
    for check in checks {
        say(format_args!("{}", check.row()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_understood() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
        let all = parse("pacing").unwrap();
        assert!(all.only.is_empty() && !all.quick && all.csv.is_none());
        let some =
            parse("pacing --only burst --only sources --quick --csv a.csv --json b.json --force").unwrap();
        assert_eq!(some.only, [Experiment::Burst, Experiment::Sources]);
        assert!(some.quick && some.force);
        assert!(parse("pacing --only everything").is_err());
    }

    #[test]
    fn what_was_disturbed_proves_nothing() {
        let mut found = Found::default();
        let disturbed = found.note(false, Some(&"others".to_owned()));
        found.check(Check::at_most("a", 1.0, Some(2.0)), disturbed);
        let quiet = found.note(true, None);
        found.check(Check::at_most("b", 1.0, Some(2.0)), quiet);
        let measured: Vec<_> = found.findings.checks.iter().map(|check| check.measured).collect();
        assert_eq!(measured, [None, Some(2.0)]);
        assert!(found.findings.interrupted && found.disturbances == ["others"]);
    }
}
