//! `softtimers report`: everything in one page, beside what the papers found.
//!
//! ```text
//!   source ──▶ measure ──▶ saved runs ──▶ draw ──▶ sections ──▶ page       HTML, with plots
//!   as data    children    DIR/*.json     pure     as data  ├─▶ markdown
//!                                                           └─▶ output     JSON, --assert
//! ```
//!
//! Nothing is measured here: each figure comes from what another command of this program printed with `--json`, and is
//! made by a pure function of it. So saved runs can be shown again, by a later version too, and a run that failed is
//! one reason in one place.

mod axis;
pub mod catalogue;
mod draw;
pub mod figure;
mod markdown;
pub mod markup;
mod measure;
mod page;
mod palette;
mod plot;
pub mod saved;
pub mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use crate::args::ReportArgs;
use crate::file::OutputFile;
use crate::output::{Output, Report, Run, Table, say};
use crate::progress::Progress;
use crate::user::as_caller;
use catalogue::{Part, SECTIONS, Section};
use figure::Drawn;
use saved::{INCONCLUSIVE, Made, Runs};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::{Machine, Neighbours};
use source::{SOURCES, Source};

/// What `report` will do.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReportPlan {
    /// The sections by name, in the order of the report.
    pub sections: Vec<&'static str>,
    /// Whether runs are short.
    pub quick: bool,
    /// Where the runs come from; `null` if they are made now.
    pub from: Option<PathBuf>,
    /// Where they are kept; `null` if they are not.
    pub run: Option<PathBuf>,
    #[serde(skip)]
    out: PathBuf,
    #[serde(skip)]
    force: bool,
    #[serde(skip)]
    output: Output,
}

impl From<&ReportArgs> for ReportPlan {
    fn from(args: &ReportArgs) -> Self {
        let wanted =
            |section: &&Section| args.only.is_empty() || args.only.iter().any(|name| name == section.name);
        ReportPlan {
            sections: SECTIONS.iter().filter(wanted).map(|section| section.name).collect(),
            quick: args.quick,
            from: args.from.clone(),
            run: args.run.clone(),
            out: args.out.clone(),
            force: args.force,
            output: Output::from(&args.output),
        }
    }
}

/// The keys of `report`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Findings {
    /// Sections that have all they should.
    pub complete: usize,
    /// Sections that say what they lack.
    pub partial: usize,
    /// Sections with nothing to show.
    pub missing: usize,
    /// Sections of what other programs measure, who have not left a file.
    pub elsewhere: usize,
    /// In the order of the report.
    pub sections: Vec<Shown>,
}

/// A section that was made.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shown {
    /// What `--only` calls it.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Where it stands.
    pub part: Part,
    /// What to see; after *Not in this run* if the runs have something else.
    pub see: String,
    /// What they have instead; `null` if nothing contradicts the sentence.
    pub contradicted: Option<String>,
    /// What it stands beside.
    pub papers: &'static str,
    /// How complete it is.
    pub state: State,
    /// Whose figures these are.
    pub made: Vec<Made>,
    /// What there is to see.
    #[serde(flatten)]
    pub drawn: Drawn,
}

/// How much of a section there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All.
    Complete,
    /// Something is lacking, and it says what.
    Partial,
    /// Nothing, and it says why.
    Missing,
    /// Nothing, for this command does not make it; it says what does.
    Elsewhere,
}

/// Makes or reads the runs, and writes the three files.
///
/// # Errors
/// A usage failure for a file that exists or a directory without runs; a check failure if one cannot be written, or an
/// assertion does not hold.
pub fn run(plan: &ReportPlan) -> Result<(), Failure> {
    let machine = Machine::read();
    plan.output.check_keys(&plan.run_of(&machine, None, &Findings::default()))?;
    let beside = |extension: &str| plan.out.with_extension(extension);
    if plan.out.as_os_str() == "-" {
        return Err(Failure::usage(
            "--out '-': three files are made, so it takes the name of one; --json prints the object",
        ));
    }
    if plan.out.extension().is_some_and(|extension| extension == "md" || extension == "json") {
        let shown = plan.out.display();
        return Err(Failure::usage(format_args!(
            "--out '{shown}': the name of the file of HTML; .md and .json are beside it"
        )));
    }
    plan.spare_the_runs(&beside("json"))?;
    let create = |path: &Path| OutputFile::create(path, "--out", plan.force);
    let files = [create(&plan.out)?, create(&beside("md"))?, create(&beside("json"))?];
    let neighbours = Neighbours::watch();
    let (runs, inconclusive) = match &plan.from {
        Some(directory) => (Runs::read(directory)?, None),
        None => plan.make()?,
    };
    let findings = Findings::of(&plan.sections, &runs);
    let machine = if plan.from.is_some() { machine } else { machine.during(neighbours.so_far()) };
    let run = plan.run_of(&machine, inconclusive.or_else(|| findings.doubts()), &findings);
    let json = run.to_json_text()?;
    let [html, md, object] = files;
    html.write(&page::page(&findings))?;
    md.write(&markdown::markdown(&findings))?;
    object.write(&format!("{json}\n"))?;
    plan.output.finish(&run)
}

/// Makes a report of one saved run, whatever its text: it is drawn, or the report says what it lacks, and no text of the
/// file's reaches the page as markup.
pub fn any_run(source: usize, text: &str) {
    let mut runs = Runs::default();
    runs.keep(&SOURCES[source % SOURCES.len()], saved::understood(text));
    let names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
    let findings = Findings::of(&names, &runs);
    assert_eq!(findings.sections.len(), names.len());
    let (html, markdown) = (page::page(&findings), markdown::markdown(&findings));
    assert!(html.ends_with("</html>\n") && !html.contains("<script"));
    assert!(!markdown.is_empty() && findings.doubts().is_none_or(|doubt| !doubt.contains('\n')));
}

impl ReportPlan {
    fn run_of<'a>(
        &'a self,
        machine: &'a Machine,
        inconclusive: Option<String>,
        report: &'a Findings,
    ) -> Run<'a, Findings, ReportPlan> {
        Run { machine, seed: None, config: self, fallbacks: &[], inconclusive, report }
    }

    /// Refuses a file that has the name of a saved run, in the directory of the saved runs.
    fn spare_the_runs(&self, object: &Path) -> Result<(), Failure> {
        let Some(runs) = self.from.as_ref().or(self.run.as_ref()) else { return Ok(()) };
        let of_source = object.file_stem().and_then(|stem| stem.to_str()).and_then(source::find).is_some();
        let parent = object.parent().filter(|parent| !parent.as_os_str().is_empty());
        // What cannot be found yet has no runs in it, unless it will be made under the same name.
        let place = |path: &Path| as_caller(|| fs::canonicalize(path)).unwrap_or_else(|_| path.to_owned());
        if of_source && place(parent.unwrap_or(Path::new("."))) == place(runs) {
            let (out, name) = (self.out.display(), object.file_name().unwrap_or_default().display());
            return Err(Failure::usage(format_args!(
                "--out '{out}': its {name} is a saved run; another name or another directory is needed"
            )));
        }
        Ok(())
    }

    /// The sources that the sections need, in the order in which they are made.
    fn sources(&self) -> Vec<&'static Source> {
        let sections = || self.sections.iter().filter_map(|name| catalogue::find(name));
        let needed = |name| {
            sections().any(|section| section.sources.contains(&name))
                // The summary alone is of all that it looks at.
                || (self.sections.len() == 1 && sections().any(|section| section.looks_at.contains(&name)))
        };
        SOURCES.iter().filter(|source| needed(source.name) && !source.is_foreign()).collect()
    }

    /// Runs what is needed, and keeps it if that is wanted; and why not all of it was, if so.
    fn make(&self) -> Result<(Runs, Option<String>), Failure> {
        let sources = self.sources();
        let mut kept = vec![];
        if let Some(directory) = &self.run {
            let refused = |error| Failure::usage(format_args!("--run '{}': {error}", directory.display()));
            as_caller(|| fs::create_dir_all(directory)).map_err(refused)?;
            for source in &sources {
                let path = directory.join(format!("{}.json", source.name));
                kept.push(OutputFile::create(&path, "--run", self.force)?);
            }
        }
        let mut kept = kept.into_iter();
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
        let done = Arc::new(AtomicUsize::new(0));
        let _progress = Progress::counted("running", sources.len(), &done);
        let mut runs = Runs::default();
        for (at, &source) in sources.iter().enumerate() {
            say(format_args!("{} of {}: {}", at + 1, sources.len(), source.name));
            let Some(run) = measure::make(source, self.quick, &interrupt) else {
                let why = format!("ended by a signal after {at} of {} runs", sources.len());
                return Ok((runs, Some(why)));
            };
            if let Some(file) = kept.next() {
                file.write(&format!("{run:#}\n"))?;
            }
            runs.keep(source, Ok(run));
            done.store(at + 1, Ordering::Relaxed);
        }
        Ok((runs, None))
    }
}

impl Findings {
    /// How many sections are how complete, in words.
    fn counts(&self) -> String {
        let Findings { complete, partial, missing, elsewhere, .. } = self;
        let made_elsewhere =
            if *elsewhere > 0 { format!(", {elsewhere} made elsewhere") } else { String::new() };
        format!("{complete} complete, {partial} in part, {missing} missing{made_elsewhere}")
    }

    /// What some of the runs say against their figures, in one line: the first, and how many more.
    fn doubts(&self) -> Option<String> {
        let made = || self.sections.iter().flat_map(|section| &section.made);
        let mut doubts: Vec<(&str, &str)> = vec![];
        for made in made() {
            let doubt = made.caveats.iter().find_map(|caveat| caveat.strip_prefix(INCONCLUSIVE));
            if !doubts.iter().any(|(source, _)| *source == made.source) {
                doubts.extend(doubt.map(|doubt| (made.source.as_str(), doubt)));
            }
        }
        let (source, doubt) = doubts.first()?;
        let others: Vec<&str> = doubts.iter().skip(1).map(|(source, _)| *source).collect();
        let others = if others.is_empty() {
            String::new()
        } else {
            format!("; inconclusive as well: {}", others.join(", "))
        };
        Some(format!("{source}: {doubt}{others}"))
    }

    /// The sections of these names, of what was run: a pure function.
    fn of(sections: &[&str], runs: &Runs) -> Self {
        let sections =
            sections.iter().filter_map(|name| catalogue::find(name)).map(|section| Shown::of(section, runs));
        let sections: Vec<Shown> = sections.collect();
        let count = |state| sections.iter().filter(|section| section.state == state).count();
        Findings {
            complete: count(State::Complete),
            partial: count(State::Partial),
            missing: count(State::Missing),
            elsewhere: count(State::Elsewhere),
            sections,
        }
    }
}

impl Shown {
    fn of(section: &Section, runs: &Runs) -> Self {
        let mut drawn = Drawn::default();
        (section.draw)(runs, &mut drawn);
        drawn.lacks.dedup();
        let made = section.sources.iter().filter_map(|name| runs.made(name)).collect();
        // A section without sources looks at those of others.
        let foreign = |name: &&str| !runs.has(name) && source::find(name).is_some_and(Source::is_foreign);
        let elsewhere = !section.sources.is_empty() && section.sources.iter().all(foreign);
        let state = match (drawn.is_empty(), drawn.lacks.is_empty()) {
            (true, _) if elsewhere => State::Elsewhere,
            (true, _) => State::Missing,
            (false, true) => State::Complete,
            (false, false) => State::Partial,
        };
        let Section { name, title, part, see, papers, .. } = *section;
        let contradicted = (section.claim)(runs).err();
        let see = contradicted.as_ref().map_or_else(
            || see.to_owned(),
            |instead| format!("Not in this run: {} Here {instead}.", uncapitalised(see)),
        );
        Shown { name, title, part, see, contradicted, papers, state, made, drawn }
    }
}

/// A sentence as a part of another. Those that begin with a name do not come here.
fn uncapitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

impl Report for Findings {
    const SCHEMA: &'static str = "softtimers.report/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        for section in &self.sections {
            let (figures, tables) = (section.drawn.figures.len(), section.drawn.tables.len());
            let shown = match section.state {
                State::Missing | State::Elsewhere => section.drawn.lacks.join("; "),
                State::Complete => format!("{figures} figures, {tables} tables"),
                State::Partial => {
                    format!("{figures} figures, {tables} tables; {}", section.drawn.lacks.join("; "))
                }
            };
            table.text(section.name, &shown);
        }
        table
    }
}
