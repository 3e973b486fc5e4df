//! A table whose cells come from several files, for a page that shows the chief figures of each.
//!
//! The mark has the heads, and a line for each row; a pair of braces names figures of one row:
//!
//! ```text
//!   <!-- rows: where | late | instead
//!   64 requests in a row | {send#kept-64: engine = `soft`: late p50 µs} µs | {send#kept-64: engine = `loop`: late p50 µs} µs
//!   -->                     FILE#TABLE: COLUMN = VALUE; …: COLUMN; …, the columns shown of the only row that is so
//!   | where | late | instead |
//!   …
//!   <!-- end -->
//! ```

use std::collections::BTreeMap;

use softtimers_trials::result::{Results, Table};

use super::find;

/// What a page's mark begins with.
pub(super) const ROWS: &str = "<!-- rows: ";

/// The rows of a table that are wanted: those whose cell of a column is one of some values, or begins as `this…`.
#[derive(Default)]
pub(super) struct Wanted(Vec<(usize, Vec<String>)>);

impl Wanted {
    /// Adds a rule, `COLUMN = VALUE; …`.
    pub(super) fn add(&mut self, table: &Table, rule: &str) -> Result<(), String> {
        let (column, values) = rule.split_once('=').ok_or("COLUMN = VALUE is wanted")?;
        let column = column.trim();
        let place = table.columns.iter().position(|name| name == column);
        let values = values.split(';').map(|value| value.trim().to_owned()).collect();
        self.0.push((place.ok_or_else(|| format!("no column `{column}`"))?, values));
        Ok(())
    }

    /// Says whether a row with these cells is wanted.
    pub(super) fn has(&self, cells: &[String]) -> bool {
        let is = |cell: &str, value: &String| {
            value.strip_suffix('…').map_or(cell == value, |begin| cell.starts_with(begin))
        };
        self.0.iter().all(|(place, values)| values.iter().any(|value| is(&cells[*place], value)))
    }
}

/// The table that a mark's heads and lines stand for.
pub(super) fn rows(heads: &str, lines: &[&str], files: &BTreeMap<String, Results>) -> Result<String, String> {
    let columns = heads.split(" | ").count();
    let mut text = format!("| {heads} |\n|{}\n", "---|".repeat(columns));
    for line in lines {
        let row = filled(line, files).map_err(|error| format!("{line}: {error}"))?;
        if row.split(" | ").count() != columns {
            return Err(format!("{line}: {columns} cells are wanted"));
        }
        text += &format!("| {row} |\n");
    }
    Ok(text)
}

/// A line with its figures in their places.
fn filled(line: &str, files: &BTreeMap<String, Results>) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), line);
    while let Some((before, from)) = rest.split_once('{') {
        let (mark, after) = from.split_once('}').ok_or("a brace is not closed")?;
        text += before;
        text += &figures(mark, files).map_err(|error| format!("{{{mark}}}: {error}"))?;
        rest = after;
    }
    if text.is_empty() { Err("it has no figure".to_owned()) } else { Ok(text + rest) }
}

/// The figures that `FILE#TABLE: COLUMN = VALUE; …: COLUMN; …` names.
fn figures(mark: &str, files: &BTreeMap<String, Results>) -> Result<String, String> {
    let parts = mark.split_once(": ").and_then(|(name, rest)| Some((name, rest.rsplit_once(": ")?)));
    let (name, (rules, columns)) = parts.ok_or("FILE#TABLE: COLUMN = VALUE: COLUMN is wanted")?;
    let (_, table) = find(name, files)?;
    // Below a table there would be room for that.
    if let Some(reason) = &table.inconclusive {
        return Err(format!("inconclusive: {reason}"));
    }
    let mut wanted = Wanted::default();
    rules.split(';').try_for_each(|rule| wanted.add(&table, rule))?;
    let columns: Vec<String> = columns.split(';').map(|column| column.trim().to_owned()).collect();
    let found = table.markdown(&columns, |cells| wanted.has(cells))?;
    match found.lines().skip(2).collect::<Vec<_>>()[..] {
        [row] => Ok(row.trim_matches(['|', ' ']).replace(" | ", " · ")),
        ref rows => Err(format!("{} rows are so; one is wanted", rows.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{own_table, rendered};
    use super::*;

    fn files() -> BTreeMap<String, Results> {
        let mut results = Results::today("Linux 6.18", "cargo bench");
        let mut table = Table::new("W3", &[("load, gap", 0), ("who", 0), ("ns", 1)]);
        table.row(["idle, 1 µs: alone".into(), "`wheel`".into(), 18.25.into()]);
        table.row(["idle, 1 µs: alone".into(), "`heap`".into(), 40.0.into()]);
        results.tables.push(table);
        results.tables.push(Table { inconclusive: Some("noise".into()), ..results.tables[0].clone() });
        results.tables[1].key = "W4".into();
        [("timers".to_owned(), results)].into()
    }

    fn shown(lines: &str) -> Result<String, String> {
        rendered(
            &format!("# T\n\n<!-- rows: where | ours | heap\n{lines}-->\nold\n<!-- end -->\n\nend\n"),
            &files(),
        )
    }

    #[test]
    fn cells_of_several_places_stand_in_a_row() {
        let line = "set | {timers#W3: who = `wheel`: ns} ns | \
                    {timers#W3: load, gap = idle, 1 µs: alone; who = `heap`: ns; who} ns\n";
        let page = shown(line).unwrap();
        let table = "-->\n\n| where | ours | heap |\n|---|---|---|\n| set | 18.2 ns | 40.0 · `heap` ns |\n\n<!-- end -->\n\nend\n";
        assert!(page.ends_with(table), "{page}");
        assert_eq!(rendered(&page, &files()).unwrap(), page, "a page that is rendered stays as it is");
        assert_eq!(own_table(&page), None);
    }

    #[test]
    fn a_row_that_shows_no_single_figure_is_refused() {
        let error = |cell: &str| shown(&format!("set | {cell} | –\n")).unwrap_err();
        assert!(error("{timers#W3: who = `wheel`: us}").contains("no column `us`"));
        assert!(error("{timers#W3: what = 1: ns}").contains("no column `what`"));
        assert!(error("{timers#W3: who = tree: ns}").contains("0 rows are so; one is wanted"));
        assert!(error("{timers#W3: load, gap = idle…: ns}").contains("2 rows are so"));
        assert!(error("{timers#W4: who = `heap`: ns}").contains("inconclusive: noise"));
        assert!(error("{timers#W3: ns}").contains("COLUMN = VALUE: COLUMN is wanted"));
        assert!(error("{timers#W3: who = `heap`: ns").contains("not closed"));
        assert!(error("18.2 ns").contains("it has no figure"));
        assert!(error("{timers#W3: who = `heap`: ns} | 1").contains("3 cells are wanted"));
    }

    #[test]
    fn a_mark_that_does_not_end_is_refused() {
        let error = rendered("<!-- rows: a\n<!-- end -->\n", &files()).unwrap_err();
        assert!(error.contains("no `-->` follows"), "{error}");
        let error = rendered("<!-- rows: a\n-->\n", &files()).unwrap_err();
        assert!(error.contains("no `<!-- end -->` follows"), "{error}");
    }
}
