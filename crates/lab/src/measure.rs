//! `cargo xtask measure`: the figures of docs/benchmarks.md, made anew on this machine.
//!
//! Each round is one `softtimers doctor`, which runs every method once, so methods are interleaved
//! and a slow minute hits all of them; rounds are short and many, because a virtual machine's speed
//! drifts by a fifth within seconds. A figure is the median over the rounds. A round in which the
//! host or another program took more than 5% of the processors proves nothing and is repeated; when
//! there is no quiet time to be had, the figure is called inconclusive, not passed. The methods take
//! turns at being the first of a round.
//!
//! A bar that is missed does not fail the command: it measures, it does not gate.

mod benches;
mod c;
pub(crate) mod figures;
mod idle;
pub(crate) mod trials;
mod wan;

use std::path::Path;

use anyhow::{Result, bail};

use crate::program::{self, cargo};
use crate::report::Outcome;
use crate::workspace::Workspace;
use figures::{Bar, Figures};
use trials::Program;

/// `cargo xtask measure [--quick] [SECTION …]`.
///
/// # Errors
/// If the command cannot be built or a trial breaks off.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let sections = sections(arguments)?;
    let wanted = |section: &str| sections.is_empty() || sections.contains(&section);
    let workspace = Workspace::load()?;
    if sections == ["c"] {
        // The command has no part in it.
        print_bars(&c::c(&workspace, quick)?);
        return Ok(true);
    }
    let root = workspace.root();
    let program = build(root)?;
    let (rounds, trial) = (if quick { 1 } else { 7 }, "500ms");
    let batches: &[usize] = if quick { &[4] } else { &[4, 1, 16] };

    let mut bars = Vec::new();
    for &batch in batches.iter().filter(|batch| wanted(&format!("batch-{batch}"))) {
        bars.extend(beside_work(&program, rounds, trial, batch)?);
    }
    for &batch in batches.iter().filter(|_| wanted("turns")) {
        bars.extend(benches::work_kept(root, batch, if quick { 2 } else { 20 })?);
    }
    if wanted("events") {
        bars.extend(benches::null_events(root, if quick { 1 } else { 6 })?);
    }
    if wanted("handover") {
        bars.extend(benches::handover(root, if quick { 1 } else { 10 })?);
    }
    if wanted("pacing") {
        bars.extend(benches::pacing(root, quick)?);
    }
    if wanted("disturbed") {
        bars.extend(program.stall(rounds.min(5))?);
        bars.extend(program.hog(rounds.min(5))?);
        bars.extend(program.slice(rounds.min(5))?);
    }
    if wanted("idle") {
        bars.extend(program.idle(rounds.min(5))?);
    }
    if wanted("flows") {
        bars.extend(benches::flows(root, if quick { [2, 1] } else { [30, 3] })?);
    }
    if wanted("departures") {
        bars.extend(benches::departures(root, if quick { 2_000 } else { 20_000 })?);
    }
    if wanted("shared") {
        bars.extend(benches::shared(root, 7, quick)?);
    }
    if wanted("overload") {
        bars.extend(benches::overload(root, rounds.min(5), quick)?);
    }
    bars.extend(if wanted("c") { c::c(&workspace, quick)? } else { vec![] });
    if wanted("server") {
        bars.extend(benches::server(root, rounds.min(5), quick)?);
    }
    if wanted("wan") {
        bars.extend(program.wan(if quick { 10 } else { 100 })?);
    }
    print_bars(&bars);
    Ok(true)
}

/// Every method beside an echo server, as doctor compares them.
fn beside_work(program: &Program, rounds: usize, trial: &str, batch: usize) -> Result<Vec<Bar>> {
    let mut figures = Figures::default();
    program.doctor_rounds(rounds, trial, batch, &mut figures)?;
    println!("{}\n", figures.machine());
    println!("### Echo batch {batch}: medians of {}\n\n{}", figures.quality(), figures.table());
    Ok(figures.bars(batch))
}

fn sections(arguments: &[String]) -> Result<Vec<&str>> {
    let sections: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| *argument != "--quick").collect();
    match sections.iter().find(|section| !SECTIONS.contains(section)) {
        None => Ok(sections),
        Some(unknown) => bail!("no section `{unknown}`; {}", crate::usage_of("measure")),
    }
}

/// The table of bars, and how many hold.
pub(crate) fn print_bars(bars: &[Bar]) {
    println!("### Bars\n\n| figure | bar | measured | |\n|---|---|---|---|");
    for bar in bars {
        println!("{bar}");
    }
    let count = |wanted: fn(&Bar) -> bool| bars.iter().filter(|bar| wanted(bar)).count();
    println!(
        "\n{} met, {} missed, {} inconclusive",
        count(Bar::is_met),
        count(Bar::is_missed),
        count(Bar::is_inconclusive)
    );
}

/// What can be measured alone.
pub(crate) const SECTIONS: [&str; 16] = [
    "batch-4",
    "batch-1",
    "batch-16",
    "turns",
    "events",
    "handover",
    "pacing",
    "disturbed",
    "idle",
    "flows",
    "departures",
    "shared",
    "overload",
    "c",
    "server",
    "wan",
];

/// Builds the command as users do, and finds it.
fn build(root: &Path) -> Result<Program> {
    let outcome = program::check(cargo(root).args(["build", "--release", "--package", "softtimers-cli"]))?;
    if let Outcome::Failed(problems) = outcome {
        bail!("the command does not build: {problems:?}");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    Program::at(target.join("release/softtimers"))
}
