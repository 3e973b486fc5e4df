//! A report for people, in reading order: [`Table`], made of labelled rows, distributions, grids and sentences.
//!
//! It holds the results of a command, and draws them for a [`Screen`]. A label is a name of the
//! [field](crate::field::Field), which explains it; a test finds those without an entry.

use std::fmt::Display;

use softtimers_measure::distribution::Distribution;
use softtimers_measure::failure::one_line;

use super::grid::Grid;
use super::quantity::{or_dash, part, time};
use super::screen::{Screen, Tone};

/// The parts of a report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// A label, and its value.
    Row(String, String, Tone),
    /// A label, and the figures of a distribution below [`TIMES`].
    Times(String, [String; 5]),
    /// The subject of the following rows.
    Heading(String),
    /// Columns below a header.
    Grid(Grid),
    /// A sentence between the rows.
    Text(String, Tone),
    /// A line that must not be broken.
    Drawn(String),
}

impl Table {
    /// Adds a row.
    pub fn row(&mut self, label: &str, value: impl Display) {
        self.toned(label, value, Tone::Plain);
    }

    /// Adds a row that is good or bad.
    pub fn toned(&mut self, label: &str, value: impl Display, tone: Tone) {
        self.parts.push(Part::Row(label.to_owned(), harmless(&value.to_string()), tone));
    }

    /// Adds a count of an undesired event with its share of the whole.
    pub fn loss(&mut self, label: &str, count: u64, whole: u64) {
        self.toned(label, part(count, whole), Tone::bad_if(count > 0));
    }

    /// Adds a count of a rare event, if there is any.
    pub fn seldom(&mut self, label: &str, count: u64) {
        if count > 0 {
            self.row(label, count);
        }
    }

    /// Adds a distribution of nanoseconds.
    pub fn times(&mut self, label: &str, times: &Distribution) {
        let Distribution { min, p50, p99, p999, max, .. } = *times;
        let cells = [min, p50, p99, p999, max].map(|nanos| or_dash(nanos, time));
        self.parts.push(Part::Times(label.to_owned(), cells));
    }

    /// Adds the subject of the following rows.
    pub fn heading(&mut self, text: impl Display) {
        self.parts.push(Part::Heading(harmless(&text.to_string())));
    }

    /// Adds columns, if there are rows.
    pub fn grid(&mut self, grid: Grid) {
        if !grid.is_empty() {
            self.parts.push(Part::Grid(grid));
        }
    }

    /// Adds a line of text.
    pub fn text(&mut self, text: &str, tone: Tone) {
        self.parts.push(Part::Text(harmless(text), tone));
    }

    /// Adds a line of a drawing.
    pub fn drawn(&mut self, line: String) {
        self.parts.push(Part::Drawn(line));
    }

    /// Adds the parts of another table.
    pub fn append(&mut self, mut other: Table) {
        self.parts.append(&mut other.parts);
    }

    /// Returns everything that the catalogue must explain.
    #[cfg(any(test, feature = "checks"))]
    pub fn labels(&self) -> Vec<&str> {
        let mut labels = vec![];
        for part in &self.parts {
            match part {
                Part::Row(label, ..) | Part::Times(label, ..) => labels.push(label.as_str()),
                Part::Grid(grid) => labels.extend(grid.labels()),
                Part::Heading(_) | Part::Text(..) | Part::Drawn(_) => {}
            }
        }
        labels.retain(|label| !label.is_empty());
        labels
    }

    /// Draws the table for this screen.
    pub fn draw(&self, screen: &Screen) -> String {
        let labels = self.parts.iter().filter_map(|part| match part {
            Part::Row(label, ..) | Part::Times(label, ..) => Some(label.chars().count()),
            _ => None,
        });
        let margin = labels.max().unwrap_or(0);
        let times = self.parts.iter().filter_map(|part| match part {
            Part::Times(_, cells) => Some(cells),
            _ => None,
        });
        let widths = times.fold(TIMES.map(str::len), |widths, cells| {
            std::array::from_fn(|at| widths[at].max(cells[at].chars().count()))
        });
        let mut text = String::new();
        let mut after_times = false;
        let mut above = None;
        for part in &self.parts {
            // Grids are separated from rows, and from each other.
            let is_grid = |part: &Part| matches!(part, Part::Grid(_));
            let is_heading = |part: &Part| matches!(part, Part::Heading(_));
            if above.is_some_and(|above| {
                !is_heading(above) && !is_heading(part) && (is_grid(above) || is_grid(part))
            }) {
                text.push('\n');
            }
            above = Some(part);
            let is_times = matches!(part, Part::Times(..));
            if is_times && !after_times {
                text += &times_line("", &TIMES, margin, &widths);
            }
            after_times = is_times;
            match part {
                Part::Row(label, value, tone) => text += &row(label, value, *tone, margin, screen),
                Part::Times(label, cells) => {
                    text += &times_line(label, &cells.each_ref().map(String::as_str), margin, &widths);
                }
                Part::Heading(heading) => {
                    let blank = if text.is_empty() { "" } else { "\n" };
                    text += &format!("{blank}{}\n", wrapped(heading, screen.width).join("\n"));
                }
                Part::Grid(grid) => text += &grid.draw(screen),
                Part::Text(sentence, tone) => {
                    for line in wrapped(sentence, screen.width) {
                        text += &format!("{}\n", screen.toned(&line, *tone));
                    }
                }
                Part::Drawn(line) => text += &format!("{line}\n"),
            }
        }
        text
    }
}

fn times_line(label: &str, cells: &[&str; 5], margin: usize, widths: &[usize; 5]) -> String {
    let cells: String = cells.iter().zip(widths).map(|(cell, width)| format!("  {cell:>width$}")).collect();
    format!("{label:margin$}{cells}\n")
}

/// Returns the lines of a row: a value without room continues below.
fn row(label: &str, value: &str, tone: Tone, margin: usize, screen: &Screen) -> String {
    let lines = wrapped(value, screen.width.saturating_sub(margin + 2));
    let shown = lines.iter().enumerate().map(|(at, line)| {
        let label = if at == 0 { label } else { "" };
        format!("{label:margin$}  {}", screen.toned(line, tone)).trim_end().to_owned() + "\n"
    });
    shown.collect()
}

/// Wraps a text: between parts separated by two spaces, and between words if a part has no room.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for group in text.split("  ").map(str::trim).filter(|group| !group.is_empty()) {
        let room = |line: &str, more: &str, between: usize| {
            line.is_empty() || line.chars().count() + between + more.chars().count() <= width
        };
        let fits_alone = group.chars().count() <= width;
        if fits_alone && !room(lines.last().map_or("", String::as_str), group, 2) {
            lines.push(String::new());
        }
        for (at, word) in words(group).into_iter().enumerate() {
            let between = if at == 0 { "  " } else { " " };
            if !room(lines.last().map_or("", String::as_str), &word, between.len()) {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                *line += if line.is_empty() { "" } else { between };
                *line += &word;
            }
        }
    }
    lines
}

/// Returns the words of a text; a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    for word in text.split(' ') {
        let is_number = |word: &String| word.chars().all(|each| each.is_ascii_digit() || each == '.');
        match words.last_mut().filter(|last| is_number(last)) {
            Some(number) => {
                number.push(' ');
                number.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// The columns of every distribution.
pub const TIMES: [&str; 5] = ["min", "p50", "p99", "p99.9", "max"];

/// Text of which nothing but the ends of its lines moves a terminal's cursor: values may come from a stranger's file.
fn harmless(text: &str) -> String {
    text.split('\n').map(one_line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(times: [u64; 5]) -> Distribution {
        let [min, p50, p99, p999, max] = times.map(Some);
        Distribution { min, p50, p99, p999, max, ..Distribution::default() }
    }

    #[test]
    fn values_stand_in_a_column() {
        let mut table = Table::default();
        table.row("sent", 25_000);
        table.loss("lost", 100, 25_000);
        table.seldom("refused", 0);
        assert_eq!(table.draw(&Screen::PIPE), "sent  25000\nlost  100/25000 (0.40%)\n");
        let terminal = table.draw(&Screen { colour: true, ..Screen::PIPE });
        assert_eq!(terminal, "sent  25000\nlost  \u{1b}[31m100/25000 (0.40%)\u{1b}[0m\n");
    }

    #[test]
    fn distributions_are_aligned_below_one_header() {
        let mut table = Table::default();
        table.row("sent", 7);
        table.times("gap", &some([900, 40_000, 41_000, 999_999, 2_500_000]));
        table.times("late", &Distribution::default());
        table.times("stay", &some([43_902, 999_999, 9_732_095, 214_844_556, 31_247_759_108]));
        let drawn = "sent  7\n          min      p50      p99    p99.9      max\n\
                     gap    900 ns  40.0 µs  41.0 µs  1.00 ms  2.50 ms\n\
                     late        -        -        -        -        -\n\
                     stay  43.9 µs  1.00 ms  9.73 ms   215 ms   31.2 s\n";
        assert_eq!(table.draw(&Screen::PIPE), drawn);
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(wrapped("late by 40.0 µs instead", 13), ["late by", "40.0 µs", "instead"]);
    }

    #[test]
    fn long_values_go_on_below_themselves() {
        let mut table = Table::default();
        table.row("fired by", "syscall exit 1000  handler exit 2000  readiness 3000");
        table.row("note", "word ".repeat(10).trim());
        let drawn = table.draw(&Screen { width: 40, ..Screen::PIPE });
        let expected = "fired by  syscall exit 1000\n          handler exit 2000\n          readiness 3000\n\
                        note      word word word word word word\n          word word word word\n";
        assert_eq!(drawn, expected);
    }
}
