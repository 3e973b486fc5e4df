//! The report as Markdown: its text and all of its numbers, for places without pictures.

use std::fmt::Write as _;

use super::draw::summary::Headline;
use super::{Findings, Shown};
use softtimers_run::page::figure::Grid;
use softtimers_run::page::markup::is_xml;

pub(super) fn markdown(findings: &Findings) -> String {
    let overview = &findings.overview;
    let mut text = format!("# softtimers report\n\n**{}**\n", plain(&overview.verdict));
    let headline = |headline: &Headline| {
        let unfit =
            headline.unfit.as_ref().map_or_else(String::new, |reason| format!(" ({})", reason.label()));
        let here = headline.here.as_deref().unwrap_or_default();
        format!("{}: {here}{unfit}; the paper: {}", headline.what, headline.paper)
    };
    let numbers: Vec<String> = overview.numbers.iter().map(headline).collect();
    list(&mut text, "In three numbers:", &numbers);
    let _ = write!(text, "\nSections: {}.\n", findings.counts());
    let mut part = None;
    for shown in &findings.sections {
        if part != Some(shown.part) {
            let _ = write!(text, "\n## {}\n", shown.part.title());
        }
        part = Some(shown.part);
        section(&mut text, shown);
    }
    text
}

fn section(text: &mut String, shown: &Shown) {
    let _ = write!(text, "\n### {}\n", shown.title);
    if let Some(unfit) = &shown.unfit {
        let _ = write!(text, "\n**{}** {}.\n", shown.doubt(), plain(unfit));
    }
    let findings: Vec<String> = shown.drawn.findings.iter().map(|finding| finding.text.clone()).collect();
    list(text, "Compared:", &findings);
    list(text, "Not here:", &shown.drawn.lacks);
    for figure in &shown.drawn.figures {
        let _ = write!(text, "\n**{}** {}\n", plain(&figure.title), plain(&figure.text));
        table(text, &figure.data());
    }
    for grid in &shown.drawn.tables {
        let _ = write!(text, "\n**{}**\n", plain(&grid.title));
        table(text, grid);
    }
    list(text, "To keep in mind:", &shown.drawn.notes);
    let _ = write!(text, "\nBeside: {}.\n", shown.papers);
    for made in &shown.made {
        let _ = write!(text, "\n{}: {}, {}\n\n", made.source, plain(&made.machine), plain(&made.when));
        for command in made.steps.iter().flatten() {
            // In a block of code all text is literal except the end of the block; unusual characters in commands are
            // replaced.
            let _ = writeln!(text, "    {}", command.replace(|c: char| c.is_control() || c == '<', " "));
        }
        list(text, "Caveats:", &made.caveats);
    }
}

fn list(text: &mut String, title: &str, items: &[String]) {
    if !items.is_empty() {
        let _ = write!(text, "\n{title}\n\n");
        items.iter().for_each(|item| {
            let _ = writeln!(text, "- {}", plain(item));
        });
    }
}

fn table(text: &mut String, grid: &Grid) {
    let line = |cells: &[String]| cells.iter().map(|cell| format!(" {} |", plain(cell))).collect::<String>();
    let _ = write!(text, "\n|{}\n|{}\n", line(&grid.head), "---|".repeat(grid.head.len()));
    for row in &grid.rows {
        let _ = writeln!(text, "|{}", line(row));
    }
}

/// Escapes text for Markdown, and the HTML in it.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => plain.push_str("&lt;"),
            '&' => plain.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '!' => plain.extend(['\\', c]),
            c if c.is_control() || !is_xml(c) => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        assert_eq!(plain("a|b <script> `x` ![y](z)\n# h"), "a\\|b &lt;script> \\`x\\` \\!\\[y\\](z) # h");
    }
}
