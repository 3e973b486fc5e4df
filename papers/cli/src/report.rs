//! `softtimers report`: everything in one page, next to the papers' results.
//!
//! ```text
//!   source ──▶ measure ──▶ saved runs ──▶ draw ──▶ sections ──▶ overview ──▶ page       HTML, with plots
//!   as data    children    DIR/*.json     pure     as data                ├─▶ markdown
//!                                                                         └─▶ output     JSON, --assert
//! ```
//!
//! This module measures nothing: each figure is a pure function of another command's `--json` output. So saved runs can
//! be shown again, also by a later version, and a failed run gives one reason in one place.

pub(crate) mod catalogue;
mod draw;
mod finding;
mod markdown;
pub(crate) mod overview;
mod page;
pub(crate) mod saved;
pub(crate) mod source;
mod value;
pub(crate) mod verdict;

use serde::Serialize;
use softtimers_run::output::Report;
use softtimers_run::page::figure::Drawn;
use softtimers_run::page::unfit::Reason;
use softtimers_run::table::Table;

use crate::commands::report::args::WrittenReport;
use catalogue::{Part, Section};
use overview::Overview;
use saved::{Made, Runs};

/// The keys of `report`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Findings {
    /// The first screen.
    pub(crate) overview: Overview,
    /// Sections with everything they should have.
    pub(crate) complete: usize,
    /// Sections that say what they lack.
    pub(crate) partial: usize,
    /// Sections with nothing to show.
    pub(crate) missing: usize,
    /// The sections in the order of the report.
    pub(crate) sections: Vec<Shown>,
}

/// A section with its content.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Shown {
    /// Its name for `--only`.
    pub(crate) name: &'static str,
    /// The heading of the section.
    pub(crate) title: &'static str,
    /// The part of the page where it stands.
    pub(crate) part: Part,
    /// Why its runs are not fit for comparison: the headline. `null` if they are.
    pub(crate) unfit: Option<String>,
    /// Whether its runs are only short: then it is drawn in colour, and nothing is compared.
    pub(crate) short: bool,
    /// The papers that it is compared with.
    pub(crate) papers: &'static str,
    /// The completeness of the section.
    pub(crate) state: State,
    /// The sources of its figures.
    pub(crate) made: Vec<Made>,
    /// Its figures, tables and remarks.
    #[serde(flatten)]
    pub(crate) drawn: Drawn,
}

/// The completeness of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Everything is there.
    Complete,
    /// A part is missing, and it says which.
    Partial,
    /// Empty, and it says why.
    Missing,
}

/// Makes a report of one saved run, whatever its text: it is drawn, or the report says what it lacks, and no text of
/// the file reaches the page as markup.
#[cfg(any(test, fuzzing))]
pub(crate) fn any_run(source: usize, text: &str) {
    let sources = source::SOURCES;
    let mut runs = Runs::default();
    runs.keep(&sources[source % sources.len()], saved::understood(text));
    let names: Vec<&str> = catalogue::SECTIONS.iter().map(|section| section.name).collect();
    let findings = Findings::from_runs(&names, &runs);
    assert_eq!(findings.sections.len(), names.len());
    let (html, markdown) = (findings.html(), findings.markdown());
    assert!(html.ends_with("</html>\n") && !html.contains("<script"));
    assert!(!markdown.is_empty() && findings.doubts().is_none_or(|doubt| !doubt.contains('\n')));
}

impl Findings {
    /// Returns the page as a file of HTML.
    pub(crate) fn html(&self) -> String {
        page::page(self)
    }

    /// Returns the page as Markdown.
    pub(crate) fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    /// Counts the sections by completeness, in words.
    fn counts(&self) -> String {
        let Findings { complete, partial, missing, .. } = self;
        format!("{complete} complete, {partial} in part, {missing} missing")
    }

    /// Returns the runs that are not fit, the worst with its reason; `None` if all are fit.
    pub(crate) fn doubts(&self) -> Option<String> {
        overview::doubts(&self.sections)
    }

    /// Makes the sections of these names from the runs: a pure function.
    pub(crate) fn from_runs(sections: &[&str], runs: &Runs) -> Self {
        let sections =
            sections.iter().filter_map(|name| catalogue::find(name)).map(|section| Shown::new(section, runs));
        let sections: Vec<Shown> = sections.collect();
        let count = |state| sections.iter().filter(|section| section.state == state).count();
        Findings {
            overview: Overview::from_sections(&sections, runs),
            complete: count(State::Complete),
            partial: count(State::Partial),
            missing: count(State::Missing),
            sections,
        }
    }
}

impl Shown {
    /// Returns the headline's first words if a run is not fit.
    fn doubt(&self) -> &'static str {
        if self.short {
            "A short run: it shows shapes, and nothing is compared."
        } else {
            "Not fit for comparison."
        }
    }

    fn new(section: &Section, runs: &Runs) -> Self {
        let mut drawn = Drawn::default();
        (section.draw)(runs, &mut drawn);
        drawn.lacks.dedup();
        let made = section.sources.iter().filter_map(|name| runs.made(name)).collect();
        let state = match (drawn.is_empty(), drawn.lacks.is_empty()) {
            (true, _) => State::Missing,
            (false, true) => State::Complete,
            (false, false) => State::Partial,
        };
        let (Section { name, title, papers, .. }, part) = (*section, section.part());
        let short = !drawn.doubts.is_empty() && drawn.doubts.iter().all(|reason| reason.short);
        // Its cells say why.
        let line = |reason: &Reason| match part {
            Part::Summary => reason.source.to_owned(),
            _ => format!("{}: {}", reason.source, reason.line()),
        };
        let mut lines: Vec<String> = drawn.doubts.iter().map(line).collect();
        lines.dedup();
        let unfit = (!lines.is_empty()).then(|| lines.join("; "));
        Shown { name, title, part, unfit, short, papers, state, made, drawn }
    }
}

impl Report<WrittenReport> for Findings {
    const SCHEMA: &'static str = "softtimers.report/2";

    fn table(&self) -> Table {
        let mut table = Table::default();
        for section in &self.sections {
            let (figures, tables) = (section.drawn.figures.len(), section.drawn.tables.len());
            let shown = match section.state {
                State::Missing => section.drawn.lacks.join("; "),
                State::Complete => format!("{figures} figures, {tables} tables"),
                State::Partial => {
                    format!("{figures} figures, {tables} tables; {}", section.drawn.lacks.join("; "))
                }
            };
            table.row(section.name, shown);
        }
        table
    }
}
