//! The pages, their snippets, and the lines of a snippet.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::is_of_papers;

/// The project.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page with command lines.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its path in the project.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// What a page shows between two fences.
#[derive(Clone, Debug)]
pub(crate) struct Snippet {
    /// `docs/wan.md:43`: the page, and the line of its first command.
    pub(crate) place: String,
    pub(crate) text: String,
}

/// Returns the pages of the root, of docs/, and the crates' own, in order.
pub(crate) fn pages() -> Vec<Page> {
    let root = root().canonicalize().unwrap();
    let list = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let folders = ["crates", "papers", "bench"].map(|folder| list(root.join(folder)));
    let of_crates = folders.into_iter().flatten().map(|folder| folder.join("README.md"));
    let docs = ["docs", "papers/docs", "bench/docs", "xtask/docs"].map(|folder| list(root.join(folder)));
    let all = list(root.clone()).chain(docs.into_iter().flatten()).chain(of_crates);
    let mut paths: Vec<PathBuf> = all.filter(|path| is_page(path) && path.exists()).collect();
    paths.sort();
    let page = |path: &PathBuf| Page {
        name: path.strip_prefix(&root).unwrap().display().to_string(),
        text: fs::read_to_string(path).unwrap(),
    };
    paths.iter().map(page).collect()
}

impl Page {
    /// Returns its snippets in this language.
    pub(crate) fn snippets(&self, language: &str) -> Vec<Snippet> {
        let opening = format!("```{language}");
        let (mut found, mut lines) = (vec![], self.text.lines().zip(1..));
        while let Some((line, number)) = lines.next() {
            if line.trim() == opening {
                let body: Vec<&str> =
                    lines.by_ref().map(|(line, _)| line).take_while(|line| line.trim() != "```").collect();
                found.push(Snippet { place: format!("{}:{}", self.name, number + 1), text: body.join("\n") });
            }
        }
        found
    }
}

impl Snippet {
    /// Says whether the tests of `softtimers-papers` run it: it is on a page of theirs, or calls a command of theirs.
    pub(crate) fn is_of_papers(&self) -> bool {
        let calls = |command: &String| {
            let command = without_comment(command);
            // Also as `cargo run … -- WORDS`.
            command.split("softtimers ").skip(1).chain(command.split(" -- ").skip(1)).any(is_of_papers)
        };
        self.place.starts_with("papers/") || self.commands().iter().any(calls)
    }

    /// Returns its commands, each with all its lines: those that end with a backslash or inside of a quotation go on.
    pub(crate) fn commands(&self) -> Vec<String> {
        let (mut commands, mut begun) = (vec![], String::new());
        for line in self.text.lines() {
            begun += line;
            let is_open = without_comment(&begun).matches('\'').count() % 2 == 1;
            if is_open || line.ends_with('\\') {
                begun += "\n";
            } else {
                commands.push(std::mem::take(&mut begun));
            }
        }
        commands.retain(|command| !without_comment(command).is_empty());
        commands
    }
}

/// Returns a command less what is said about it.
pub(crate) fn without_comment(command: &str) -> &str {
    let command = command.trim();
    if command.starts_with('#') {
        return "";
    }
    command.split_once(" #").map_or(command, |(command, _)| command).trim_end()
}

/// Returns the words of a command, quotation marks left out.
pub(crate) fn words(command: &str) -> impl Iterator<Item = &str> {
    without_comment(command).split([' ', '\n', '\'', '"', ';', '(', ')']).filter(|word| !word.is_empty())
}
