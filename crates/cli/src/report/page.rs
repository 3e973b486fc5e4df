//! The report as one file of HTML: no scripts, nothing from elsewhere, and XML as well, so that any reader can read it.

use super::figure::{Figure, Grid};
use super::markup::Markup;
use super::saved::Made;
use super::{Findings, Shown, State, palette, plot};

/// The whole page.
pub(super) fn page(findings: &Findings) -> String {
    let mut page = Markup::default();
    page.made_here("<!DOCTYPE html>\n");
    page.within("html", &[("lang", "en")], |page| {
        page.within("head", &[], head);
        page.made_here("\n");
        page.within("body", &[], |page| {
            page.leaf("a", &[("class", "skip"), ("href", "#report")], "Skip to the report");
            page.within("header", &[], |page| header(page, findings));
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
            page.within("footer", &[], |page| {
                page.leaf("p", &[], &format!("softtimers {}: softtimers report. Each section names its paper and says what to see; softtimers report --help says how it was made.", env!("CARGO_PKG_VERSION")));
            });
        });
    });
    page.made_here("\n");
    page.finish()
}

fn head(page: &mut Markup) {
    page.void("meta", &[("charset", "utf-8")]);
    page.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    page.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    // Even if something slipped through, a browser would load and run nothing.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
    page.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", policy)]);
    // A browser that finds no icon asks for one.
    page.void("link", &[("rel", "icon"), ("href", "data:,")]);
    page.leaf("title", &[], TITLE);
    page.within("style", &[], |page| {
        page.made_here(STYLE);
        page.made_here(&palette::rules());
    });
}

fn header(page: &mut Markup, findings: &Findings) {
    page.leaf("h1", &[], TITLE);
    match findings.doubts() {
        Some(doubts) => page.leaf("p", &[("class", "unfit")], &format!("Not fit for comparison. {doubts}.")),
        None => {
            let first = findings.sections.iter().flat_map(|section| &section.drawn.findings).next();
            first.into_iter().for_each(|first| page.leaf("p", &[("class", "finding")], &first.text));
        }
    }
    page.leaf("p", &[("class", "lead")], "Timers, pacing and receiving under overload: what was measured on a machine and what the papers' experiments come to when they are simulated, each beside the figures that the papers give.");
    let machines = findings.sections.iter().flat_map(|section| &section.made);
    let mut machines: Vec<(&str, &str)> = machines
        .map(|made| (made.machine.as_str(), &made.when[..made.when.find('T').unwrap_or(0)]))
        .collect();
    machines.sort_unstable();
    machines.dedup();
    page.within("dl", &[("class", "facts")], |page| {
        for (machine, day) in machines.iter().take(8) {
            page.leaf("dt", &[], if day.is_empty() { "Machine" } else { day });
            page.leaf("dd", &[], machine);
        }
        page.leaf("dt", &[], "Sections");
        page.leaf("dd", &[], &format!("{}; each says what it lacks", findings.counts()));
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
                match shown.state {
                    State::Complete => {}
                    State::Partial => page.leaf("span", &[("class", "state")], " (in part)"),
                    State::Missing => page.leaf("span", &[("class", "state")], " (missing)"),
                    State::Elsewhere => page.leaf("span", &[("class", "state")], " (made elsewhere)"),
                }
            });
        }
    });
}

fn section(page: &mut Markup, shown: &Shown) {
    page.made_here("\n");
    page.within(
        "section",
        &[("id", shown.name), ("aria-labelledby", &format!("{}-title", shown.name))],
        |page| {
            page.leaf("h3", &[("id", &format!("{}-title", shown.name))], shown.title);
            if let Some(unfit) = &shown.unfit {
                page.leaf("p", &[("class", "unfit")], &format!("Not fit for comparison. {unfit}."));
            }
            for finding in &shown.drawn.findings {
                page.leaf("p", &[("class", "finding")], &finding.text);
            }
            page.leaf("p", &[("class", "see")], shown.see);
            list(page, "lacks", "Not here:", &shown.drawn.lacks);
            for (at, figure) in shown.drawn.figures.iter().enumerate() {
                drawing(page, figure, &format!("{}-{}", shown.name, at + 1));
            }
            for grid in &shown.drawn.tables {
                if grid.rows.len() > LONG_TABLE {
                    page.within("details", &[], |page| {
                        page.leaf("summary", &[], &format!("{} ({} rows)", grid.title, grid.rows.len()));
                        table(page, grid);
                    });
                } else {
                    table(page, grid);
                }
            }
            list(page, "notes", "To keep in mind:", &shown.drawn.notes);
            page.within("dl", &[("class", "made")], |page| {
                page.leaf("dt", &[], "Beside");
                page.leaf("dd", &[], shown.papers);
                shown.made.iter().for_each(|made| provenance(page, made));
            });
        },
    );
}

fn list(page: &mut Markup, class: &'static str, title: &str, items: &[String]) {
    if !items.is_empty() {
        page.within("div", &[("class", class)], |page| {
            page.leaf("p", &[], title);
            page.within("ul", &[], |page| items.iter().for_each(|item| page.leaf("li", &[], item)));
        });
    }
}

/// A picture, and its numbers to unfold.
fn drawing(page: &mut Markup, figure: &Figure, id: &str) {
    page.within("figure", &[], |page| {
        page.within("figcaption", &[], |page| {
            page.leaf("strong", &[], &figure.title);
            page.text(" ");
            page.leaf("span", &[], &figure.text);
        });
        match plot::svg(figure, id) {
            // Wider than a small screen, so that it scrolls like a table.
            Some(svg) => {
                let scrolls = [
                    ("class", "plot"),
                    ("tabindex", "0"),
                    ("role", "group"),
                    ("aria-label", figure.title.as_str()),
                ];
                page.within("div", &scrolls, |page| page.made_here(&svg));
            }
            None => page.leaf("p", &[("class", "lacks")], "None of these numbers has a place on the axes."),
        }
        page.within("details", &[], |page| {
            page.leaf("summary", &[], "The numbers");
            table(page, &figure.data());
        });
    });
}

fn table(page: &mut Markup, grid: &Grid) {
    // Numbers stand to the right, and so does what stands above them.
    let class = |at: usize| -> &'static [(&'static str, &'static str)] {
        let cells = || grid.rows.iter().filter_map(move |row| row.get(at)).filter(|cell| !cell.is_empty());
        let numbers = cells().filter(|cell| is_number(cell)).count();
        if at > 0 && numbers > 0 && numbers * 2 >= cells().count() { &[("class", "n")] } else { &[] }
    };
    let classes: Vec<_> = (0..grid.head.len()).map(class).collect();
    // Wider than a screen it scrolls, and who has no mouse can reach it.
    let scrolls =
        [("class", "scrolls"), ("tabindex", "0"), ("role", "region"), ("aria-label", grid.title.as_str())];
    page.within("div", &scrolls, |page| {
        page.within("table", &[], |page| {
            page.leaf("caption", &[], &grid.title);
            page.within("thead", &[], |page| {
                page.within("tr", &[], |page| {
                    for (name, class) in grid.head.iter().zip(&classes) {
                        page.leaf("th", &[&[("scope", "col")], *class].concat(), name);
                    }
                });
            });
            page.within("tbody", &[], |page| grid.rows.iter().for_each(|row| cells(page, row, &classes)));
        });
    });
}

fn cells(page: &mut Markup, row: &[String], classes: &[&[(&'static str, &'static str)]]) {
    page.within("tr", &[], |page| {
        for (at, (cell, class)) in row.iter().zip(classes).enumerate() {
            match at {
                0 => page.leaf("th", &[("scope", "row")], cell),
                _ => page.leaf("td", class, cell),
            }
        }
    });
}

fn provenance(page: &mut Markup, made: &Made) {
    page.leaf("dt", &[], &made.source);
    page.within("dd", &[], |page| {
        commands(page, made.steps.iter().take(1));
        if made.steps.len() > 1 {
            page.within("details", &[], |page| {
                page.leaf("summary", &[], &format!("{} more such runs", made.steps.len() - 1));
                commands(page, made.steps.iter().skip(1));
            });
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

fn commands<'a>(page: &mut Markup, steps: impl Iterator<Item = &'a Vec<String>>) {
    for command in steps.flatten() {
        page.leaf("code", &[], command);
        page.void("br", &[]);
    }
}

/// Numbers stand to the right.
fn is_number(cell: &str) -> bool {
    let cell = cell.trim_end_matches([' ', '%']);
    cell == "–" || cell.parse::<f64>().is_ok()
}

const TITLE: &str = "softtimers report";
const STYLE: &str = include_str!("report.css");
/// Longer ones are folded.
const LONG_TABLE: usize = 24;
