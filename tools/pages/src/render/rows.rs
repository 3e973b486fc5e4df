//! A table whose cells come from several files, for a page that shows the chief figures of each.
//!
//! The mark has the heads, and a line for each row; a pair of braces names figures of one row:
//!
//! ```text
//!   <!-- rows: where | late | instead
//!   64 requests in a row | {send#kept-64: engine = `soft`: late p50 µs} µs | {send#kept-64: engine = `loop`: late p50 µs} µs
//!   -->                     FILE#TABLE: COLUMN = VALUE; …: COLUMN; …, the columns shown of the only row that is so
//!                           FILE#TABLE + FILE#TABLE: the row of each file, where they differ with `and` between
//!                           … : range of COLUMN, the least and the greatest number of all rows that are so
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

/// The figures that a pair of braces names.
fn figures(mark: &str, files: &BTreeMap<String, Results>) -> Result<String, String> {
    let (names, rest) = mark.split_once(": ").ok_or(WANTED)?;
    let (mut found, mut is_range) = (vec![], false);
    for name in names.split(" + ") {
        let (_, table) = find(name, files)?;
        // Below a table there would be room for that.
        if let Some(reason) = &table.inconclusive {
            return Err(format!("inconclusive: {reason}"));
        }
        let (rules, columns, of_range) = parts(rest, &table)?;
        is_range = of_range;
        let mut wanted = Wanted::default();
        rules.split(';').try_for_each(|rule| wanted.add(&table, rule))?;
        let rows = table.markdown(&columns, |cells| wanted.has(cells))?;
        let rows = rows.lines().skip(2).map(|row| row.trim_matches(['|', ' ']).replace(" | ", " · "));
        let rows: Vec<String> = rows.collect();
        if rows.len() != 1 && (rows.is_empty() || !is_range) {
            return Err(format!("{} rows are so; one is wanted", rows.len()));
        }
        found.extend(rows);
    }
    if is_range {
        return range(&found);
    }
    found.dedup();
    Ok(found.join(" and "))
}

/// Splits `RULES: COLUMNS`, both of which may have a colon: the columns are the longest end that the table has. `range of`
/// before them is said apart.
fn parts<'a>(rest: &'a str, table: &Table) -> Result<(&'a str, Vec<String>, bool), String> {
    let mut refused = WANTED.to_owned();
    for (at, colon) in rest.match_indices(": ") {
        let (rules, columns) = (&rest[..at], &rest[at + colon.len()..]);
        let bare = columns.strip_prefix("range of ");
        let columns_of = bare.unwrap_or(columns).split(';').map(|column| column.trim().to_owned());
        let columns_of: Vec<String> = columns_of.collect();
        match columns_of.iter().find(|column| !table.columns.contains(column)) {
            None => return Ok((rules, columns_of, bare.is_some())),
            Some(column) => refused = format!("no column `{column}`"),
        }
    }
    Err(refused)
}

/// Returns the least and the greatest of some cells, by the number that each begins with.
fn range(cells: &[String]) -> Result<String, String> {
    let mut numbers = vec![];
    for cell in cells {
        let word = cell.split_whitespace().next().unwrap_or_default();
        let number = word.trim_end_matches('%').replace(',', "").parse::<f64>();
        numbers.push((number.map_err(|_| format!("`{cell}` begins with no number"))?, word));
    }
    numbers.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    match (numbers.first(), numbers.last()) {
        (Some((least, word)), Some((most, _))) if least == most => Ok((*word).to_owned()),
        (Some((_, least)), Some((_, most))) => Ok(format!("{least} to {most}")),
        _ => Err("no row is so".to_owned()),
    }
}

const WANTED: &str = "FILE#TABLE: COLUMN = VALUE: COLUMN is wanted";

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
    fn figures_of_several_runs_or_rows_stand_together() {
        let cell = |mark: &str| shown(&format!("set | {{{mark}}} | –\n"));
        let mut files = files();
        let again =
            Results { tables: files["timers"].tables.clone(), ..Results::today("Linux 6.18", "again") };
        files.insert("again".to_owned(), again);
        files.get_mut("again").unwrap().tables[0].rows[0][2] = 20.0.into();
        let both = |mark: &str| figures(mark, &files);
        assert_eq!(both("timers#W3 + again#W3: who = `wheel`: ns").unwrap(), "18.2 and 20.0");
        assert_eq!(both("timers#W3 + again#W3: who = `heap`: ns").unwrap(), "40.0", "the same once");
        assert_eq!(both("timers#W3 + again#W3: load, gap = idle…: range of ns").unwrap(), "18.2 to 40.0");
        assert_eq!(both("timers#W3 + again#W3: who = `heap`: range of ns").unwrap(), "40.0");
        assert!(both("timers#W3: load, gap = idle…: range of who").unwrap_err().contains("no number"));
        assert!(cell("timers#W3: load, gap = idle…: range of ns").unwrap().contains("| 18.2 to 40.0 |"));
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
