//! For which programs softtimers pays on this machine, and what serves the others.
//!
//! A program is a loop that has to send a packet each gap: one that handles so many requests in a row, or an idle one.
//! Each is tried by the same methods; the answer is the one that holds the rate and asks the least of the program:
//!
//! ```text
//!   a kernel timer in the loop ─▶ a clock check after each handler ─▶ softtimers, or a signal or thread as cheap
//! ```

use std::time::Duration;

use serde::Serialize;

use super::trial::{Cell, Load};
use super::verdict::{beside, holds, keeps_rate, kernel, was_crowded};
use crate::run::grid::Grid;
use crate::run::quantity::setting;
use crate::run::screen::Tone;
use crate::run::table::Table;

/// A program, and what it should use.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Program {
    /// The load of its loop.
    pub(crate) busy: Load,
    /// The requests that it handles in a row; `null` of an idle loop.
    pub(crate) echo_batch: Option<usize>,
    /// The gap between its packets.
    pub(crate) target_gap_ns: u64,
    /// What serves it; `null` if the trials do not tell.
    pub(crate) answer: Option<Answer>,
    /// The methods that held the rate, evenly.
    pub(crate) holds: Vec<String>,
    /// Rate and evenness of `soft`, `loop` and the best kernel timer, for people.
    #[serde(skip)]
    figures: [Option<Figures>; 3],
}

/// A share of the rate, and of gaps back to back.
type Figures = (f64, Option<f64>);

/// What serves a program, the answer that matters most first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// softtimers holds the rate, and nothing that costs as little does.
    Softtimers,
    /// softtimers alone keeps the rate, with more packets back to back than an even stream has.
    SofttimersUneven,
    /// Reading the clock after each handler.
    ClockCheck,
    /// The time-out of the wait, or a timer descriptor.
    KernelTimer,
    /// A signal for each packet.
    Signal,
    /// A second thread that sleeps.
    Thread,
    /// A loop that never sleeps.
    Spin,
    /// No method that was tried.
    Nothing,
}

impl Answer {
    const ALL: [Answer; 8] = [
        Answer::Softtimers,
        Answer::SofttimersUneven,
        Answer::ClockCheck,
        Answer::KernelTimer,
        Answer::Signal,
        Answer::Thread,
        Answer::Spin,
        Answer::Nothing,
    ];

    fn is_ours(self) -> bool {
        matches!(self, Answer::Softtimers | Answer::SofttimersUneven)
    }

    /// Returns what a program uses, for a table.
    fn name(self) -> &'static str {
        match self {
            Answer::Softtimers => "softtimers",
            Answer::SofttimersUneven => "softtimers, uneven",
            Answer::ClockCheck => "a clock check",
            Answer::KernelTimer => "a kernel timer",
            Answer::Signal => "a signal",
            Answer::Thread => "a thread",
            Answer::Spin => "a busy-polling core",
            Answer::Nothing => "nothing here",
        }
    }

    /// Completes "For these programs …".
    fn sentence(self) -> &'static str {
        match self {
            Answer::Softtimers => "softtimers pays: nothing that costs as little holds the rate",
            Answer::SofttimersUneven => "softtimers alone keeps the rate, though not evenly",
            Answer::ClockCheck => "a clock check after each handler is enough",
            Answer::KernelTimer => "a kernel timer is enough",
            Answer::Signal => "a signal for each packet serves best",
            Answer::Thread => "a second thread that sleeps serves best",
            Answer::Spin => "only a core that busy-polls holds the rate",
            Answer::Nothing => "no method here holds the rate",
        }
    }
}

/// Returns the programs that these trials are of: busy ones by their batches, then idle ones.
pub(super) fn from_cells(cells: &[Cell]) -> Vec<Program> {
    let mut kinds: Vec<_> = cells.iter().map(|cell| (cell.busy, cell.echo_batch)).collect();
    kinds.sort_by_key(|&(busy, batch)| (busy == Load::None, batch));
    kinds.dedup();
    let of_kind = |(busy, batch)| {
        cells.iter().filter(|cell| (cell.busy, cell.echo_batch) == (busy, batch)).collect::<Vec<_>>()
    };
    kinds.into_iter().map(|kind| program(&of_kind(kind))).collect()
}

fn program(cells: &[&Cell]) -> Program {
    let first = cells[0];
    let find = |method: &str| cells.iter().copied().find(|cell| cell.method == method);
    let figures = |cell: Option<&Cell>| {
        cell.filter(|cell| cell.not_made.is_none()).map(|cell| (cell.achieved_share, cell.back_to_back))
    };
    Program {
        busy: first.busy,
        echo_batch: first.echo_batch,
        target_gap_ns: first.target_gap_ns,
        answer: answer(cells),
        holds: cells.iter().filter(|cell| holds(cell)).map(|cell| cell.method.clone()).collect(),
        figures: [find("soft"), find("loop"), kernel(find)].map(figures),
    }
}

/// Returns what serves this program; none if a trial is missing, or a loop did not have its CPU.
fn answer(cells: &[&Cell]) -> Option<Answer> {
    let find =
        |method: &str| cells.iter().copied().find(|cell| cell.method == method && cell.not_made.is_none());
    let (soft, own, kernel) = (find("soft")?, find("loop")?, kernel(find)?);
    if soft.busy == Load::Echo && [soft, own].iter().any(|cell| was_crowded(cell)) {
        return None;
    }
    let other = beside(find, soft);
    let named = |cell: &Cell| if cell.method == "signal" { Answer::Signal } else { Answer::Thread };
    let spins = find("spin").filter(|cell| soft.busy == Load::None && holds(cell)).is_some();
    Some(match (holds(kernel), holds(own), holds(soft), other) {
        (true, ..) => Answer::KernelTimer,
        (_, true, ..) => Answer::ClockCheck,
        (_, _, true, Some((cell, true))) => named(cell),
        (_, _, true, _) => Answer::Softtimers,
        (_, _, _, Some((cell, _))) => named(cell),
        _ if spins => Answer::Spin,
        _ if keeps_rate(soft) && !keeps_rate(own) && !keeps_rate(kernel) => Answer::SofttimersUneven,
        _ => Answer::Nothing,
    })
}

/// Returns a sentence for each answer, and whether softtimers is one of them.
pub(super) fn sentences(programs: &[Program]) -> String {
    let mut told: Vec<String> = vec![];
    for answer in Answer::ALL {
        let those: Vec<&Program> = programs.iter().filter(|one| one.answer == Some(answer)).collect();
        if !those.is_empty() {
            told.push(format!("For {} {}", list(&those), answer.sentence()));
        }
    }
    let answered = || programs.iter().filter_map(|one| one.answer);
    if answered().next().is_some() && !answered().any(Answer::is_ours) {
        told.insert(0, "You do not need softtimers for one flow on this machine".to_owned());
    }
    told.join(". ")
}

/// Names programs: `a loop with 16 or 64 requests in a row, and an idle one`.
fn list(programs: &[&Program]) -> String {
    let batches: Vec<String> =
        programs.iter().filter_map(|one| one.echo_batch).map(|batch| batch.to_string()).collect();
    let is_idle = programs.iter().any(|one| one.busy == Load::None);
    let busy = match &batches[..] {
        [] => return "an idle loop".to_owned(),
        [one] => format!("a loop that handles {}", requests(one)),
        [rest @ .., last] => format!("a loop that handles {} or {}", rest.join(", "), requests(last)),
    };
    if is_idle { format!("{busy}, and for an idle one,") } else { busy }
}

fn requests(number: &str) -> String {
    format!("{number} request{} in a row", if number == "1" { "" } else { "s" })
}

/// Adds a line for each program.
pub(super) fn add_to(programs: &[Program], table: &mut Table) {
    let mut grid = Grid::new(["loop", "use", "soft", "loop check", "kernel timer"]).words(1);
    for one in programs {
        let name = match one.echo_batch {
            Some(batch) => requests(&batch.to_string()),
            None => format!("idle, {}", setting(Duration::from_nanos(one.target_gap_ns))),
        };
        let tone = if one.answer.is_some_and(Answer::is_ours) { Tone::Good } else { Tone::Plain };
        let answer = one.answer.map_or("not told", Answer::name).to_owned();
        grid.toned([name, answer].into_iter().chain(one.figures.map(shown)), tone);
    }
    if !grid.is_empty() {
        table.heading("Which programs gain (share of the rate / back to back)");
        table.grid(grid);
    }
}

fn shown(figures: Option<Figures>) -> String {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    figures.map_or("-".to_owned(), |(share, together)| {
        format!("{} / {}", percent(share), together.map_or("-".to_owned(), percent))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn cell(method: &str, echo_batch: Option<usize>, share: f64, back_to_back: f64) -> Cell {
        Cell {
            method: method.to_owned(),
            busy: if echo_batch.is_some() { Load::Echo } else { Load::None },
            echo_batch,
            target_gap_ns: 40_000,
            achieved_share: share,
            back_to_back: Some(back_to_back),
            ..Cell::default()
        }
    }

    /// The shares of `soft`, `loop` and `pwait2` in this program.
    fn three(echo_batch: Option<usize>, shares: [f64; 3]) -> impl Iterator<Item = Cell> {
        let methods = ["soft", "loop", "pwait2"].into_iter().zip(shares);
        methods.map(move |(method, share)| cell(method, echo_batch, share, 0.0))
    }

    #[test]
    fn each_program_has_its_own_answer() {
        let cells = three(Some(16), [1.0, 0.5, 0.4]).chain(three(None, [1.0, 0.8, 0.7]));
        let cells = cells.chain(three(Some(1), [1.0, 1.0, 0.4])).chain(three(Some(4), [1.0, 1.0, 0.4]));
        let found = from_cells(&cells.collect::<Vec<_>>());
        let batches: Vec<_> = found.iter().map(|one| one.echo_batch).collect();
        assert_eq!(batches, [Some(1), Some(4), Some(16), None]);
        let answers: Vec<_> = found.iter().map(|one| one.answer.unwrap()).collect();
        let (ours, check) = (Answer::Softtimers, Answer::ClockCheck);
        assert_eq!(answers, [check, check, ours, ours]);
        assert_eq!(found[0].holds, ["soft", "loop"]);
        assert_eq!(
            sentences(&found),
            "For a loop that handles 16 requests in a row, and for an idle one, softtimers pays: nothing that \
             costs as little holds the rate. For a loop that handles 1 or 4 requests in a row a clock check after \
             each handler is enough"
        );
    }

    /// A verdict of other figures than those shown would be an advertisement.
    #[test]
    fn the_readmes_verdict_is_what_these_rules_say_of_the_file_it_shows() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        // A crate from a registry has no pages.
        let Ok(text) = fs::read_to_string(root.join("docs/data/send.json")) else { return };
        let data: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut cells = vec![];
        for table in data["tables"].as_array().unwrap() {
            let Some(batch) = table["key"].as_str().and_then(|key| key.strip_prefix("kept-")) else {
                continue;
            };
            let columns = table["columns"].as_array().unwrap();
            let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
            for row in table["rows"].as_array().unwrap() {
                let [share, together] =
                    ["of the rate", "back to back"].map(|name| row[at(name)].as_f64().unwrap());
                let method = row[at("engine")].as_str().unwrap().trim_matches('`');
                cells.push(cell(method, Some(batch.parse().unwrap()), share, together));
            }
        }
        let verdict = sentences(&from_cells(&cells));
        let readme = fs::read_to_string(root.join("README.md")).unwrap().replace("\n> ", " ");
        assert!(readme.contains(&format!(" {verdict}.\n")), "{verdict}");
    }

    #[test]
    fn a_rate_kept_in_bursts_by_softtimers_alone_is_called_so() {
        let uneven = |others: f64| {
            let cells = [("soft", 1.0, 0.05), ("loop", others, 0.0), ("timerfd", 0.3, 0.0)];
            let cells = cells.map(|(method, share, together)| cell(method, Some(64), share, together));
            from_cells(&cells)[0].answer
        };
        assert_eq!(uneven(0.3), Some(Answer::SofttimersUneven));
        assert_eq!(uneven(1.0), Some(Answer::ClockCheck));
    }

    #[test]
    fn where_nothing_of_ours_pays_it_is_said_first() {
        let told = |shares| sentences(&from_cells(&three(Some(1), shares).collect::<Vec<_>>()));
        assert!(
            told([1.0, 1.0, 1.0]).starts_with("You do not need softtimers for one flow on this machine. For")
        );
        assert!(told([1.0, 1.0, 1.0]).ends_with("1 request in a row a kernel timer is enough"));
        assert!(told([0.5, 0.5, 0.5]).contains("no method here holds the rate"));
    }

    #[test]
    fn only_an_idle_loop_is_told_to_spin() {
        let with_spin = |batch| {
            let cells = three(batch, [0.5, 0.5, 0.5]).chain([cell("spin", batch, 1.0, 0.0)]);
            from_cells(&cells.collect::<Vec<_>>())[0].answer
        };
        assert_eq!(with_spin(None), Some(Answer::Spin));
        assert_eq!(with_spin(Some(4)), Some(Answer::Nothing));
    }

    #[test]
    fn a_program_without_its_trials_has_no_answer() {
        let missing =
            Cell { not_made: Some("interrupted".to_owned()), ..cell("soft", Some(4), f64::NAN, 0.0) };
        let found = from_cells(&[vec![missing], three(Some(4), [1.0, 1.0, 1.0]).skip(1).collect()].concat());
        assert_eq!((found[0].answer, sentences(&found)), (None, String::new()));
    }
}
