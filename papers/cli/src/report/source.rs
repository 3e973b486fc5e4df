//! The sources of the report's figures: runs of this command, as data. Each is made once and shared.
//!
//! A step is a chain of processes, each told the address of the one before. All end when the last one has ended:
//!
//! ```text
//!   recv 127.0.0.1:0 ──"listening on A"──▶ wan --to A ──"listening on B"──▶ send B
//! ```

use softtimers_run::Disturbance;

/// One source of figures, saved as `NAME.json`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// The name of the source.
    pub(crate) name: &'static str,
    /// The CPUs whose use by others makes its figures unfit for comparison.
    pub(super) disturbed_by: Disturbance,
    /// The minimum length of its trials, if it matters.
    pub(super) shortest: Option<Shortest>,
    /// Its runs, in their short form if requested.
    pub(crate) steps: fn(quick: bool) -> Vec<Step>,
}

impl Source {
    /// Says whether its figures do not depend on the machine.
    pub(super) fn is_simulated(&self) -> bool {
        self.disturbed_by == Disturbance::Nobody && self.shortest.is_none()
    }
}

/// The minimum length of a trial, in an output's own configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortest {
    pub(super) key: &'static str,
    pub(super) least: f64,
    pub(super) unit: &'static str,
}

/// Processes that run together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Its name among the steps of its source; empty if there is only one.
    pub(crate) label: String,
    /// The arguments of each process, in the order of their start; [`HERE`] stands for the address of the one before.
    pub(crate) chain: Vec<Vec<String>>,
}

impl Step {
    /// Creates a step from command lines without the program's name.
    fn from_lines(label: &str, lines: &[&str]) -> Self {
        let words = |line: &&str| line.split_whitespace().map(str::to_owned).collect();
        Step { label: label.to_owned(), chain: lines.iter().map(words).collect() }
    }
}

/// Stands in a command line for the address that the process before it has announced.
pub(crate) const HERE: &str = "{}";

/// Returns the source of this name.
pub(crate) fn find(name: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.name == name)
}

/// All sources, in the order of their runs: first those that other runs would disturb.
pub(crate) static SOURCES: &[Source] = &[
    Source {
        shortest: shortest("config.trial_s", 1.0, "s a trial"),
        ..alone("doctor", |quick| {
            one(if quick { "doctor --quick --json" } else { "doctor --duration 2s --json" })
        })
    },
    Source { shortest: shortest("config.duration_s", 2.0, "s"), ..alone("slack", slack) },
    Source {
        shortest: shortest("config.trial_s", 0.5, "s a trial"),
        ..alone("bench-hybrid", |quick| bench("hybrid", quick))
    },
    Source {
        shortest: shortest("config.trial_s", 0.5, "s a trial"),
        ..alone("bench-naive", |quick| bench("naive", quick))
    },
    Source { shortest: shortest("config.duration_s", 2.0, "s"), ..alone("wan", wan) },
    Source {
        // The activity of other programs is what it watches.
        disturbed_by: Disturbance::Host,
        shortest: shortest("config.duration_s", 10.0, "s"),
        ..alone("probe", |quick| {
            one(if quick { "probe --duration 2s --json" } else { "probe --duration 20s --json" })
        })
    },
    Source {
        // Interference with a computation is what it measures.
        disturbed_by: Disturbance::Nobody,
        shortest: shortest("config.phases", 10_000.0, "phases"),
        ..alone("noise", |quick| {
            one(if quick { "noise --phases 1000 --json" } else { "noise --phases 60000 --json" })
        })
    },
    Source {
        shortest: shortest("config.rounds", 5.0, "rounds"),
        ..alone("rates", |quick| {
            let quickly = "noise --rates 100Hz,1kHz,10kHz --rounds 2 --turn 100ms --json";
            one(if quick { quickly } else { "noise --rates --json" })
        })
    },
    simulated("sim-hip", |_| one("sim hip --json")),
    simulated("sim-hip-gamma", |_| {
        one("sim hip --scheme hip --sweep gamma=0.25,0.5,0.75,1,1.5,2,3,4 --json")
    }),
    simulated("sim-hip-phi", |_| one("sim hip --scheme hip --sweep phi=0,0.5,1,1.5,2,2.5,3,4 --json")),
    simulated("sim-livelock", |quick| {
        one(if quick { "sim livelock-figures --packets 1000 --json" } else { "sim livelock-figures --json" })
    }),
    simulated("sim-pacing", |quick| {
        one(if quick { "sim pacing --duration 1s --json" } else { "sim pacing --json" })
    }),
    simulated("sim-deadline", |_| one("sim deadline --json")),
    simulated("sim-slowstart", |_| one("sim slowstart --json")),
    simulated("sim-polling", |quick| {
        one(if quick { "sim polling --packets 2000 --json" } else { "sim polling --json" })
    }),
    simulated("sim-framerate", |_| one("sim framerate --json")),
    simulated("sim-noise", |_| one("sim noise --json")),
    simulated("sim-callout", |_| one("sim callout --json")),
];

type Steps = fn(bool) -> Vec<Step>;

/// Returns a source that needs the machine for itself.
const fn alone(name: &'static str, steps: Steps) -> Source {
    Source { name, disturbed_by: Disturbance::Anybody, shortest: None, steps }
}

/// Returns a source whose figures no other program can change.
const fn simulated(name: &'static str, steps: Steps) -> Source {
    Source { name, disturbed_by: Disturbance::Nobody, shortest: None, steps }
}

const fn shortest(key: &'static str, least: f64, unit: &'static str) -> Option<Shortest> {
    Some(Shortest { key, least, unit })
}

fn one(line: &str) -> Vec<Step> {
    vec![Step::from_lines("", &[line])]
}

/// Two stages, where the second one gets only the CPU that the first leaves: a receiver without bounds collapses.
fn bench(mode: &str, quick: bool) -> Vec<Step> {
    let (trial, rates) =
        if quick { ("100ms", "0.5,1,1.5,2,5") } else { ("1s", "0.2,0.5,0.8,1,1.25,1.5,2,2.5,3,4,5") };
    one(&format!("bench --mode {mode} --stages 2 --nice 19 --trial {trial} --rates {rates} --json"))
}

/// Twenty flows of 100 packets a second: with slack, several datagrams leave by one wake-up.
fn slack(quick: bool) -> Vec<Step> {
    let (slacks, length): (&[&str], _) = match quick {
        true => (&["0us", "500us", "2ms", "5ms"], "600ms"),
        false => (&["0us", "50us", "200us", "500us", "1ms", "2ms", "5ms", "10ms"], "4s"),
    };
    let step = |slack: &&str| {
        let send = format!(
            "send {HERE} --interval 10ms --flows 20 --size 200 --slack {slack} --duration {length} --json"
        );
        Step::from_lines(slack, &["recv 127.0.0.1:0 --once --json --duration 20s", &send])
    };
    slacks.iter().map(step).collect()
}

/// A path with these settings, measured from outside.
fn wan(quick: bool) -> Vec<Step> {
    let paths = [
        ("delay 1 ms", "--delay 1ms", "5Mbit"),
        ("delay 20 ms", "--delay 20ms", "5Mbit"),
        ("delay 100 ms", "--delay 100ms", "5Mbit"),
        ("loss 1 %", "--delay 5ms --loss 1%", "5Mbit"),
        ("loss 10 %", "--delay 5ms --loss 10%", "5Mbit"),
        ("rate 2 Mbit/s", "--delay 5ms --rate 2Mbit --queue 50ms", "4Mbit"),
        ("rate 10 Mbit/s", "--delay 5ms --rate 10Mbit --queue 50ms", "20Mbit"),
    ];
    let (length, stay) = if quick { ("700ms", "1500ms") } else { ("4s", "5s") };
    let step = |&(label, path, rate): &(&str, &str, &str)| {
        let relay = format!("wan --listen 127.0.0.1:0 --to {HERE} {path} --seed 1 --json --duration {stay}");
        let send = format!("send {HERE} --rate {rate} --size 1000 --duration {length} --json");
        Step::from_lines(label, &["recv 127.0.0.1:0 --once --json --duration 20s", &relay, &send])
    };
    paths
        .iter()
        .filter(|path| !quick || ["delay 20 ms", "loss 10 %", "rate 2 Mbit/s"].contains(&path.0))
        .map(step)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::{CommandFactory, Parser};
    use softtimers_run::beside;
    use std::io::Write;
    use std::process::Command;

    #[test]
    fn each_source_is_of_command_lines_that_the_command_understands() {
        let own = std::env::current_exe().unwrap();
        let tools = own.parent().and_then(|deps| deps.parent()).map(|built| built.join(beside::TOOLS));
        let tools = tools.filter(|tools| tools.is_file());
        if tools.is_none() {
            let test = std::thread::current().name().unwrap_or("?").to_owned();
            let _ = writeln!(std::io::stderr(), "skipped: {test}: softtimers is not built");
        }
        for source in SOURCES {
            for step in [true, false].into_iter().flat_map(source.steps) {
                for words in &step.chain {
                    let line = words.iter().map(|word| if word == HERE { "127.0.0.1:9" } else { word });
                    let line: Vec<&str> = std::iter::once("softtimers").chain(line).collect();
                    let is_own = Cli::command().find_subcommand(&words[0]).is_some();
                    let is_understood = if is_own {
                        Cli::try_parse_from(&line).is_ok()
                    } else if let Some(tools) = &tools {
                        // `--help` ends it once all before it is understood.
                        let run = Command::new(tools).args(&line[1..]).arg("--help").output();
                        run.expect("it starts").status.success()
                    } else {
                        true
                    };
                    assert!(is_understood, "{}: {line:?}", source.name);
                    assert!(words.contains(&"--json".to_owned()), "{line:?}");
                }
                assert!(
                    !step.chain[0].contains(&HERE.to_owned()),
                    "nobody listens before {:?}",
                    step.chain[0]
                );
            }
        }
    }

    #[test]
    fn names_are_those_of_files_and_each_is_another() {
        let mut names: Vec<&str> = SOURCES.iter().map(|source| source.name).collect();
        assert!(
            names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')),
            "{names:?}"
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SOURCES.len());
        assert!(find("doctor").is_some() && find("../doctor").is_none());
    }
}
