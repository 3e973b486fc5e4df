//! `cargo xtask`: the project's own checks, and the order in which the other tools run.
//!
//! A check that cannot run on this machine prints `skipped: reason` and is counted; it never looks like a pass.
//!
//! ```text
//!   ci ────▶ format, links, features, header, licences, …         seconds: no build
//!            clippy ─▶ tests ─▶ claims of papers/features.toml ─▶ …  minutes: one build
//!   full ──▶ ci, then all of examples/, Miri, loom, fuzzing, …     nightly tools, hours
//! ```

#![forbid(unsafe_code)]

mod assurance;
mod budget;
mod ci;
mod dependencies;
mod failures;
mod features;
mod full;
mod header;
mod instructions;
mod licences;
mod links;
mod objects;
mod others;
mod packages;
mod program;
mod programs;
mod release;
mod report;
mod site;
mod skips;
mod soak;
mod tests;
mod toolchains;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use report::{Outcome, Report};
use workspace::Workspace;

/// The project's own checks.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run every check that a change must pass
    Ci {
        /// The output of `cargo test --workspace` just now; without it, the tests run first
        #[arg(long, value_name = "FILE")]
        tests: Option<PathBuf>,
    },
    /// Compile what ci compiles after the tests, while they run
    Ahead,
    /// Run ci, then examples/, sanitizers, loom, fuzzing, mutation and the commands of papers/outputs
    Full {
        /// As for ci
        #[arg(long, value_name = "FILE")]
        tests: Option<PathBuf>,
        #[command(flatten)]
        effort: assurance::Effort,
        /// Only these
        #[arg(value_name = "STEP", value_parser = full::names())]
        steps: Vec<String>,
    },
    /// Count the instructions of timers, against crates/core/benches/instructions.toml
    Instructions {
        /// Write the counts instead
        #[arg(long)]
        bless: bool,
    },
    /// Write papers/docs/features.md from papers/features.toml
    Features {
        /// Only report whether it is out of date
        #[arg(long, conflicts_with = "store")]
        check: bool,
        /// Run the commands that show these rows, or all, and keep what they print in papers/outputs
        #[arg(long)]
        store: bool,
        #[arg(value_name = "ROW", requires = "store")]
        rows: Vec<String>,
    },
    /// Hold the ceilings of budget.toml against what there is
    Budget {
        /// Lower the ceilings to what there is instead
        #[arg(long)]
        lower: bool,
    },
    /// Write crates/capi/include/softtimers.h from the border modules
    Header {
        /// Only report whether it is out of date
        #[arg(long)]
        check: bool,
    },
    /// Compile the BPF objects of crates/bpf again; needs clang
    Objects {
        /// Only report whether they are out of date
        #[arg(long)]
        check: bool,
    },
    /// List every test of the three workspaces, doc tests too, as `package::target::path`
    ///
    /// To be compared before and after a change that moves some. Builds all tests.
    Names,
    /// Write the simulated tables of papers/docs/papers.md, model.md, hip.md and sim.md, and the picture of sim.md, which tests check
    /// against the simulator
    Papers,
    /// Write docs/output.md and papers/docs/sim-output.md from the labels of the commands' reports, which tests hold against
    /// them
    Output,
    /// Write the tables and pictures of README.md and the pages from docs/data
    Render {
        /// Only report what is out of date
        #[arg(long)]
        check: bool,
    },
    /// Build the documentation of docs/ into target/site; needs mdbook
    Site {
        /// Address of the root of the sources; links to them lead there
        #[arg(long, value_name = "URL")]
        sources: Option<String>,
        /// Also look at every page in Chromium, at 400 and 1,200 pixels, in the light and in the dark
        #[arg(long)]
        browser: bool,
    },
    /// Try everything that a release needs, short of uploading
    Release {
        /// Upload nothing; required
        #[arg(long, required = true)]
        dry_run: bool,
        /// Only these
        #[arg(value_name = "STEP", value_parser = release::names())]
        steps: Vec<String>,
    },
}

/// The exit code if a task needs something that this machine lacks; the message names it.
const NOT_POSSIBLE: u8 = 77;

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(Outcome::Passed(note)) => {
            print!("{}", if note.is_empty() { note } else { note + "\n" });
            ExitCode::SUCCESS
        }
        Ok(Outcome::Failed(problems)) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            ExitCode::from(1)
        }
        Ok(Outcome::Skipped(reason)) => {
            println!("skipped: {reason}");
            ExitCode::from(NOT_POSSIBLE)
        }
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(task: Task) -> Result<Outcome> {
    let workspace = Workspace::load()?;
    let root = workspace.root();
    match task {
        Task::Ci { tests } => reported(|report| ci::run(&workspace, tests.as_deref(), report)),
        Task::Ahead => Ok(ci::ahead(&workspace)),
        Task::Full { tests, effort, steps } => {
            reported(|report| full::run(&workspace, tests.as_deref(), &effort, &steps, report))
        }
        Task::Release { steps, .. } => reported(|report| {
            release::run(&workspace, &steps, report);
            Ok(())
        }),
        Task::Instructions { bless: true } => instructions::renew(root),
        Task::Instructions { bless: false } => instructions::check(root),
        Task::Features { store: true, rows, .. } => features::outputs::store(&workspace, &rows),
        Task::Features { check: true, .. } => features::check_page(root),
        Task::Features { .. } => features::write_page(root),
        Task::Budget { lower: true } => budget::lower(root),
        Task::Budget { lower: false } => budget::check(root),
        Task::Header { check: true } => header::check(root),
        Task::Header { check: false } => header::write(root),
        Task::Objects { check: true } => objects::check(root),
        Task::Objects { check: false } => objects::write(root),
        Task::Names => tests::names(&workspace),
        Task::Papers => {
            let papers = root.join("papers");
            let tables = blessed(&papers, &["softtimers-sim", "--test", "pages"])?;
            if matches!(tables, Outcome::Failed(_)) {
                return Ok(tables);
            }
            blessed(&papers, &["softtimers-papers-bench", "--lib", "livelock"])
        }
        Task::Output => {
            let page = blessed(root, &["softtimers-cli", "--lib", "commands::output_tests"])?;
            if matches!(page, Outcome::Failed(_)) {
                return Ok(page);
            }
            blessed(&root.join("papers"), &["softtimers-papers", "--lib", "commands::output_tests"])
        }
        Task::Render { check } => Ok(render(check)),
        Task::Site { sources, browser: true } => site::shown(&workspace, sources.as_deref()),
        Task::Site { sources, browser: false } => site::built(&workspace, sources.as_deref()),
    }
}

/// Renders the pages.
fn render(check: bool) -> Outcome {
    match softtimers_pages::render::run(check) {
        Ok(()) => Outcome::passed(""),
        Err(error) => Outcome::failed(format!("{error:#}")),
    }
}

/// Runs tests of a package, which write what they hold against the code.
fn blessed(root: &Path, tests: &[&str]) -> Result<Outcome> {
    program::check(program::cargo(root).env("BLESS", "1").args(["test", "-p"]).args(tests))
}

/// Runs steps, and closes their report.
fn reported(steps: impl FnOnce(&mut Report) -> Result<()>) -> Result<Outcome> {
    let mut report = Report::default();
    steps(&mut report)?;
    Ok(ended(report.close()))
}

fn ended(is_well: bool) -> Outcome {
    Outcome::of(if is_well { vec![] } else { vec!["not everything passed".into()] }, "")
}
