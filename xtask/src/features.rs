//! `papers/features.toml`: every row of the papers, and its state.
//!
//! A row is a claim. `shown` names its evidence ([`Level`]), `documented` names the sentence, `refused` the reason; the
//! first two are verified: [`claims`] against the tests that ran, [`outputs`] against the kept output of commands,
//! [`links`] against the existing headings. [`page`] is the same table for readers.

pub(crate) mod claims;
pub(crate) mod outputs;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::links;
use crate::report::Outcome;

const SOURCE: &str = "papers/features.toml";
const PAGE: &str = "papers/docs/features.md";

/// A row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    what: String,
    section: String,
    kind: Option<Kind>,
    mark: Option<Mark>,
    state: State,
    level: Option<Level>,
    was: Option<Was>,
    #[serde(default)]
    shown_by: Vec<String>,
    documented_in: Option<String>,
    reason: Option<String>,
    issue: Option<u32>,
}

/// The kind of the paper's statement: a parameter, a figure it claims, an experiment, a limitation. Without a kind: a
/// mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Kind {
    P,
    Q,
    X,
    L,
}

/// The expectation of the row. Without a mark: to be shown by a test or a command.
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

/// How a row is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// It results from running the code, with time and input from a test.
    Mechanism,
    /// A test saw it on the kernel that ran the test.
    Live,
    /// A command printed it; the output is kept ([`outputs`]).
    Command,
    /// A page quotes figures of its command, whose output is not kept, so it shows nothing yet.
    Quoted,
    /// It agrees because a constant was fitted to it, which shows nothing.
    Calibrated,
}

/// The former expectation of a row that became documented or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Was {
    #[serde(rename = "to build")]
    ToBuild,
}

/// Adjacent rows, from `first` on. The first part of a paper names it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    first: String,
    rows: usize,
    title: String,
    paper: Option<String>,
    source: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Features {
    parts: Vec<Part>,
    pub(crate) rows: BTreeMap<String, Row>,
}

impl Features {
    /// # Errors
    /// If the file is not TOML (a duplicate row is not), or a row has an unknown field, kind, mark or state.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(SOURCE)).with_context(|| format!("cannot read {SOURCE}"))?;
        Self::parse(&text).context(SOURCE)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut features = Features::default();
        for (id, value) in toml::from_str::<toml::Table>(text)? {
            if id == "part" {
                features.parts = value.try_into().context("part")?;
            } else {
                let row = value.try_into().with_context(|| id.clone())?;
                features.rows.insert(id, row);
            }
        }
        Ok(features)
    }

    /// Returns the part that a row is in: the last of its paper that begins at or before it.
    fn part_of(&self, id: &str) -> Option<&Part> {
        let same_paper = |part: &&Part| paper_of(&part.first) == paper_of(id);
        self.parts.iter().rfind(|part| same_paper(part) && part.first.as_str() <= id)
    }

    fn rows_of<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = (&'a String, &'a Row)> {
        self.rows.iter().filter(|(id, _)| self.part_of(id).is_some_and(|p| p.first == part.first))
    }

    /// Returns the faults of the table itself, a line each.
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
        let mut problems: Vec<String> = self.problem_of_state().into_iter().map(str::to_owned).collect();
        problems.extend(self.shown_by.iter().filter_map(|claim| claims::malformed(claim)));
        if let Some(address) = &self.documented_in {
            let problem = links::problem(root, Path::new(""), address);
            problems.extend(problem.map(|problem| format!("documented_in `{address}`: {problem}")));
        }
        problems
    }

    /// Returns what a row in this state lacks, or has in excess.
    fn problem_of_state(&self) -> Option<&'static str> {
        let is_claimed = !self.shown_by.is_empty() || self.documented_in.is_some();
        let has_reason = self.reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
        let may_be_documented = self.mark == Some(Mark::Doc) || self.kind == Some(Kind::L);
        match self.state {
            State::Planned | State::Refused if is_claimed => {
                Some("is planned or refused, and yet names what shows or documents it")
            }
            State::Planned if has_reason => Some("is planned, and yet has a reason"),
            State::Refused if !has_reason => Some("is refused, and no reason says why"),
            State::Documented if self.documented_in.is_none() => {
                Some("is documented, but documented_in is missing")
            }
            State::Documented if !may_be_documented => {
                Some("must be shown; only limitations and rows marked doc may be documented")
            }
            State::Planned | State::Shown if self.was.is_some() => {
                Some("only what is documented or refused was to be built")
            }
            State::Shown => self.problem_of_level(has_reason),
            _ if self.level.is_some() => Some("is not shown, and yet has a level"),
            _ => None,
        }
    }

    fn problem_of_level(&self, has_reason: bool) -> Option<&'static str> {
        let commands = self.shown_by.iter().filter(|claim| claims::is_command(claim)).count();
        match self.level {
            _ if self.shown_by.is_empty() => Some("is shown, but shown_by is empty"),
            None => {
                Some("is shown, but its level is missing: mechanism, live, command, quoted or calibrated")
            }
            Some(Level::Mechanism | Level::Live) if commands == self.shown_by.len() => {
                Some("no test shows it: what only a command shows is at level command")
            }
            Some(Level::Command | Level::Quoted) if commands == 0 => {
                Some("is at level command or quoted, and names no command")
            }
            Some(Level::Quoted) if self.documented_in.is_none() => {
                Some("is quoted, and documented_in does not say where its figures stand")
            }
            Some(Level::Calibrated) if !has_reason => {
                Some("is calibrated, and no reason says which constant was fitted to it")
            }
            Some(_) => None,
        }
    }

    /// Says whether the row counts as shown.
    fn is_counted(&self) -> bool {
        matches!(self.level, Some(Level::Mechanism | Level::Live | Level::Command))
    }

    /// Returns the commands whose output shows the row.
    fn kept(&self) -> impl Iterator<Item = &str> {
        self.commands().filter(|_| self.level == Some(Level::Command))
    }

    /// Returns the commands whose output shows the row, or would if it were kept.
    fn storable(&self) -> impl Iterator<Item = &str> {
        self.commands().filter(|_| matches!(self.level, Some(Level::Command | Level::Quoted)))
    }

    fn commands(&self) -> impl Iterator<Item = &str> {
        self.shown_by.iter().filter_map(|claim| claims::command(claim))
    }
}

/// Returns `ST` of `ST-001`.
fn paper_of(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

fn is_id(id: &str) -> bool {
    let (paper, number) = id.split_once('-').unwrap_or(("", ""));
    let is = |text: &str, length, of: fn(&char) -> bool| text.len() == length && text.chars().all(|c| of(&c));
    is(paper, 2, char::is_ascii_uppercase) && is(number, 3, char::is_ascii_digit)
}

/// Writes the page, if the table is valid.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn write_page(root: &Path) -> Result<Outcome> {
    let features = Features::read(root)?;
    let problems = features.problems(root);
    if problems.is_empty() {
        fs::write(root.join(PAGE), page::render(&features, root))?;
    }
    Ok(Outcome::of(problems, format!("{PAGE} is written")))
}

/// Checks that the table is valid and the page written from it is current.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn check_page(root: &Path) -> Result<Outcome> {
    let features = Features::read(root)?;
    let mut problems = features.problems(root);
    problems.extend(outputs::problems(&features, root));
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
            "state = \"refused\"\nreason = \"nobody can see it\"\nwas = \"to build\"",
            "state = \"shown\"\nlevel = \"live\"\nkind = \"Q\"\nshown_by = [\"softtimers-core::lib::time::tests::x\"]",
            "state = \"shown\"\nlevel = \"command\"\nmark = \"derived\"\nshown_by = [\"$ softtimers send 127.0.0.1:9\"]",
            "state = \"shown\"\nlevel = \"calibrated\"\nreason = \"its cost\"\nshown_by = [\"a::lib::b\"]",
        ] {
            assert!(problems(lines).is_empty(), "{lines}: {:?}", problems(lines));
        }
    }

    #[test]
    fn a_state_and_a_level_need_their_evidence() {
        let test = "shown_by = [\"a::lib::b\"]";
        let command = "shown_by = [\"$ softtimers sim livelock\"]";
        for (lines, says) in [
            ("state = \"shown\"".to_owned(), "shown_by is empty"),
            (format!("state = \"shown\"\n{test}"), "its level is missing"),
            (format!("state = \"shown\"\nlevel = \"mechanism\"\n{command}"), "no test shows it"),
            (format!("state = \"shown\"\nlevel = \"command\"\n{test}"), "names no command"),
            (
                format!("state = \"shown\"\nlevel = \"quoted\"\n{command}"),
                "does not say where its figures stand",
            ),
            (format!("state = \"shown\"\nlevel = \"calibrated\"\n{test}"), "which constant was fitted"),
            ("state = \"shown\"\nlevel = \"live\"\nshown_by = [\"some test\"]".into(), "is neither"),
            ("state = \"documented\"\nkind = \"L\"".into(), "documented_in is missing"),
            ("state = \"documented\"\nkind = \"Q\"\ndocumented_in = \"README.md#x\"".into(), "must be shown"),
            (format!("state = \"planned\"\n{test}"), "and yet names"),
            ("state = \"refused\"".into(), "no reason says why"),
            ("state = \"planned\"\nlevel = \"live\"".into(), "and yet has a level"),
            ("state = \"planned\"\nwas = \"to build\"".into(), "only what is documented or refused"),
        ] {
            let found = problems(&lines);
            assert!(found.iter().any(|problem| problem.contains(says)), "{lines}: {found:?}");
        }
    }

    #[test]
    fn unknown_words_and_rows_given_twice_are_refused() {
        for (lines, says) in [
            ("state = \"planed\"", "planed"),
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
    }
}
