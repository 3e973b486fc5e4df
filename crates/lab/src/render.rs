//! `cargo lab render`: the tables of README.md and docs/*.md, and their pictures, from the files of docs/data.
//!
//! A mark of a page names a file and a table of it; what stands between the mark and its end is rendered:
//!
//! ```text
//!   <!-- data: timers#W3 | columns: contender; step ns | where: contender = softtimers; heap | source -->
//!   | contender | step ns |        columns: those, in that order; all if none is named
//!   …                              where:   rows whose cell of a column is one of these, or begins as `this…`
//!   <!-- end -->                   source:  the date, the machine and the command below it
//! ```
//!
//! `a#T + b#T` names tables of the same columns that are shown as one. With `bars` the bars of any tables are shown instead: what
//! each figure was to be, what it was, and the verdict.
//!
//! The pages of `FIGURES` hold no other table with a number in it, so that nobody publishes a figure that no file has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use softtimers_measure::bar::Bar;
use softtimers_measure::result::{Results, Table};

use crate::command::root;
use crate::{course, overload, slack, strip};

type Draw = fn(&Table) -> Result<String, String>;

/// The pictures, what they show, and who draws them.
const PICTURES: [(&str, (&str, &str), Draw); 5] = [
    (strip::PICTURE, (strip::DATA, strip::DATA), strip::draw),
    (overload::PICTURE, (overload::DATA, overload::TABLE), overload::draw),
    (slack::PICTURE, (slack::DATA, slack::TABLE), slack::draw),
    (course::SHORT, (course::DATA, course::TABLE), course::draw_short),
    (course::FAST, (course::DATA, course::TABLE), course::draw_fast),
];

/// The pages of measurements.
const FIGURES: [&str; 2] = ["docs/benchmarks.md", "docs/measurements.md"];
const MARK: &str = "<!-- data: ";
const END: &str = "<!-- end -->";

/// Writes what is out of date, or says so.
///
/// # Errors
/// If a mark names what is not there, a page has a table of its own, or `check` finds something out of date.
pub fn run(check: bool) -> Result<()> {
    let stale = stale(root())?;
    for (path, text) in &stale {
        if check {
            eprintln!("{path} is out of date: cargo lab render");
        } else {
            fs::write(root().join(path), text).with_context(|| path.clone())?;
            println!("{path}");
        }
    }
    if check && !stale.is_empty() { bail!("{} pages are out of date", stale.len()) } else { Ok(()) }
}

/// Keeps what a bench, `measure` or the rig has written by `--json` as docs/data/NAME.json, without its single rounds.
///
/// # Errors
/// If it is no such file, or cannot be written.
pub fn publish(file: &Path, name: &str) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let results = Results::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    let path = root().join("docs/data").join(name).with_extension("json");
    fs::write(&path, results.summary().to_text()?).with_context(|| path.display().to_string())
}

/// The pages and pictures that are not those of the files, and what they should be.
fn stale(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(root.join("docs/data")).context("docs/data")? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let results = Results::parse(&fs::read_to_string(&path)?);
        files.insert(name, results.map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?);
    }
    let mut stale = BTreeMap::new();
    let docs = fs::read_dir(root.join("docs")).context("docs")?;
    let docs = docs.map(|entry| Ok(format!("docs/{}", entry?.file_name().to_string_lossy())));
    for page in docs.chain([Ok("README.md".to_owned())]).collect::<Result<Vec<_>>>()? {
        if !page.ends_with(".md") {
            continue;
        }
        let text = fs::read_to_string(root.join(&page))?;
        let rendered = rendered(&text, &files).map_err(|error| anyhow::anyhow!("{page}: {error}"))?;
        if FIGURES.contains(&page.as_str())
            && let Some(line) = own_table(&text)
        {
            bail!("{page}:{line}: a table with figures that is of no file of docs/data");
        }
        if rendered != text {
            stale.insert(page, rendered);
        }
    }
    for (picture, (file, key), draw) in PICTURES {
        let table = files.get(file).and_then(|results| results.table(key));
        let table = table.with_context(|| format!("{picture}: no table `{key}` in docs/data/{file}.json"))?;
        let drawn = draw(table).map_err(|error| anyhow::anyhow!("{picture}: {error}"))?;
        if fs::read_to_string(root.join(picture)).ok().as_ref() != Some(&drawn) {
            stale.insert(picture.to_owned(), drawn);
        }
    }
    Ok(stale)
}

/// The page with each marked table as its file has it.
fn rendered(page: &str, files: &BTreeMap<String, Results>) -> Result<String, String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text += line;
        text.push('\n');
        let Some(mark) = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        text += &format!("\n{}\n{END}\n", table(mark, files).map_err(|error| format!("{mark}: {error}"))?);
        if !lines.by_ref().any(|line| line == END) {
            return Err(format!("{mark}: no `{END}` follows"));
        }
    }
    Ok(text)
}

/// The table `FILE#TABLE`, and its file.
fn find<'a>(name: &str, files: &'a BTreeMap<String, Results>) -> Result<(&'a Results, &'a Table), String> {
    let (file, key) = name.split_once('#').ok_or("FILE#TABLE is wanted")?;
    let results = files.get(file).ok_or_else(|| format!("there is no docs/data/{file}.json"))?;
    let table = results.table(key).ok_or_else(|| format!("docs/data/{file}.json has no table `{key}`"))?;
    Ok((results, table))
}

/// The table that a mark names.
fn table(mark: &str, files: &BTreeMap<String, Results>) -> Result<String, String> {
    let mut parts = mark.split(" | ").map(str::trim);
    let named = parts.next().unwrap_or_default().split(" + ");
    let named = named.map(|name| find(name, files)).collect::<Result<Vec<_>, String>>()?;
    let Some((_, table)) = named.first() else { return Err("FILE#TABLE is wanted".to_owned()) };
    let shows_bars = mark.split(" | ").any(|part| part.trim() == "bars");
    if let Some((_, other)) = named.iter().find(|(_, other)| !shows_bars && other.columns != table.columns) {
        return Err(format!("`{}` and `{}` have not the same columns", table.key, other.key));
    }
    let list = |words: &str| words.split(';').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
    let (mut columns, mut wanted, mut source) = (Vec::new(), Vec::new(), String::new());
    for part in parts {
        match part.split_once(": ") {
            Some(("columns", names)) => columns = list(names),
            Some(("where", rule)) => {
                let (column, values) = rule.split_once('=').ok_or("where: COLUMN = VALUE; … is wanted")?;
                let place = table.columns.iter().position(|name| name == column.trim());
                wanted.push((place.ok_or_else(|| format!("no column `{}`", column.trim()))?, list(values)));
            }
            None if part == "source" => {
                for (Results { date, machine, command, .. }, _) in &named {
                    source += &format!("\n{date}, {machine}: `{command}`\n");
                }
            }
            None if part == "bars" => {}
            _ => return Err(format!("`{part}`: columns, where, bars or source is known")),
        }
    }
    if shows_bars {
        return bars(named.iter().map(|(_, table)| *table), &source);
    }
    let is = |cell: &str, value: &str| {
        value.strip_suffix('…').map_or(cell == value, |begin| cell.starts_with(begin))
    };
    let has = |cells: &[String]| {
        wanted.iter().all(|(place, values): &(usize, Vec<String>)| {
            values.iter().any(|value| is(&cells[*place], value))
        })
    };
    let mut markdown = table.markdown(&columns, has)?;
    for (_, other) in &named[1..] {
        markdown.extend(other.markdown(&columns, has)?.lines().skip(2).map(|row| format!("{row}\n")));
    }
    if markdown.lines().count() < 3 { Err("it has no such row".to_owned()) } else { Ok(markdown + &source) }
}

/// The bars of these tables.
fn bars<'a>(tables: impl Iterator<Item = &'a Table>, source: &str) -> Result<String, String> {
    let rows: String = tables.flat_map(|table| &table.bars).map(|bar| format!("{bar}\n")).collect();
    if rows.is_empty() {
        Err("it has no bar".to_owned())
    } else {
        Ok(format!("{}\n{rows}{source}", Bar::HEAD))
    }
}

/// The line of the first row with a digit outside of marks and code, if any; heads do not count.
fn own_table(page: &str) -> Option<usize> {
    let (mut marked, mut code) = (false, false);
    let mut previous = "";
    for (number, line) in page.lines().enumerate() {
        marked = (marked || line.starts_with(MARK)) && line != END;
        code ^= line.starts_with("```");
        let is_row = line.starts_with('|') && previous.starts_with('|') && !previous.is_empty();
        if is_row && !marked && !code && line.contains(|c: char| c.is_ascii_digit()) {
            return Some(number + 1);
        }
        previous = line;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_show_what_the_files_have() {
        let stale = stale(root()).unwrap();
        assert!(stale.is_empty(), "cargo lab render: {:?}", stale.keys());
    }

    fn files() -> BTreeMap<String, Results> {
        let mut results = Results::today("Linux 6.18", "cargo bench");
        let mut table = Table::new("W3", &[("who", 0), ("ns", 1), ("bytes", 0)]);
        table.row(["wheel".into(), 18.25.into(), 36.0.into()]);
        table.row(["heap".into(), 40.0.into(), 24.0.into()]);
        results.tables.push(table);
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
    fn two_tables_of_the_same_columns_are_shown_as_one() {
        let page = "<!-- data: timers#W3 + timers#W3 | columns: ns | where: who = heap -->\n<!-- end -->\n";
        let shown = rendered(page, &files()).unwrap();
        assert!(shown.contains("| ns |\n|---|\n| 40.0 |\n| 40.0 |\n\n"), "{shown}");
    }

    #[test]
    fn the_bars_of_tables_are_shown_with_their_verdicts() {
        let mut files = files();
        let page = "<!-- data: timers#W3 + timers#W4 | bars -->\n<!-- end -->\n";
        let table = &mut files.get_mut("timers").unwrap().tables;
        let mut other = Table::new("W4", &[("who", 0)]);
        other.bar(Bar::at_most("of a heap's", 1.0, 1.25));
        table[0].bar(Bar::at_most("ns", 20.0, 18.25));
        table.push(other);
        let shown = rendered(page, &files).unwrap();
        let rows = "| ns | ≤ 20 | 18.2 | met |\n| of a heap's | ≤ 1 | 1.25 | **missed** |\n\n";
        assert!(shown.contains(&format!("{}\n{rows}", Bar::HEAD)), "{shown}");
        files.get_mut("timers").unwrap().tables.iter_mut().for_each(|table| table.bars.clear());
        assert!(rendered(page, &files).unwrap_err().contains("no bar"));
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
        assert_eq!(own_table("<!-- data: x#y -->\n| a |\n|---|\n| 12 |\n<!-- end -->\n"), None);
    }
}
