//! The report as one HTML file: no scripts, no external resources, and also XML, so that any reader can parse it.

use softtimers_run::page::markup::Markup;
use softtimers_run::page::{document, drawing, list, made_by, table, unfolded};

use super::saved::Made;
use super::{Findings, Shown, State};

/// Returns the whole page.
pub(super) fn page(findings: &Findings) -> String {
    document(TITLE, |page| {
        page.leaf("a", &[("class", "skip"), ("href", "#report")], "Skip to the sections");
        page.within("header", &[], |page| first_screen(page, findings));
        page.within("nav", &[("aria-label", "Contents")], |page| contents(page, findings));
        page.within("main", &[("id", "report")], |page| {
            let mut part = None;
            for shown in &findings.sections {
                if part != Some(shown.part) {
                    page.leaf("h2", &[], shown.part.title());
                }
                part = Some(shown.part);
                section(page, shown);
            }
        });
        made_by(page, TITLE);
    })
}

/// Adds one verdict, three numbers, one picture, and their origin.
fn first_screen(page: &mut Markup, findings: &Findings) {
    let overview = &findings.overview;
    page.leaf("h1", &[], TITLE);
    page.leaf("p", &[("class", if overview.fit { "verdict" } else { "verdict doubt" })], &overview.verdict);
    page.within("ul", &[("class", "numbers")], |page| {
        for headline in &overview.numbers {
            let unfit = headline.unfit.as_ref();
            page.within("li", &[("class", if unfit.is_some() { "unfit" } else { "fit" })], |page| {
                page.leaf("strong", &[], headline.here.as_deref().unwrap_or_default());
                page.leaf("span", &[], headline.what);
                page.leaf("span", &[("class", "paper")], &format!("Paper: {}", headline.paper));
                if let Some(reason) = unfit {
                    page.leaf("em", &[], reason.label());
                }
            });
        }
    });
    if let Some((shown, figure)) = overview.figure(&findings.sections) {
        drawing(page, figure, "first");
        page.within("p", &[("class", "state")], |page| {
            page.text("More of it: ");
            page.leaf("a", &[("href", &format!("#{}", shown.name))], shown.title);
        });
    }
    page.within("dl", &[("class", "facts")], |page| {
        let mut machines: Vec<(&str, &str)> = findings
            .sections
            .iter()
            .flat_map(|section| &section.made)
            .map(|made| (made.machine.as_str(), &made.when[..made.when.find('T').unwrap_or(0)]))
            .collect();
        machines.sort_unstable();
        machines.dedup();
        for (machine, day) in machines.iter().take(8) {
            page.leaf("dt", &[], if day.is_empty() { "Machine" } else { day });
            page.leaf("dd", &[], machine);
        }
        page.leaf("dt", &[], "Sections");
        page.leaf("dd", &[], &format!("{}; each names its missing parts", findings.counts()));
        page.leaf("dt", &[], "Marks");
        page.leaf("dd", &[], "filled marks and lines are ours; hollow marks are the papers'");
    });
}

fn contents(page: &mut Markup, findings: &Findings) {
    page.leaf("h2", &[], "Contents");
    page.within("ol", &[], |page| {
        for shown in &findings.sections {
            page.within("li", &[], |page| {
                page.leaf("a", &[("href", &format!("#{}", shown.name))], shown.title);
                let state = match (shown.state, &shown.unfit) {
                    (State::Complete, None) => return,
                    (State::Complete, Some(_)) if shown.short => " (short)",
                    (State::Complete, Some(_)) => " (not fit)",
                    (State::Partial, _) => " (in part)",
                    (State::Missing, _) => " (missing)",
                };
                page.leaf("span", &[("class", "state")], state);
            });
        }
    });
}

fn section(page: &mut Markup, shown: &Shown) {
    let heading = format!("{}-heading", shown.name);
    page.within("section", &[("id", shown.name), ("aria-labelledby", &heading)], |page| {
        page.leaf("h3", &[("id", &heading)], shown.title);
        if let Some(unfit) = &shown.unfit {
            page.leaf("p", &[("class", "doubt")], &format!("{} {unfit}.", shown.doubt()));
        }
        for finding in &shown.drawn.findings {
            page.leaf("p", &[("class", "finding")], &finding.text);
        }
        list(page, "lacks", "Not here:", &shown.drawn.lacks);
        for (at, figure) in shown.drawn.figures.iter().enumerate() {
            drawing(page, figure, &format!("{}-{}", shown.name, at + 1));
        }
        for grid in &shown.drawn.tables {
            if grid.rows.len() > LONG_TABLE {
                unfolded(page, &format!("{} ({} rows)", grid.title, grid.rows.len()), |page| {
                    table(page, grid);
                });
            } else {
                table(page, grid);
            }
        }
        list(page, "notes", "Notes", &shown.drawn.notes);
        page.leaf("p", &[("class", "beside")], &format!("Beside: {}", shown.papers));
        if !shown.made.is_empty() {
            unfolded(page, "How it was made", |page| {
                page.within("dl", &[("class", "facts")], |page| {
                    shown.made.iter().for_each(|made| provenance(page, made));
                });
            });
        }
    });
}

fn provenance(page: &mut Markup, made: &Made) {
    page.leaf("dt", &[], &made.source);
    page.within("dd", &[], |page| {
        for command in made.steps.iter().flatten() {
            page.leaf("code", &[], command);
            page.void("br", &[]);
        }
        page.text(&made.machine);
        if !made.when.is_empty() {
            page.text(&format!(", {}", made.when));
        }
        made.caveats.iter().for_each(|caveat| {
            page.void("br", &[]);
            page.leaf("em", &[], caveat);
        });
    });
}

const TITLE: &str = "softtimers report";
/// Longer tables are folded.
const LONG_TABLE: usize = 24;
