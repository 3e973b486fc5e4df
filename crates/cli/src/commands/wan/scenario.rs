//! `--scenario FILE`: settings at given times, in TOML.
//!
//! ```toml
//! repeat = "40s"            # from the beginning again
//! delays = "train.csv"      # delays at given times, if there are many
//!
//! [[step]]
//! at = "10s"
//! loss = "5%"               # each setting as its flag has it
//!
//! [[step]]
//! at = "20s"
//! way = "up"                # down; both by default
//! outage = "2s"
//! ```
//!
//! Settings are parsed as at the control socket, and [`Scenario`] does the rest.

use std::path::Path;
use std::time::Duration;

use softtimers_measure::units;
use softtimers_wan::{Change, PathConfig, PathError, Scenario, Way};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::control;
use super::delays;
use super::setting::{Setting, read};
use crate::run::privileges::user::exceeds_caller;

/// A scenario, and the position of each step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ScenarioFile {
    pub(crate) scenario: Scenario,
    /// The flag that names it, without its hyphens.
    pub(crate) flag: &'static str,
    /// The name of the file.
    pub(crate) name: String,
    /// The time and the line of each step.
    lines: Vec<(Duration, usize)>,
}

/// A problem, and the byte at which it is.
type Problem = (usize, String);

impl ScenarioFile {
    /// Reads a file, and the traces that it names, as seen from its directory.
    ///
    /// # Errors
    /// Names the line, its fault, and what is allowed.
    pub(crate) fn read(path: &str) -> Result<Self, String> {
        let text = read(Path::new(path), MOST_BYTES)?;
        let text = String::from_utf8(text).map_err(|_| "not a text in UTF-8".to_owned())?;
        let directory = Path::new(path).parent().unwrap_or(Path::new(""));
        let file = ScenarioFile::parse(&text, directory).map_err(|problem| {
            // It may quote the line.
            if !exceeds_caller() {
                return problem;
            }
            format!("{}: no step of a scenario", problem.split(':').next().unwrap_or_default())
        })?;
        Ok(ScenarioFile { flag: "scenario", name: path.to_owned(), ..file })
    }

    /// Reads a file of delays.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_delays(path: &str) -> Result<Self, String> {
        let rows = delays::read(path)?;
        let lines = rows.iter().map(|row| (row.at, row.line)).collect();
        let scenario = rows.iter().fold(Scenario::default(), |scenario, row| row.add_to(scenario));
        Ok(ScenarioFile { scenario, flag: "delays", name: path.to_owned(), lines })
    }

    /// Parses the text of a file in `directory`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        let line = line_numbers(text);
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line(at), error.message().replace('\n', "; "))
        })?;
        let named = |(at, problem): Problem| format!("line {}: {problem}", line(at));
        let (scenario, steps) = scenario(table.get_ref(), directory).map_err(named)?;
        let lines = steps.into_iter().map(|(time, at)| (time, line(at))).collect();
        Ok(ScenarioFile { scenario, lines, ..ScenarioFile::default() })
    }

    /// Checks each path that its steps make of `path` in one direction.
    ///
    /// # Errors
    /// The line of the first invalid path, and why.
    pub(crate) fn check(
        &self,
        way: Way,
        path: &PathConfig,
        check: impl Fn(&PathConfig) -> Result<(), PathError>,
    ) -> Result<(), String> {
        for (at, path) in self.scenario.paths(way, path.clone()) {
            if let Err(error) = check(&path) {
                let before = self.lines.iter().filter(|(time, _)| *time <= at);
                let line = before.max_by_key(|(time, line)| (*time, *line)).map_or(1, |(_, line)| *line);
                let ScenarioFile { flag, name, .. } = self;
                return Err(format!("--{flag} {name}: line {line}: the path {way}: {error}"));
            }
        }
        Ok(())
    }
}

/// Returns the number of the line with a given byte. Line ends are found once, for up to a million lookups.
fn line_numbers(text: &str) -> impl Fn(usize) -> usize + use<> {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    // No line follows the last one.
    let last = text.lines().count().max(1);
    move |at| (ends.partition_point(|&end| end < at) + 1).min(last)
}

/// Returns the scenario, and the time and position of each step.
fn scenario(table: &DeTable<'_>, directory: &Path) -> Result<(Scenario, Vec<(Duration, usize)>), Problem> {
    let (mut scenario, mut places, mut repeat) = (Scenario::default(), Vec::new(), None);
    for (key, value) in table {
        match &**key.get_ref() {
            "repeat" => repeat = Some((value.span().start, time("repeat", value)?)),
            "delays" => {
                let (file, place) = (string("delays", value)?, value.span().start);
                let rows = delays::read(&beside(directory, file))
                    .map_err(|problem| (place, format!("delays {file}: {problem}")))?;
                scenario = rows.iter().fold(scenario, |scenario, row| row.add_to(scenario));
                places.extend(rows.iter().map(|row| (row.at, place)));
            }
            "step" => {
                let steps = value
                    .get_ref()
                    .as_array()
                    .ok_or_else(|| wrong(value, "step: each begins with [[step]]"))?;
                for one in steps {
                    let table = one.get_ref().as_table();
                    let table = table.ok_or_else(|| wrong(one, "step: each begins with [[step]]"))?;
                    let at = table
                        .get("at")
                        .ok_or_else(|| wrong(one, "a step needs a time, such as at = \"10s\""))?;
                    let at = time("at", at)?;
                    scenario = step(scenario, at, table, one.span().start, directory)?;
                    places.push((at, one.span().start));
                }
            }
            other => {
                return Err((
                    key.span().start,
                    format!("no key {other:?}; there are repeat, delays and [[step]]"),
                ));
            }
        }
    }
    if scenario.is_empty() {
        return Err((0, "nothing changes; a step is [[step]], at = \"10s\", loss = \"5%\"".into()));
    }
    if let Some((place, period)) = repeat {
        scenario = scenario.repeat(period).map_err(|error| (place, format!("repeat: {error}")))?;
    }
    Ok((scenario, places))
}

/// Adds the changes of one step.
fn step(
    mut scenario: Scenario,
    at: Duration,
    table: &DeTable<'_>,
    place: usize,
    directory: &Path,
) -> Result<Scenario, Problem> {
    let way = table.get("way").map_or(Ok(None), way)?;
    let mut set: Vec<(&str, Change)> = Vec::new();
    let mut is_empty = true;
    for (key, value) in table {
        let name = &**key.get_ref();
        match name {
            "at" | "way" => continue,
            "outage" => scenario = scenario.outage(at, way, time(name, value)?),
            _ => {
                let change = setting(name, key.span().start, value, directory)?;
                let same = |(_, other): &&(&str, Change)| {
                    std::mem::discriminant(other) == std::mem::discriminant(&change)
                };
                if let Some((before, _)) = set.iter().find(same) {
                    return Err((
                        key.span().start,
                        format!("{name}: the step sets that by {before} already"),
                    ));
                }
                scenario = scenario.at(at, way, change.clone());
                set.push((name, change));
            }
        }
        is_empty = false;
    }
    if is_empty { Err((place, "the step sets nothing".into())) } else { Ok(scenario) }
}

fn setting(
    name: &str,
    place: usize,
    value: &Spanned<DeValue<'_>>,
    directory: &Path,
) -> Result<Change, Problem> {
    // An unknown setting is reported first.
    let is_known = name == "rtt" || Setting::named(name).is_some();
    if let (false, Err(problem)) = (is_known, control::change(name, None)) {
        return Err((place, problem.replace("there are rtt", "there are outage, rtt")));
    }
    let text = string(name, value)?;
    let text = match text.split_once("dist=") {
        _ if name == "trace" => beside(directory, text),
        Some((before, file)) if name == "jitter" => format!("{before}dist={}", beside(directory, file)),
        _ => text.to_owned(),
    };
    control::change(name, Some(&text)).map_err(|problem| (value.span().start, problem))
}

/// Returns the path of a file named relative to this directory.
fn beside(directory: &Path, file: &str) -> String {
    directory.join(file).display().to_string()
}

fn way(value: &Spanned<DeValue<'_>>) -> Result<Option<Way>, Problem> {
    match value.get_ref().as_str() {
        Some("up") => Ok(Some(Way::Up)),
        Some("down") => Ok(Some(Way::Down)),
        Some("both") => Ok(None),
        _ => Err(wrong(value, "way: \"up\", \"down\" or \"both\"")),
    }
}

fn time(name: &str, value: &Spanned<DeValue<'_>>) -> Result<Duration, Problem> {
    let text = string(name, value)?;
    units::duration(text).map_err(|error| (value.span().start, format!("{name} {text}: {error}")))
}

fn string<'a>(name: &str, value: &'a Spanned<DeValue<'_>>) -> Result<&'a str, Problem> {
    let kind = value.get_ref().type_str();
    let text = value.get_ref().as_str();
    text.ok_or_else(|| {
        wrong(
            value,
            &format!("{name}: a text in quotes is needed, as \"10s\" or \"5%\"; this is of type {kind}"),
        )
    })
}

fn wrong(value: &Spanned<DeValue<'_>>, problem: &str) -> Problem {
    (value.span().start, problem.to_owned())
}

/// Enough for thousands of steps.
const MOST_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ScenarioFile, String> {
        ScenarioFile::parse(text, Path::new("/proc/self/nowhere"))
    }

    const GOOD: &str = "\
repeat = \"40s\"

[[step]]
at = \"10s\"
loss = \"5%\"
rtt = \"80ms\"

[[step]]
at = \"20s\"
way = \"up\"
outage = \"2s\"
";

    #[test]
    fn steps_are_those_of_the_control_socket() {
        let file = parse(GOOD).unwrap();
        let base = PathConfig::default();
        let [up, down] =
            [Way::Up, Way::Down].map(|way| file.scenario.paths(way, base.clone()).collect::<Vec<_>>());
        let seconds = |path: &(Duration, PathConfig)| path.0.as_secs();
        assert_eq!(up.iter().map(seconds).collect::<Vec<_>>(), [10, 10, 20, 22]);
        assert_eq!(down.iter().map(seconds).collect::<Vec<_>>(), [10, 10]);
        assert!(up[2].1.outage && !up[3].1.outage);
        assert_eq!(up[3].1.delay, Duration::from_millis(40));
        assert_eq!(file.lines, [(Duration::from_secs(10), 3), (Duration::from_secs(20), 8)]);
    }

    #[test]
    fn a_line_is_found_as_by_counting() {
        for text in ["", "a", "\n", "a\n", "\n\nb", "one\r\ntwo\n\nfour\n"] {
            let line = line_numbers(text);
            for at in 0..text.len() {
                let ends = text[..at].bytes().filter(|&byte| byte == b'\n').count();
                assert_eq!(line(at), ends + 1, "{text:?}: {at}");
            }
            let last = text.lines().count().max(1);
            assert_eq!([line(text.len()), line(text.len() + 9)], [last; 2], "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, begin) in [
            ("", "line 1: nothing changes"),
            ("repeat = 1s\n", "line 1: "),
            ("speed = \"1\"\n", "line 1: no key \"speed\"; there are repeat, delays and [[step]]"),
            ("[step]\nat = \"1s\"\n", "line 1: step: each begins with [[step]]"),
            ("[[step]]\nloss = \"1%\"\n", "line 1: a step needs a time"),
            ("[[step]]\nat = \"1s\"\n", "line 1: the step sets nothing"),
            ("[[step]]\nat = 1\n", "line 2: at: a text in quotes is needed"),
            ("[[step]]\nat = \"1\"\nloss = \"1%\"\n", "line 2: at 1: "),
            ("[[step]]\nat = \"1s\"\nloss = 5\n", "line 3: loss: a text in quotes"),
            ("[[step]]\nat = \"1s\"\nloss = \"5\"\n", "line 3: loss 5: "),
            (
                "[[step]]\nat = \"1s\"\nlos = \"5%\"\n",
                "line 3: no setting \"los\"; there are outage, rtt, delay",
            ),
            (
                "[[step]]\nat = \"1s\"\nway = \"left\"\nloss = \"5%\"\n",
                "line 3: way: \"up\", \"down\" or \"both\"",
            ),
            (
                "[[step]]\nat = \"1s\"\nrtt = \"5ms\"\ndelay = \"1ms\"\n",
                "line 3: rtt: the step sets that by delay already",
            ),
            (
                "[[step]]\nat = \"1s\"\ntrace = \"LTE\"\n",
                "line 3: trace /proc/self/nowhere/LTE: No such file",
            ),
            ("repeat = \"1s\"\n[[step]]\nat = \"1s\"\nloss = \"5%\"\n", "line 1: repeat: a round of 1s"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.starts_with(begin), "{text:?}: {problem}");
            assert!(!problem.contains('\n'));
        }
        let file =
            parse("[[step]]\nat = \"1s\"\nloss = \"5%\"\n[[step]]\nat = \"3s\"\njitter = \"9ms\"\n").unwrap();
        let problem = file.check(Way::Down, &PathConfig::default(), PathConfig::check).unwrap_err();
        assert!(problem.contains("line 4: the path down: a uniform jitter"), "{problem}");
        assert!(file.check(Way::Up, &PathConfig::default(), PathConfig::check_stream).is_err());
    }
}
