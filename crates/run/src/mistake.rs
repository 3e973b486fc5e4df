//! The message about an invalid command line: one line that names the value and what is allowed, and below it clap's
//! tips, each on its own line.

use std::ffi::OsString;

use clap::Error;
use softtimers_measure::failure::one_line;

/// Returns the message about `error`, which was caused by `line`.
pub fn message(error: &Error, line: &[OsString]) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage:", "\n\nFor more"].iter().filter_map(|hint| text.find(hint)).min();
    let lines = text[..end.unwrap_or(text.len())].lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(one_line).collect();
    // A typed line could look like a tip.
    let is_plain = line.iter().all(|word| !word.to_string_lossy().contains(char::is_control));
    lines.join(if is_plain { "\n  " } else { " " })
}

/// Joins a negative number and the flag before it, `--delay=-1ms`: by itself it looks like a flag, and no message could
/// say what is wrong with it. Words after `--` belong to another command.
pub fn with_negative_values(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut joined, mut is_ours) = (Vec::<OsString>::new(), true);
    let starts = |word: &OsString, with: fn(&[u8]) -> bool| with(word.as_encoded_bytes());
    for word in line {
        is_ours &= word != "--";
        let is_negative = starts(&word, |word| matches!(word, [b'-', b'0'..=b'9', ..]));
        let flag = joined.last_mut().filter(|last| {
            is_ours
                && is_negative
                && starts(last, |last| last.len() > 1 && last[0] == b'-' && !last.contains(&b'='))
        });
        match flag {
            Some(flag) => {
                flag.push("=");
                flag.push(word);
            }
            None => joined.push(word),
        }
    }
    joined
}
