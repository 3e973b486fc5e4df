//! Makes the runs that a report needs, and the three files from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use softtimers_measure::failure::Failure;

use super::args::{ReportConfig, WrittenReport};
use super::measure;
use crate::report::saved::Runs;
use crate::report::source::{self, SOURCES, Source};
use crate::report::{Findings, catalogue};
use softtimers_run::file::OutputFile;
use softtimers_run::output::{Object, Output, say};
use softtimers_run::privileges::Rights;
use softtimers_run::privileges::user::as_caller;
use softtimers_run::progress::Progress;
use softtimers_run::quantity::number;
use softtimers_run::{Command, Disturbance, Outcome, Run};

impl Command for WrittenReport {
    type Config = ReportConfig;
    type Report = Findings;
    // Each run reports what disturbed it.
    const DISTURBED_BY: Disturbance = Disturbance::Nobody;
    const RIGHTS: Rights = Rights::OfChildren;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> ReportConfig {
        self.config.clone()
    }

    fn header(&self) -> String {
        let sections = number(self.config.sections.len() as u64, "section");
        format!("report of {sections} in {}", self.out.display())
    }

    fn example(&self) -> Findings {
        Findings::default()
    }

    /// Makes or reads the runs, after checking that the files can be written.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<Findings>, Failure> {
        self.check_name()?;
        self.spare_the_runs(&self.beside("json"))?;
        // Before files are created: a signal that ended the process would leave them empty.
        run.interrupt()?;
        self.files = Some(self.create()?);
        let (runs, ended) = match &self.config.from {
            Some(directory) => {
                // The current activity of the machine does not affect saved runs.
                run.unwatch();
                (Runs::read(directory)?, None)
            }
            None => self.make(run)?,
        };
        let findings = Findings::from_runs(&self.config.sections, &runs);
        let inconclusive = ended.or_else(|| findings.doubts());
        Ok(Outcome { inconclusive, ..Outcome::of(findings) })
    }

    /// Also writes the three files.
    fn print(&mut self, object: &Object<'_, Findings, ReportConfig>) -> Result<(), Failure> {
        if let Some([html, md, json]) = self.files.take() {
            let text = object.to_json_text()?;
            html.write(&object.report.html())?;
            md.write(&object.report.markdown())?;
            json.write(&format!("{text}\n"))?;
        }
        self.output.finish(object)
    }
}

impl WrittenReport {
    /// Returns the name of the file next to the HTML file.
    fn beside(&self, extension: &str) -> PathBuf {
        self.out.with_extension(extension)
    }

    fn check_name(&self) -> Result<(), Failure> {
        if self.out.as_os_str() == "-" {
            return Err(Failure::usage(
                "--out '-': three files are made, so it takes the name of one; --json prints the object",
            ));
        }
        if self.out.extension().is_some_and(|extension| extension == "md" || extension == "json") {
            let shown = self.out.display();
            return Err(Failure::usage(format_args!(
                "--out '{shown}': the name of the file of HTML; .md and .json are beside it"
            )));
        }
        Ok(())
    }

    fn create(&self) -> Result<[OutputFile; 3], Failure> {
        let create = |path: &Path| OutputFile::create(path, "--out", self.force);
        Ok([create(&self.out)?, create(&self.beside("md"))?, create(&self.beside("json"))?])
    }

    /// Refuses a file with the name of a saved run, in the directory of the saved runs.
    fn spare_the_runs(&self, object: &Path) -> Result<(), Failure> {
        let Some(runs) = self.config.from.as_ref().or(self.config.run.as_ref()) else { return Ok(()) };
        let of_source = object.file_stem().and_then(|stem| stem.to_str()).and_then(source::find).is_some();
        let parent = object.parent().filter(|parent| !parent.as_os_str().is_empty());
        // A directory that does not exist yet has no runs in it, unless it will be created under the same name.
        let place = |path: &Path| as_caller(|| fs::canonicalize(path)).unwrap_or_else(|_| path.to_owned());
        if of_source && place(parent.unwrap_or(Path::new("."))) == place(runs) {
            let (out, name) = (self.out.display(), object.file_name().unwrap_or_default().display());
            return Err(Failure::usage(format_args!(
                "--out '{out}': its {name} is a saved run; another name or another directory is needed"
            )));
        }
        Ok(())
    }

    /// Returns the sources that the sections need, in the order of their runs.
    fn sources(&self) -> Vec<&'static Source> {
        let sections = || self.config.sections.iter().filter_map(|name| catalogue::find(name));
        let needed = |name| sections().any(|section| section.sources.contains(&name));
        SOURCES.iter().filter(|source| needed(source.name)).collect()
    }

    /// Makes the necessary runs and saves them if wanted; also returns why not all were made, if so.
    fn make(&self, run: &Run<'_>) -> Result<(Runs, Option<String>), Failure> {
        let sources = self.sources();
        let mut kept = vec![];
        if let Some(directory) = &self.config.run {
            let refused = |error| Failure::usage(format_args!("--run '{}': {error}", directory.display()));
            as_caller(|| fs::create_dir_all(directory)).map_err(refused)?;
            for source in &sources {
                let path = directory.join(format!("{}.json", source.name));
                kept.push(OutputFile::create(&path, "--run", self.force)?);
            }
        }
        let mut kept = kept.into_iter();
        let interrupt = run.interrupt()?;
        let done = Arc::new(AtomicUsize::new(0));
        let _progress = Progress::counted("running", sources.len(), &done);
        let mut runs = Runs::default();
        for (at, &source) in sources.iter().enumerate() {
            say(format_args!("{} of {}: {}", at + 1, sources.len(), source.name));
            let Some(made) = measure::make(source, self.config.quick, interrupt) else {
                for missed in &sources[at..] {
                    runs.keep(missed, Err("not made: interrupted".to_owned()));
                }
                let why = format!("ended by a signal after {at} of {} runs", sources.len());
                return Ok((runs, Some(why)));
            };
            if let Some(file) = kept.next() {
                file.write(&format!("{made:#}\n"))?;
            }
            runs.keep(source, Ok(made));
            done.store(at + 1, Ordering::Relaxed);
        }
        Ok((runs, None))
    }
}
