//! `docs/features.toml`: every row of the papers, and what became of it.
//!
//! A row is a claim. `shown` names what shows it and how ([`Level`]), `documented` names the sentence, `refused` the
//! reason; the first two are held against the real thing: [`claims`] against the tests that ran, [`outputs`] against
//! what commands printed when they were last run, [`anchors`] against the headings that exist. [`page`] is the same
//! table for readers.

pub(crate) mod claims;
mod commands;
pub(crate) mod outputs;
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
    level: Option<Level>,
    was: Option<Was>,
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

/// How a row is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// It emerges from running the code, on time and input that a test gives it.
    Mechanism,
    /// A test saw it on the kernel that ran the test.
    Live,
    /// A command printed it; what it printed is kept ([`outputs`]).
    Command,
    /// A page quotes figures of its command; what the command printed is not kept, so it shows nothing yet.
    Quoted,
    /// It agrees because a constant was fitted to it, which shows nothing.
    Calibrated,
}

impl Level {
    /// Whether a row at this level counts as shown.
    fn counts(self) -> bool {
        matches!(self, Self::Mechanism | Self::Live | Self::Command)
    }
}

/// What became documented or refused and was to be something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Was {
    #[serde(rename = "to build")]
    ToBuild,
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
        let mut problems: Vec<_> = self.problems_of_state().into_iter().map(str::to_owned).collect();
        problems.extend(self.shown_by.iter().filter_map(|claim| claims::malformed(claim)));
        if let Some(address) = &self.documented_in {
            problems.extend(anchors::problem(root, address));
        }
        if self.what.trim().is_empty() || self.section.trim().is_empty() {
            problems.push("what and section must say something".into());
        }
        problems
    }

    fn problems_of_state(&self) -> Vec<&'static str> {
        let may_be_documented = self.mark == Some(Mark::Doc) || self.kind == Some(Kind::L);
        let has_reason = self.reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
        let mut problems = vec![];
        match self.state {
            State::Planned if !self.shown_by.is_empty() || self.documented_in.is_some() => {
                problems.push("is planned, and yet names what shows or documents it");
            }
            State::Shown if self.shown_by.is_empty() => problems.push("is shown, but shown_by is empty"),
            State::Shown => problems.extend(self.problem_of_level(has_reason)),
            State::Documented if self.documented_in.is_none() => {
                problems.push("is documented, but documented_in is missing");
            }
            State::Documented if !may_be_documented => {
                problems.push("must be shown; only limitations and rows marked doc may be documented");
            }
            State::Refused if !self.shown_by.is_empty() || self.documented_in.is_some() => {
                problems.push("is refused, and yet names what shows or documents it");
            }
            State::Refused if !has_reason => problems.push("is refused, and no reason says why"),
            State::Planned | State::Documented | State::Refused => {}
        }
        if self.state == State::Planned && has_reason {
            problems.push("is planned, and yet has a reason");
        }
        if self.state != State::Shown && self.level.is_some() {
            problems.push("is not shown, and yet has a level");
        }
        if matches!(self.state, State::Shown | State::Planned) && self.was.is_some() {
            problems.push("only what is documented or refused was to be built");
        }
        problems
    }

    fn problem_of_level(&self, has_reason: bool) -> Option<&'static str> {
        let (commands, tests): (Vec<_>, Vec<_>) =
            self.shown_by.iter().partition(|claim| claims::is_command(claim));
        match self.level {
            None => {
                Some("is shown, but its level is missing: mechanism, live, command, quoted or calibrated")
            }
            Some(Level::Mechanism | Level::Live) if tests.is_empty() => {
                Some("no test shows it: what only a command shows is at level command")
            }
            Some(Level::Command | Level::Quoted) if commands.is_empty() => {
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

    /// Whether the row counts as shown.
    fn is_counted(&self) -> bool {
        self.state == State::Shown && self.level.is_some_and(Level::counts)
    }

    /// The commands of a row at this level.
    fn commands_at(&self, level: Level) -> impl Iterator<Item = &str> {
        let is_at = self.level == Some(level);
        self.shown_by.iter().filter(move |_| is_at).filter_map(|claim| claims::command(claim))
    }

    /// The commands whose output shows the row.
    fn kept(&self) -> impl Iterator<Item = &str> {
        self.commands_at(Level::Command)
    }

    /// The commands whose output shows the row, or would if it were kept.
    fn storable(&self) -> impl Iterator<Item = &str> {
        self.kept().chain(self.commands_at(Level::Quoted))
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

/// `cargo xtask features [--check|--store [ROW …]]`.
///
/// # Errors
/// If a file cannot be read or written, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let workspace = Workspace::load()?;
    let outcome = match arguments {
        [] => write_page(workspace.root())?,
        [check] if check == "--check" => check_page(workspace.root())?,
        [store, rows @ ..] if store == "--store" => outputs::store(&workspace, rows)?,
        [other, ..] => bail!("no argument `{other}`; {}", crate::usage_of("features")),
    };
    match &outcome {
        Outcome::Failed(problems) => problems.iter().for_each(|problem| eprintln!("{SOURCE}: {problem}")),
        Outcome::Passed(note) | Outcome::Skipped(note) => println!("{note}"),
    }
    Ok(!matches!(outcome, Outcome::Failed(_)))
}

/// Writes the page, if the table is valid.
fn write_page(root: &Path) -> Result<Outcome> {
    let features = Features::read(root)?;
    let problems = features.problems(root);
    if problems.is_empty() {
        fs::write(root.join(PAGE), page::render(&features, root))?;
    }
    Ok(Outcome::of(problems, format!("{PAGE} is written")))
}

/// Whether the table is valid and the page written from it is current.
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
            "state = \"refused\"\nreason = \"nobody can see it\"",
            "state = \"refused\"\nreason = \"nobody can see it\"\nwas = \"to build\"",
            "state = \"shown\"\nlevel = \"live\"\nkind = \"Q\"\nshown_by = [\"softtimers-core::lib::time::tests::x\"]",
            "state = \"shown\"\nlevel = \"command\"\nmark = \"derived\"\nshown_by = [\"$ softtimers send 127.0.0.1:9\"]",
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
        let found = problems("state = \"shown\"\nlevel = \"live\"\nshown_by = [\"some test\"]");
        assert_eq!(found.len(), 1);
        assert_eq!(problems("state = \"refused\""), ["ST-001: is refused, and no reason says why"]);
        let found = problems("state = \"planned\"\nreason = \"too slow\"");
        assert_eq!(found, ["ST-001: is planned, and yet has a reason"]);
        let found = problems("state = \"planned\"\nwas = \"to build\"");
        assert_eq!(found, ["ST-001: only what is documented or refused was to be built"]);
    }

    #[test]
    fn what_is_shown_has_a_level_and_what_the_level_needs() {
        let shown = |lines: &str| problems(&format!("state = \"shown\"\n{lines}"));
        let test = "shown_by = [\"a::lib::b\"]";
        let command = "shown_by = [\"$ softtimers sim livelock\"]";
        let missing =
            "ST-001: is shown, but its level is missing: mechanism, live, command, quoted or calibrated";
        assert_eq!(shown(test), [missing]);
        let untested = ["ST-001: no test shows it: what only a command shows is at level command"];
        assert_eq!(shown(&format!("level = \"mechanism\"\n{command}")), untested);
        assert_eq!(shown(&format!("level = \"live\"\n{command}")), untested);
        let unnamed = ["ST-001: is at level command or quoted, and names no command"];
        assert_eq!(shown(&format!("level = \"command\"\n{test}")), unnamed);
        assert_eq!(shown(&format!("level = \"quoted\"\n{test}")), unnamed);
        let nowhere = ["ST-001: is quoted, and documented_in does not say where its figures stand"];
        assert_eq!(shown(&format!("level = \"quoted\"\n{command}")), nowhere);
        let unsaid = ["ST-001: is calibrated, and no reason says which constant was fitted to it"];
        assert_eq!(shown(&format!("level = \"calibrated\"\n{test}")), unsaid);
        assert!(shown(&format!("level = \"calibrated\"\nreason = \"its cost\"\n{test}")).is_empty());
        let found = problems("state = \"planned\"\nlevel = \"live\"");
        assert_eq!(found, ["ST-001: is not shown, and yet has a level"]);
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
