//! Runs the snippets, each in a place of its own, and judges each call of `softtimers` and each other command.

use std::io;

use libtest_mimic::{Completion, Failed};
use rustix::process::geteuid;

use crate::call::{LASTING, made};
use crate::files::Files;
use crate::pages::{Snippet, without_comment, words};
use crate::place::{Needs, Place, has, stand_in};

/// What a command begins with that is not run, and why.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    (".ci/run", "CI itself"),
    ("cargo test", "CI itself"),
    ("cargo xtask", "a check of CI, or hours of them"),
    ("cargo lab", "measures for minutes"),
    ("cargo bench", "measures for minutes"),
    ("cargo build", "builds for minutes"),
    ("cargo run --release -p wan-examples", "builds for minutes: `cargo xtask full` does"),
    ("cargo install", "installs on this machine"),
    ("cargo cinstall", "installs on this machine"),
    ("rustup", "installs on this machine"),
    ("apt", "installs on this machine"),
    ("python3 -m venv", "installs on this machine"),
    ("pip", "installs on this machine"),
    ("buildah", "a container engine"),
    ("podman", "a container engine"),
    ("cc", "the tests of crates/capi build and run its program"),
    ("./paced", "the tests of crates/capi build and run its program"),
    ("python papers/python/bench", "measures for minutes"),
    ("echo 1 > /sys/class/net/eth0/threaded", "a network card"),
    ("chrt -d", "a network card"),
    ("softtimers wan --rtt 80ms --rate 20Mbit --loss 0.5% -- curl", "the internet"),
];

/// Programs that a machine may lack.
const OTHERS: &[&str] =
    &["ethtool", "iperf3", "make", "nc", "python3", "socat", "tcpdump", "tshark", "zstdcat"];

/// Returns the row of the table that a command falls under.
pub(crate) fn left_out(command: &str) -> Option<usize> {
    let command = without_comment(command);
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    let begins = |words: &str| {
        command.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '/', ';']))
    };
    LEFT_OUT.iter().position(|(words, _)| begins(words))
}

/// What a command has that takes more than to be root in a namespace: the machine's other users, or its root's files.
const OF_ROOT: [&str; 3] = ["sudo ", "tcpdump ", "> /sys/"];

/// The shell that runs the commands: with job control, as at a terminal. Each that fails is recorded.
const SHELL: &str = r#"set -m -o pipefail
trap 'printf "%s: exit code %s\n" "$BASH_COMMAND" "$?" >>"$PLACE/failed"' ERR
# Whoever types the next line has seen the first words of what runs in the background.
settle() {
  for _ in {1..1500}; do
    if [[ -s $SNIPPET_CALLS/lasting-$1.stderr || -z $(jobs -pr) ]]; then return; fi
    sleep 0.02
  done
}
"#;

/// Lets what ends by itself end, and presses Ctrl-C for the rest.
const END: &str = r#"
for _ in {1..150}; do
  if [[ -z $(jobs -pr) ]]; then break; fi
  sleep 0.02
done
for job in $(jobs -pr); do kill -INT -- "-$job" || true; done
wait
touch "$PLACE/done"
"#;

/// Returns the script for these commands.
fn script(commands: &[String]) -> String {
    let mut script = SHELL.to_owned();
    for (number, command) in commands.iter().enumerate() {
        if without_comment(command).ends_with('&') {
            script += &format!("{LASTING}={number} {}\nsettle {number}\n", command.trim());
        } else {
            script += &format!("{}\n", command.trim_start());
        }
    }
    script + END
}

/// Runs what there is of a snippet that can run here.
///
/// # Errors
/// What it did that its page does not say.
pub(crate) fn run(snippet: &Snippet, files: &Files) -> Result<Completion, Failed> {
    let mut skipped = vec![];
    let mut commands = snippet.commands();
    commands.retain(|command| {
        let is_missing = |program: &str| !has(program) && stand_in(program).is_none();
        let lacking =
            OTHERS.iter().find(|program| words(command).any(|word| word == **program) && is_missing(program));
        skipped.extend(lacking.map(|program| format!("{program} is not installed")));
        let takes_root = !geteuid().is_root() && OF_ROOT.iter().any(|part| command.contains(part));
        skipped.extend(takes_root.then(|| "it takes root".to_owned()));
        left_out(command).is_none() && lacking.is_none() && !takes_root
    });
    if !commands.is_empty() {
        skipped.extend(ran(snippet, &commands, files).map_err(Failed::from)?);
    }
    skipped.dedup();
    Ok(if skipped.is_empty() { Completion::Completed } else { Completion::ignored_with(skipped.join("; ")) })
}

/// Runs these commands, and returns why some of their calls are not possible here.
fn ran(snippet: &Snippet, commands: &[String], files: &Files) -> Result<Vec<String>, String> {
    let told = |error: io::Error| format!("this test: {error}");
    let text = commands.join("\n");
    let place = Place::laid(&snippet.place, files, &text).map_err(told)?;
    let printed = place.run(&script(commands), &Needs::of(&text)).map_err(told)?;
    let calls = made(&place.calls()).map_err(told)?;
    let (mut problems, mut skipped) = (vec![], vec![]);
    if !printed.ended {
        problems.push("it does not end".to_owned());
    } else if !place.has("done") {
        problems.push("the shell ended before the last line".to_owned());
    }
    for call in &calls {
        match call.judge() {
            Ok(reason) => skipped.extend(reason),
            Err(problem) => problems.push(problem),
        }
    }
    // Calls of ours are judged by themselves.
    let failed = place.read("failed");
    let is_ours = |line: &str| words(line).any(|word| word == "softtimers");
    problems.extend(failed.lines().filter(|line| !is_ours(line)).map(str::to_owned));
    // A line that loops makes several calls, which do not stand for those of other lines.
    let first = |call: &str| call.split(' ').next().unwrap_or_default().to_owned();
    let subcommand = |line: &String| Some(first(without_comment(line).split("softtimers ").nth(1)?));
    let mut expected: Vec<String> =
        commands.iter().filter(|line| is_ours(line)).filter_map(subcommand).collect();
    for call in &calls {
        if let Some(place) = expected.iter().position(|one| *one == first(&call.words)) {
            expected.swap_remove(place);
        }
    }
    problems.extend(expected.iter().map(|one| format!("no call of softtimers {one}")));
    if std::env::var_os("SOFTTIMERS_SHOW").is_some() {
        let said = |call: &crate::call::Call| {
            format!("$ softtimers {}\n[{:?}] {}", call.words, call.code, call.stderr)
        };
        let said: String = calls.iter().map(said).collect();
        eprintln!("=== {}\n{text}\n--- stdout\n{}--- stderr\n{said}", snippet.place, printed.text);
    }
    if problems.is_empty() {
        return Ok(skipped);
    }
    Err(format!("{}\n\nin\n{text}\n\nwhich printed\n{}", problems.join("\n"), printed.text))
}
