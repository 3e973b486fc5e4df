//! Properties that hold for any input: one function each, called by the property tests and the fuzzer.

use softtimers_sim::csv::{self, Merge, MergeError};
use softtimers_sim::{Axis, Kind, Parameters, Part, Precision, Setting, Sweep, Typed, experiments};

use crate::commands::sim::{self, setting};

/// Runs the property of this name with any input.
///
/// # Panics
/// If there is no such property, or it does not hold.
pub fn run(name: &str, input: &[u8]) {
    let (_, body) =
        BODIES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no body {name}"));
    body(input);
}

/// Passes text to a property; other input would be refused before it reached a reader of text.
fn text(input: &[u8], body: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(input) {
        body(text);
    }
}

/// The property of a corpus.
type Body = fn(&[u8]);

/// The properties by the names of their corpora.
const BODIES: [(&str, Body); 4] = [
    ("machine", |input| text(input, machine)),
    ("saved_run", saved_run),
    ("sim_parts", |input| text(input, sim_parts)),
    ("sim_sweep", |input| text(input, sim_sweep)),
];

/// Any text is a machine or refused in one line; a machine prints as text that parses as the same, and says for each
/// experiment whether it can be run on it.
pub fn machine(text: &str) {
    match sim::machine::parse(text) {
        Ok(spec) => {
            let printed = spec.to_string();
            assert_eq!(sim::machine::parse(&printed).map(|again| again.to_string()), Ok(printed));
            for experiment in experiments::ALL {
                match spec.parameters(experiment) {
                    Ok(parameters) => _ = (experiment.check)(&parameters),
                    Err(problem) => assert!(!problem.to_string().contains('\n'), "{problem}"),
                }
            }
        }
        Err(problem) => assert!(!problem.contains('\n'), "{problem}"),
    }
}

/// Any texts, separated by zeros, are parts of a sweep or refused, and merge into a complete part. Any text is the
/// beginning of a run to resume or refused, and no more of it is kept than there is.
pub fn sim_parts(texts: &str) {
    resumed(texts);
    let texts: Vec<&str> = texts.split('\0').collect();
    let merged = |texts: &[&str]| {
        let mut merge = Merge::default();
        texts.iter().try_for_each(|text| merge.add("part.csv", text))?;
        merge.finish()
    };
    if let Ok(whole) = merged(&texts) {
        assert_eq!(merged(&[&whole]), Ok::<_, MergeError>(whole));
    }
}

/// Resumes the text as a file: alone, and after the first lines of a sweep.
fn resumed(text: &str) {
    let Some(experiment) = experiments::find("slowstart") else { return };
    let values = (1..=9).map(|packets: u64| (packets.to_string(), Setting::Count(packets))).collect();
    let axes = vec![Axis { name: "packets", values }];
    let sweep = Sweep::new(experiment, Parameters::new(experiment.parameters), axes, 1);
    let id = format!("{:016x}", sweep.fingerprint());
    let ours = format!("{}{}", csv::header(&sweep), text.replace("SWEEP", &id));
    for text in [text, &ours] {
        match csv::finished(&sweep, Part::default(), "out.csv", text) {
            Ok((done, kept)) => {
                assert!(text.starts_with(kept) && done <= 9 && (kept.is_empty() || kept.ends_with('\n')));
                // The kept part is itself the beginning of such a run.
                assert!(csv::finished(&sweep, Part::default(), "out.csv", kept).is_ok());
            }
            Err(refused) => assert!(!refused.to_string().contains('\n')),
        }
    }
}

/// Any lines are sweeps of an experiment, as typed in the command and in Python, or are refused in one line each. An accepted
/// line gives allowed values, each text between commas or those of its range, and together they make a sweep that says whether it can run.
pub fn sim_sweep(lines: &str) {
    lines.lines().for_each(typed);
    // A fuzzer would open any file.
    let typed = Typed { recording: |_| Err("none is read here".to_owned()), ..setting::TYPED };
    for experiment in experiments::ALL {
        let mut axes: Vec<Axis> = vec![];
        for line in lines.lines() {
            match typed.axis(experiment, line) {
                Ok(axis) => {
                    let (_, values) = line.split_once('=').expect("an axis has values");
                    // A range gives several.
                    let is_there = |text: &str| axis.values.iter().any(|(value, _)| value == text);
                    assert!(values.split(',').all(|text| text.contains("..") || is_there(text)));
                    let known = experiment.parameters.iter().find(|parameter| parameter.name == axis.name);
                    assert!(axis.values.iter().all(|(_, to)| known.is_none_or(|known| known.kind.holds(to))));
                    if axes.iter().all(|other| other.name != axis.name) {
                        axes.push(axis);
                    }
                }
                Err(problem) => assert!(!problem.contains('\n'), "{problem}"),
            }
        }
        let names: Vec<_> = axes.iter().map(|axis| axis.name).collect();
        let sweep = Sweep::new(experiment, Parameters::new(experiment.parameters), axes, 1);
        if sweep.points() <= 100
            && let Err(problem) = sweep.check(&names)
        {
            assert!(!problem.to_string().contains('\n'), "{problem}");
        }
    }
}

/// Every typed value is accepted or refused in one line: parts of a sweep, precisions and the parameters of experiments. Values
/// that name a file are left out: a file may be anything, even a terminal.
fn typed(text: &str) {
    if let Ok(part) = text.parse::<Part>() {
        assert!(part.indices(100).all(|point| point < 100));
    }
    if let Ok(precision) = text.parse::<Precision>() {
        assert!(precision.share > 0.0 && precision.share <= 1.0 && !precision.column.is_empty());
    }
    for parameter in experiments::ALL.iter().flat_map(|experiment| experiment.parameters) {
        if matches!(parameter.kind, Kind::Trace) {
            continue;
        }
        match setting::parse(parameter.kind, text) {
            Ok(setting) => assert_eq!(setting::parse(parameter.kind, &setting.to_string()), Ok(setting)),
            Err(problem) => assert!(!problem.contains('\n')),
        }
    }
}

/// Any text in place of any saved run makes a report: see [`any_run`](crate::report::any_run).
pub fn saved_run(script: &[u8]) {
    let [source, run @ ..] = script else { return };
    crate::report::any_run((*source).into(), &String::from_utf8_lossy(run));
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use softtimers_corpora::{Target, replay};

    use super::*;

    fn targets() -> Vec<Target> {
        BODIES.iter().map(|&(name, body)| Target { name, body }).collect()
    }

    fn fuzz() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
    }

    #[test]
    fn every_kept_input_is_read_or_refused() {
        replay::kept(&fuzz(), &targets());
    }

    #[test]
    fn every_kept_input_is_read_or_refused_when_damaged() {
        replay::damaged(&fuzz(), &targets());
    }
}
