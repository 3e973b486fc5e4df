//! Compares before and after in one run: the arguments of such a program, its rounds, and its tables.
//!
//! ```text
//!   PROGRAM [--rounds N] [--millis MS] [--json FILE] [flags of its own]     without arguments: one short round
//! ```

use std::error::Error;
use std::time::Duration;

use softtimers_measure::machine::Machine;
use softtimers_trials::paired::{Measured, Paired, Round};
use softtimers_trials::result::{Cell, Results, Table};

/// An integration with fewer lines than this is short.
const MOST_LINES: u32 = 120;

/// The result of a trial.
pub type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The arguments of a program.
#[derive(Clone, Debug)]
pub struct Trial {
    rounds: usize,
    /// The time for which each contender is measured in each round.
    pub time: Duration,
    json: Option<String>,
    /// The program's own flags, for the command that is recorded.
    own: String,
}

impl Trial {
    /// Returns one short round, unless the arguments say otherwise.
    ///
    /// # Errors
    /// An unknown argument, or one that should be a number and is not.
    pub fn asked() -> Done<Self> {
        Trial::asked_with(&[], |_| Ok(()))
    }

    /// Returns the trial of a program with flags of its own, each of which is passed with its value to `take`.
    ///
    /// # Errors
    /// As [`asked`](Self::asked), and those of `take`.
    pub fn asked_with(own: &[&str], mut take: impl FnMut([&str; 2]) -> Done) -> Done<Self> {
        let mut trial = Trial::short();
        let mut words = std::env::args().skip(1);
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag}: a value is wanted"))?;
            match flag.as_str() {
                "--rounds" => trial.rounds = value.parse()?,
                "--millis" => trial.time = Duration::from_millis(value.parse()?),
                "--json" => trial.json = Some(value),
                own_flag if own.contains(&own_flag) => {
                    take([own_flag, &value])?;
                    trial.own += &format!(" {own_flag} {value}");
                }
                _ => {
                    let known = [&["--rounds", "--millis", "--json"][..], own].concat().join(", ");
                    return Err(format!("{flag}: only {known} are known").into());
                }
            }
        }
        Ok(trial)
    }

    /// Returns one round of a fifth of a second.
    pub fn short() -> Self {
        Trial { rounds: 1, time: Duration::from_millis(200), json: None, own: String::new() }
    }

    /// Measures each contender under each setting, in turn.
    ///
    /// # Errors
    /// Those of `measure`.
    pub fn contest<S, C>(
        &self,
        settings: &[S],
        contenders: &mut [C],
        measure: impl FnMut(&S, &mut C, &mut Round) -> Done,
    ) -> Done<Measured> {
        Paired::new(self.rounds).as_a_whole().contest(settings, contenders, measure)
    }

    /// Prints the tables, and writes them to the file of `--json`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn show(&self, package: &str, tables: Vec<Table>) -> Done {
        let machine = Machine::read().line();
        println!("{machine}");
        for table in &tables {
            println!("\n{}", table.markdown(&[], |_| true)?);
        }
        let Some(file) = &self.json else { return Ok(()) };
        let words = format!("-- --rounds {} --millis {}{}", self.rounds, self.time.as_millis(), self.own);
        let mut results = Results::today(&machine, &format!("cargo run --release -p {package} {words}"));
        results.tables = tables;
        Ok(std::fs::write(file, results.to_text()?)?)
    }
}

/// The integrated software, and the problem that led to the integration.
#[derive(Clone, Copy, Debug)]
pub struct Software {
    name: &'static str,
    problem: &'static str,
    lines: u32,
}

/// A line of the summary: its text, the figure, and the rows before and after.
pub type Line<'a> = (String, &'a str, [String; 2]);

impl Software {
    /// Creates it from a name with its version, the problem in Markdown with its public link, and the text of the
    /// integration's file.
    ///
    /// # Panics
    /// If that file has 120 lines of code or more. In a constant, such an example does not compile.
    pub const fn new(name: &'static str, problem: &'static str, ours: &'static str) -> Self {
        let lines = code_lines(ours.as_bytes());
        assert!(lines < MOST_LINES, "an integration is meant to be short: move what is not part of it");
        Software { name, problem, lines }
    }

    /// Returns the table `summary`: before, after, and their cost by the figure `cpu`.
    pub fn summary(&self, measured: &Measured, cpu: &str, lines: &[Line<'_>]) -> Table {
        let columns = [("software", 0), ("problem", 0), ("lines of ours", 0), ("figure", 0), ("before", 1)];
        let costs = [("after", 1), ("CPU before, µs", 1), ("CPU after, µs", 1)];
        let mut table = Table::new("summary", &[&columns[..], &costs[..]].concat());
        for (said, figure, [before, after]) in lines {
            let of = |row: &str, figure: &str| Cell::from(measured.estimate(row, figure));
            let [name, problem, said] = [self.name, self.problem, said].map(Cell::from);
            let lines = Cell::from(f64::from(self.lines));
            let figures = [of(before, figure), of(after, figure), of(before, cpu), of(after, cpu)];
            table.rows.push([name, problem, lines, said].into_iter().chain(figures).collect());
        }
        table
    }
}

/// Counts the lines that are neither empty nor a comment.
const fn code_lines(text: &[u8]) -> u32 {
    let (mut lines, mut at) = (0, 0);
    while at < text.len() {
        while at < text.len() && (text[at] == b' ' || text[at] == b'\t') {
            at += 1;
        }
        let after = if at + 1 < text.len() { text[at + 1] } else { b'\n' };
        let is_code = at < text.len()
            && !matches!((text[at], after), (b'\n', _) | (b'/', b'/' | b'*') | (b'*', b' ' | b'/' | b'\n'));
        lines += is_code as u32;
        while at < text.len() && text[at] != b'\n' {
            at += 1;
        }
        at += 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_not_code() {
        let text = "//! Why.\n\n/* More\n * of it.\n */\nfn main() {\n\t// Nothing.\n    a *= b;\n}";
        assert_eq!(code_lines(text.as_bytes()), 3);
        assert_eq!(code_lines(b""), 0);
        assert_eq!(code_lines(b"x"), 1);
    }
}
