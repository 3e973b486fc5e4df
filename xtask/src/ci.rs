//! `cargo xtask ci`: the checks in order, cheap ones first.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::debian::trial;
use crate::features::{self, Features, claims};
use crate::program::{self, Profile, cargo};
use crate::report::{Outcome, Report};
use crate::workspace::{self, Workspace};
use crate::{
    crates, dependencies, header, instructions, licences, links, locks, messages, objects, sentences, site,
    sizes, stability, stacks, testing, toolchains, words,
};

/// `cargo xtask ci`.
///
/// # Errors
/// If the workspace cannot be read, or an argument is given.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if let Some(argument) = arguments.first() {
        bail!("no argument `{argument}`; {}", crate::usage_of("ci"));
    }
    let workspace = Workspace::load()?;
    let mut report = Report::default();
    checks(&workspace, &mut report)?;
    Ok(report.close())
}

/// Runs every step of `ci`.
///
/// # Errors
/// If the project's files cannot be listed; failed checks are in the report.
pub(crate) fn checks(workspace: &Workspace, report: &mut Report) -> Result<()> {
    without_building(workspace, report)?;
    let root = workspace.root();
    report.step("clippy", || {
        program::check(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    tests(workspace, report);
    report.step("examples", || examples(workspace));
    report.step("documentation", || documentation(workspace));
    report.step("cargo install", || crates::installed(workspace));
    report.step("Debian packages", || trial::check(workspace, Profile::Debug));
    report.step("no_std build", || toolchains::no_std_build(workspace));
    report.step("instructions", || instructions::check(root));
    report.step("oldest Rust", || toolchains::msrv_check(workspace));
    Ok(())
}

fn without_building(workspace: &Workspace, report: &mut Report) -> Result<()> {
    let root = workspace.root();
    let files = workspace::text_files(root)?;
    report.step("format", || program::check(cargo(root).args(["fmt", "--all", "--check"])));
    report.step("examples/ fits", || stacks::fits(root));
    report.step("sizes", || Ok(sizes::check(&files)));
    report.step("words", || Ok(words::check(&files)));
    report.step("links", || Ok(links::check(root, &files)));
    report.step("docs/SUMMARY.md", || Ok(site::check(&files)));
    report.step("docs/errors.md", || Ok(messages::check(&files)));
    report.step("features", || features::check_page(root));
    report.step("stability", || stability::check(&files));
    report.step("softtimers.h", || header::check(root));
    report.step("dependencies", || Ok(dependencies::check(workspace)));
    report.step("licences", || licences::check(workspace));
    report.step("cargo deny", || cargo_deny(root));
    report.step("crates described", || Ok(crates::described(workspace)));
    report.step("crates packaged", || crates::packaged(workspace));
    report.step("BPF objects", || objects::check(root));
    report.step("oldest Rust stated", || toolchains::msrv_stated(workspace));
    report.step("no_std stated", || Ok(toolchains::no_std_stated(workspace, &files)));
    report.step("lock files", || Ok(locks::check(root)));
    Ok(())
}

/// Licences once more, and where packages come from, and which are there twice.
fn cargo_deny(root: &Path) -> Result<Outcome> {
    if !program::works(cargo(root).args(["deny", "--version"])) {
        return Ok(Outcome::skipped("cargo-deny is not installed; `licences` has checked the licences"));
    }
    program::check(cargo(root).args(["deny", "check", "licenses", "bans", "sources"]))
}

/// The tests, then what docs/features.toml claims of them.
fn tests(workspace: &Workspace, report: &mut Report) {
    let mut ran = None;
    report.step("tests", || {
        let suites = testing::build(workspace)?;
        let results = testing::run(workspace, &suites)?;
        let (_, results) = ran.insert((suites, results));
        Ok(results.outcome())
    });
    if let Some((_, results)) = &ran {
        report.add_tests(results.tally, results.skipped());
    }
    report.step("claims", || {
        let features = Features::read(workspace.root())?;
        let (suites, results) = ran.as_ref().context("no test has run")?;
        claims::check(&features, workspace, suites, results)
    });
    report.step("promises of docs/", || {
        let (_, results) = ran.as_ref().context("no test has run")?;
        Ok(sentences::check(&workspace::text_files(workspace.root())?, &results.statuses))
    });
}

/// Runs every example: each ends by itself within seconds, and exits 0.
fn examples(workspace: &Workspace) -> Result<Outcome> {
    let mut ran = 0;
    for member in workspace.members() {
        for example in member.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "example"))
        {
            let run = ["run", "--quiet", "--package", &member.name, "--example", &example.name];
            if let failed @ Outcome::Failed(_) = program::check(cargo(workspace.root()).args(run))? {
                return Ok(failed);
            }
            ran += 1;
        }
    }
    if ran == 0 {
        return Ok(Outcome::failed("there is no example, though README names some"));
    }
    Ok(Outcome::passed(format!("{ran} examples")))
}

/// Builds the documentation; every rustdoc warning is an error.
fn documentation(workspace: &Workspace) -> Result<Outcome> {
    // Cargo only warns when two crates write the same page, and one of them is lost.
    let pages = workspace.members().flat_map(|member| &member.targets).filter(|target| target.doc);
    let mut names: Vec<_> = pages.map(|target| target.name.replace('-', "_")).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Ok(Outcome::failed(format!("two crates document `{}`; one needs `doc = false`", pair[0])));
    }
    let mut cargo = cargo(workspace.root());
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    program::check(cargo.args(["doc", "--workspace", "--no-deps"]))
}
