//! The command lines of the documentation: bash reads each snippet, in which nothing but a recorder can be started, and the
//! real command understands each call of `softtimers`.

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::command;

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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages with command lines: those of the root, of docs/, and the crates' own.
fn pages() -> Vec<PathBuf> {
    let list = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let of_crates = list(root().join("crates")).map(|folder| folder.join("README.md"));
    let all = list(root()).chain(list(root().join("docs"))).chain(of_crates);
    all.filter(|path| is_page(path) && path.exists()).collect()
}

/// The snippets of a page in this language.
fn snippets(page: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}");
    let (mut found, mut lines) = (vec![], page.lines());
    while let Some(line) = lines.next() {
        if line.trim() == opening {
            let body: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            found.push(body.join("\n"));
        }
    }
    found
}

/// A directory with the files that command lines read: TOML of the pages whose first line is a name, and a few of any content.
struct Files(PathBuf);

impl Files {
    fn lay(pages: &[(PathBuf, String)], name: &str) -> Self {
        let files = Files(std::env::temp_dir().join(format!("softtimers-{name}-{}", std::process::id())));
        fs::create_dir_all(&files.0).unwrap();
        let lay = |name: &str, text: &str| fs::write(files.0.join(name), text).unwrap();
        for text in pages.iter().flat_map(|(_, page)| snippets(page, "toml")) {
            if let Some(name) = text.lines().next().and_then(|line| line.strip_prefix("# ")) {
                lay(name, &text);
            }
        }
        lay("LTE.up", "1\n2\n");
        lay("phases.csv", "t_us,len\n0,0\n1000,0\n");
        let _ = std::os::unix::fs::symlink(root().join("crates"), files.0.join("crates"));
        files
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The words of each call of `softtimers` in a snippet.
fn calls(snippet: &str, files: &Files) -> Result<Vec<Vec<String>>, String> {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", &format!("{RECORDER}\n{snippet}\nwait\nexit 0")]);
    let output = bash.current_dir(&files.0).stdin(Stdio::null()).output();
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
fn complaint(words: &[String], files: &Files) -> Option<String> {
    let ends_by_itself = ["man", "completions", "sim machine"];
    let is_own = ends_by_itself.iter().any(|first| words.join(" ").starts_with(first));
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut softtimers = command("");
    softtimers.args(&words[..own]);
    if !is_own {
        softtimers.arg("--help");
    }
    let output = softtimers.current_dir(&files.0).output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(said)
}

#[test]
fn every_command_line_of_the_pages_is_understood() {
    if !Command::new("bash").arg("--version").output().is_ok_and(|output| output.status.success()) {
        let line = "skipped: every_command_line_of_the_pages_is_understood: there is no bash\n";
        return std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    let texts = pages().into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap()));
    let pages: Vec<(PathBuf, String)> = texts.collect();
    let files = Files::lay(&pages, "snippets");
    let (mut problems, mut seen) = (vec![], 0);
    for (path, page) in &pages {
        for snippet in snippets(page, "sh") {
            // What it redirects into files is not meant to replace those laid.
            match calls(&snippet, &Files::lay(&[], "redirected")) {
                Ok(calls) => {
                    seen += calls.len();
                    let wrong =
                        calls.iter().filter_map(|call| Some((call.join(" "), complaint(call, &files)?)));
                    problems.extend(wrong.map(|(call, why)| format!("{}: {call}: {why}", path.display())));
                }
                Err(why) => problems.push(format!("{}: {snippet}: {why}", path.display())),
            }
        }
    }
    // `--help` comes before a machine is read.
    problems.extend(complaint(&["sim", "machine", "mine.toml"].map(str::to_owned), &files));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(seen > 100, "only {seen} command lines were found");
}

#[test]
fn calls_are_found_in_pipes_and_wrong_ones_are_told() {
    let files = Files::lay(&[], "wrong");
    let snippet = "softtimers recv 127.0.0.1:9 --once &\nzcat x | sudo softtimers replay - a:1 > file # why\n\
                   cargo run --release -- doctor 'a b'\ncargo run -p other -- x";
    let mut found = calls(snippet, &files).unwrap();
    found.sort();
    let expected = [&["doctor", "a b"][..], &["recv", "127.0.0.1:9", "--once"], &["replay", "-", "a:1"]];
    assert_eq!(found, expected);
    assert!(calls("if then", &files).is_err());
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let complaint = |line: &str| complaint(&words(line), &files);
    assert!(complaint("recv 127.0.0.1:9 --onec").is_some() && complaint("wan --rtt 80 -- true").is_some());
    assert_eq!(complaint("wan --rtt 80ms -- true --rtt"), None);
}
