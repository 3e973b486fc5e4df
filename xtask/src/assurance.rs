//! Tools that find what tests miss: undefined behaviour, races, interleavings, unexpected inputs. Steps of
//! [`full`](crate::full).
//!
//! ```text
//!   fuzzing ──▶ target/assurance/fuzzing.json ──┐
//!   models  ──▶ target/assurance/models.json  ──┴─ cargo lab publish ──▶ docs/data ──▶ xtask/docs/reliability.md
//! ```

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Package;
use softtimers_measure::machine::Machine;
use softtimers_trials::result::{Cell, Results, Table};

use crate::program::{self, cargo, cargo_of, output, program as command};
use crate::report::{Outcome, stopwatch};
use crate::toolchains::{NIGHTLY, toolchain};
use crate::workspace::Workspace;

/// The effort of steps that could go on for ever.
#[derive(Debug, clap::Args)]
pub(crate) struct Effort {
    /// Seconds for each fuzz target
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    fuzz: u32,
    /// Operations for which the timers are compared with their model
    #[arg(long, value_name = "COUNT", default_value_t = 100_000_000)]
    operations: u64,
    /// Minutes of the soak
    #[arg(long, value_name = "COUNT", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
}

impl Effort {
    pub(crate) fn minutes(&self) -> u32 {
        self.minutes
    }
}

/// Looks for undefined behaviour and leaks in core's tests, and in those of linux that need no kernel; tests have fewer
/// cases under `cfg!(miri)`.
pub(crate) fn miri(root: &Path) -> Result<Outcome> {
    let nightly = nightly(root);
    if !program::works(cargo_of(&nightly, root).args(["miri", "--version"])) {
        return Ok(Outcome::skipped("no nightly with Miri; `rustup component add miri rust-src` brings it"));
    }
    let run = |words: &[&str]| {
        // Proptest's record of failures needs the current directory, which Miri hides.
        let mut cargo = cargo_of(&nightly, root);
        cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        program::check(cargo.args(["miri", "test", "--no-fail-fast"]).args(words))
    };
    let core = run(&["-p", "softtimers-core"])?;
    let linux = run(&[&["-p", "softtimers-linux", "--lib", "--"], WITHOUT_A_KERNEL].concat())?;
    Ok(all([core, linux], "core, and the logic of linux"))
}

/// The modules of softtimers-linux whose tests Miri can run: their calls are pure, or have a substitute.
const WITHOUT_A_KERNEL: &[&str] = &[
    "bpf::code",
    "control::",
    "frame_queue",
    "mmsg",
    "retries",
    "sendmmsg",
    "signal_pacer::ring",
    "sockaddr",
];

/// Runs the harnesses under `cfg(kani)`: arithmetic of the wheel, and of rings, for all values.
pub(crate) fn kani(root: &Path) -> Result<Outcome> {
    if !program::works(cargo(root).args(["kani", "--version"])) {
        let instead = "the tests `the_laws_of_…` try the same properties at random";
        return Ok(Outcome::skipped(format!("cargo-kani is not installed; {instead}")));
    }
    program::check(cargo(root).args(["kani", "-p", "softtimers-core", "-p", "softtimers-linux"]))
}

/// Compiles the C programs and the timers for the kernel with the C compiler's AddressSanitizer and
/// UndefinedBehaviorSanitizer; and the unsafe code of linux with a nightly's.
pub(crate) fn sanitizers(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    if !["gcc", "clang"].iter().any(|compiler| links_sanitized(compiler, root)) {
        return Ok(Outcome::skipped("neither gcc nor clang has AddressSanitizer"));
    }
    let mut cargo = cargo(root);
    cargo.args(["test", "-p", "softtimers-capi", "-p", "softtimers-bpf"]);
    let c = program::check(cargo.args(["--test", "c_programs", "--test", "misuse", "--test", "native"]))?;
    if toolchain(NIGHTLY, root).is_none() {
        return Ok(all([c], "C programs; no nightly for crates/linux"));
    }
    let linux = program::check(
        sanitized("address", workspace)
            .args(["test", "-p", "softtimers-linux"])
            .args(["--lib", "--tests", "--target", TARGET]),
    )?;
    Ok(all([c, linux], "C programs, crates/linux"))
}

fn links_sanitized(compiler: &str, root: &Path) -> bool {
    let words = ["-x", "c", "-fsanitize=address,undefined", "-", "-o", "/dev/null"];
    let probe = format!("echo 'int main(void) {{ return 0; }}' | {compiler} {}", words.join(" "));
    program::works(command("sh", root).args(["-c", &probe]))
}

/// Runs ThreadSanitizer on code shared by threads: `softtimers::shared`, and the clocks. The standard library is built
/// for it as well: otherwise the synchronisation of its locks would look like races.
pub(crate) fn threads(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    let sysroot =
        output(command("rustup", root).args(["run", &nightly(root), "rustc", "--print", "sysroot"]));
    let source = |sysroot: String| Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").is_dir();
    if !sysroot.is_ok_and(source) {
        let brings = "`rustup component add rust-src --toolchain nightly` brings it";
        return Ok(Outcome::skipped(format!("ThreadSanitizer needs a nightly with rust-src; {brings}")));
    }
    let mut cargo = sanitized("thread", workspace);
    cargo.args(["test", "-Zbuild-std", "-p", "softtimers", "--lib", "--target", TARGET]);
    program::check(cargo.args(["--", "shared::", "clock::"]))
}

/// The host for which Rust's sanitizers are used.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Returns the nightly's cargo, for a separate build with a sanitizer.
fn sanitized(sanitizer: &str, workspace: &Workspace) -> Command {
    let root = workspace.root();
    let mut cargo = cargo_of(&nightly(root), root);
    cargo.env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
    cargo.env("CARGO_TARGET_DIR", workspace.target(&format!("sanitizer-{sanitizer}")));
    cargo
}

/// Tries every interleaving of the packages that depend on loom. It replaces the atomics under `cfg(loom)`, so its
/// build cannot be shared with others.
pub(crate) fn loom(workspace: &Workspace) -> Result<Outcome> {
    let knows = |member: &&Package| member.dependencies.iter().any(|dependency| dependency.name == "loom");
    let packages = workspace.members().filter(knows).flat_map(|member| ["--package", member.name.as_str()]);
    let mut cargo = cargo(workspace.root());
    cargo.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", "2");
    cargo.args(["test", "--release", "--lib", "--tests", "--target-dir"]).arg(workspace.target("loom"));
    program::check(cargo.args(packages))
}

/// Tests of core that compare each operation with a model: their packages and names, and what is compared.
const MODELS: [(&[&str], &str); 3] = [
    (
        &["--test", "contract", "many_timers_agree_with_a_map_over_every_span"],
        "timers by handle and by key, with ordered maps",
    ),
    (
        &["--lib", "wheel::tests::invariants::every_operation_leaves_the_wheel_in_order"],
        "all places and bounds within the wheel, with what was set",
    ),
    (
        &["--test", "contract", "a_stale_handle_never_reaches_the_next_timer"],
        "handles of timers that are gone, with the next ones of their records",
    ),
];

/// Runs the timers against their models.
pub(crate) fn models(workspace: &Workspace, effort: &Effort) -> Result<Outcome> {
    let mut table = Table::new("models", &[("compared", 0), ("operations", 0), ("seconds", 0)]);
    let (mut problems, mut all) = (vec![], 0.0);
    for (number, (test, compared)) in MODELS.into_iter().enumerate() {
        let mut cargo = cargo(workspace.root());
        cargo.env("SOFTTIMERS_OPERATIONS", effort.operations.to_string());
        cargo.args(["test", "--release", "-p", "softtimers-core"]).args(test).args([
            "--",
            "--exact",
            "--nocapture",
        ]);
        let run = Logged::from_command(&mut cargo, workspace, &format!("model-{number}"))?;
        let done = run.last("operations: ").unwrap_or(0.0);
        all += done;
        problems.extend(run.problem(done > 0.0));
        table.row([compared.into(), done.into(), run.seconds.into()]);
    }
    let command = format!("cargo xtask full models --operations {}", effort.operations);
    let kept = keep(workspace, "models", &command, table)?;
    Ok(Outcome::of(problems, format!("{all} operations; {kept}")))
}

/// Runs each fuzz target for a while.
pub(crate) fn fuzzing(workspace: &Workspace, effort: &Effort) -> Result<Outcome> {
    let root = workspace.root();
    let nightly = nightly(root);
    if !program::works(cargo_of(&nightly, root).args(["fuzz", "--version"])) {
        return Ok(Outcome::skipped("no nightly, or no cargo-fuzz, is installed"));
    }
    let folders = [root.to_owned(), root.join("papers")];
    let mut targets = vec![];
    for folder in &folders {
        let list = output(cargo_of(&nightly, folder).args(["fuzz", "list"]))?;
        targets.extend(list.split_whitespace().map(|target| (folder, target.to_owned())));
    }
    ensure!(!targets.is_empty(), "fuzz/ has no target");
    let columns = [("target", 0), ("inputs tried", 0), ("seconds", 0), ("branches seen", 0), ("findings", 0)];
    let mut table = Table::new("fuzzing", &columns);
    let (mut problems, mut all) = (vec![], 0.0);
    for (folder, target) in &targets {
        // New inputs go to the first directory; the other one is maintained by hand.
        let (grown, kept) = (format!("fuzz/grown/{target}"), format!("fuzz/corpus/{target}"));
        fs::create_dir_all(folder.join(&grown))?;
        let limit = format!("-max_total_time={}", effort.fuzz);
        let mut cargo = cargo_of(&nightly, folder);
        cargo.args(["fuzz", "run", target, &grown, &kept, "--", &limit, "-print_final_stats=1"]);
        let run = Logged::from_command(&mut cargo, workspace, &format!("fuzz-{target}"))?;
        let tried = run.last("stat::number_of_executed_units: ").unwrap_or(0.0);
        all += tried;
        problems.extend(run.problem(tried > 0.0));
        let findings = if run.well { 0.0 } else { 1.0 };
        table.row([
            target.as_str().into(),
            tried.into(),
            run.seconds.into(),
            run.last(" cov: ").into(),
            findings.into(),
        ]);
    }
    table.row([
        "all".into(),
        all.into(),
        total(&table, 2).into(),
        None::<f64>.into(),
        total(&table, 4).into(),
    ]);
    let kept =
        keep(workspace, "fuzzing", &format!("cargo xtask full fuzzing --fuzz {}", effort.fuzz), table)?;
    Ok(Outcome::of(problems, format!("{} targets, {all} inputs; {kept}", targets.len())))
}

fn total(table: &Table, column: usize) -> f64 {
    table.rows.iter().map(|row| if let Cell::Number(number) = row[column] { number } else { 0.0 }).sum()
}

/// A long run, whose output goes to a file that can be followed.
struct Logged {
    text: String,
    well: bool,
    seconds: f64,
    /// The command as shown, and the path of its output.
    shown: String,
}

impl Logged {
    fn from_command(command: &mut Command, workspace: &Workspace, name: &str) -> Result<Self> {
        let path = workspace.target("assurance").join(format!("{name}.log"));
        fs::create_dir_all(workspace.target("assurance"))?;
        let file = File::create(&path)?;
        let shown = format!("{} (see {})", program::shown(command), path.display());
        println!("$ {shown}");
        let began = stopwatch();
        let status = command.stdout(file.try_clone()?).stderr(Stdio::from(file)).status();
        let status = status.with_context(|| format!("cannot start {shown}"))?;
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        Ok(Logged { text, well: status.success(), seconds: began.elapsed().as_secs_f64(), shown })
    }

    /// Returns the last number after `mark`.
    fn last(&self, mark: &str) -> Option<f64> {
        let number = |rest: &str| {
            rest.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty())?.parse().ok()
        };
        self.text.rsplit_once(mark).and_then(|(_, rest)| number(rest))
    }

    /// Returns what is wrong: it failed, or printed no count.
    fn problem(&self, counted: bool) -> Option<String> {
        let Logged { well, shown, .. } = self;
        match (well, counted) {
            (true, true) => None,
            (true, false) => Some(format!("{shown} did nothing")),
            (false, _) => Some(format!("{shown} failed")),
        }
    }
}

/// Writes a table for `cargo lab publish`; returns its path.
pub(crate) fn keep(workspace: &Workspace, name: &str, run: &str, table: Table) -> Result<String> {
    let results = Results { tables: vec![table], ..Results::today(&Machine::read().line(), run) };
    let directory = workspace.target("assurance");
    fs::create_dir_all(&directory)?;
    let path = directory.join(name).with_extension("json");
    fs::write(&path, results.to_text()?)?;
    Ok(path.display().to_string())
}

fn nightly(root: &Path) -> String {
    toolchain(NIGHTLY, root).unwrap_or_else(|| NIGHTLY.into())
}

/// Combines several parts into one outcome.
fn all<const N: usize>(parts: [Outcome; N], note: &str) -> Outcome {
    let problems = parts.into_iter().flat_map(|part| match part {
        Outcome::Failed(problems) => problems,
        Outcome::Passed(_) | Outcome::Skipped(_) => vec![],
    });
    Outcome::of(problems.collect(), note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_the_last_that_was_said() {
        let text = "operations: 10\nx\noperations: 20 of 30\n#8 DONE cov: 1200 ft: 4\n".to_owned();
        let run = Logged { text, well: true, seconds: 1.0, shown: "it".into() };
        assert_eq!(
            (run.last("operations: "), run.last(" cov: "), run.last("stat: ")),
            (Some(20.0), Some(1200.0), None)
        );
        assert_eq!(run.problem(true), None);
        assert_eq!(run.problem(false).as_deref(), Some("it did nothing"));
        assert_eq!(Logged { well: false, ..run }.problem(true).as_deref(), Some("it failed"));
    }
}
