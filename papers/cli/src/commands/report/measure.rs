//! Runs the measurements: each source's commands as children of this process, one source after the other, so that none
//! disturbs another. One that fails or is not possible here is saved with its reason, and the next one runs.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::CommandFactory;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use softtimers::{Clock, Monotonic};
use softtimers_measure::child::Process;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::Machine;
use softtimers_run::beside;

use crate::commands::Cli;
use crate::report::saved::envelope;
use crate::report::source::{HERE, Source, Step};

/// Runs the steps of a source; `None` if a signal ended them, since the result is then incomplete.
///
/// # Cost
/// The time of its commands: seconds to a minute.
pub(super) fn make(source: &Source, quick: bool, interrupt: &Interrupt) -> Option<Value> {
    let when = utc(clock_gettime(ClockId::Realtime).tv_sec);
    let machine = serde_json::to_value(Machine::read()).unwrap_or_default();
    let mut steps = vec![];
    for step in (source.steps)(quick) {
        let made = run(&step, interrupt)?;
        // If the signal came from the terminal, the commands got it as well, and ended early.
        if interrupt.arrived() {
            return None;
        }
        steps.push(made);
    }
    Some(envelope(source, quick, machine, when, steps))
}

fn run(step: &Step, interrupt: &Interrupt) -> Option<Value> {
    let begun = Monotonic.now();
    let mut commands = vec![];
    let (outputs, exit, said) = match outputs(step, &mut commands, interrupt) {
        Ok(outputs) => (Value::Object(outputs?), 0, String::new()),
        Err(failure) => (Value::Null, failure.exit() as u8, failure.to_string()),
    };
    let took = Monotonic.now().saturating_duration_since(begun);
    Some(json!({ "label": step.label, "commands": commands, "exit": exit, "said": said,
                 "took_s": took.as_secs_f64(), "outputs": outputs }))
}

/// Returns the output of each process; `None` if a signal came first, after which none of them goes on.
fn outputs(
    step: &Step,
    commands: &mut Vec<String>,
    interrupt: &Interrupt,
) -> Result<Option<Map<String, Value>>, Failure> {
    let mut started: Vec<(String, Process)> = vec![];
    let mut here = String::new();
    for (at, words) in step.chain.iter().enumerate() {
        let words: Vec<String> =
            words.iter().map(|word| if word == HERE { here.clone() } else { word.clone() }).collect();
        commands.push(format!("softtimers {}", words.join(" ")));
        let name = words.first().cloned().unwrap_or_default();
        let mut process = Process::start_program(&program(&name)?, name.clone(), &words)?;
        if at + 1 < step.chain.len() {
            let announced;
            (process, announced) = process.announced("listening on ")?;
            // The text after the address is for people.
            here = announced.split([',', ' ']).next().unwrap_or_default().to_owned();
        }
        started.push((name, process));
    }
    // The process started last decides when the step is over.
    let mut outputs = Map::new();
    for (name, process) in started.into_iter().rev() {
        if !process.speaks_within(PATIENCE, Some(interrupt))? {
            return Ok(None);
        }
        outputs.insert(name, process.finish()?);
    }
    Ok(Some(outputs))
}

/// Returns the program that has this command: this one, or `softtimers`.
fn program(command: &str) -> Result<PathBuf, Failure> {
    if Cli::command().find_subcommand(command).is_some() {
        return env::current_exe().map_err(|error| Failure::broke_off("finding this program", &error));
    }
    beside::find(beside::TOOLS)
}

/// Formats a time since 1970 in ISO 8601.
fn utc(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Howard Hinnant's days-to-civil: years begin in March, so that a leap day is the last day of its year.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// No run is silent for this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ];
        for (seconds, expected) in known {
            assert_eq!(utc(seconds), expected);
        }
    }
}
