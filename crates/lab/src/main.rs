//! `cargo lab`: the rig, the measurements behind the published figures, and the tables that are rendered from them.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use softtimers_lab::bench::Asked;
use softtimers_lab::receivers::Question;
use softtimers_lab::{measure, receivers, render, rig};

/// What softtimers is measured with.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo lab", disable_version_flag = true)]
struct Lab {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Make the figures of docs/benchmarks.md anew, or some of them by name
    Measure {
        #[command(flatten)]
        asked: Asked,
    },
    /// Forward between namespaces, up to five times the capacity; needs root
    Rig(rig::Arguments),
    /// Keep what `--json` has written as docs/data/NAME.json
    Publish { file: PathBuf, name: String },
    /// Write the tables of README.md and docs/*.md from docs/data
    Render {
        /// Say what is out of date instead
        #[arg(long)]
        check: bool,
    },
    /// Receive between the interfaces of the rig
    #[command(hide = true)]
    Receive {
        #[command(subcommand)]
        question: Question,
    },
}

fn main() -> ExitCode {
    let names = |names: Vec<&'static str>| {
        move |command: clap::Command| {
            command.mut_arg("sections", |argument| argument.value_parser(PossibleValuesParser::new(names)))
        }
    };
    let measured = measure::SECTIONS.iter().map(|(name, _)| *name).collect();
    let rigged = rig::SECTIONS.iter().map(|(name, _)| *name).collect();
    let command =
        Lab::command().mut_subcommand("measure", names(measured)).mut_subcommand("rig", names(rigged));
    let lab = Lab::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    let done = match lab.task {
        Task::Measure { asked } => measure::run(&asked),
        Task::Rig(arguments) => rig::run(&arguments),
        Task::Publish { file, name } => render::publish(&file, &name).map_err(Into::into),
        Task::Render { check } => render::run(check).map_err(Into::into),
        Task::Receive { question } => receivers::run(&question).map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
