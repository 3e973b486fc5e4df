//! The kept output of commands, for rows that only a command shows.
//!
//! A figure that needs a quiet machine, or minutes, or hardware, cannot be asserted by a test. But it can be checked
//! that the command was run and its output kept:
//!
//! ```text
//!   row at level command ──▶ papers/outputs/softtimers-sim-livelock.txt      $ softtimers sim livelock
//!         │                                                                2026-11-23, commit 9be92601; AMD EPYC, …
//!         ▼                                                                <what it printed>
//!   papers/docs/features.md: its date, next to the command
//! ```
//!
//! `full` runs the commands and rewrites the files; `ci` checks each file against its row. A row whose figures are only
//! on a page is *quoted*, and becomes a row at level command when its commands are run and kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Features, Row, SOURCE, claims, is_id, write_page};
use crate::program::{self, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;

const DIRECTORY: &str = "papers/outputs";

/// The header of the output of a command that computes and measures nothing.
const SIMULATED: &str = "simulated: the same on every machine";

/// The exit code of a command that cannot run on this machine.
const NOT_POSSIBLE: i32 = 77;

/// Returns the path at which the output of a command is kept, from the root.
pub(crate) fn path(command: &str) -> String {
    let needless = [
        "-p",
        "--manifest-path",
        "papers/Cargo.toml",
        "bench/Cargo.toml",
        "--bench",
        "--release",
        "--",
        "--example",
    ];
    let words = command.split_whitespace().filter(|word| !needless.contains(word));
    let name: Vec<_> = words.map(|word| word.replace(|c: char| !c.is_ascii_alphanumeric(), "-")).collect();
    let name = name.join("-");
    let words: Vec<_> = name.split('-').filter(|word| !word.is_empty()).collect();
    format!("{DIRECTORY}/{}.txt", words.join("-"))
}

/// Returns the date of a command's kept output.
pub(crate) fn date(command: &str, root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(path(command))).ok()?;
    head(&text, command).ok().map(str::to_owned)
}

/// Returns the date in the header of a file, or what is wrong with the header.
fn head<'a>(text: &'a str, command: &str) -> Result<&'a str, String> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    if claims::command(first) != Some(command) {
        return Err(format!("begins with `{first}`, not with the command `{command}`"));
    }
    let second = lines.next().unwrap_or_default();
    let date = dated(second).ok_or_else(|| {
        format!("its second line is to be `YYYY-MM-DD, commit ID; machine, load N` or `…; {SIMULATED}`, not `{second}`")
    })?;
    match lines.find(|line| !line.trim().is_empty()) {
        None => Err("has no output below its head".into()),
        Some(line) if is_skip(line) => Err(format!("says `{line}`, which shows nothing")),
        Some(_) => Ok(date),
    }
}

/// Returns the date of `2026-11-23, commit 9be92601; 2 x CPU, Linux 6.18, load 0.52`.
fn dated(line: &str) -> Option<&str> {
    let (date, rest) = line.split_once(", commit ")?;
    let (commit, of) = rest.split_once("; ")?;
    let digits = |(at, c): (usize, char)| if at == 4 || at == 7 { c == '-' } else { c.is_ascii_digit() };
    let is_date = date.len() == 10 && date.char_indices().all(digits);
    let is_commit = commit.len() >= 8 && commit.chars().all(|c| c.is_ascii_hexdigit());
    let is_loaded = of.rsplit_once(", load ").is_some_and(|(_, load)| load.parse::<f64>().is_ok());
    (is_date && is_commit && (is_loaded || of == SIMULATED)).then_some(date)
}

/// Says whether this line of a command means that it did nothing.
fn is_skip(line: &str) -> bool {
    line.starts_with("skipped:")
}

/// Returns outputs that are missing, not of their command, or of no row.
pub(crate) fn problems(features: &Features, root: &Path) -> Vec<String> {
    let (mut problems, mut known) = (vec![], BTreeSet::new());
    for (id, row) in &features.rows {
        for command in row.kept() {
            let path = path(command);
            match fs::read_to_string(root.join(&path)) {
                Ok(text) => problems.extend(head(&text, command).err().map(|says| format!("{id}: {path}: {says}"))),
                Err(_) => problems.push(format!(
                    "{id}: there is no {path}; `cargo xtask features --store {id}` runs the command and writes it"
                )),
            }
            known.insert(path);
        }
    }
    for entry in fs::read_dir(root.join(DIRECTORY)).into_iter().flatten().flatten() {
        let path = format!("{DIRECTORY}/{}", entry.file_name().to_string_lossy());
        if !known.contains(&path) {
            problems.push(format!("{path} is of no row at level command"));
        }
    }
    problems
}

/// Runs the commands of these rows at level command or quoted, or of all, keeps their output, and writes the page. A
/// quoted row whose commands are all kept is at level command from then on.
///
/// # Errors
/// If a row does not exist or needs none, or a file cannot be written.
pub(crate) fn store(workspace: &Workspace, ids: &[String]) -> Result<Outcome> {
    let root = workspace.root();
    let features = Features::read(root)?;
    for id in ids {
        let is_storable = features.rows.get(id).is_some_and(|row| row.storable().next().is_some());
        ensure!(is_storable, "{id} is no row at level command or quoted");
    }
    let wanted = |id: &&String| ids.is_empty() || ids.contains(id);
    let rows = features.rows.keys().filter(wanted).map(|id| &features.rows[id]);
    let commands: BTreeSet<&str> = rows.flat_map(Row::storable).collect();
    let (mut problems, mut impossible) = (vec![], vec![]);
    for command in &commands {
        match keep(command, workspace)? {
            Outcome::Passed(_) => {}
            Outcome::Failed(found) => problems.extend(found),
            Outcome::Skipped(reason) => impossible.push(reason),
        }
    }
    let text = fs::read_to_string(root.join(SOURCE))?;
    let promoted = promoted(&text, &|id| features.rows.get(id).is_some_and(|row| is_kept(row, root)));
    fs::write(root.join(SOURCE), promoted)?;
    if let Outcome::Failed(found) = write_page(root)? {
        problems.extend(found);
    }
    if problems.is_empty() && !impossible.is_empty() {
        return Ok(Outcome::skipped(impossible.join("; ")));
    }
    Ok(Outcome::of(problems, format!("{} outputs", commands.len())))
}

fn is_kept(row: &Row, root: &Path) -> bool {
    row.storable().all(|command| date(command, root).is_some())
}

/// Returns the table with its quoted rows promoted to level command if they are kept.
fn promoted(text: &str, is_kept: &dyn Fn(&str) -> bool) -> String {
    let mut row = "";
    let lines = text.split_inclusive('\n').map(|line| {
        let id = line.trim().trim_matches(['[', ']']);
        if is_id(id) {
            row = id;
        }
        if line.trim() == "level = \"quoted\"" && is_kept(row) {
            return line.replace("quoted", "command");
        }
        line.to_owned()
    });
    lines.collect()
}

/// Runs a command and writes its file, unless it fails.
fn keep(line: &str, workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    println!("$ {line}");
    // As a user types it, except for the path of the program.
    let typed = match line.strip_prefix("softtimers ") {
        Some(rest) => format!("cargo run --quiet --release -p softtimers-cli -- {rest}"),
        None => line.to_owned(),
    };
    let words: Vec<_> = typed.split_whitespace().collect();
    let (name, arguments) = words.split_first().context("the command is empty")?;
    let mut run = if *name == "cargo" { program::cargo(root) } else { command(name, root) };
    let output = run.args(arguments).output().with_context(|| format!("cannot start `{line}`"))?;
    if output.status.code() == Some(NOT_POSSIBLE) {
        let why = String::from_utf8_lossy(&output.stderr);
        return Ok(Outcome::skipped(format!("`{line}`: {}", why.lines().last().unwrap_or_default())));
    }
    if !output.status.success() {
        return Ok(Outcome::failed(format!("`{line}` ended with {}", output.status)));
    }
    let printed = String::from_utf8(output.stdout)
        .with_context(|| format!("`{line}` prints something that is not text"))?;
    if let Some(says) = printed.lines().find(|line| is_skip(line)) {
        return Ok(Outcome::skipped(format!("`{line}`: {says}")));
    }
    let date = program::output(command("date", root).arg("+%F"))?;
    let commit = program::output(command("git", root).args(["rev-parse", "--short=8", "HEAD"]))?;
    let of = if line.starts_with("softtimers sim ") { SIMULATED.into() } else { machine() };
    let text = format!("$ {line}\n{}, commit {}; {of}\n\n{printed}", date.trim(), commit.trim());
    let file = root.join(path(line));
    fs::create_dir_all(root.join(DIRECTORY))?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(Outcome::passed(""))
}

/// Describes the machine: its CPUs, the kernel, and the load when the command had ended.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let models: Vec<_> = cpus.lines().filter_map(|line| line.strip_prefix("model name")).collect();
    let model = models.first().map_or("unknown", |model| model.trim_start_matches([' ', '\t', ':']));
    let release = read("/proc/sys/kernel/osrelease");
    let kernel = release.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    format!("{} x {model}, Linux {kernel}, load {load}", models.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: &str = "cargo bench --manifest-path papers/Cargo.toml --bench kernel -- workloads";

    #[test]
    fn a_command_has_a_file() {
        assert_eq!(path(COMMAND), "papers/outputs/cargo-bench-kernel-workloads.txt");
        let doctor = "softtimers doctor --quick --assert costs.soft_event_of_signal<0.05";
        assert_eq!(
            path(doctor),
            "papers/outputs/softtimers-doctor-quick-assert-costs-soft-event-of-signal-0-05.txt"
        );
    }

    #[test]
    fn a_file_says_of_what_when_and_which() {
        let text = |head: &str| format!("$ {COMMAND}\n{head}\n\n| mean |\n");
        let when = "2026-11-23, commit 9be92601";
        for good in ["2 x CPU, Linux 6.18, load 0.52", SIMULATED] {
            assert_eq!(head(&text(&format!("{when}; {good}")), COMMAND), Ok("2026-11-23"));
        }
        for bad in ["today, commit 9be92601; CPU, load 1", "2026-11-23, commit main; CPU, load 1", when] {
            assert!(head(&text(bad), COMMAND).unwrap_err().contains("second line"), "{bad}");
        }
        let unloaded = format!("{when}; 2 x CPU, load low");
        assert!(head(&text(&unloaded), COMMAND).unwrap_err().contains("second line"));
        let other = head(&text(when), "cargo bench").unwrap_err();
        assert!(other.contains("not with the command `cargo bench`"), "{other}");
        let empty = format!("$ {COMMAND}\n{when}; CPU, load 0.1\n\n");
        assert_eq!(head(&empty, COMMAND), Err("has no output below its head".into()));
        let skipped = empty + "skipped: no root\n";
        assert_eq!(head(&skipped, COMMAND), Err("says `skipped: no root`, which shows nothing".into()));
    }

    #[test]
    fn a_row_at_level_command_without_an_output_is_a_problem() {
        let row = |level: &str| {
            let text = format!(
                "[ST-001]\nwhat = \"x\"\nsection = \"3\"\nstate = \"shown\"\nlevel = \"{level}\"\n\
                 shown_by = [\"a::lib::b\", \"$ {COMMAND}\"]\n"
            );
            problems(&Features::parse(&text).unwrap(), Path::new("nowhere"))
        };
        let missing = "ST-001: there is no papers/outputs/cargo-bench-kernel-workloads.txt; \
                       `cargo xtask features --store ST-001` runs the command and writes it";
        assert_eq!(row("command"), [missing]);
        assert!(row("live").is_empty());
        assert!(row("quoted").is_empty());
    }

    #[test]
    fn a_quoted_row_is_at_level_command_when_it_is_kept() {
        let row = |id: &str, level: &str| format!("[{id}]\nwhat = \"x\"\nlevel = \"{level}\"\n");
        let table = |first: &str| row("ST-001", first) + &row("ST-002", "quoted") + &row("ST-003", "live");
        assert_eq!(promoted(&table("quoted"), &|id| id == "ST-001"), table("command"));
        assert_eq!(promoted(&table("quoted"), &|_| false), table("quoted"));
    }
}
