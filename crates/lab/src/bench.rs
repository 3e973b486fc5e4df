//! What all benches have in common: who is meant, what is asked, and where the figures go. [`main`], [`Asked`].
//!
//! ```text
//!   section ──▶ rounds, contenders in turn ──▶ tables with what is to hold of them ──▶ stdout
//!                                         └──▶ --json: each figure of each round, also of those set aside
//! ```
//!
//! The file is opened before anything is measured, and is whole after each section.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, FromArgMatches};
use softtimers_measure::bar::Verdict;
use softtimers_measure::failure::Failure;
use softtimers_measure::machine::Machine;
use softtimers_measure::result::{Results, Table};

/// What becomes of a bench.
pub type Done<T = ()> = Result<T, Box<dyn Error>>;

/// A section: its name, and what makes its tables.
pub type Section<E> = (&'static str, fn(&E) -> Done<Vec<Table>>);

/// The benches. A first word that none of them begins with is not for choosing among them: it is a section of one.
pub const BENCHES: [&str; 15] = [
    "callouts",
    "flows",
    "handover",
    "kernel",
    "null_events",
    "overload",
    "pacing",
    "quinn",
    "quinn_start",
    "server",
    "shared",
    "timers",
    "tokio_timers",
    "waits",
    "work_kept",
];

/// Runs `measure` with the arguments of this bench; or nothing, if only benches of another name are asked for: `cargo bench NAME` says NAME to all.
pub fn main(name: &str, measure: fn(&[String]) -> Done) -> ExitCode {
    let Some(arguments) = among(name, std::env::args().skip(1)) else { return ExitCode::SUCCESS };
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            // What the command would exit with: 2 for a file that exists, 77 for what is not possible here.
            error.downcast_ref::<Failure>().map_or(ExitCode::FAILURE, |failure| failure.exit().into())
        }
    }
}

/// The arguments of the bench `name`; `None` if the first one is the beginning of other benches' names only.
fn among(name: &str, given: impl Iterator<Item = String>) -> Option<Vec<String>> {
    let mut arguments: Vec<String> = given.filter(|argument| argument != "--bench").collect();
    let is_word = |argument: &&String| argument.starts_with(|first: char| first.is_ascii_alphabetic());
    let chooses = |word: &&String| BENCHES.iter().any(|bench| bench.starts_with(word.as_str()));
    if let Some(filter) = arguments.first().filter(is_word).filter(chooses) {
        if !name.starts_with(filter.as_str()) {
            return None;
        }
        arguments.remove(0);
    }
    Some(arguments)
}

/// What each bench is asked; to be flattened into its own arguments.
#[derive(clap::Args, Clone, Debug)]
pub struct Asked {
    /// How often each is measured
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Once, and shortly: proves only that all of it runs
    #[arg(long)]
    pub quick: bool,
    /// Also write all figures to this new file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Overwrite that file
    #[arg(long, requires = "json")]
    force: bool,
    /// Only these
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
}

/// The arguments of `bench`, which has these sections; wrong ones, and the wish for help, end the process as clap does.
pub fn parse<A: CommandFactory + FromArgMatches, E>(
    bench: &'static str,
    given: &[String],
    sections: &[Section<E>],
) -> A {
    let names = PossibleValuesParser::new(sections.iter().map(|&(name, _)| name));
    let command = A::command().mut_arg("sections", |argument| argument.value_parser(names));
    let line = std::iter::once(bench).chain(given.iter().map(String::as_str));
    A::from_arg_matches(&command.get_matches_from(line)).unwrap_or_else(|error| error.exit())
}

impl Asked {
    /// Whether this section is asked for, by name or because none is.
    pub fn wants(&self, section: &str) -> bool {
        self.sections.is_empty() || self.sections.iter().any(|wanted| wanted == section)
    }

    /// How many rounds, where so many are usual.
    pub fn rounds(&self, usual: usize) -> usize {
        if self.quick { 1 } else { self.rounds.unwrap_or(usual).max(1) }
    }

    /// Makes those sections that are wanted, and says `more` of what they were made with, beside the machine. `bench` is its
    /// name, or the command if it is none.
    ///
    /// # Errors
    /// Of a section; then the other sections are in the file. If that cannot be written.
    pub fn run<E>(&self, bench: &str, more: &str, sections: &[Section<E>], effort: &E) -> Done {
        let mut file = self.json.as_ref().map(|path| create(path, self.force)).transpose()?;
        let machine = Machine::read().line();
        println!("{machine}{more}\n");
        let command = if bench.contains(' ') {
            bench.to_owned()
        } else {
            format!("cargo bench -p softtimers-lab --bench {bench}")
        };
        let mut results = results(&format!("{machine}{more}"), &command);
        let mut failed = Vec::new();
        for (name, measure) in sections.iter().filter(|(name, _)| self.wants(name)) {
            println!("## {name}\n");
            match measure(effort) {
                Ok(tables) => {
                    for table in &tables {
                        let heading =
                            if table.key == *name { String::new() } else { format!("### {}\n\n", table.key) };
                        println!("{heading}{table}");
                    }
                    results.tables.extend(tables);
                    if let Some(file) = &mut file {
                        file.rewind()?;
                        file.set_len(0)?;
                        file.write_all(results.to_text()?.as_bytes())?;
                    }
                }
                // What the others find is not to be lost with it.
                Err(error) => {
                    println!("{name} broke off: {error}\n");
                    failed.push(error);
                }
            }
        }
        let count = |wanted| results.bars().filter(|bar| bar.verdict() == wanted).count();
        if results.bars().next().is_some() {
            let [met, missed, inconclusive] =
                [Verdict::Met, Verdict::Missed, Verdict::Inconclusive].map(count);
            println!("{met} met, {missed} missed, {inconclusive} inconclusive");
        }
        failed.into_iter().next().map_or(Ok(()), Err)
    }
}

/// A results file of today, without tables.
pub fn results(machine: &str, command: &str) -> Results {
    let said = |program: &str, arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    Results {
        schema: Results::SCHEMA.to_owned(),
        date: said("date", &["-u", "+%F"]).unwrap_or_default(),
        machine: machine.to_owned(),
        commit: said("git", &["rev-parse", "--short=8", "HEAD"]),
        command: command.to_owned(),
        tables: Vec::new(),
    }
}

/// A new file, before anything is measured that could not be written.
///
/// # Errors
/// If it exists and is not to be overwritten, or cannot be written.
pub fn create(path: &Path, force: bool) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.write(true);
    let opened =
        if force { options.create(true).truncate(true) } else { options.create_new(true) }.open(path);
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format_args!("--json {}: it exists; --force overwrites it", path.display()))
        }
        _ => Failure::usage(format_args!("--json {}: {error}", path.display())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_measure::paired::Paired;

    #[test]
    fn a_word_asks_for_the_benches_of_that_name() {
        let given = |line: &str| among("pacing", line.split_whitespace().map(str::to_owned));
        assert_eq!(given("--bench"), Some(vec![]));
        assert_eq!(given("pac --bench"), Some(vec![]));
        assert_eq!(given("null --bench"), None);
        assert_eq!(given("curve --bench"), Some(vec!["curve".into()]), "a section");
        assert_eq!(given("4 20 --bench"), Some(vec!["4".into(), "20".into()]));
        assert_eq!(given("--json pacing.json --bench"), Some(vec!["--json".into(), "pacing.json".into()]));
    }

    #[derive(clap::Parser, Debug)]
    struct Arguments {
        #[command(flatten)]
        asked: Asked,
        #[arg(long)]
        of_its_own: bool,
    }

    const SECTIONS: [Section<f64>; 3] = [("one", one), ("two", one), ("broken", |_| Err("it is".into()))];

    fn one(figure: &f64) -> Done<Vec<Table>> {
        let measured = Paired::new(2).rounds(|number, round| {
            round.put("row", "name", figure + number as f64);
            Done::Ok(())
        })?;
        Ok(["two", "pairs"].map(|key| Table::of(key, &measured, ["row"], &[("name", 1)])).into())
    }

    fn asked(line: &str) -> Arguments {
        let given: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse("bench", &given, &SECTIONS)
    }

    #[test]
    fn rounds_are_the_usual_ones_unless_others_are_wanted() {
        assert_eq!(asked("").asked.rounds(5), 5);
        assert_eq!(asked("--rounds 9 --of-its-own").asked.rounds(5), 9);
        assert_eq!(asked("--rounds 0").asked.rounds(5), 1);
        assert_eq!(asked("--rounds 9 --quick one").asked.rounds(5), 1);
    }

    /// Each figure of each round, of all tables of a section; and of those sections that did not break off.
    #[test]
    fn the_file_has_all_that_was_measured() {
        let path = std::env::temp_dir().join(format!("softtimers-bench-{}", std::process::id()));
        let arguments = asked(&format!("two broken --json {}", path.display()));
        let made = arguments.asked.run("bench", "", &SECTIONS, &3.0);
        assert_eq!(made.unwrap_err().to_string(), "it is");
        let found = Results::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let again = arguments.asked.run("bench", "", &SECTIONS, &3.0).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(again.contains("exists"), "{again}");
        assert_eq!(found.tables.iter().map(|table| table.key.as_str()).collect::<Vec<_>>(), ["two", "pairs"]);
        for table in found.tables {
            // Others may be busy beside this test.
            let all = [table.samples.rounds, table.samples.set_aside].concat();
            let mut figures: Vec<f64> = all.iter().map(|round| round["row/name"]).collect();
            figures.sort_by(f64::total_cmp);
            assert_eq!(figures, [3.0, 4.0]);
        }
    }
}
