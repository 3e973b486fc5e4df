//! tokio's own tests of its timers, run on softtimers-tokio. A step of [`full`](crate::full).
//!
//! They come from the package of tokio that `Cargo.lock` names, so nothing of theirs is in the tree. A package of their own,
//! below `target`, has them with one change: `tokio::time` is a module that re-exports softtimers-tokio's timers.
//!
//! ```text
//!   tokio-1.x.y/tests/time_*.rs ──▶ target/suites/tokio/tests ── cargo test ──▶ target/assurance/tokio-tests.json
//! ```

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use cargo_metadata::Package;
use softtimers_trials::result::{Cell, Table};

use crate::assurance::keep;
use crate::program::{cargo, shown};
use crate::report::Outcome;
use crate::workspace::Workspace;

const FILES: [&str; 6] =
    ["time_interval", "time_panic", "time_pause", "time_rt", "time_sleep", "time_timeout"];

/// Tests that ask for what these timers do otherwise, on purpose, and why.
const BY_DESIGN: &[(&str, &str)] = &[
    ("creating_sleep_outside_of_context", OUTSIDE),
    ("timeout_panic_caller", OUTSIDE),
    ("timeout_at_panic_caller", OUTSIDE),
];

const OUTSIDE: &str = "a timer may be made outside of a runtime, and panics only if it has to wait there";

/// What the tests need besides, at the versions that tokio names.
const SUITE: &str = r#"
[package]
name = "suite"
version = "0.0.0"
edition = "2021"

[workspace]

[features]
full = []
rt-multi-thread = []
test-util = []

[dependencies]
futures = { version = "0.3", features = ["async-await"] }
rand = "0.9"
tokio-test = "0.4"
"#;

/// `tokio::time`, by these timers.
const TIME: &str = "
pub mod time {
    pub use softtimers_tokio::{
        Elapsed, Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval, interval_at, sleep, sleep_until, timeout, timeout_at,
    };
    pub use std::time::Duration;
    pub use tokio::time::{advance, pause, resume};

    pub mod error {
        pub use softtimers_tokio::Elapsed;
    }
}
";

/// Runs them, and fails for each that fails and is not known to.
pub(crate) fn tokio(workspace: &Workspace) -> Result<Outcome> {
    let tokio =
        workspace.packages.iter().find(|package| package.name == "tokio").context("tokio is not used")?;
    let suite = workspace.target("suites/tokio");
    write_suite(workspace, tokio, &suite)?;
    let mut cargo = cargo(&suite);
    cargo.env("CARGO_TARGET_DIR", workspace.target("suites/built"));
    cargo.args(["test", "--no-fail-fast", "--features", "full,rt-multi-thread,test-util", "--tests"]);
    println!("$ {}", shown(&cargo));
    let output = cargo.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts: Vec<(&str, &str)> = text.lines().filter_map(verdict).collect();
    ensure!(!verdicts.is_empty(), "no test of tokio's ran:\n{text}");

    let failed: Vec<&str> =
        verdicts.iter().filter(|(_, verdict)| *verdict == "FAILED").map(|(name, _)| *name).collect();
    let known = |name: &str| BY_DESIGN.iter().any(|(known, _)| *known == name);
    let mut problems: Vec<String> =
        failed.iter().filter(|name| !known(name)).map(|name| format!("tokio's `{name}` fails")).collect();
    let passes = |name: &&str| !failed.contains(name);
    problems.extend(
        BY_DESIGN
            .iter()
            .map(|(name, _)| *name)
            .filter(passes)
            .map(|name| format!("tokio's `{name}` passes now")),
    );
    let passed = verdicts.iter().filter(|(_, verdict)| *verdict == "ok").count();
    let mut table = Table::new("suites", &[("suite", 0), ("tests", 0), ("passed", 0), ("by design", 0)]);
    let name = format!("tokio {}, tests/time_*.rs", tokio.version);
    let [all, well, not] = [verdicts.len(), passed, failed.len()].map(|count| Cell::Number(count as f64));
    table.row([Cell::Text(name), all, well, not]);
    table.notes.extend(BY_DESIGN.iter().map(|(name, why)| format!("{name}: {why}")));
    let kept = keep(workspace, "tokio-tests", "cargo xtask full tokio", table)?;
    Ok(Outcome::of(problems, format!("{passed} of {} pass; {kept}", verdicts.len())))
}

/// Reads a line of the test harness: the test's name and its verdict.
fn verdict(line: &str) -> Option<(&str, &str)> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // `#[should_panic]` is said behind the name.
    Some((name.split(" - ").next()?, verdict)).filter(|(_, verdict)| ["ok", "FAILED"].contains(verdict))
}

/// Writes the package of the tests.
fn write_suite(workspace: &Workspace, tokio: &Package, suite: &Path) -> Result<()> {
    let theirs = tokio.manifest_path.parent().context("a package has a directory")?.join("tests");
    fs::create_dir_all(suite.join("src"))?;
    fs::create_dir_all(suite.join("tests/support"))?;
    let ours = workspace.member("softtimers-tokio").context("softtimers-tokio is a member")?;
    let ours = ours.manifest_path.parent().context("a package has a directory")?;
    let version = &tokio.version;
    let manifest = format!(
        "{SUITE}softtimers-tokio = {{ path = \"{ours}\" }}\ntokio = {{ version = \"={version}\", features = [\"full\", \"test-util\"] }}\n"
    );
    fs::write(suite.join("Cargo.toml"), manifest)?;
    fs::copy(workspace.root().join("Cargo.lock"), suite.join("Cargo.lock"))?;
    fs::write(suite.join("src/lib.rs"), TIME)?;
    for file in FILES {
        let path = theirs.join(file).with_extension("rs");
        let text = fs::read_to_string(&path).with_context(|| format!("{path} is not in tokio's package"))?;
        fs::write(
            suite.join("tests").join(file).with_extension("rs"),
            text.replace("tokio::time", "suite::time"),
        )?;
    }
    fs::copy(theirs.join("support/panic.rs"), suite.join("tests/support/panic.rs"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn a_verdict_is_read_from_a_line_of_the_harness() {
        assert_eq!(verdict("test burst ... ok"), Some(("burst", "ok")));
        assert_eq!(verdict("test paused_time - should panic ... FAILED"), Some(("paused_time", "FAILED")));
        assert_eq!(verdict("test result: ok. 3 passed; 0 failed"), None);
        assert_eq!(verdict("test big ... ignored"), None);
    }
}
