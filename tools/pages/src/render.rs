//! `cargo xtask render`: the tables of README.md and of the pages of docs/, papers/docs/ and bench/docs/, and their figures, from the files of docs/data.
//!
//! A mark in a page names a file and a table of it; the text between the mark and its end is rendered:
//!
//! ```text
//!   <!-- data: timers#W3 | columns: contender; step ns | where: contender = softtimers; heap | source -->
//!   | contender | step ns |        columns: these, in this order; all by default
//!   …                              where:   rows whose cell of a column is one of these, or begins as `this…`
//!   <!-- end -->                   source:  the date, the machine and the command below it
//!                                  rounds:  how many rounds the figures are medians of, and how many were set aside
//! ```
//!
//! `a#T + b#T` names tables with the same columns that are shown as one. With `bars` the bars of any tables are shown
//! instead: the figure, the bar, the measured value and the verdict. With `spread` the quartiles are shown with each
//! median. A table whose rounds were all disturbed gets a remark below. A table whose cells come from several files has a
//! mark of its own (`rows.rs`).
//!
//! The pages of `FIGURES` may have no other table with a number in it, so that no figure is published that no file has;
//! the page of `LIVE` may have tables of simulated figures, but no live one.

mod rows;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use softtimers_trials::result::{Results, Table};

use crate::pictures::{self, Files};
use rows::{ROWS, Wanted};
use softtimers_trials::command::root;

/// The pages of measurements.
const FIGURES: [&str; 2] = ["docs/benchmarks.md", "bench/docs/measurements.md"];
/// The page whose tables are of simulations, which tests check, and of live runs.
const LIVE: &str = "papers/docs/papers.md";
/// The folders with pages.
const FOLDERS: [&str; 4] = ["docs", "papers/docs", "bench/docs", "xtask/docs"];
const MARK: &str = "<!-- data: ";
const END: &str = "<!-- end -->";

/// Writes pages that are out of date, or reports them.
///
/// # Errors
/// If a mark names a missing table, a page has a table of its own, or `check` finds something out of date.
pub fn run(check: bool) -> Result<()> {
    let stale = stale(root())?;
    for (path, text) in &stale {
        if check {
            eprintln!("{path} is out of date: cargo xtask render");
        } else {
            fs::write(root().join(path), text).with_context(|| path.clone())?;
            println!("{path}");
        }
    }
    if check && !stale.is_empty() { bail!("{} pages are out of date", stale.len()) } else { Ok(()) }
}

/// Keeps the `--json` output of a bench, `measure` or the rig as docs/data/NAME.json, without its single rounds.
///
/// # Errors
/// If it is not such a file, or cannot be written.
pub fn publish(file: &Path, name: &str) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let results = Results::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    let path = root().join("docs/data").join(name).with_extension("json");
    fs::write(&path, results.summary().to_text()?).with_context(|| path.display().to_string())
}

/// Returns the pages and pictures that differ from the files, and their correct content.
fn stale(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(root.join("docs/data")).context("docs/data")? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let results = Results::parse(&fs::read_to_string(&path)?);
        files.insert(name, results.map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?);
    }
    let mut stale = BTreeMap::new();
    let mut pages = vec!["README.md".to_owned()];
    for folder in FOLDERS {
        for entry in fs::read_dir(root.join(folder)).context(folder)? {
            pages.push(format!("{folder}/{}", entry?.file_name().to_string_lossy()));
        }
    }
    for page in pages.into_iter().filter(|page| page.ends_with(".md")) {
        let text = fs::read_to_string(root.join(&page))?;
        let rendered = rendered(&text, &files).map_err(|error| anyhow::anyhow!("{page}: {error}"))?;
        if FIGURES.contains(&page.as_str())
            && let Some(line) = own_table(&text)
        {
            bail!("{page}:{line}: a table with figures that is of no file of docs/data");
        }
        if page == LIVE
            && let Some(line) = live_figure(&text)
        {
            bail!("{page}:{line}: a live figure that is of no file of docs/data");
        }
        if rendered != text {
            stale.insert(page, rendered);
        }
    }
    stale.extend(pictures::stale(root, &files).map_err(anyhow::Error::msg)?);
    Ok(stale)
}

/// Returns the page with each marked table rendered from its file.
fn rendered(page: &str, files: &Files) -> Result<String, String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text += line;
        text.push('\n');
        let (mark, table) = if let Some(heads) = line.strip_prefix(ROWS) {
            let mut own = Vec::new();
            while own.last() != Some(&"-->") {
                own.push(lines.next().ok_or_else(|| format!("{heads}: no `-->` follows"))?);
            }
            text.extend(own.iter().map(|line| format!("{line}\n")));
            own.pop();
            (heads, rows::rows(heads, &own, files))
        } else if let Some(mark) = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(" -->")) {
            (mark, table(mark, files))
        } else {
            continue;
        };
        text += &format!("\n{}\n{END}\n", table.map_err(|error| format!("{mark}: {error}"))?);
        if !lines.by_ref().any(|line| line == END) {
            return Err(format!("{mark}: no `{END}` follows"));
        }
    }
    Ok(text)
}

type Found<'a> = (&'a Results, Cow<'a, Table>);

/// Finds the table `FILE#TABLE`, and its file.
fn find<'a>(name: &str, files: &'a Files) -> Result<Found<'a>, String> {
    let (file, key) = name.split_once('#').ok_or("FILE#TABLE is wanted")?;
    let results = files.get(file).ok_or_else(|| format!("there is no docs/data/{file}.json"))?;
    let table = results.table(key).ok_or_else(|| format!("docs/data/{file}.json has no table `{key}`"))?;
    Ok((results, Cow::Borrowed(table)))
}

/// Renders the table that a mark names.
fn table(mark: &str, files: &Files) -> Result<String, String> {
    let mut parts = mark.split(" | ").map(str::trim);
    let named = parts.next().unwrap_or_default().split(" + ");
    let mut named = named.map(|name| find(name, files)).collect::<Result<Vec<_>, String>>()?;
    let parts: Vec<&str> = parts.collect();
    for (_, table) in &mut named {
        if parts.contains(&"bars") {
            *table = Cow::Owned(table.of_bars());
        } else if parts.contains(&"spread") {
            *table = Cow::Owned(table.with_spread());
        }
    }
    let Some((_, table)) = named.first() else { return Err("FILE#TABLE is wanted".to_owned()) };
    if let Some((_, other)) = named.iter().find(|(_, other)| other.columns != table.columns) {
        return Err(format!("`{}` and `{}` have not the same columns", table.key, other.key));
    }
    let list = |words: &str| words.split(';').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
    let (mut columns, mut wanted, mut below) = (Vec::new(), Wanted::default(), String::new());
    if !parts.contains(&"rounds") {
        let reasons = named.iter().filter_map(|(_, table)| table.inconclusive.as_ref());
        below.extend(reasons.map(|reason| format!("\nNo quiet round: {reason}.\n")));
    }
    for part in parts {
        match part.split_once(": ") {
            Some(("columns", names)) => columns = list(names),
            Some(("where", rule)) => wanted.add(table, rule)?,
            None if part == "source" => {
                for (Results { date, machine, command, .. }, _) in &named {
                    below += &format!("\n{date}, {machine}: `{command}`\n");
                }
            }
            None if part == "rounds" => {
                below += &named.iter().map(|(_, table)| rounds(table)).collect::<Result<String, _>>()?;
            }
            None if part == "bars" || part == "spread" => {}
            _ => return Err(format!("`{part}`: columns, where, bars, spread, source or rounds is known")),
        }
    }
    let has = |cells: &[String]| wanted.has(cells);
    let mut markdown = table.markdown(&columns, has)?;
    for (_, other) in &named[1..] {
        markdown.extend(other.markdown(&columns, has)?.lines().skip(2).map(|row| format!("{row}\n")));
    }
    if markdown.lines().count() < 3 { Err("it has no such row".to_owned()) } else { Ok(markdown + &below) }
}

/// Describes the rounds behind a table's figures.
fn rounds(table: &Table) -> Result<String, String> {
    let Some([quiet, set_aside]) = table.made else {
        return Err(format!("`{}` says nothing of rounds", table.key));
    };
    Ok(match (&table.inconclusive, set_aside) {
        (Some(reason), _) => {
            format!("\nInconclusive, {reason}: {quiet} rounds were quiet, {set_aside} were not.\n")
        }
        (None, 0) => format!("\nMedians of {quiet} rounds.\n"),
        (None, _) => {
            format!(
                "\nMedians of {quiet} quiet rounds; set aside since others disturbed them: {set_aside}.\n"
            )
        }
    })
}

/// Returns the line of the first row with a digit outside of marks and code, if any; headers do not count.
fn own_table(page: &str) -> Option<usize> {
    let (mut marked, mut code) = (false, false);
    let mut previous = "";
    for (number, line) in page.lines().enumerate() {
        marked = (marked || line.starts_with(MARK) || line.starts_with(ROWS)) && line != END;
        code ^= line.starts_with("```");
        let is_row = line.starts_with('|') && previous.starts_with('|') && !previous.is_empty();
        if is_row && !marked && !code && line.contains(|c: char| c.is_ascii_digit()) {
            return Some(number + 1);
        }
        previous = line;
    }
    None
}

/// Returns the line of the first row whose figures, in its third cell, are live and of no file, if any: outside of a mark a
/// row that says `live`, and within a mark digits outside of braces.
fn live_figure(page: &str) -> Option<usize> {
    let mut mark = None;
    let place = page.lines().position(|line| {
        match line {
            END => mark = None,
            "-->" => mark = mark.map(|_| false),
            _ if line.starts_with(ROWS) => mark = Some(true),
            _ => {
                let is_live = || line.split(|c: char| !c.is_alphanumeric()).any(|word| word == "live");
                let ours = line.split(" | ").nth(2).filter(|_| mark.unwrap_or_else(is_live));
                return ours.is_some_and(has_own_digit);
            }
        }
        false
    });
    place.map(|place| place + 1)
}

/// Says whether a cell has a digit outside of figures of files, code, and the targets of links.
fn has_own_digit(cell: &str) -> bool {
    let (mut until, mut before) = (None, ' ');
    cell.chars().any(|c| {
        let previous = std::mem::replace(&mut before, c);
        match (until, c) {
            (Some(end), _) if c == end => until = None,
            (Some(_), _) => {}
            (None, '{') => until = Some('}'),
            (None, '`') => until = Some('`'),
            (None, '(') if previous == ']' => until = Some(')'),
            (None, _) => return c.is_ascii_digit(),
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use softtimers_measure::estimate::Estimate;
    use softtimers_trials::bar::Bar;

    use super::*;

    #[test]
    fn the_pages_show_what_the_files_have() {
        let stale = stale(root()).unwrap();
        assert!(stale.is_empty(), "cargo xtask render: {:?}", stale.keys());
    }

    /// The verdict is `doctor`'s of the same file, as a test of the command says.
    #[test]
    fn picture_and_table_of_the_readme_are_of_one_file() {
        let page = fs::read_to_string(root().join("README.md")).unwrap();
        assert!(page.contains("](docs/kept.svg)") && !page.contains(ROWS));
        let marks = page.lines().filter_map(|line| line.strip_prefix(MARK));
        let tables = marks.flat_map(|mark| mark.split(" | ").next().unwrap_or_default().split(" + "));
        // The row of the limiter is of another program.
        let tables: Vec<&str> = tables.filter(|table| *table != "axum-pacing#axum-pacing").collect();
        let is_of_it = |table: &&str| table.starts_with(&format!("{}#", pictures::kept::DATA));
        assert!(tables.len() == 4 && tables.iter().all(is_of_it), "{tables:?}");
    }

    fn files() -> Files {
        let mut results = Results::today("Linux 6.18", "cargo bench");
        let mut table = Table::new("W3", &[("who", 0), ("ns", 1), ("bytes", 0)]);
        table.row(["wheel".into(), 18.25.into(), 36.0.into()]);
        table.row(["heap".into(), 40.0.into(), 24.0.into()]);
        table.bar(Bar::at_most("wheel: ns", 20.0, 18.25));
        table.bar(Bar::at_most("heap: ns", 20.0, 40.0));
        results.tables.push(table);
        let mut disturbed = Table::new("W4", &[("who", 0), ("ns", 1)]);
        disturbed.row(["wheel".into(), Estimate::from_values([10.0, 12.0, 17.0]).into()]);
        disturbed.inconclusive = Some("others used 7% of the CPU time".into());
        results.tables.push(disturbed);
        results.date = "2026-11-23".into();
        [("timers".to_owned(), results)].into()
    }

    #[test]
    fn a_marked_table_is_that_of_its_file() {
        let page = "# T\n\n<!-- data: timers#W3 | columns: ns; who | where: who = wh…; tree | source -->\nold\n<!-- end -->\n";
        let shown = rendered(page, &files()).unwrap();
        assert!(shown.contains("-->\n\n| ns | who |\n|---|---|\n| 18.2 | wheel |\n\n2026-11-23, Linux 6.18: `cargo bench`\n\n<!-- end -->\n"), "{shown}");
        assert_eq!(rendered(&shown, &files()).unwrap(), shown, "a page that is rendered stays as it is");
    }

    #[test]
    fn rounds_are_told_with_those_that_were_set_aside() {
        let mut files = files();
        let page = "<!-- data: timers#W3 | columns: ns | where: who = heap | rounds -->\n<!-- end -->\n";
        let error = rendered(page, &files).unwrap_err().to_string();
        assert!(error.contains("`W3` says nothing of rounds"), "{error}");
        let mut of = |made| {
            files.get_mut("timers").unwrap().tables[0].made = Some(made);
            rendered(page, &files).unwrap()
        };
        assert!(of([5, 0]).contains("| 40.0 |\n\nMedians of 5 rounds.\n"));
        assert!(
            of([2, 3]).contains("\nMedians of 2 quiet rounds; set aside since others disturbed them: 3.\n")
        );
    }

    #[test]
    fn two_tables_of_the_same_columns_are_shown_as_one() {
        let page = "<!-- data: timers#W3 + timers#W3 | columns: ns | where: who = heap -->\n<!-- end -->\n";
        let shown = rendered(page, &files()).unwrap();
        assert!(shown.contains("| ns |\n|---|\n| 40.0 |\n| 40.0 |\n\n"), "{shown}");
    }

    #[test]
    fn bars_spread_and_disturbance_are_shown() {
        let shown =
            |mark: &str| rendered(&format!("<!-- data: {mark} -->\n<!-- end -->\n"), &files()).unwrap();
        let all = shown("timers#W3 + timers#W4 | bars");
        assert!(
            all.contains(
                "| wheel: ns | ≤ 20 | 18.2 | met |\n| heap: ns | ≤ 20 | 40 | **missed** |\n\n<!-- end"
            ),
            "{all}"
        );
        let missed = shown("timers#W3 | bars | columns: figure | where: verdict = **missed**");
        assert!(missed.contains("| figure |\n|---|\n| heap: ns |\n\n<!-- end"), "{missed}");
        let spread = shown("timers#W4 | spread");
        assert!(
            spread.contains(
                "| wheel | 12.0 (10.0 to 17.0) |\n\nNo quiet round: others used 7% of the CPU time.\n"
            ),
            "{spread}"
        );
    }

    #[test]
    fn a_mark_that_names_nothing_is_refused() {
        let error =
            |mark: &str| rendered(&format!("<!-- data: {mark} -->\n<!-- end -->\n"), &files()).unwrap_err();
        assert!(
            error("timers#W9").contains("no table `W9`") && error("rig#W3").contains("no docs/data/rig.json")
        );
        assert!(error("timers#W3 | columns: us").contains("no column `us`"));
        assert!(error("timers#W3 | where: who = tree").contains("no such row"));
        assert!(error("timers#W3 | rows: 1").contains("rows: 1"));
        assert!(rendered("<!-- data: timers#W3 -->\n", &files()).unwrap_err().contains("no `<!-- end -->`"));
    }

    #[test]
    fn a_table_of_a_page_s_own_is_found_by_its_numbers() {
        assert_eq!(own_table("| a 1 |\n|---|\n| no number |\n"), None);
        assert_eq!(own_table("| a |\n|---|\n| 12 ns |\n"), Some(3));
        assert_eq!(own_table("```text\n| a |\n|---|\n| 12 |\n```\n"), None);
        let live = |row: &str| live_figure(&format!("| a | b | c | d |\n|---|---|---|---|\n{row}\n"));
        assert_eq!(live("| 1 | 2 | 12 ns | live, `cargo bench` |"), Some(3));
        assert_eq!(live("| 1 | 2 | 12 ns | `softtimers sim` |"), None);
        assert_eq!(live("| 1 | 2 | [its own](x.md#2026) `send 1` | live, `softtimers noise` |"), None);
        let marked = |ours: &str| {
            live_figure(&format!("<!-- rows: a | b | c\n1 | 2 | {ours}\n-->\n| 1 | 2 | 3 |\n{END}\n"))
        };
        assert_eq!(marked("{a#b: c = 1: d} µs"), None);
        assert_eq!(marked("{a#b: c = 1: d} µs, 7 later"), Some(2));
        assert_eq!(own_table("<!-- data: x#y -->\n| a |\n|---|\n| 12 |\n<!-- end -->\n"), None);
    }
}
