//! Which figures a constant was fitted to, as marks behind the rows of `papers/docs/papers.md`, and what the chosen constants are.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use softtimers_sim::constants::{Constant, Figure, LIST, Origin};

pub(super) fn mark(figure: Figure) -> &'static str {
    let fitted = |constant: &Constant| constant.fitted_to().contains(&figure);
    let depends = |constant: &Constant| !constant.fitted_to().is_empty() && constant.moves.contains(&figure);
    match () {
        () if LIST.iter().any(fitted) => " †",
        () if LIST.iter().any(depends) => " ‡",
        () => "",
    }
}

/// The page with the mark of each figure behind the first cell of its rows.
pub(super) fn marked(page: &str) -> String {
    let mut left: BTreeMap<&str, &str> = BTreeMap::new();
    for &figure in Figure::ALL {
        for row in figure.rows() {
            assert_eq!(left.insert(row, mark(figure)), None, "two figures have the row '{row}'");
        }
    }
    let (by_hand, _) = page.split_once("<!-- misses: begin -->").expect("a table of misses");
    let mut text = String::new();
    for (number, line) in page.lines().enumerate() {
        let cell = line.strip_prefix("| ").and_then(|rest| rest.split_once(" |"));
        let known = cell.and_then(|(cell, rest)| {
            let name = cell.trim_end_matches([' ', '†', '‡']);
            left.remove(name).map(|mark| format!("| {name}{mark} |{rest}"))
        });
        // A mark that nothing renders would stay when the list changes.
        let cells = if known.is_some() { cell.map_or("", |(_, rest)| rest) } else { line };
        let is_marked = line.starts_with('|') && cells.contains(['†', '‡']);
        assert!(
            !is_marked || number >= by_hand.lines().count(),
            "papers/docs/papers.md, line {}: a mark",
            number + 1
        );
        let _ = writeln!(text, "{}", known.as_deref().unwrap_or(line));
    }
    assert!(left.is_empty(), "papers/docs/papers.md has no row for {:?}", left.keys());
    text
}

/// Those that no paper and no standard gives. The traffic of HIP's traces has a table of its own.
pub(super) fn constants() -> String {
    let mut table = "| constant | value | chosen so that |\n|---|---|---|\n".to_owned();
    for constant in LIST {
        let Constant { section, name, unit, .. } = constant;
        let why = match constant.origin {
            Origin::Fitted(..) if *section == "hip_traces" => continue,
            Origin::Fitted(figures, why) => match figures {
                [only] => format!("{}: {why}", only.about()),
                several => format!("{} figures: {why}", several.len()),
            },
            Origin::Guess(why) => format!("a guess: {why}"),
            Origin::Paper(_) | Origin::Standard(_) => continue,
        };
        let value = constant.value();
        let _ = writeln!(table, "| `{section}.{name}` | {} | {why} |", format!("{value} {unit}").trim());
    }
    let traces = LIST
        .iter()
        .filter(|constant| constant.section == "hip_traces" && !constant.fitted_to().is_empty())
        .count();
    let _ = writeln!(
        table,
        "| `hip_traces.…`, {traces} of them | [seven numbers each](hip.md#the-traces) | HIP Table 3: seven figures of it for each trace, by a \
         search |"
    );
    table
}
