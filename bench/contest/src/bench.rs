//! Shared by all benches: arguments, sections, and the output of figures. [`Benches`], [`Asked`].
//!
//! ```text
//!   section ──▶ rounds, contenders in turn ──▶ tables with their bars ───────────────▶ stdout
//!                                         └──▶ --json: each figure of each round, also of those set aside
//! ```
//!
//! The file is opened before anything is measured, and is complete after each section.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, Args as _, FromArgMatches as _, value_parser};
use softtimers_measure::child::end_with;
use softtimers_measure::failure::{Exit, Failure};
use softtimers_measure::machine::Machine;
use softtimers_trials::bar::Verdict;
use softtimers_trials::result::{Results, Table};

/// The result of a bench.
pub type Done<T = ()> = Result<T, Box<dyn Error>>;

/// A section: its name, and the function that makes its tables.
pub type Section<E> = (&'static str, fn(&E) -> Done<Vec<Table>>);

/// A flag that takes a number: its name, its default, and its help.
pub type Number = (&'static str, u32, &'static str);

/// A bench: its name, its question, and the numbers that it takes besides [`Asked`].
pub type Bench = (&'static str, &'static str, &'static [Number]);

/// The number of rounds of each contender.
pub const fn rounds(usual: u32) -> Number {
    ("rounds", usual, "How often each is measured")
}

/// The length of what is measured.
pub const fn seconds(usual: u32, help: &'static str) -> Number {
    ("seconds", usual, help)
}

/// The benches of a package.
#[derive(Clone, Copy, Debug)]
pub struct Benches {
    /// The command that runs one of them, up to its name.
    pub command: &'static str,
    /// All of them.
    pub all: &'static [Bench],
}

impl Benches {
    /// Runs the requested sections of the bench `name`, with the result of `plan` for the arguments.
    ///
    /// # Panics
    /// If there is no such bench.
    pub fn main<E>(
        &self,
        name: &'static str,
        sections: &[Section<E>],
        plan: impl FnOnce(&Asked) -> Done<E>,
    ) -> ExitCode {
        let bench = self.find(name);
        let asked = Asked::new(bench, &sections.iter().map(|section| section.0).collect::<Vec<_>>());
        let command = format!("{} {name}", self.command);
        exit(name, plan(&asked).and_then(|effort| asked.run(&command, sections, &effort)))
    }

    fn find(&self, name: &str) -> &Bench {
        self.all.iter().find(|known| known.0 == name).expect("a bench of the list")
    }

    /// Checks that each bench refuses a flag that it does not have, and prints its help. Measures nothing: the arguments are
    /// refused before that.
    ///
    /// # Panics
    /// If one does not.
    pub fn check_arguments(&self) {
        for bench in self.all {
            let (name, about, numbers) = *bench;
            let kind = |words: &[&str]| {
                let line = std::iter::once(&name).chain(words);
                command(bench, &["one"]).try_get_matches_from(line).map(drop).map_err(|error| error.kind())
            };
            assert_eq!(kind(&["--no-such-flag"]), Err(ErrorKind::UnknownArgument), "{name}");
            assert_eq!(kind(&["--help"]), Err(ErrorKind::DisplayHelp), "{name}");
            assert_eq!(kind(&["two"]), Err(ErrorKind::InvalidValue), "{name}");
            assert_eq!(kind(&["one", "--quick"]), Ok(()), "{name}");
            let has_rounds = numbers.iter().any(|number| number.0 == "rounds");
            assert_eq!(kind(&["--rounds", "3"]).is_ok(), has_rounds, "{name}");
            // The help is wrapped.
            let help = command(bench, &["one"]).render_help().to_string();
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                help.starts_with(about) && numbers.iter().all(|number| help.contains(number.2)),
                "{help}"
            );
        }
    }

    /// Checks that the benches are the targets of this manifest, so that none can be forgotten.
    ///
    /// # Panics
    /// If they are not.
    pub fn check_targets(&self, manifest: &str) {
        let targets = manifest.split("[[bench]]\nname = \"").skip(1);
        let targets: Vec<&str> = targets.filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(targets, self.all.iter().map(|bench| bench.0).collect::<Vec<_>>());
    }
}

/// If this process is a child that a bench has started with [`softtimers_measure::child::command`], calls `child` with
/// its words.
pub fn child(child: impl FnOnce(&[&str]) -> Done) -> Option<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["--with-parent", parent, words @ ..] = &words[..] else { return None };
    let parent = parent.parse().unwrap_or_default();
    Some(exit("child", end_with(parent).map_err(Into::into).and_then(|()| child(words))))
}

/// Prints the failure, or why nothing was measured, and returns the exit code.
pub fn exit(name: &str, done: Done) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    if is_not_possible(&*error) {
        println!("skipped: {error}");
        return ExitCode::SUCCESS;
    }
    eprintln!("{name}: {error:#}");
    // The same code as the command: 2 for a file that exists.
    error.downcast_ref::<Failure>().map_or(ExitCode::FAILURE, |failure| failure.exit().into())
}

/// Says whether the machine lacks something, which is not a defect of a bench.
fn is_not_possible(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit() == Exit::NotPossible)
}

/// The arguments of each bench, and of `cargo lab measure` and `rig`.
#[derive(clap::Args, Clone, Debug)]
pub struct Asked {
    /// Run once, and shortly: proves only that it works
    #[arg(long)]
    pub quick: bool,
    /// Also write all figures to this new file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Overwrite that file
    #[arg(long, requires = "json")]
    force: bool,
    /// Keep the tables of that file, if it exists, and add to their rounds where a bench can: of the same build
    #[arg(long, requires = "json", conflicts_with = "force")]
    extend: bool,
    /// Only these
    #[arg(value_name = "SECTION")]
    pub sections: Vec<String>,
    #[arg(skip)]
    numbers: Vec<(&'static str, u32)>,
}

/// Returns the command line of a bench with these sections.
fn command(bench: &Bench, sections: &[&'static str]) -> clap::Command {
    let (name, about, numbers) = *bench;
    let command = clap::Command::new(name).disable_version_flag(true);
    let names = PossibleValuesParser::new(sections.to_vec());
    let command = Asked::augment_args(command).about(about);
    let command = command.mut_arg("sections", |argument| argument.value_parser(names));
    command.args(numbers.iter().map(|&(name, usual, help)| {
        let number = value_parser!(u32).range(1..);
        let help = format!("{help} [default: {usual}]");
        Arg::new(name).long(name).value_name("N").value_parser(number).help(help)
    }))
}

impl Asked {
    /// Parses the arguments of a bench; invalid ones, and requests for help, end the process as in clap.
    fn new(bench: &Bench, sections: &[&'static str]) -> Self {
        // `cargo bench` adds this to every command line.
        let given = std::env::args().enumerate().filter(|(at, word)| *at == 0 || word != "--bench");
        let matches = command(bench, sections).get_matches_from(given.map(|(_, word)| word));
        let mut asked = Asked::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        asked.numbers = bench
            .2
            .iter()
            .map(|&(name, usual, _)| (name, *matches.get_one(name).unwrap_or(&usual)))
            .collect();
        asked
    }

    /// Returns the number of this name.
    ///
    /// # Panics
    /// If the bench has no number of that name.
    pub fn number(&self, name: &str) -> u32 {
        self.numbers.iter().find(|known| known.0 == name).expect("a number of this bench").1
    }

    /// Returns the number of rounds; one with `--quick`.
    pub fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.number("rounds") as usize }
    }

    /// Returns the time to measure for, or `quick` with `--quick`.
    pub fn seconds(&self, quick: u64) -> Duration {
        Duration::from_secs(if self.quick { quick } else { self.number("seconds").into() })
    }

    /// Returns whether this section is requested, by name or by default.
    pub fn wants(&self, section: &str) -> bool {
        self.sections.is_empty() || self.sections.iter().any(|wanted| wanted == section)
    }

    /// Returns the results that `--extend` adds to: none where the file is empty, because its first run broke off.
    ///
    /// # Errors
    /// If the file has none, or those of another machine.
    pub fn earlier(&self) -> Done<Option<Results>> {
        let Some(path) = self.json.as_ref().filter(|path| self.extend && path.exists()) else {
            return Ok(None);
        };
        let of = |error: &dyn std::fmt::Display| {
            Failure::usage(format_args!("--extend {}: {error}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| of(&error))?;
        if text.is_empty() {
            return Ok(None);
        }
        let results = Results::parse(&text).map_err(|error| of(&error))?;
        if results.machine != Machine::read().line() {
            return Err(of(&format_args!("it is of another machine: {}", results.machine)).into());
        }
        Ok(Some(results))
    }

    /// Runs the requested sections; `command` reproduces them.
    ///
    /// # Errors
    /// The failure of a section, in which case the other sections are in the file; or that it cannot be written.
    pub fn run<E>(&self, command: &str, sections: &[Section<E>], effort: &E) -> Done {
        let earlier = self.earlier()?;
        let open = |path: &PathBuf| {
            // A run that breaks off must leave what it was to add to.
            let kept = earlier.is_some().then(|| OpenOptions::new().write(true).open(path));
            kept.map_or_else(
                || create(path, self.force || self.extend).map_err(Into::into),
                |file| Done::Ok(file?),
            )
        };
        let mut file = self.json.as_ref().map(open).transpose()?;
        let machine = Machine::read().line();
        println!("{machine}\n");
        let mut results = earlier.unwrap_or_else(|| Results::today(&machine, command));
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
                    results.tables.retain(|old| tables.iter().all(|table| table.key != old.key));
                    results.tables.extend(tables);
                    if let Some(file) = &mut file {
                        file.rewind()?;
                        file.set_len(0)?;
                        file.write_all(results.to_text()?.as_bytes())?;
                    }
                }
                Err(error) if is_not_possible(&*error) => println!("skipped: {error}\n"),
                // The results of the other sections must not be lost.
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

/// Creates a new file, before any measurement.
///
/// # Errors
/// If it exists and must not be overwritten, or cannot be written.
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
    use softtimers_trials::paired::Paired;

    const SECTIONS: [Section<f64>; 3] = [("one", one), ("two", one), ("broken", |_| Err("it is".into()))];

    fn one(figure: &f64) -> Done<Vec<Table>> {
        let measured = Paired::new(2).rounds(|number, round| {
            round.put("row", "name", figure + number as f64);
            Done::Ok(())
        })?;
        Ok(["two", "pairs"].map(|key| Table::of(key, &measured, ["row"], &[("name", 1)])).into())
    }

    /// Each figure of each round, of all tables of a section; and of the sections without a failure.
    #[test]
    fn the_file_has_all_that_was_measured() {
        let path = std::env::temp_dir().join(format!("softtimers-bench-{}", std::process::id()));
        let sections = vec!["two".to_owned(), "broken".to_owned()];
        let json = Some(path.clone());
        let asked = Asked { quick: false, json, force: false, extend: false, sections, numbers: vec![] };
        let made = asked.run("bench", &SECTIONS, &3.0);
        assert_eq!(made.unwrap_err().to_string(), "it is");
        let found = Results::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let again = asked.run("bench", &SECTIONS, &3.0).unwrap_err().to_string();
        let more = Asked { extend: true, sections: vec!["one".to_owned()], ..asked.clone() };
        more.run("bench", &[("one", |_| Ok(vec![Table::new("three", &[])]))], &3.0).unwrap();
        let extended = more.earlier().unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(again.contains("exists"), "{again}");
        let keys =
            |results: &Results| results.tables.iter().map(|table| table.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&found), ["two", "pairs"]);
        assert_eq!(keys(&extended), ["two", "pairs", "three"]);
        for table in found.tables {
            // Other processes may be busy next to this test.
            let all = [table.samples.rounds, table.samples.set_aside].concat();
            let mut figures: Vec<f64> = all.iter().map(|round| round["row/name"]).collect();
            figures.sort_by(f64::total_cmp);
            assert_eq!(figures, [3.0, 4.0]);
        }
    }
}
