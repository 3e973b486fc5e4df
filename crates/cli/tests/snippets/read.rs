//! Reads all snippets, also those that are not run: bash does, with nothing but a recorder to be started, and the real
//! command understands each call of `softtimers`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use libtest_mimic::Failed;

use crate::common::{IS_PAPERS, command, is_of_papers};
use crate::files::Files;
use crate::pages::Page;

/// Runs in place of every program. `softtimers`, and `cargo run` of it, write their words down; others do nothing.
const RECORDER: &str = r#"
PATH=/nonexistent
# Seen also where it is redirected or piped on.
softtimers() { printf '%s\0' "$@" $'\1' >&3; }
sudo() { "$@"; }
ip() { if [[ $1 == netns ]]; then "${@:4}"; fi; }
cargo() {
  if [[ $1 == run && " $* " != *" -p "* && " $* " == *" -- "* ]]; then
    while [[ $1 != -- ]]; do shift; done
    softtimers "${@:2}"
  fi
}
kill() { :; }
command_not_found_handle() { :; }
exec 3>&1
"#;

/// An empty directory, gone with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("softtimers-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The words of each call of `softtimers` in a snippet.
fn calls(snippet: &str, directory: &Directory) -> Result<Vec<Vec<String>>, String> {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", &format!("{RECORDER}\n{snippet}\nwait\nexit 0")]);
    let output = bash.current_dir(&directory.0).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    if complaints.contains("syntax error") || !output.status.success() {
        return Err(complaints.into_owned());
    }
    let said = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    let calls = said.split("\0\u{1}\0").filter(|call| !call.is_empty());
    Ok(calls.map(|call| call.split('\0').map(str::to_owned).collect()).collect())
}

/// The complaint of the command about these words, if it has one: `--help` ends it once all before it is understood.
fn complaint(words: &[String], directory: &Directory) -> Option<String> {
    let ends_by_itself = ["man", "completions", "sim machine"];
    let is_own = ends_by_itself.iter().any(|first| words.join(" ").starts_with(first));
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut softtimers = command("");
    softtimers.args(&words[..own]);
    if !is_own {
        softtimers.arg("--help");
    }
    let output = softtimers.current_dir(&directory.0).output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(said)
}

/// Says so of all pages.
///
/// # Errors
/// The calls that are not understood.
pub(crate) fn every_command_line_is_understood(pages: &[Page], files: &Files) -> Result<(), Failed> {
    let laid = Directory::new("read");
    files.lay(&laid.0, None)?;
    let (mut problems, mut seen) = (vec![], 0);
    for snippet in pages.iter().flat_map(|page| page.snippets("sh")) {
        // What it redirects into files is not meant to replace those laid.
        match calls(&snippet.text, &Directory::new("redirected")) {
            Ok(calls) => {
                let calls: Vec<_> =
                    calls.into_iter().filter(|call| is_of_papers(&call.join(" ")) == IS_PAPERS).collect();
                seen += calls.len();
                let wrong = calls.iter().filter_map(|call| Some((call.join(" "), complaint(call, &laid)?)));
                problems.extend(wrong.map(|(call, why)| format!("{}: {call}: {why}", snippet.place)));
            }
            Err(why) => problems.push(format!("{}: {}: {why}", snippet.place, snippet.text)),
        }
    }
    // `--help` comes before a machine is read.
    if IS_PAPERS {
        problems.extend(complaint(&["sim", "machine", "mine.toml"].map(str::to_owned), &laid));
    }
    if seen <= if IS_PAPERS { 30 } else { 50 } {
        problems.push(format!("only {seen} command lines were found"));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Finds calls in pipes, and complains about wrong ones.
///
/// # Errors
/// None: it panics.
pub(crate) fn calls_are_found_in_pipes_and_wrong_ones_are_told() -> Result<(), Failed> {
    let laid = Directory::new("wrong");
    let snippet = "softtimers recv 127.0.0.1:9 --once &\nzcat x | sudo softtimers replay - a:1 > file # why\n\
                   cargo run --release -- doctor 'a b'\ncargo run -p other -- x";
    let mut found = calls(snippet, &laid).unwrap();
    found.sort();
    let expected = [&["doctor", "a b"][..], &["recv", "127.0.0.1:9", "--once"], &["replay", "-", "a:1"]];
    assert_eq!(found, expected);
    assert!(calls("if then", &laid).is_err());
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let complaint = |line: &str| complaint(&words(line), &laid);
    assert!(complaint("recv 127.0.0.1:9 --onec").is_some() && complaint("wan --rtt 80 -- true").is_some());
    assert_eq!(complaint("wan --rtt 80ms -- true --rtt"), None);
    Ok(())
}
