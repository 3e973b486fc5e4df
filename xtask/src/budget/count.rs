//! What there is of code, public types, arguments and words, place by place.
//!
//! Sources are read as text: a line of code is one that has something else than a comment, a public item is one that
//! begins with `pub`. Modules under `#[cfg(test)]`, wherever they lie, are tests.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::names::Common;
use crate::program;

/// The sum of `crates/*/src`.
pub(super) const PRODUCT: &str = "crates";
/// The sum of everything.
pub(super) const EVERYTHING: &str = "everything";
/// Pages that a command writes whole.
const GENERATED: &[&str] = &["features.md", "output.md", "sim-output.md"];
/// A block of a page that a command renders lies between such a comment and `<!-- end -->`; one of `cargo xtask papers`
/// between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
const RENDERED: &[&str] = &["data:", "rows:", "bars:"];

/// How much a place has of each unit.
pub(super) type Amounts = BTreeMap<String, usize>;

/// The text of everything that counts.
pub(super) struct Sources {
    /// Path and text, the parts that are tests left out.
    pub(super) rust: Vec<(String, String)>,
    pub(super) pages: Vec<(String, String)>,
}

impl Sources {
    /// Reads what is in git or would be added by `git add .`.
    ///
    /// # Errors
    /// If git cannot list the files, or one cannot be read.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let words = ["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.md"];
        let list = program::output(program::program("git", root).args(words))?;
        let text =
            |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"));
        let (mut rust, mut pages) = (vec![], vec![]);
        for path in list.lines().filter(|path| root.join(path).is_file()) {
            let list = if path.ends_with(".rs") { &mut rust } else { &mut pages };
            list.push((path.to_owned(), text(path)?));
        }
        Ok(Sources { rust: without_tests(rust), pages })
    }

    /// Returns the amounts of each place, and their sums.
    pub(super) fn amounts(&self) -> BTreeMap<String, Amounts> {
        let mut amounts: BTreeMap<String, Amounts> = BTreeMap::new();
        let mut add = |place: &str, unit: &str, amount: usize| {
            if amount > 0 {
                *amounts.entry(place.to_owned()).or_default().entry(unit.to_owned()).or_default() += amount;
            }
        };
        for (path, text) in &self.rust {
            let lines = text.lines().filter(|line| is_code(line)).count();
            let places = [Some(package(path)), is_product(path).then_some(PRODUCT), Some(EVERYTHING)];
            for place in places.into_iter().flatten() {
                add(place, "lines", lines);
                if path.contains("/src/") {
                    add(place, "types", public_types(text).count());
                    add(place, "args", text.matches("#[arg(").count());
                }
            }
        }
        for (path, text) in self.pages.iter().filter(|(path, _)| is_written_page(path)) {
            let words = words(text);
            add(path, "words", words);
            add(EVERYTHING, "words", words);
        }
        let common = Common::of_sources(&self.rust);
        let everything = amounts.entry(EVERYTHING.to_owned()).or_default();
        for (unit, names) in [("functions", common.functions), ("constants", common.constants)] {
            if !names.is_empty() {
                everything.insert(unit.to_owned(), names.len());
            }
        }
        amounts
    }
}

fn is_product(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/")
}

/// Returns the folder that is counted as one: a crate, an example, or a folder of the root.
fn package(path: &str) -> &str {
    let depth = 1 + usize::from(["crates", "tools", "papers", "bench"].iter().any(|t| path.starts_with(t)));
    path.match_indices('/').nth(depth - 1).map_or(path, |(end, _)| &path[..end])
}

/// The README and the pages of docs/, whichever building they lie in.
fn is_written_page(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    path == "README.md" || (folder.ends_with("docs") && !GENERATED.contains(&name) && name != "SUMMARY.md")
}

pub(super) fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// Returns the names of public types.
pub(super) fn public_types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let mut words =
            line.trim_start().strip_prefix("pub ")?.split(|c: char| c.is_whitespace() || "<({;:".contains(c));
        let kind = words.next()?;
        ["struct", "enum", "trait", "union", "type"].contains(&kind).then(|| words.next()).flatten()
    })
}

/// Counts words as `wc -w` does, without comments and what is rendered.
fn words(page: &str) -> usize {
    let mut parts = page.split("<!--");
    let mut count = parts.next().unwrap_or_default().split_whitespace().count();
    let mut is_rendered = false;
    for part in parts {
        let (mark, rest) = part.split_once("-->").unwrap_or((part, ""));
        let mark = mark.trim();
        let begins = mark.ends_with(": begin") || RENDERED.iter().any(|kind| mark.starts_with(kind));
        is_rendered = begins || is_rendered && mark != "end" && !mark.ends_with(": end");
        count += if is_rendered { 0 } else { rest.split_whitespace().count() };
    }
    count
}

/// Leaves out tests: folders `tests` and `benches`, and modules under `#[cfg(test)]`, inline or in files of their own.
fn without_tests(sources: Vec<(String, String)>) -> Vec<(String, String)> {
    let declared = sources.iter().flat_map(|(path, text)| test_files(path, text)).collect::<HashSet<_>>();
    let is_test = |path: &str| {
        let mut folders = path.split('/').rev().skip(1);
        folders.any(|folder| folder == "tests")
            || declared
                .iter()
                .any(|test| path.strip_prefix(test.as_str()).is_some_and(|rest| rest.starts_with(['.', '/'])))
    };
    let rest = sources.into_iter().filter(|(path, _)| !is_test(path));
    rest.map(|(path, text)| (path, without_test_modules(&text))).collect()
}

/// Returns paths, without `.rs`, of modules that a file declares under `#[cfg(test)]`.
fn test_files(path: &str, text: &str) -> Vec<String> {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let folder = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    let lines = text.lines().zip(text.lines().skip(1));
    let under_test = lines.filter(|(attribute, _)| is_for_tests(attribute)).map(|(_, item)| item.trim());
    let names = under_test.filter_map(|item| item.rsplit_once("mod ")?.1.strip_suffix(';'));
    names.map(|name| format!("{folder}/{name}")).collect()
}

/// Drops inline modules under `#[cfg(test)]`: up to the first brace that stands where the module began.
fn without_test_modules(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_module = |item: &&str| item.contains("mod ") && item.ends_with('{');
        if is_for_tests(line) && lines.peek().is_some_and(is_module) {
            let indent = line.len() - line.trim_start().len();
            let end = format!("{}}}", " ".repeat(indent));
            lines.by_ref().find(|line| *line == end);
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

fn is_for_tests(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn tests_comments_and_blanks_are_no_code() {
        let lib = "//! Why.\n\npub struct A; // a\n#[cfg(test)]\nmod given;\n\n#[cfg(test)]\nmod tests {\n    pub struct B;\n}\npub enum C<T> { D(T) }\n";
        let sources = vec![
            rust("crates/a/src/lib.rs", lib),
            rust("crates/a/src/given.rs", "pub struct E;\n"),
            rust("crates/a/src/given/more.rs", "pub struct E;\n"),
            rust("crates/a/tests/it.rs", "fn f() {}\n"),
            rust("xtask/src/main.rs", "fn main() {}\n"),
        ];
        let amounts = Sources { rust: without_tests(sources), pages: vec![] }.amounts();
        assert_eq!(amounts["crates/a"], Amounts::from([("lines".into(), 4), ("types".into(), 2)]));
        assert_eq!(amounts[PRODUCT]["lines"], 4);
        assert_eq!(amounts[EVERYTHING]["lines"], 5);
    }

    #[test]
    fn public_types_are_named() {
        let text = "pub struct A;\npub(crate) struct B;\n  pub enum C<T> {\npub fn d() {}\npub type E = u8;\npub trait F: G {}\n";
        assert_eq!(public_types(text).collect::<Vec<_>>(), ["A", "C", "E", "F"]);
    }

    #[test]
    fn rendered_tables_and_comments_are_no_words() {
        assert_eq!(words("a b <!-- c d --> e\n<!-- data: x#y -->\n| f | g |\n<!-- end -->\nh"), 4);
        assert_eq!(words("<!-- rows: x -->f<!-- a note -->g<!-- end -->h i"), 2);
        assert_eq!(words("a <!-- b: begin -->\n| c | d |\n<!-- e -->\n<!-- b: end -->\nf"), 2);
    }

    #[test]
    fn a_place_is_a_crate_or_a_folder_of_the_root() {
        assert_eq!(package("crates/core/src/lib.rs"), "crates/core");
        assert_eq!(package("papers/sim/src/lib.rs"), "papers/sim");
        assert_eq!(package("examples/wan/src/main.rs"), "examples");
    }
}
