//! Saved runs: one file for each source, with the commands, time, machine, and result.
//!
//! ```text
//!   DIR/wan.json   { schema, source, when, version, quick, machine,
//!                    steps: [ { label, commands: [ … ], exit, said, took_s, outputs: { recv: {…}, wan: {…} } } ] }
//! ```
//!
//! A file may be truncated, edited, or from another version: an invalid part is reported and the rest is used. Nothing
//! in it is trusted, neither the size of numbers nor the content of texts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use softtimers_measure::failure::Failure;

use super::source::{SOURCES, Source};
use super::value::{number, outputs, rows, steps, tamed, text};
use super::verdict::Verdict;
use crate::commands::sim::SimReport;
use softtimers_run::file::{self, quoted};
use softtimers_run::output::Report;
use softtimers_run::page::unfit::Reason;
use softtimers_run::privileges::user::as_caller;

/// The saved runs by source: each with its own verdict, or why it cannot be read.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Runs {
    kept: BTreeMap<&'static str, Result<(Value, Verdict), String>>,
}

/// The circumstances of a run, for people.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Made {
    pub(crate) source: String,
    /// The time in UTC; empty if unknown.
    pub(crate) when: String,
    /// One line about the machine.
    pub(crate) machine: String,
    /// Command lines of each step, in the order in which they were started.
    pub(crate) steps: Vec<Vec<String>>,
    /// Whether its figures can be compared.
    pub(crate) verdict: Verdict,
    /// Its deviations from the request.
    pub(crate) caveats: Vec<String>,
}

impl Runs {
    /// Reads every file of the directory that has a source's name.
    ///
    /// # Errors
    /// A usage failure if it cannot be read, or has no such file.
    pub(crate) fn read(directory: &Path) -> Result<Self, Failure> {
        let shown = directory.display();
        if let Err(error) = as_caller(|| fs::read_dir(directory)) {
            return Err(Failure::usage(format_args!("--from '{shown}': {error}")));
        }
        let mut runs = Runs::default();
        for source in SOURCES {
            let path = directory.join(format!("{}.json", source.name));
            match file::open(&path) {
                Ok(file) => runs.keep(source, parsed(file)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => runs.keep(source, Err(format!("cannot be read: {error}"))),
            }
        }
        if runs.kept.is_empty() {
            let message =
                format_args!("--from '{shown}': no saved runs; softtimers report --run DIR makes them");
            return Err(Failure::usage(message));
        }
        Ok(runs)
    }

    /// Adds the result of a source.
    pub(crate) fn keep(&mut self, source: &'static Source, run: Result<Value, String>) {
        let judged = run.map(enveloped).map(|run| {
            let verdict = Verdict::from_run(source, &run);
            (run, verdict)
        });
        self.kept.insert(source.name, judged);
    }

    /// Returns the object that a process of the first step called `label` printed.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub(crate) fn output(&self, source: &str, label: &str, process: &str) -> Result<&Value, String> {
        let steps = self.steps(source)?;
        let step = steps.iter().find(|step| text(step, "label") == label);
        step.map_or_else(|| Err(format!("{source}: no step '{label}'")), |step| output(source, step, process))
    }

    /// Returns the object of a source with one command; the file may also be that command's own output.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub(crate) fn only(&self, source: &str) -> Result<&Value, String> {
        let step = self.steps(source)?.first().ok_or_else(|| format!("{source}: the run has no steps"))?;
        let output =
            step.get("outputs").and_then(Value::as_object).and_then(|outputs| outputs.values().next());
        let output = output.filter(|output| output.is_object()).ok_or_else(|| failed(source, step))?;
        let schema = text(output, "schema");
        if schema.starts_with(SIM) && schema != SimReport::SCHEMA {
            let (found, read) = (tamed(schema), SimReport::SCHEMA);
            let found = quoted(found);
            return Err(format!(
                "{source}: {found}, which other versions print; this one reads {read}: run it again"
            ));
        }
        Ok(output)
    }

    /// Returns the labels of a source's steps.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub(crate) fn labels(&self, source: &str) -> Result<Vec<&str>, String> {
        Ok(self.steps(source)?.iter().map(|step| text(step, "label")).collect())
    }

    /// Returns the verdict on a source's run; `None` without a readable one.
    pub(crate) fn verdict(&self, source: &str) -> Option<&Verdict> {
        self.kept.get(source)?.as_ref().ok().map(|(_, verdict)| verdict)
    }

    /// Returns why a source's run cannot be compared, independently of the trial.
    pub(super) fn unfit(&self, source: &str) -> Option<&Reason> {
        self.verdict(source)?.worst()
    }

    /// Returns why a trial of a source's run cannot be compared; without a name, why none of them can.
    pub(super) fn against(&self, source: &str, trial: &str) -> Option<&Reason> {
        self.verdict(source)?.against(trial)
    }

    fn steps(&self, source: &str) -> Result<&[Value], String> {
        match self.kept.get(source) {
            None => Err(format!("{source}: not among the saved runs")),
            Some(Err(why)) => Err(format!("{source}: {why}")),
            Some(Ok((run, _))) if text(run, "schema") != SCHEMA => {
                Err(format!("{source}: not a run that was saved by softtimers report"))
            }
            Some(Ok((run, _))) => Ok(steps(run)),
        }
    }

    /// Returns the circumstances of a source's run; `None` if there is none.
    pub(crate) fn made(&self, source: &str) -> Option<Made> {
        let (run, verdict) = self.kept.get(source)?.as_ref().ok()?;
        let commands = |step: &Value| -> Vec<String> {
            rows(step, "commands").iter().take(MOST_COMMANDS).filter_map(Value::as_str).map(tamed).collect()
        };
        let fallbacks = outputs(run).flat_map(|(_, output)| rows(output, "fallbacks"));
        let mut caveats: Vec<String> = fallbacks.filter_map(Value::as_str).map(tamed).collect();
        // Caveats that differ only in their numbers count as the same.
        let wording = |caveat: &String| caveat.replace(|c: char| c.is_ascii_digit() || c == '.', "");
        caveats.sort_by_key(wording);
        caveats.dedup_by_key(|caveat| wording(caveat));
        caveats.truncate(MOST_CAVEATS);
        Some(Made {
            source: source.to_owned(),
            when: tamed(text(run, "when")),
            machine: machine_line(run.get("machine").unwrap_or(&Value::Null)),
            steps: steps(run)
                .iter()
                .take(MOST_COMMANDS)
                .map(commands)
                .filter(|step| !step.is_empty())
                .collect(),
            verdict: verdict.clone(),
            caveats,
        })
    }
}

/// Returns a run, also for a file that is just the `--json` output of a command.
fn enveloped(run: Value) -> Value {
    let schema = text(&run, "schema");
    if schema.starts_with("softtimers.") && schema != SCHEMA {
        return json!({ "schema": SCHEMA, "machine": run.get("machine"), "steps": [{ "outputs": { "": run } }] });
    }
    run
}

fn output<'a>(source: &str, step: &'a Value, process: &str) -> Result<&'a Value, String> {
    let output = step.get("outputs").and_then(|outputs| outputs.get(process));
    output.filter(|output| output.is_object()).ok_or_else(|| failed(source, step))
}

/// Returns why a step has no figures.
fn failed(source: &str, step: &Value) -> String {
    let (said, label) = (tamed(text(step, "said")), tamed(text(step, "label")));
    let said = if said.is_empty() { "it left no figures".to_owned() } else { said };
    let of = if label.is_empty() { String::new() } else { format!(", {label}") };
    match number(step, "exit") {
        Some(77.0) => format!("{source}{of}: not possible on that machine: {said}"),
        _ => format!("{source}{of}: {said}"),
    }
}

fn parsed(file: fs::File) -> Result<Value, String> {
    let mut content = String::new();
    let mut limited = file.take(LARGEST_FILE + 1);
    limited.read_to_string(&mut content).map_err(|error| format!("cannot be read: {error}"))?;
    if content.len() as u64 > LARGEST_FILE {
        return Err(format!("the file is larger than {} MiB", LARGEST_FILE >> 20));
    }
    understood(&content)
}

/// Parses the text of a saved run.
pub(super) fn understood(content: &str) -> Result<Value, String> {
    serde_json::from_str(content).map_err(|error| format!("the file is damaged: {error}"))
}

/// Returns the envelope of a run that was just made.
pub(crate) fn envelope(
    source: &Source,
    quick: bool,
    machine: Value,
    when: String,
    steps: Vec<Value>,
) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({ "schema": SCHEMA, "source": source.name, "when": when, "version": version, "quick": quick,
            "machine": machine, "steps": steps })
}

/// Formats a file's machine like [`Machine::line`](softtimers_measure::machine::Machine::line).
fn machine_line(machine: &Value) -> String {
    let key = |key: &str| Some(tamed(text(machine, key))).filter(|text| !text.is_empty());
    let (Some(kernel), Some(cpu)) = (key("kernel"), key("cpu")) else { return "unknown".to_owned() };
    let cores = number(machine, "cores").unwrap_or(0.0);
    let virtualised = machine.get("virtualised").and_then(Value::as_bool).unwrap_or(false);
    let virtualised = if virtualised { ", virtual machine" } else { "" };
    let clock = key("clocksource").unwrap_or_else(|| "unknown".to_owned());
    format!("Linux {kernel}, {cores} x {cpu}{virtualised}, clock {clock}")
}

/// The schema of a saved run.
pub(super) const SCHEMA: &str = "softtimers.report.run/1";
/// The limit of a file's size; the largest run has some 100 KiB.
const LARGEST_FILE: u64 = 32 << 20;
/// The beginning of `sim`'s schema, for any version.
const SIM: &str = "softtimers.sim/";
const MOST_COMMANDS: usize = 64;
const MOST_CAVEATS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(run: Value) -> Runs {
        let mut runs = Runs::default();
        runs.keep(&SOURCES[0], Ok(run));
        runs
    }

    #[test]
    fn what_is_not_there_has_a_reason() {
        let because = |run: Value| runs(run).only("doctor").unwrap_err();
        assert_eq!(runs(json!({})).only("wan").unwrap_err(), "wan: not among the saved runs");
        assert!(because(json!([])).contains("not a run that was saved"));
        assert!(because(json!({ "schema": SCHEMA, "steps": 7 })).contains("no steps"));
        let step = json!({ "exit": 77, "said": "needs\u{1b} CAP_BPF", "outputs": null });
        let message = because(json!({ "schema": SCHEMA, "steps": [step] }));
        assert_eq!(message, "doctor: not possible on that machine: needs\\u{1b} CAP_BPF");
    }

    #[test]
    fn shares_in_percent_of_an_earlier_version_are_not_taken_for_fractions() {
        let source = super::super::source::find("sim-deadline").unwrap();
        let read = |schema: &str| {
            let mut runs = Runs::default();
            runs.keep(source, Ok(json!({ "schema": schema, "rows": [] })));
            runs.only("sim-deadline").map(|_| ())
        };
        assert_eq!(read(SimReport::SCHEMA), Ok(()));
        assert!(
            read("softtimers.sim/1").unwrap_err().contains("sim-deadline: softtimers.sim/1, which other")
        );
    }

    #[test]
    fn who_made_it_is_told_as_far_as_it_is_known() {
        let output = json!({ "inconclusive": "a busy neighbour", "fallbacks": ["no epoll_pwait2", 7] });
        let step = json!({ "commands": ["softtimers doctor", null], "outputs": { "doctor": output } });
        let made = runs(json!({ "steps": [step, 3], "when": 5, "machine": { "kernel": "6.1", "cpu": "x" } }));
        let made = made.made("doctor").unwrap();
        assert_eq!(made.steps, [["softtimers doctor"]]);
        assert_eq!(made.caveats, ["no epoll_pwait2"]);
        assert_eq!(made.verdict.worst().map(Reason::line).as_deref(), Some("a busy neighbour"));
        assert_eq!(made.machine, "Linux 6.1, 0 x x, clock unknown");
    }
}
