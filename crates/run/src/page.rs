//! A page of HTML with figures and tables: no scripts, no external resources, and also XML, so that any reader can parse it.
//!
//! ```text
//!   Drawn { figures, tables, notes } ──▶ Sheet ──▶ page: HTML, with plots as SVG
//! ```

pub mod axis;
pub mod digits;
pub mod figure;
pub mod markup;
pub mod plot;
pub mod unfit;

use figure::{Drawn, Figure, Grid};
use markup::Markup;

/// A page with the figures of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct Sheet {
    /// The command that was run.
    pub title: &'static str,
    /// The heading: one line that describes the run.
    pub verdict: String,
    /// Names and values that a reader needs to reproduce it.
    pub facts: Vec<(&'static str, String)>,
    /// Its tables and figures.
    pub drawn: Drawn,
}

impl Sheet {
    /// Returns the page as a file of HTML.
    pub fn html(&self) -> String {
        sheet(self)
    }
}

/// Returns the page of a single run.
fn sheet(sheet: &Sheet) -> String {
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
pub fn document(title: &str, body: impl FnOnce(&mut Markup)) -> String {
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

/// Adds the line about the program that made the page.
pub fn made_by(page: &mut Markup, title: &str) {
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

/// Adds a part that a reader unfolds.
pub fn unfolded(page: &mut Markup, summary: &str, inside: impl FnOnce(&mut Markup)) {
    page.within("details", &[], |page| {
        page.leaf("summary", &[], summary);
        inside(page);
    });
}

/// Adds a titled list, unless it is empty.
pub fn list(page: &mut Markup, class: &'static str, title: &str, items: &[String]) {
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
pub fn drawing(page: &mut Markup, figure: &Figure, id: &str) {
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

/// Adds a table.
pub fn table(page: &mut Markup, grid: &Grid) {
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

/// Says whether the cell is a number, to be aligned to the right.
fn is_number(cell: &str) -> bool {
    let cell = cell.trim_end_matches([' ', '%']);
    cell == "–" || cell.parse::<f64>().is_ok()
}

const STYLE: &str = include_str!("page/page.css");
