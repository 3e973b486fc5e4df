//! A bench that consists of sections: [`Asked`] says which of them and how often, makes and prints them, and writes one file.
//!
//! ```text
//!   section ──▶ rounds, contenders in turn ──▶ medians of the quiet ones: a table, and what is to hold
//!                                         └──▶ --json: each figure of each round, also of those set aside
//! ```
//!
//! The file is opened before anything is measured, and has what there is when a section breaks off.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, FromArgMatches};
use serde_json::{Value, json};
use softtimers_cli::file::OutputFile;
use softtimers_cli::machine::{Machine, Neighbours};

use crate::rounds::Section;
use crate::turns::Done;

/// What each of these benches is asked; to be flattened into its own arguments.
#[derive(clap::Args, Clone, Debug)]
pub struct Asked {
    /// How often each is measured
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Once, and shortly: proves only that all of it runs
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    file: JsonFile,
    /// Only these
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
}

/// A section's name, and what makes its figures.
pub type Measure<E> = (&'static str, fn(E) -> Result<Section, Box<dyn Error>>);

/// The arguments of `bench`, which has these sections; wrong ones, and the wish for help, end the process as clap does.
pub fn parse<A: CommandFactory + FromArgMatches, E>(
    bench: &'static str,
    given: &[String],
    sections: &[Measure<E>],
) -> A {
    let names = PossibleValuesParser::new(sections.iter().map(|&(name, _)| name));
    let command = A::command().mut_arg("sections", |argument| argument.value_parser(names));
    let line = std::iter::once(bench).chain(given.iter().map(String::as_str));
    A::from_arg_matches(&command.get_matches_from(line)).unwrap_or_else(|error| error.exit())
}

impl Asked {
    /// How many rounds, where so many are usual.
    pub fn rounds(&self, usual: usize) -> usize {
        if self.quick { 1 } else { self.rounds.unwrap_or(usual).max(1) }
    }

    /// Makes those sections that are wanted, and says `more` of what they were made with, beside the machine.
    ///
    /// # Errors
    /// Of a section; then those before it are in the file. If that cannot be written.
    pub fn run<E: Copy>(&self, bench: &'static str, more: &str, sections: &[Measure<E>], effort: E) -> Done {
        let writer = self.file.create(bench)?;
        let is_wanted = |name: &str| self.sections.is_empty() || self.sections.iter().any(|one| one == name);
        println!("{}{more}\n", Machine::read().line());
        let mut all = serde_json::Map::new();
        let made = sections.iter().filter(|(name, _)| is_wanted(name)).try_for_each(|(name, measure)| {
            let section = measure(effort)?;
            println!("## {name}\n\n{section}");
            all.insert((*name).to_owned(), section.to_json());
            Ok(())
        });
        writer.write("sections", &all.into()).map_err(Into::into).and(made)
    }
}

/// Where figures go as JSON, if anywhere.
#[derive(clap::Args, Clone, Debug)]
pub struct JsonFile {
    /// Also write all figures to this new file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Overwrite that file
    #[arg(long, requires = "json")]
    force: bool,
}

/// A file that is open, or none that is wanted; and who uses the processors from now on.
#[derive(Debug)]
pub struct Writer {
    file: Option<OutputFile>,
    schema: String,
    neighbours: Neighbours,
}

impl JsonFile {
    /// Opens it for the figures of `bench`: its name, or that and a version, as in `shared/2`.
    ///
    /// # Errors
    /// If it exists and is not to be overwritten, or cannot be written.
    pub fn create(&self, bench: &str) -> Result<Writer, Box<dyn Error>> {
        let create = |path: &PathBuf| OutputFile::create(Path::new(path), "--json", self.force);
        let version = if bench.contains('/') { "" } else { "/1" };
        Ok(Writer {
            file: self.json.as_ref().map(create).transpose()?,
            schema: format!("softtimers.bench.{bench}{version}"),
            neighbours: Neighbours::watch(),
        })
    }
}

impl Writer {
    /// Writes `figures` under this key, beside the schema and the machine with what else went on.
    ///
    /// # Errors
    /// A failure of the command, as for a full disk.
    pub fn write(self, key: &str, figures: &Value) -> Result<(), softtimers_cli::failure::Failure> {
        let Some(file) = self.file else { return Ok(()) };
        let machine = Machine::read().during(self.neighbours.so_far());
        let object = json!({
            "schema": self.schema, "version": env!("CARGO_PKG_VERSION"), "machine": machine, key: figures,
        });
        file.write(&format!("{object:#}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Round;

    #[derive(clap::Parser, Debug)]
    struct Arguments {
        #[command(flatten)]
        asked: Asked,
        #[arg(long)]
        of_its_own: bool,
    }

    const SECTIONS: [Measure<f64>; 3] = [("one", one), ("two", one), ("broken", |_| Err("it is".into()))];

    fn one(figure: f64) -> Result<Section, Box<dyn Error>> {
        let section = Section::of(2, |number| {
            let mut round = Round::default();
            round.put("row", "name", figure + number as f64);
            Ok(round)
        })?;
        let mut section = section.shown(["row"], &[("name", 1)]);
        let part = section.clone();
        section.add_part("pairs", "In pairs", part);
        Ok(section)
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

    /// Each figure of each round, of the parts of a section, too; and of those sections that came before the one that broke off.
    #[test]
    fn the_file_has_all_that_was_measured() {
        let path = std::env::temp_dir().join(format!("softtimers-sections-{}", std::process::id()));
        let arguments = asked(&format!("two broken --json {}", path.display()));
        let made = arguments.asked.run("bench", "", &SECTIONS, 3.0);
        assert_eq!(made.unwrap_err().to_string(), "it is");
        let object: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let again = arguments.asked.run("bench", "", &SECTIONS, 3.0).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(again.contains("exists"), "{again}");
        assert_eq!(object["schema"], "softtimers.bench.bench/1");
        let names: Vec<_> = object["sections"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["two"]);
        for section in [&object["sections"]["two"], &object["sections"]["two"]["parts"]["pairs"]] {
            // Others may be busy beside this test.
            let of = |key: &str| section[key].as_array().unwrap().clone();
            let mut figures: Vec<_> = [of("rounds"), of("set_aside")]
                .concat()
                .iter()
                .map(|round| round["row/name"].as_f64())
                .collect();
            figures.sort_by(|one, other| one.partial_cmp(other).unwrap());
            assert_eq!(figures, [Some(3.0), Some(4.0)]);
        }
    }
}
