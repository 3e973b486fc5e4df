//! Before and after in one run: the arguments of such a program, its rounds, and its tables.
//!
//! ```text
//!   PROGRAM [--rounds N] [--millis MS] [--json FILE] [flags of its own]     without arguments: one short round
//! ```

use std::error::Error;
use std::time::Duration;

use softtimers_measure::machine::Machine;
use softtimers_measure::paired::{Measured, Paired, Round};
use softtimers_measure::result::{Cell, Results, Table};

/// The result of a trial.
pub type Done<T = ()> = Result<T, Box<dyn Error>>;

/// What is asked of a program.
#[derive(Clone, Debug)]
pub struct Trial {
    rounds: usize,
    /// How long each contender is measured in each round.
    pub time: Duration,
    json: Option<String>,
    /// The flags of the program's own, for the command that is kept.
    own: String,
}

impl Trial {
    /// One short round, unless the arguments say otherwise.
    ///
    /// # Errors
    /// An argument that is not known, or no number where one is wanted.
    pub fn asked() -> Done<Self> {
        Trial::asked_with(&[], |_| Ok(()))
    }

    /// The same of a program that has flags of its own, each of which is given with its value to `take`.
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

    /// One round of a fifth of a second.
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

    /// Prints the tables, and keeps them where `--json` says.
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

/// What is integrated, and what it was that asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Software {
    /// Its name and version.
    pub name: &'static str,
    /// In Markdown, with its public link.
    pub problem: &'static str,
    /// The integration's own file.
    pub ours: &'static str,
}

/// A line of the summary: what it says, the figure, and the rows before and after.
pub type Line<'a> = (String, &'a str, [String; 2]);

impl Software {
    /// The table `summary`: before, after, and what they cost by the figure `cpu`.
    pub fn summary(&self, measured: &Measured, cpu: &str, lines: &[Line<'_>]) -> Table {
        let columns = [("software", 0), ("problem", 0), ("lines of ours", 0), ("figure", 0), ("before", 1)];
        let costs = [("after", 1), ("CPU before, µs", 1), ("CPU after, µs", 1)];
        let mut table = Table::new("summary", &[&columns[..], &costs[..]].concat());
        let ours = self.ours.lines().map(str::trim_start);
        let is_code = |line: &&str| {
            !line.is_empty() && !["//", "/*", "* ", "*/"].iter().any(|mark| line.starts_with(mark))
        };
        let ours = ours.filter(is_code).count();
        for (said, figure, [before, after]) in lines {
            let of = |row: &str, figure: &str| Cell::from(measured.estimate(row, figure));
            let [name, problem, said] = [self.name, self.problem, said].map(Cell::from);
            let lines = Cell::from(ours as f64);
            let figures = [of(before, figure), of(after, figure), of(before, cpu), of(after, cpu)];
            table.rows.push([name, problem, lines, said].into_iter().chain(figures).collect());
        }
        table
    }
}
