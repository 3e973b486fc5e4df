//! The first screen: one verdict, one picture, three numbers, all of them from the sections below.

use serde::Serialize;

use super::Shown;
use super::catalogue::Part;
use super::draw::summary::{Headline, headlines};
use super::saved::{Made, Runs};
use super::source::{self, Source};
use super::value::{tamed, text};
use softtimers_run::page::figure::Figure;
use softtimers_run::page::unfit::Reason;

/// The first screen, as data.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Overview {
    /// The result in a sentence or two, or why there is none.
    pub(crate) verdict: String,
    /// Whether any measured figure can be compared.
    pub(crate) fit: bool,
    /// The section of the picture, and its index there; `null` if no section has one.
    pub(crate) picture: Option<(&'static str, usize)>,
    /// The first of the papers' figures that these runs have, each next to the paper's.
    pub(crate) numbers: Vec<Headline>,
}

impl Overview {
    /// Creates the overview of these sections.
    pub(super) fn from_sections(sections: &[Shown], runs: &Runs) -> Self {
        let made = made(sections);
        let is_simulated = |name: &str| source::find(name).is_none_or(Source::is_simulated);
        let measured: Vec<&Made> = made.iter().copied().filter(|made| !is_simulated(&made.source)).collect();
        let is_shown = |headline: &Headline| {
            headline.here.is_some() && made.iter().any(|made| headline.is_of(&made.source))
        };
        Overview {
            verdict: verdict(&measured, sections, runs),
            fit: measured.iter().any(|made| made.verdict.fit),
            picture: picture(sections),
            numbers: headlines(runs).filter(is_shown).take(NUMBERS).collect(),
        }
    }

    /// Returns the picture, which is in one of these sections.
    pub(super) fn figure<'a>(&self, sections: &'a [Shown]) -> Option<(&'a Shown, &'a Figure)> {
        let (name, at) = self.picture?;
        let section = sections.iter().find(|section| section.name == name)?;
        Some((section, section.drawn.figures.get(at)?))
    }
}

/// Returns the sources of the figures of these sections, each once.
fn made(sections: &[Shown]) -> Vec<&Made> {
    let mut once: Vec<&Made> = vec![];
    for made in sections.iter().flat_map(|section| &section.made) {
        if !once.iter().any(|other| other.source == made.source) {
            once.push(made);
        }
    }
    once
}

/// Names the runs that are not fit, the worst first and with its reason; `None` if all are fit.
pub(super) fn doubts(sections: &[Shown]) -> Option<String> {
    let mut unfit: Vec<&Made> = made(sections).into_iter().filter(|made| !made.verdict.fit).collect();
    unfit.sort_by_key(|made| made.verdict.is_only_short());
    let (first, others) = unfit.split_first()?;
    let others: String = others.iter().map(|made| format!(", {}", made.source)).collect();
    Some(format!(
        "not fit: {} ({}){others}",
        first.source,
        first.verdict.worst().map_or_else(String::new, Reason::line)
    ))
}

/// Returns a sentence or two on what the measured runs show and which of them are fit.
fn verdict(measured: &[&Made], sections: &[Shown], runs: &Runs) -> String {
    let fit = measured.iter().filter(|made| made.verdict.fit);
    let doctor = fit.clone().find(|made| made.source == "doctor").and_then(|_| runs.only("doctor").ok());
    let said = doctor.map_or_else(String::new, |doctor| sentence(text(doctor, "verdict")));
    let (fit, all) = (fit.count(), measured.len());
    match doubts(sections) {
        _ if all == 0 => "Nothing was measured; simulated figures are the same on every machine.".to_owned(),
        Some(_) if measured.iter().all(|made| made.verdict.is_only_short()) => {
            "A quick run: it shows shapes and compares nothing, because its trials are short.".to_owned()
        }
        Some(doubts) if fit == 0 => {
            format!("Nothing measured is fit for comparison, so nothing measured is compared; {doubts}.")
        }
        Some(doubts) => format!("{said}{fit} of {all} measured runs are fit for comparison; {doubts}."),
        None => format!("{said}Every measured run is fit for comparison."),
    }
}

/// Cuts a verdict before its reasons and returns it as a sentence with a space behind; empty if there is none.
fn sentence(said: &str) -> String {
    let end =
        [". ", ": ", "; ", " ("].into_iter().filter_map(|end| said.find(end)).min().unwrap_or(said.len());
    let said = tamed(&said[..end]);
    let mut letters = said.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>());
    first.map_or_else(String::new, |first| format!("{first}{}. ", letters.as_str().trim_end_matches('.')))
}

/// Returns the most informative figure: comparable, measured before simulated, fit before short before unfit.
fn picture(sections: &[Shown]) -> Option<(&'static str, usize)> {
    let places = sections.iter().flat_map(|section| {
        section.drawn.figures.iter().enumerate().map(move |(at, figure)| (section, at, figure))
    });
    let best = places.min_by_key(|(section, _, figure)| {
        let unfit = figure.series.iter().filter_map(|series| series.unfit.as_ref());
        let standing = unfit.map(|reason| if reason.short { 1 } else { 2 }).max().unwrap_or(0);
        let rank = PICTURES.iter().position(|name| *name == section.name).unwrap_or(PICTURES.len());
        (section.part == Part::Simulated, standing, rank)
    });
    best.map(|(section, at, _)| (section.name, at))
}

/// The sections with the most informative figures, the best first.
const PICTURES: [&str; 2] = ["lateness", "goodput"];
const NUMBERS: usize = 3;
