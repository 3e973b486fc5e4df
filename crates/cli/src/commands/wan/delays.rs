//! `--delays FILE`: delays at given times, as comma-separated values. It is a [scenario](super::scenario) for programs
//! to write.
//!
//! ```text
//!   seconds,up ms,down ms      a first line that begins with a letter names the columns
//!   0,20.1,35
//!   0.5,24,35.2                from half a second on, until the next line
//!   1,30                       both directions
//! ```

use std::path::Path;
use std::time::Duration;

use softtimers_wan::{Change, Scenario, Way};

use super::setting;
use crate::run::privileges::user::exceeds_caller;

/// A line of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// From the beginning on.
    pub(super) at: Duration,
    up: Duration,
    down: Duration,
    /// The number of the line, from one on.
    pub(super) line: usize,
}

impl Row {
    /// Adds this change to the scenario.
    pub(super) fn add_to(&self, scenario: Scenario) -> Scenario {
        if self.up == self.down {
            return scenario.at(self.at, None, Change::Delay(self.up));
        }
        let scenario = scenario.at(self.at, Some(Way::Up), Change::Delay(self.up));
        scenario.at(self.at, Some(Way::Down), Change::Delay(self.down))
    }
}

/// Reads a file.
///
/// # Errors
/// A message that names the line, its fault, and what is allowed.
pub(super) fn read(path: &str) -> Result<Vec<Row>, String> {
    let text = setting::read(Path::new(path), MOST_BYTES)?;
    parse(&text).map_err(|(line, problem)| {
        // The message may quote the line.
        let problem = if exceeds_caller() { ALLOWED.to_owned() } else { problem };
        format!("line {line}: {problem}")
    })
}

/// Parses a file's content.
///
/// # Errors
/// The line, and the problem.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<Row>, (usize, String)> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut last, mut is_first) = (1, true);
    for (line, number) in text.split(|&byte| byte == b'\n').zip(1..) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        last = number;
        let names_columns = line.starts_with(|first: char| first.is_alphabetic() || first == '"');
        if std::mem::take(&mut is_first) && names_columns {
            continue;
        }
        let row = row(line, number).map_err(|problem| (number, problem))?;
        if let Some(before) = rows.last().filter(|before| row.at < before.at) {
            return Err((
                number,
                format!("{:?} comes after {:?}; times may not decrease", row.at, before.at),
            ));
        }
        rows.push(row);
    }
    if rows.is_empty() { Err((last, format!("no delay; {ALLOWED}"))) } else { Ok(rows) }
}

fn row(line: &str, number: usize) -> Result<Row, String> {
    let cell = |text: &str, seconds: f64| {
        let text = text.trim();
        let number = text.starts_with(|first: char| first.is_ascii_digit()).then(|| text.parse::<f64>());
        let value =
            number.and_then(Result::ok).and_then(|number| Duration::try_from_secs_f64(number * seconds).ok());
        value.filter(|value| u64::try_from(value.as_nanos()).is_ok()).ok_or_else(|| {
            let start: String = text.chars().take(20).collect();
            format!("{start:?}: {ALLOWED}")
        })
    };
    let cells: Vec<&str> = line.split(',').collect();
    let (at, up, down) = match cells[..] {
        [at, both] => (at, both, both),
        [at, up, down] => (at, up, down),
        _ => return Err(format!("{} values; {ALLOWED}", cells.len())),
    };
    Ok(Row { at: cell(at, 1.0)?, up: cell(up, 1e-3)?, down: cell(down, 1e-3)?, line: number })
}

const ALLOWED: &str = "each line has seconds and the delay in milliseconds, as in 10.5,20, or up and down apart, as in 10.5,20,35";
/// Hundreds of thousands of lines.
const MOST_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_delays_from_their_time_on() {
        let micros = Duration::from_micros;
        let text = b"seconds,up ms,down ms\n# a comment\n\n0,20.1,35\r\n 0.5 , 24 , 35.25\n1e,\n";
        assert_eq!(parse(text).unwrap_err().0, 6);
        let rows =
            parse(b"seconds,up ms,down ms\n# a comment\n\n0,20.1,35\r\n 0.5 , 24 , 35.25\n0.5,30").unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.line, row.at, row.up, row.down)).collect();
        assert_eq!(
            found,
            [
                (4, micros(0), micros(20_100), micros(35_000)),
                (5, micros(500_000), micros(24_000), micros(35_250)),
                (6, micros(500_000), micros(30_000), micros(30_000)),
            ]
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, begin) in [
            (&b""[..], 1, "no delay; each line has seconds"),
            (b"time,delay\n", 1, "no delay"),
            (b"time,delay\nand more\n0,1\n", 2, "1 values"),
            (b"0,1\nx,2\n", 2, "\"x\": each line has seconds"),
            (b"0,-1\n", 1, "\"-1\": "),
            (b"-1,1\n", 1, "\"-1\": "),
            (b"0,1ms\n", 1, "\"1ms\": "),
            (b"0\n", 1, "1 values"),
            (b"0,1,2,3\n", 1, "4 values"),
            (b"0,99999999999999999999\n", 1, "\"99999999999999999999\": "),
            (b"2,1\n1,1\n", 2, "1s comes after 2s; times may not decrease"),
            (b"0,\xff\n", 1, "\"\u{fffd}\": "),
        ] {
            let (found, problem) = parse(text).unwrap_err();
            assert!(found == line && problem.starts_with(begin), "{text:?}: {found} {problem}");
            assert!(!problem.contains('\n'));
        }
    }
}
