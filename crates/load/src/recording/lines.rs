//! Shared by the readers of text recordings.

use std::io::{BufRead, BufReader, Read};

use softtimers_measure::units;

use super::collector::RecordingError;

/// Passes every line to `take` that is neither empty nor a comment, and returns the file's length. `expected` completes
/// the error about a line that is too long or not text.
pub(super) fn each(
    input: impl Read,
    expected: &str,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<u64, RecordingError> {
    let mut input = BufReader::new(input);
    let (mut line, mut at, mut number) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        number += 1;
        let wrong = |problem: String| RecordingError::in_line(number, at, problem);
        let length = input
            .by_ref()
            .take(LONGEST_LINE + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| wrong(format!("cannot be read ({error})")))? as u64;
        if length == 0 {
            return Ok(at);
        }
        if length > LONGEST_LINE {
            return Err(wrong(format!("a line of more than {LONGEST_LINE} bytes; {expected} is expected")));
        }
        let text =
            std::str::from_utf8(&line).map_err(|_| wrong(format!("not text; {expected} is expected")))?;
        // Some programs begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').filter(|_| at == 0).unwrap_or(text).trim();
        if !text.is_empty() && !text.starts_with('#') {
            take(text).map_err(wrong)?;
        }
        at += length;
    }
}

/// Returns the whole nanoseconds in a decimal number of units of `unit` nanoseconds, a power of ten; finer digits are
/// dropped.
pub(super) fn nanos(time: &str, unit: u64) -> Option<u64> {
    let digits = unit.ilog10() as usize;
    let end = time.find('.').map_or(time.len(), |point| time.len().min(point + 1 + digits));
    let (kept, dropped) = time.split_at_checked(end)?;
    dropped.bytes().all(|byte| byte.is_ascii_digit()).then(|| units::scaled(kept, unit)).flatten()
}

/// Much longer than a few numbers.
const LONGEST_LINE: u64 = 1_024;
