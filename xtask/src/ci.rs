//! `cargo xtask ci`: the checks in order, cheap ones first.

use std::path::Path;

use anyhow::Result;

use crate::features::{self, Features, claims};
use crate::program::{self, cargo};
use crate::report::{Outcome, Report};
use crate::tests::Tests;
use crate::workspace::{Page, Workspace, pages};
use crate::{
    budget, dependencies, header, instructions, licences, links, objects, packages, programs, release,
    render, site, skips, toolchains,
};

/// Runs every step of `ci`; `kept` is the output of `cargo test --workspace`, if it has just run.
///
/// # Errors
/// If the project's pages cannot be read; failed checks are in the report.
pub(crate) fn run(workspace: &Workspace, kept: Option<&Path>, report: &mut Report) -> Result<()> {
    let root = workspace.root();
    let pages = pages(root)?;
    report.step("format", || {
        in_each(root, |place| program::check(cargo(place).args(["fmt", "--all", "--check"])))
    });
    report.step("lock files", || in_each(root, lock_file));
    report.step("links", || Ok(links::check(root, &pages)));
    report.step("budget", || budget::check(root));
    report.step("features", || features::check_page(root));
    report.step("softtimers.h", || header::check(root));
    report.step("BPF objects", || objects::check(root));
    report.step("dependencies", || dependencies::check(workspace));
    report.step("licences", || each(workspace, licences::check));
    report.step("cargo deny", || tool(root, &["deny", "check", "licenses", "bans", "sources"]));
    report.step("packages", || each(workspace, packages::check));
    report.step("oldest Rust stated", || each(workspace, |one| Ok(toolchains::msrv_stated(one))));
    tests(workspace, kept, &pages, report);
    report.step("published tables", || Ok(render(true)));
    report.step("examples", || each(workspace, examples));
    programs::run(workspace, report);
    report.step("clippy", || in_workspaces(root, clippy));
    report.step("features of crates", || in_workspaces(root, features_of_crates));
    report.step("documentation", || in_workspaces(root, documentation));
    report.step("site", || site::built(workspace, None));
    report.step("site in a browser", || site::shown(workspace, None));
    report.step("no_std build", || toolchains::no_std_build(root));
    report.step("instructions", || instructions::check(root));
    release::in_ci(workspace, report);
    report.step("oldest Rust", || toolchains::msrv_check(workspace));
    Ok(())
}

/// Compiles for the steps after the tests, so that these find it done; they report failures.
pub(crate) fn ahead(workspace: &Workspace) -> Outcome {
    let root = workspace.root();
    // None of them writes a program or a library that a test may be using.
    let builds = [clippy(root), programs::build(workspace), features_of_crates(root), documentation(root)];
    let well = builds.iter().filter(|built| matches!(built, Ok(Outcome::Passed(_)))).count();
    Outcome::passed(format!("{well} of {} builds", builds.len()))
}

fn clippy(root: &Path) -> Result<Outcome> {
    program::check(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn features_of_crates(root: &Path) -> Result<Outcome> {
    tool(root, &["hack", "check", "--workspace", "--ignore-private", "--each-feature"])
}

fn documentation(root: &Path) -> Result<Outcome> {
    let words = ["doc", "--workspace", "--no-deps"];
    program::check(cargo(root).env("RUSTDOCFLAGS", "-D warnings").args(words))
}

/// Runs the tests, then checks the claims of papers/features.toml and the pages about them.
fn tests(workspace: &Workspace, kept: Option<&Path>, pages: &[Page], report: &mut Report) {
    let mut tests = Tests::default();
    report.step("tests", || {
        tests = Tests::from_run(workspace, kept)?;
        Ok(tests.outcome())
    });
    report.add_tests(tests.tally, tests.skipped());
    report.step("nothing skipped", || Ok(skips::check(&tests.skipped())));
    // After a failure cargo runs no further binary, so claims about those would fail as well.
    if tests.tally.failed == 0 {
        report.step("claims", || {
            let root = workspace.root();
            // The tests have built only the programs that they run.
            for workspace in workspace.all()? {
                program::must(cargo(workspace.root()).args(["build", "--quiet", "--workspace", "--bins"]))?;
            }
            claims::check(&Features::read(root)?, workspace, &tests.statuses)
        });
        report.step("promises of docs/", || Ok(claims::promises(pages, &tests.statuses)));
    }
}

/// Runs every example: each ends by itself within seconds, and exits 0.
fn examples(workspace: &Workspace) -> Result<Outcome> {
    // For an example with tests, `cargo test` builds only those.
    program::must(cargo(workspace.root()).args(["build", "--quiet", "--workspace", "--examples"]))?;
    let targets = workspace.members().flat_map(|member| &member.targets);
    let mut problems = vec![];
    for example in targets.filter(|target| target.is_example()) {
        let path = workspace.target("debug/examples").join(&example.name);
        let mut program = program::program(path, workspace.root());
        if example.name == "own_command" {
            program.args(["sim", "coin"]);
        }
        if let Outcome::Failed(found) = program::check(&mut program)? {
            problems.extend(found);
        }
    }
    Ok(Outcome::of(problems, ""))
}

/// The workspaces of the project, each with a lock file of its own.
const WORKSPACES: [&str; 6] = [".", "papers", "bench", "examples", "fuzz", "papers/fuzz"];

/// Checks each workspace of the project.
fn in_each(root: &Path, check: impl Fn(&Path) -> Result<Outcome>) -> Result<Outcome> {
    in_folders(root, &WORKSPACES, check)
}

/// Checks the product's workspace, and those of papers and benches.
fn in_workspaces(root: &Path, check: impl Fn(&Path) -> Result<Outcome>) -> Result<Outcome> {
    in_folders(root, &WORKSPACES[..3], check)
}

fn in_folders(root: &Path, folders: &[&str], check: impl Fn(&Path) -> Result<Outcome>) -> Result<Outcome> {
    let (mut problems, mut skipped) = (vec![], None);
    for folder in folders {
        match check(&root.join(folder))? {
            Outcome::Failed(found) => {
                problems.extend(found.into_iter().map(|problem| format!("{folder}: {problem}")));
            }
            Outcome::Skipped(reason) => skipped = Some(reason),
            Outcome::Passed(_) => {}
        }
    }
    Ok(match skipped.filter(|_| problems.is_empty()) {
        Some(reason) => Outcome::skipped(reason),
        None => Outcome::of(problems, format!("{} workspaces", folders.len())),
    })
}

/// Checks the members of the product's workspace, and those of papers and benches.
fn each(workspace: &Workspace, check: impl Fn(&Workspace) -> Result<Outcome>) -> Result<Outcome> {
    let all = workspace.all()?;
    in_folders(workspace.root(), &WORKSPACES[..3], |folder| {
        let one = all.iter().find(|one| one.root() == folder);
        one.map_or_else(|| Ok(Outcome::failed("no workspace")), &check)
    })
}

fn lock_file(directory: &Path) -> Result<Outcome> {
    let words = ["metadata", "--quiet", "--locked", "--format-version", "1"];
    program::output(cargo(directory).args(words)).map(|_| Outcome::passed(""))
}

/// Runs a cargo tool, if it is installed.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn tool(root: &Path, words: &[&str]) -> Result<Outcome> {
    if !program::works(cargo(root).args([words[0], "--version"])) {
        return Ok(Outcome::skipped(format!("cargo-{} is not installed", words[0])));
    }
    program::check(cargo(root).args(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time is in nanoseconds here: a program that counts in ticks behaves differently from one kernel's configuration
    /// to the next (Tsafrir et al. §3).
    #[test]
    fn no_source_asks_for_the_kernels_tick() {
        let names = r"\b(_SC_CLK_TCK|CLK_TCK|clock_ticks_per_second|USER_HZ|CONFIG_HZ|jiffies|jiffies_64)\b";
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut grep = program::program("git", root);
        grep.args(["grep", "-nE", names, "--", "*.rs", "*.c", "*.h", ":!xtask/src/ci.rs"]);
        let found = String::from_utf8(grep.output().unwrap().stdout).unwrap();
        // `path:line:text`; comments may mention it.
        let code = |line: &&str| {
            let text = line.splitn(3, ':').nth(2).unwrap_or_default().trim();
            !["//", "/*", "*"].iter().any(|start| text.starts_with(start))
        };
        assert_eq!(found.lines().filter(code).collect::<Vec<_>>(), Vec::<&str>::new());
    }

    /// Paths of an author's machine must not be in a page. The expected match, which shows that the search works, is
    /// `/home/somebody/softtimers`.
    #[test]
    fn no_file_names_a_directory_of_a_developers_machine() {
        // But not as a part of another path, such as `target/release/root/usr`.
        let places = r"(^|[^[:alnum:]_.~/*$}-])/(home|root|work|Users)/[[:alnum:]_.-]";
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut grep = program::program("git", root);
        let found = grep.args(["grep", "--untracked", "-IE", places]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        assert!(found.starts_with("xtask/src/ci.rs:") && found.lines().count() == 1, "{found}");
    }
}
