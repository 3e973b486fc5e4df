//! The message about an invalid command line: one line that names the value and what is allowed, and below it clap's
//! tips, each on its own line.

use std::ffi::OsString;

use clap::Error;
use softtimers_measure::failure::one_line;

/// Returns the message about `error`, which was caused by `line`.
pub(crate) fn message(error: &Error, line: &[OsString]) -> String {
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
pub(crate) fn with_negative_values(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::Cli;

    fn told(words: &[&str]) -> String {
        let line = with_negative_values(["softtimers"].iter().chain(words).map(OsString::from));
        message(&Cli::try_parse_from(&line).unwrap_err(), &line)
    }

    #[test]
    fn a_message_names_the_value_and_tips_stand_below_it() {
        let told = |words: &str| told(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(
            told("send 127.0.0.1:9 --rate 0pps"),
            "invalid value '0pps' for '--rate <RATE>': must be above zero, such as 10kpps or 100Mbit"
        );
        assert_eq!(
            told("send 127.0.0.1:9 --rate 1pps --timer hourglass"),
            "invalid value 'hourglass' for '--timer <TIMER>'\n  [possible values: soft, loop, loop-inside, pwait2, ms, timerfd, signal, tick, thread, spin, kernel, off]"
        );
        assert_eq!(
            told("send 127.0.0.1:9 --rat 1pps"),
            "unexpected argument '--rat' found\n  tip: a similar argument exists: '--rate'"
        );
        assert_eq!(
            told("send 127.0.0.1:9"),
            "the following required arguments were not provided:\n  <--rate <RATE>|--interval <TIME>>"
        );
    }

    #[test]
    fn negative_numbers_are_values_and_flags_are_not() {
        let told = |words: &str| told(&words.split(' ').collect::<Vec<_>>());
        let wan = "wan --listen 127.0.0.1:0 --to 127.0.0.1:9";
        assert_eq!(
            told(&format!("{wan} --delay -1ms")),
            "invalid value '-1ms' for '--delay <TIME>': a duration can't be negative"
        );
        assert_eq!(
            told(&format!("{wan} --delay --loss 1%")),
            "a value is required for '--delay <TIME>' but none was supplied"
        );
        assert_eq!(
            told("send 127.0.0.1:9 -b -5pps"),
            "invalid value '-5pps' for '--rate <RATE>': a rate can't be negative"
        );
        assert_eq!(
            told("send 127.0.0.1:9 -b 1kpps --flows -1"),
            "invalid value '-1' for '--flows <N>': a number of flows from 1 to 10000 is allowed"
        );
    }

    #[test]
    fn what_another_command_is_given_stays_as_it_is() {
        let words = "softtimers probe -t 1 -- nice -5 make -j -1".split(' ').map(OsString::from);
        assert!(with_negative_values(words.clone()).into_iter().eq(words));
        let joined = with_negative_values(["send", "a:9", "-1", "-b", "-2"].map(OsString::from));
        assert_eq!(joined, ["send", "a:9", "-1", "-b=-2"]);
    }

    #[test]
    fn a_value_of_several_lines_gets_one() {
        let message = told(&["recv", "127.0.0.1:9", "--duration", "1\n  tip: 2"]);
        assert!(!message.contains('\n') && message.contains("tip: 2"), "{message}");
    }
}
