//! The commands, a folder each: `args` defines and interprets the arguments, `run` does the work, `show` prints the
//! report.

pub(crate) mod noise;
#[cfg(test)]
mod output_tests;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod sim;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use softtimers_measure::child;
use softtimers_measure::failure::{Exit, Failure};
use softtimers_run::documents::{self, CompletionsArgs, ManArgs};
use softtimers_run::help::lay_out;
use softtimers_run::output::print;
use softtimers_run::{Command as _, carry_out, program};

use noise::args::{Noise, NoiseArgs, Rates};
use probe::args::{KernelProbe, ProbeArgs};
use report::args::{ReportArgs, WrittenReport};
use sim::SimArgs;

/// The papers' experiments on a simulated machine, and their measurements on this one.
///
/// `softtimers` runs this program for these commands, with the same words.
#[derive(Parser, Debug)]
#[command(name = "softtimers", bin_name = "softtimers", version, propagate_version = true)]
#[command(after_help = Exit::HELP, max_term_width = 100)]
#[command(mut_subcommands(|command| lay_out(command, "softtimers", fields)))]
pub(crate) struct Cli {
    /// End with this process, which must be the parent
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) with_parent: Option<u32>,

    /// The subcommand to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run the papers' experiments on a simulated machine
    #[command(subcommand)]
    Sim(SimArgs),
    /// Measure what delays a computation on this machine, and what that costs a job of many nodes
    ///
    /// Repeats a computation of 1 ms on one CPU, and reports how long each took and what was in its way; then how much
    /// slower a job is that waits for the slowest of many such nodes in each phase (Tsafrir, Etsion and Feitelson 2005).
    /// It keeps the CPU busy for as long as it runs.
    Noise(NoiseArgs),
    /// Measure how often the kernel passes trigger states, with eBPF
    ///
    /// Between two trigger states nothing checks a clock, so this interval is how late a soft timer in the kernel would
    /// be. Needs CAP_BPF and CAP_PERFMON (root has both), and Linux 5.8 with BTF. For a program built on softtimers no
    /// privilege is needed: see `Intervals` of the library, and `trigger_interval_ns` of `softtimers send --json`.
    Probe(ProbeArgs),
    /// Write a report of this machine beside the papers: one HTML file
    ///
    /// Measures this machine with the other commands, simulates the papers' experiments, and shows both beside the papers'
    /// own figures. The HTML file needs no network and no scripts; the same as Markdown and JSON lies beside it. Takes five
    /// to ten minutes and the whole machine, or less than one with --quick. No root is needed; what needs it is left out
    /// with the reason.
    Report(ReportArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of a command
    Man(ManArgs),
}

/// Runs the command in `line`, the program's name first, and returns the exit code.
pub(crate) fn run(line: impl IntoIterator<Item = OsString>) -> ExitCode {
    program::run(line, |cli: &Cli| {
        cli.with_parent.map_or(Ok(()), child::end_with)?;
        dispatch(&cli.command).map(|()| Exit::Ok.into())
    })
}

fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Probe(args) => carry_out(&mut KernelProbe::new(args)?),
        Command::Sim(args) => sim::run(args),
        Command::Noise(args) => match &args.rates {
            Some(rates) => carry_out(&mut Rates::new(rates, args)?),
            None => carry_out(&mut Noise::new(args)?),
        },
        Command::Report(args) => carry_out(&mut WrittenReport::from(args)),
        Command::Completions(args) => print(&documents::completions(args, &Cli::command(), PROGRAM)),
        Command::Man(args) => print(&documents::man(args, Cli::command(), fields)?),
    }
}

/// Returns the text of the labels of a command's report; empty for one without labels of its own.
pub(crate) fn fields(command: &str) -> &'static str {
    match command {
        "probe" => KernelProbe::FIELDS,
        "noise" => Noise::FIELDS,
        _ => "",
    }
}

/// The name of the program.
const PROGRAM: &str = "softtimers-papers";

#[cfg(test)]
mod tests {
    use softtimers_run::help::checks;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn short_help_fits_a_screen() {
        checks::short_help_fits_a_screen(&Cli::command());
    }

    #[test]
    fn every_flag_stands_in_a_group_where_there_are_many() {
        checks::every_flag_stands_in_a_group_where_there_are_many(&Cli::command());
    }

    #[test]
    fn long_help_begins_with_examples() {
        checks::long_help_begins_with_examples(&Cli::command(), fields);
    }

    fn page(names: &[&str]) -> Result<String, Failure> {
        let names = names.iter().map(ToString::to_string).collect();
        documents::man(&ManArgs { names }, Cli::command(), fields)
    }

    #[test]
    fn each_command_has_its_page() {
        let noise = page(&["noise"]).unwrap();
        assert!(
            noise.contains(".TH softtimers-noise 1") && noise.contains("\n.SH OUTPUT FIELDS\n"),
            "{noise}"
        );
        let nested = page(&["sim", "hip-traces"]).unwrap();
        assert!(nested.contains(".TH softtimers-sim-hip-traces 1"), "{nested}");
        let unknown = page(&["sim", "send"]).unwrap_err().to_string();
        assert!(unknown.starts_with("no command 'send'; there are hip, hip-traces"), "{unknown}");
    }

    #[test]
    fn completions_know_the_commands() {
        let shell = clap_complete::Shell::Bash;
        let script = documents::completions(&CompletionsArgs { shell }, &Cli::command(), PROGRAM);
        assert!(script.contains("--phases") && script.contains("livelock-mlfrr"));
    }
}
