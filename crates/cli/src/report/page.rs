//! The report as one HTML file: no scripts, no external resources, and also XML, so that any reader can parse it.

use super::figure::{Figure, Grid};
use super::markup::Markup;
use super::saved::Made;
use super::{Findings, Sheet, Shown, State, plot};

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

/// Returns the page of a single run.
pub(super) fn sheet(sheet: &Sheet) -> String {
    document(sheet.title, |page| {
        page.within("header", &[], |page| {
            page.leaf("h1", &[], sheet.title);
            page.leaf("p", &[("class", "verdict")], &sheet.verdict);
            page.within("dl", &[("class", "facts")], |page| {
                for (name, fact) in &sheet.facts {
                    page.leaf("dt", &[], name);
                    page.leaf("dd", &[], fact);
                }
            });
        });
        page.within("main", &[("id", "report")], |page| {
            sheet.drawn.tables.iter().for_each(|grid| table(page, grid));
            for (at, figure) in sheet.drawn.figures.iter().enumerate() {
                drawing(page, figure, &format!("figure-{}", at + 1));
            }
            list(page, "notes", "Notes", &sheet.drawn.notes);
        });
        made_by(page, sheet.title);
    })
}

/// Returns an HTML file with this body.
fn document(title: &str, body: impl FnOnce(&mut Markup)) -> String {
    let mut page = Markup::default();
    page.made_here("<!DOCTYPE html>\n");
    page.within("html", &[("lang", "en")], |page| {
        page.within("head", &[], |page| head(page, title));
        page.made_here("\n");
        page.within("body", &[], body);
    });
    page.made_here("\n");
    page.finish()
}

fn made_by(page: &mut Markup, title: &str) {
    page.within("footer", &[], |page| {
        let version = env!("CARGO_PKG_VERSION");
        page.leaf("p", &[], &format!("Made by {title}, version {version}."));
    });
}

fn head(page: &mut Markup, title: &str) {
    page.void("meta", &[("charset", "utf-8")]);
    page.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    page.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    // Even if some text slipped through, a browser would load and run nothing.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
    page.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", policy)]);
    // Without an icon a browser would request one.
    page.void("link", &[("rel", "icon"), ("href", "data:,")]);
    page.leaf("title", &[], title);
    page.within("style", &[], |page| page.made_here(STYLE));
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

/// Adds a part that a reader unfolds.
fn unfolded(page: &mut Markup, summary: &str, inside: impl FnOnce(&mut Markup)) {
    page.within("details", &[], |page| {
        page.leaf("summary", &[], summary);
        inside(page);
    });
}

fn list(page: &mut Markup, class: &'static str, title: &str, items: &[String]) {
    if !items.is_empty() {
        page.within("div", &[("class", class)], |page| {
            page.leaf("p", &[], title);
            page.within("ul", &[], |page| items.iter().for_each(|item| page.leaf("li", &[], item)));
        });
    }
}

/// Adds a box that scrolls, also by keyboard, if its content is wider than the screen.
fn scrolling(page: &mut Markup, class: &'static str, title: &str, inside: impl FnOnce(&mut Markup)) {
    let attributes = [("class", class), ("tabindex", "0"), ("role", "group"), ("aria-label", title)];
    page.within("div", &attributes, inside);
}

/// Adds a picture, and its numbers to unfold.
fn drawing(page: &mut Markup, figure: &Figure, id: &str) {
    page.within("figure", &[], |page| {
        page.within("figcaption", &[], |page| {
            page.leaf("strong", &[], &figure.title);
            page.text(" ");
            page.leaf("span", &[], &figure.text);
        });
        plot::legend(page, figure);
        let mut drawn = false;
        scrolling(page, "plot", &figure.title, |page| drawn = plot::svg(page, figure, id));
        if !drawn {
            page.leaf("p", &[("class", "lacks")], "None of these numbers has a place on the axes.");
        }
        unfolded(page, "The numbers", |page| table(page, &figure.data()));
    });
}

fn table(page: &mut Markup, grid: &Grid) {
    // Numbers are aligned to the right, and so are the headers above them.
    let class = |at: usize| -> &'static [(&'static str, &'static str)] {
        let cells = || grid.rows.iter().filter_map(move |row| row.get(at)).filter(|cell| !cell.is_empty());
        let numbers = cells().filter(|cell| is_number(cell)).count();
        if at > 0 && numbers > 0 && numbers * 2 >= cells().count() { &[("class", "n")] } else { &[] }
    };
    let classes: Vec<_> = (0..grid.head.len()).map(class).collect();
    scrolling(page, "scrolls", &grid.title, |page| {
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

/// Says whether the cell is a number, to be aligned to the right.
fn is_number(cell: &str) -> bool {
    let cell = cell.trim_end_matches([' ', '%']);
    cell == "–" || cell.parse::<f64>().is_ok()
}

const TITLE: &str = "softtimers report";
const STYLE: &str = include_str!("report.css");
/// Longer tables are folded.
const LONG_TABLE: usize = 24;
