//! `cargo lab`: the rig, the measurements behind the published figures, and the tables rendered from them.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use softtimers_lab::receivers::Question;
use softtimers_lab::traffic::{self, Traffic};
use softtimers_lab::{bench, generate, measure, receivers, rig};
use softtimers_pages::render;

/// Measures softtimers and its peers.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo lab", disable_version_flag = true)]
struct Lab {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Measure the figures of docs/benchmarks.md again, or some of them by name
    Measure(measure::Arguments),
    /// Forward between namespaces, up to five times the capacity; needs root
    Rig(rig::Arguments),
    /// Send datagrams out of a virtual cable as fast as a CPU can, evenly; needs root
    Generate(generate::Arguments),
    /// Keep the output of `--json` as docs/data/NAME.json
    Publish { file: PathBuf, name: String },
    /// Receive between the interfaces of the rig
    #[command(hide = true)]
    Receive {
        #[command(subcommand)]
        question: Question,
    },
    /// Send through an emulator, and report what arrived
    #[command(hide = true)]
    Traffic {
        #[command(subcommand)]
        traffic: Traffic,
    },
}

/// Returns the command line with the existing sections.
fn command() -> clap::Command {
    let known = |names: Vec<&'static str>| {
        move |command: clap::Command| {
            command.mut_arg("sections", |argument| argument.value_parser(PossibleValuesParser::new(names)))
        }
    };
    let measured = measure::SECTIONS.map(|(name, _)| name).to_vec();
    let rigged = rig::SECTIONS.map(|(name, _)| name).to_vec();
    Lab::command().mut_subcommand("measure", known(measured)).mut_subcommand("rig", known(rigged))
}

fn main() -> ExitCode {
    let lab = Lab::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    let done = match lab.task {
        Task::Measure(arguments) => measure::run(&arguments),
        Task::Rig(arguments) => rig::run(&arguments),
        Task::Generate(arguments) => return generate::run(&arguments),
        Task::Publish { file, name } => render::publish(&file, &name).map_err(Into::into),
        Task::Traffic { traffic } => traffic::run(&traffic).map_err(Into::into),
        Task::Receive { question } => receivers::run(&question).map_err(Into::into),
    };
    bench::exit("cargo lab", done)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    /// Measures nothing: the arguments are refused before that.
    #[test]
    fn every_section_refuses_a_flag_that_it_does_not_have_and_prints_its_help() {
        let kind = |words: &[&str]| {
            let line = ["lab"].iter().chain(words);
            command().try_get_matches_from(line).map(drop).map_err(|error| error.kind())
        };
        let measured = measure::SECTIONS.map(|(name, _)| ("measure", name));
        let rigged = rig::SECTIONS.map(|(name, _)| ("rig", name));
        for (task, section) in measured.into_iter().chain(rigged) {
            assert_eq!(
                kind(&[task, section, "--no-such-flag"]),
                Err(ErrorKind::UnknownArgument),
                "{section}"
            );
            assert_eq!(kind(&[task, section, "--help"]), Err(ErrorKind::DisplayHelp), "{section}");
            assert_eq!(kind(&[task, section, "--rounds", "3", "--quick"]), Ok(()), "{section}");
            assert_eq!(kind(&[task, "no-such-section"]), Err(ErrorKind::InvalidValue));
        }
    }
}
