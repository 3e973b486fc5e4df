//! Figures over rounds: [`Section`], which is printed as a table with its bars.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use softtimers_cli::machine::Neighbours;

use crate::turns::quartiles;

/// Figures of a round, by row and name.
#[derive(Clone, Debug, Default)]
pub struct Round(BTreeMap<(String, &'static str), f64>);

impl Round {
    /// Notes a figure; none is left out.
    pub fn put(&mut self, row: &str, name: &'static str, figure: impl Into<Option<f64>>) {
        if let Some(figure) = figure.into() {
            self.0.insert((row.to_owned(), name), figure);
        }
    }

    /// A figure that was noted.
    pub fn figure(&self, row: &str, name: &'static str) -> Option<f64> {
        self.0.get(&(row.to_owned(), name)).copied()
    }
}

/// All rounds of a section.
#[derive(Clone, Debug, Default)]
pub struct Section {
    quiet: Vec<Round>,
    disturbed: Vec<Round>,
    reason: Option<String>,
    rows: Vec<String>,
    /// With the number of decimals.
    columns: Vec<(&'static str, usize)>,
    /// What is said below the table.
    pub notes: Vec<String>,
    parts: Vec<Part>,
}

/// Rounds of their own that belong to a section.
#[derive(Clone, Debug)]
struct Part {
    key: &'static str,
    title: String,
    section: Section,
}

/// Contenders take turns in a round, another one first each time: the order of `count` of them.
pub fn in_turn(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (turn + round) % count)
}

impl Section {
    /// Makes rounds, each told its number.
    ///
    /// # Errors
    /// Of a round.
    pub fn of(
        rounds: usize,
        mut make: impl FnMut(usize) -> Result<Round, Box<dyn Error>>,
    ) -> Result<Self, Box<dyn Error>> {
        let mut section = Section::default();
        for number in 0..rounds {
            let neighbours = Neighbours::watch();
            let round = make(number)?;
            match neighbours.so_far().inconclusive() {
                None => section.quiet.push(round),
                Some(reason) => {
                    section.disturbed.push(round);
                    section.reason = Some(reason);
                }
            }
        }
        Ok(section)
    }

    /// Shows these rows and columns; a column has so many decimals.
    #[must_use]
    pub fn shown<R: ToString>(
        mut self,
        rows: impl IntoIterator<Item = R>,
        columns: &[(&'static str, usize)],
    ) -> Self {
        self.rows = rows.into_iter().map(|row| row.to_string()).collect();
        self.columns = columns.to_vec();
        self
    }

    /// The median of a figure over the quiet rounds, or over all if there is none.
    pub fn median(&self, row: &str, name: &'static str) -> f64 {
        quartiles(self.rounds().iter().filter_map(|round| round.figure(row, name)))[1]
    }

    /// Says whether a bar is met.
    pub fn bar(&mut self, what: &str, figure: f64, bar: &str, met: bool) {
        let met = if met { "holds" } else { "does **not** hold" };
        self.notes.push(format!("- {what}: {figure:.3} ({bar}: {met})"));
    }

    /// Adds rounds of their own that say more: printed below, under this title, and in the JSON among `parts`.
    pub fn add_part(&mut self, key: &'static str, title: impl Into<String>, section: Section) {
        self.parts.push(Part { key, title: title.into(), section });
    }

    /// All figures of all rounds, those of the parts as well. `inconclusive` is a reason if no round was quiet.
    pub fn to_json(&self) -> serde_json::Value {
        let rounds = |rounds: &[Round]| -> Vec<serde_json::Value> {
            let figures = |round: &Round| {
                let named =
                    round.0.iter().map(|((row, name), figure)| (format!("{row}/{name}"), (*figure).into()));
                serde_json::Value::Object(named.collect())
            };
            rounds.iter().map(figures).collect()
        };
        let parts: serde_json::Map<_, _> =
            self.parts.iter().map(|part| (part.key.to_owned(), part.section.to_json())).collect();
        serde_json::json!({
            "rounds": rounds(&self.quiet), "set_aside": rounds(&self.disturbed), "notes": self.notes,
            "inconclusive": self.reason.as_ref().filter(|_| self.quiet.is_empty()), "parts": parts,
        })
    }

    fn rounds(&self) -> &[Round] {
        if self.quiet.is_empty() { &self.disturbed } else { &self.quiet }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| |")?;
        self.columns.iter().try_for_each(|(name, _)| write!(f, " {name} |"))?;
        writeln!(f, "\n|---|{}", "---|".repeat(self.columns.len()))?;
        for row in &self.rows {
            write!(f, "| {row} |")?;
            for &(name, decimals) in &self.columns {
                let median = self.median(row, name);
                if median.is_nan() {
                    write!(f, " – |")?;
                } else {
                    write!(f, " {median:.decimals$} |")?;
                }
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        let (quiet, disturbed) = (self.quiet.len(), self.disturbed.len());
        match &self.reason {
            Some(reason) if quiet == 0 => writeln!(f, "\ninconclusive, all of {disturbed} rounds: {reason}"),
            _ => writeln!(f, "\nMedians of {quiet} quiet rounds ({disturbed} noisy ones set aside)."),
        }?;
        self.parts.iter().try_for_each(|Part { title, section, .. }| write!(f, "\n{title}:\n\n{section}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contender_is_the_first_in_turn() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| in_turn(round, 3).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(in_turn(7, 0).count(), 0);
    }
}
