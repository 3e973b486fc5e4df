//! Decides whether a run is fit for comparison, from its own file alone.
//!
//! ```text
//!   saved run ──▶ Verdict ──▶ fit          drawn in colour, and compared
//!                         ├─▶ only short   drawn in colour and labelled: it shows shapes; nothing is compared
//!                         └─▶ unfit        drawn grey on a hatched ground; nothing is compared
//! ```
//!
//! The verdict is the section's headline and its part of the first screen.

use serde::Serialize;
use serde_json::Value;
use softtimers_run::page::digits::{digits, percent};
use softtimers_run::page::unfit::Reason;

use super::source::{Shortest, Source};
use super::value::{number, outputs, rows, steps, tamed, text};
use softtimers_run::Disturbance;

/// The verdict on a saved run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Verdict {
    /// The source of the run.
    #[serde(skip)]
    source: &'static str,
    /// Whether its figures can be compared with each other and with another run's.
    pub(crate) fit: bool,
    /// Why not, in the order of the file; empty if they can.
    pub(crate) reasons: Vec<Reason>,
}

impl Verdict {
    /// Returns the verdict on a run of this source.
    pub(super) fn from_run(source: &Source, run: &Value) -> Self {
        let mut verdict = Verdict { source: source.name, fit: true, reasons: vec![] };
        for step in steps(run) {
            let label = tamed(text(step, "label"));
            if number(step, "exit").is_some_and(|exit| exit != 0.0) {
                verdict.add(&label, format!("broke off: {}", tamed(text(step, "said"))));
            }
        }
        if verdict.fit && outputs(run).next().is_none() {
            verdict.add("", "it left no figures".to_owned());
        }
        for (label, output) in outputs(run) {
            let label = tamed(label);
            let disturbed = interference(source, output);
            let inconclusive = text(output, "inconclusive");
            if !inconclusive.is_empty() {
                verdict.add(&label, tamed(inconclusive));
            } else if let Some(disturbed) = disturbed {
                verdict.add(&label, disturbed);
            }
            if let Some(short) = source.shortest.and_then(|shortest| too_short(shortest, output)) {
                verdict.push(&label, short, true);
            }
            let declined = text(output, "verdict");
            if inconclusive.is_empty() && DECLINED.iter().any(|begin| declined.starts_with(begin)) {
                verdict.add("", format!("doctor declined: {}", tamed(declined)));
            }
            for cell in rows(output, "pacing") {
                if let Some(crowded) = crowded(cell) {
                    verdict.add(&trial(cell), crowded);
                }
            }
        }
        verdict
    }

    /// Returns why a trial of the run cannot be compared: a reason for the trial or for the whole run; a disturbance
    /// comes first.
    pub(super) fn against(&self, trial: &str) -> Option<&Reason> {
        let concerns = |reason: &&Reason| reason.trial.is_empty() || reason.trial == trial;
        self.reasons.iter().filter(concerns).min_by_key(|reason| reason.short)
    }

    /// Returns why the run as a whole cannot be compared, independently of the trial.
    pub(super) fn worst(&self) -> Option<&Reason> {
        self.reasons.iter().min_by_key(|reason| reason.short)
    }

    /// Says whether the length of its trials is the only reason.
    pub(super) fn is_only_short(&self) -> bool {
        self.worst().is_some_and(|reason| reason.short)
    }

    /// Adds a disturbance.
    fn add(&mut self, trial: &str, what: String) {
        self.push(trial, what, false);
    }

    /// Adds a reason; the same for several trials becomes one for the run.
    fn push(&mut self, trial: &str, what: String, short: bool) {
        self.fit = false;
        let wording = |what: &str| what.replace(|c: char| c.is_ascii_digit() || c == '.', "");
        let same = self.reasons.iter().position(|reason| wording(&reason.what) == wording(&what));
        match same {
            Some(at) if self.reasons[at].trial == trial => {}
            // Each method of a comparison has its own; for the processes of a step one is enough.
            Some(at) if !what.contains(OWN_CPU) => self.reasons[at].trial.clear(),
            _ if self.reasons.len() < MOST_REASONS => {
                self.reasons.push(Reason { source: self.source, trial: trial.to_owned(), what, short });
            }
            _ => {}
        }
    }
}

/// Returns the name of one of the doctor's trials.
pub(super) fn trial(cell: &Value) -> String {
    let load = if text(cell, "busy") == "echo" { "busy loop" } else { "idle loop" };
    format!("{}, {load}", tamed(text(cell, "method")))
}

/// Returns the share that the host or other programs took, if it is over a twentieth and not the subject of the
/// measurement.
fn interference(source: &Source, output: &Value) -> Option<String> {
    let above = |key| number(output, key).filter(|&share| share > MOST_INTERFERENCE);
    let share = |share| percent(Some(share));
    let steal = above("machine.steal_share").filter(|_| source.disturbed_by != Disturbance::Nobody);
    let others = above("machine.others_share").filter(|_| source.disturbed_by == Disturbance::Anybody);
    steal
        .map(|steal| format!("the host took {} of the CPU time", share(steal)))
        .or_else(|| others.map(|others| format!("other programs used {} of the CPU time", share(others))))
}

/// Returns a reason if a run is too short for its tails.
fn too_short(Shortest { key, least, unit }: Shortest, output: &Value) -> Option<String> {
    let length = number(output, key).filter(|&length| length < least)?;
    let [length, least] = [length, least].map(|length| digits(Some(length)));
    Some(format!("too short: {length} {unit}, where {least} or more are needed"))
}

/// Returns a reason if others used the CPU of a saturated loop: a method is not judged by their interference.
fn crowded(cell: &Value) -> Option<String> {
    let share = number(cell, "cpu_share").filter(|&share| share < LEAST_BUSY)?;
    let taken = ["late.scheduler.count", "late.steal.count"].map(|key| number(cell, key).unwrap_or(0.0));
    let crowded = text(cell, "busy") == "echo" && taken.iter().sum::<f64>() > 0.0;
    crowded.then(|| format!("it {OWN_CPU} for only {} of its trial", percent(Some(share))))
}

const OWN_CPU: &str = "had its CPU";
/// The beginnings of the doctor's verdicts without a result.
const DECLINED: [&str; 2] = ["no verdict", "inconclusive"];
/// The same limit as in every command.
const MOST_INTERFERENCE: f64 = 0.05;
/// A saturated loop on a CPU of its own uses at least 98% of it.
const LEAST_BUSY: f64 = 0.9;
const MOST_REASONS: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::source::find;
    use super::*;
    use serde_json::json;

    /// Returns all reasons in one line; empty if it is fit.
    fn line(verdict: &Verdict) -> String {
        assert_eq!(verdict.fit, verdict.reasons.is_empty());
        verdict.reasons.iter().map(Reason::line).collect::<Vec<_>>().join("; ")
    }

    fn verdict(source: &str, output: Value) -> String {
        let step = json!({ "label": "", "exit": 0, "outputs": { "x": output } });
        let run = json!({ "schema": super::super::saved::SCHEMA, "steps": [step] });
        line(&Verdict::from_run(find(source).unwrap(), &run))
    }

    #[test]
    fn each_kind_of_disturbance_is_told() {
        let stolen = json!({ "machine": { "steal_share": 0.12, "others_share": 0.3 } });
        assert_eq!(verdict("doctor", stolen.clone()), "the host took 12% of the CPU time");
        // Noise measures interference with a computation, and a probe watches a machine at work.
        assert_eq!(verdict("noise", stolen), "");
        let others = json!({ "machine": { "steal_share": 0.05, "others_share": 0.3 } });
        assert_eq!(verdict("doctor", others.clone()), "other programs used 30% of the CPU time");
        assert_eq!(verdict("probe", others), "");
        let short = json!({ "config": { "trial_s": 0.225 } });
        assert_eq!(verdict("doctor", short), "too short: 0.225 s a trial, where 1 or more are needed");
        assert_eq!(verdict("bench-naive", json!({ "inconclusive": "a busy neighbour" })), "a busy neighbour");
        let declined = json!({ "verdict": "no verdict: a trial is missing" });
        assert_eq!(verdict("doctor", declined), "doctor declined: no verdict: a trial is missing");
        assert_eq!(verdict("doctor", json!({ "verdict": "you do not need softtimers" })), "");
    }

    #[test]
    fn a_method_whose_cpu_others_had_is_unfit_and_the_others_are_not() {
        let cell = |method: &str, share: f64, late: u32| json!({ "method": method, "busy": "echo", "cpu_share": share, "late": { "scheduler": { "count": late } } });
        let cells = json!([cell("soft", 0.24, 3), cell("loop", 0.99, 3), cell("spin", 0.3, 0)]);
        let step = json!({ "exit": 0, "outputs": { "doctor": { "pacing": cells } } });
        let run = json!({ "schema": super::super::saved::SCHEMA, "steps": [step] });
        let verdict = Verdict::from_run(find("doctor").unwrap(), &run);
        assert_eq!(line(&verdict), "soft, busy loop: it had its CPU for only 24% of its trial");
        assert!(verdict.against("soft, busy loop").is_some() && verdict.against("loop, busy loop").is_none());
    }

    #[test]
    fn a_run_without_figures_is_unfit() {
        for run in [json!(null), json!({ "schema": super::super::saved::SCHEMA, "steps": [] })] {
            assert_eq!(line(&Verdict::from_run(find("doctor").unwrap(), &run)), "it left no figures");
        }
    }

    #[test]
    fn a_run_that_broke_off_is_unfit() {
        let step =
            |exit: u8| json!({ "label": "0us", "exit": exit, "said": "out of memory", "outputs": null });
        let run = json!({ "schema": super::super::saved::SCHEMA, "steps": [step(0), step(1)] });
        assert_eq!(line(&Verdict::from_run(find("slack").unwrap(), &run)), "0us: broke off: out of memory");
    }
}
