//! What is said about mistakes on this program's command line.

use std::ffi::OsString;

use clap::Parser;
use softtimers_run::mistake::{message, with_negative_values};

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
        "invalid value 'hourglass' for '--timer <TIMER>'\n  [possible values: soft, loop, loop-inside, pwait2, ms, timerfd, signal, thread, spin, kernel, off]"
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
