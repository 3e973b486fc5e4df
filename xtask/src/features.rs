//! `docs/features.toml`: every row of the papers, and what became of it.
//!
//! A row is a claim. `shown` names what shows it, `documented` names the sentence, `refused` the reason; the first two are held
//! against the real thing: [`claims`] against the tests that ran, [`anchors`] against the headings that
//! exist. [`page`] is the same table for readers.

pub(crate) mod claims;
mod commands;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::anchors;
use crate::report::Outcome;
use crate::workspace::Workspace;

const SOURCE: &str = "docs/features.toml";
const PAGE: &str = "docs/features.md";

/// One row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    what: String,
    section: String,
    kind: Option<Kind>,
    mark: Option<Mark>,
    state: State,
    #[serde(default)]
    shown_by: Vec<String>,
    documented_in: Option<String>,
    reason: Option<String>,
    issue: Option<u32>,
}

/// What the paper has there. No kind: a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Kind {
    /// A parameter or default.
    P,
    /// A figure it claims.
    Q,
    /// An experiment.
    X,
    /// A limitation.
    L,
}

/// What is expected of the row. No mark: to be shown by a test or a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mark {
    Doc,
    Sim,
    Derived,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Planned,
    Shown,
    Documented,
    Refused,
}

/// Rows that stand together, from `first` on. The first part of a paper names it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    first: String,
    rows: usize,
    title: String,
    paper: Option<String>,
    source: Option<String>,
}

/// The whole table.
#[derive(Debug, Default)]
pub(crate) struct Features {
    parts: Vec<Part>,
    pub(crate) rows: BTreeMap<String, Row>,
}

impl Features {
    /// # Errors
    /// If the file is no TOML (a row given twice is none), or a row has an unknown field, kind, mark or state.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(SOURCE)).with_context(|| format!("cannot read {SOURCE}"))?;
        Self::parse(&text).context(SOURCE)
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = toml::from_str(text)?;
        let mut features = Features::default();
        for (id, value) in table {
            if id == "part" {
                features.parts = value.try_into().context("part")?;
            } else {
                let row = value.try_into().with_context(|| id.clone())?;
                features.rows.insert(id, row);
            }
        }
        Ok(features)
    }

    /// The part that a row is in: the last of its paper that begins at or before it.
    fn part_of(&self, id: &str) -> Option<&Part> {
        let same_paper = |part: &&Part| paper_of(&part.first) == paper_of(id);
        self.parts.iter().rfind(|part| same_paper(part) && part.first.as_str() <= id)
    }

    fn rows_of<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = (&'a String, &'a Row)> {
        self.rows.iter().filter(|(id, _)| self.part_of(id).is_some_and(|p| p.first == part.first))
    }

    /// What is wrong with the table itself, a line each.
    fn problems(&self, root: &Path) -> Vec<String> {
        let mut problems = vec![];
        for part in &self.parts {
            let (rows, first) = (self.rows_of(part).count(), &part.first);
            if rows != part.rows {
                problems.push(format!("the part from {first} has {} rows; there are {rows}", part.rows));
            }
        }
        for (id, row) in &self.rows {
            let found = row.problems(root).into_iter();
            problems.extend(found.map(|problem| format!("{id}: {problem}")));
            if !is_id(id) || self.part_of(id).is_none() {
                problems.push(format!("{id}: no part has this row; an id is like ST-001"));
            }
        }
        problems
    }
}

impl Row {
    fn problems(&self, root: &Path) -> Vec<String> {
        let mut problems = vec![];
        let may_be_documented = self.mark == Some(Mark::Doc) || self.kind == Some(Kind::L);
        match self.state {
            State::Planned if !self.shown_by.is_empty() || self.documented_in.is_some() => {
                problems.push("is planned, and yet names what shows or documents it".into());
            }
            State::Shown if self.shown_by.is_empty() => {
                problems.push("is shown, but shown_by is empty".into());
            }
            State::Documented if self.documented_in.is_none() => {
                problems.push("is documented, but documented_in is missing".into());
            }
            State::Documented if !may_be_documented => {
                problems.push("must be shown; only limitations and rows marked doc may be documented".into());
            }
            State::Refused if !self.shown_by.is_empty() || self.documented_in.is_some() => {
                problems.push("is refused, and yet names what shows or documents it".into());
            }
            State::Planned | State::Shown | State::Documented | State::Refused => {}
        }
        if (self.state == State::Refused)
            != self.reason.as_ref().is_some_and(|reason| !reason.trim().is_empty())
        {
            problems.push("a row that is refused has a reason, and no other has one".into());
        }
        problems.extend(self.shown_by.iter().filter_map(|claim| claims::malformed(claim)));
        if let Some(address) = &self.documented_in {
            problems.extend(anchors::problem(root, address));
        }
        if self.what.trim().is_empty() || self.section.trim().is_empty() {
            problems.push("what and section must say something".into());
        }
        problems
    }
}

/// `ST` of `ST-001`.
fn paper_of(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

fn is_id(id: &str) -> bool {
    let (paper, number) = id.split_once('-').unwrap_or(("", ""));
    let is = |text: &str, length, of: fn(&char) -> bool| text.len() == length && text.chars().all(|c| of(&c));
    is(paper, 2, char::is_ascii_uppercase) && is(number, 3, char::is_ascii_digit)
}

/// `cargo xtask features [--check]`.
///
/// # Errors
/// If a file cannot be read or written, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let workspace = Workspace::load()?;
    let outcome = match arguments {
        [] => {
            let features = Features::read(workspace.root())?;
            let problems = features.problems(workspace.root());
            if problems.is_empty() {
                fs::write(workspace.root().join(PAGE), page::render(&features, workspace.root()))?;
            }
            Outcome::of(problems, format!("{PAGE} is written"))
        }
        [check] if check == "--check" => check_page(workspace.root())?,
        [other, ..] => bail!("no argument `{other}`; {}", crate::usage_of("features")),
    };
    match &outcome {
        Outcome::Failed(problems) => problems.iter().for_each(|problem| eprintln!("{SOURCE}: {problem}")),
        Outcome::Passed(note) | Outcome::Skipped(note) => println!("{note}"),
    }
    Ok(!matches!(outcome, Outcome::Failed(_)))
}

/// Whether the table is valid and the page written from it is current.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn check_page(root: &Path) -> Result<Outcome> {
    let features = Features::read(root)?;
    let mut problems = features.problems(root);
    if fs::read_to_string(root.join(PAGE)).unwrap_or_default() != page::render(&features, root) {
        problems.push(format!("{PAGE} is not what {SOURCE} says; run `cargo xtask features`"));
    }
    Ok(Outcome::of(problems, format!("{} rows", features.rows.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &str = "[[part]]\nfirst = \"ST-001\"\nrows = 1\ntitle = \"Facility\"\n";

    fn row(lines: &str) -> String {
        format!("{PART}[ST-001]\nwhat = \"it fires\"\nsection = \"3\"\n{lines}\n")
    }

    fn problems(lines: &str) -> Vec<String> {
        Features::parse(&row(lines)).unwrap().problems(Path::new("."))
    }

    #[test]
    fn good_rows_have_no_problem() {
        for lines in [
            "state = \"planned\"\nissue = 2",
            "state = \"refused\"\nreason = \"nobody can see it\"",
            "state = \"shown\"\nkind = \"Q\"\nshown_by = [\"softtimers-core::lib::time::tests::x\"]",
            "state = \"shown\"\nmark = \"derived\"\nshown_by = [\"$ softtimers send 127.0.0.1:9\"]",
        ] {
            assert!(problems(lines).is_empty(), "{lines}: {:?}", problems(lines));
        }
    }

    #[test]
    fn a_state_needs_its_evidence() {
        assert_eq!(problems("state = \"shown\""), ["ST-001: is shown, but shown_by is empty"]);
        let found = problems("state = \"documented\"\nkind = \"L\"");
        assert_eq!(found, ["ST-001: is documented, but documented_in is missing"]);
        let found = problems("state = \"planned\"\nshown_by = [\"a::lib::b\"]");
        assert_eq!(found, ["ST-001: is planned, and yet names what shows or documents it"]);
        assert_eq!(problems("state = \"shown\"\nshown_by = [\"some test\"]").len(), 1);
        let unfounded = ["ST-001: a row that is refused has a reason, and no other has one"];
        assert_eq!(problems("state = \"refused\""), unfounded);
        assert_eq!(problems("state = \"planned\"\nreason = \"too slow\""), unfounded);
    }

    #[test]
    fn what_must_be_shown_cannot_be_documented_away() {
        let found = problems("state = \"documented\"\nkind = \"Q\"\ndocumented_in = \"Cargo.toml#x\"");
        assert!(found[0].starts_with("ST-001: must be shown"), "{found:?}");
    }

    #[test]
    fn unknown_words_and_rows_given_twice_are_refused() {
        for (lines, says) in [
            ("state = \"planed\"", "planed"),
            ("state = \"planned\"\nkind = \"Z\"", "Z"),
            ("state = \"planned\"\nshow_by = []", "show_by"),
            ("state = \"planned\"\n[ST-001]\nstate = \"planned\"", "ST-001"),
        ] {
            let error = format!("{:#}", Features::parse(&row(lines)).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_row_that_disappears_is_missed() {
        let found = Features::parse(PART).unwrap().problems(Path::new("."));
        assert_eq!(found, ["the part from ST-001 has 1 rows; there are 0"]);
        let other = format!(
            "{}[XY-1]\nwhat = \"x\"\nsection = \"1\"\nstate = \"planned\"",
            row("state = \"planned\"")
        );
        let found = Features::parse(&other).unwrap().problems(Path::new("."));
        assert_eq!(found, ["XY-1: no part has this row; an id is like ST-001"]);
    }
}
