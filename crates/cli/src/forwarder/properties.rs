//! Properties that hold for any input at all: one body each, called by the property tests and the fuzzer.

use crate::forwarder::rules::{Rules, parse};

pub(crate) use crate::forwarder::frames::properties::any_frame as frame;

/// Any bytes are accepted as rules, or refused with a line number; accepted rules print as text that parses the same.
///
/// # Panics
/// If something does not hold.
pub(crate) fn rules(text: &[u8]) {
    let shown = |rules: &Rules| rules.to_string();
    match parse(text) {
        Ok(rules) => {
            let again = parse(shown(&rules).as_bytes()).map(|again| shown(&again));
            assert_eq!(again, Ok(shown(&rules)));
        }
        Err(problem) => {
            let lines = text.split(|&byte| byte == b'\n').count();
            assert!((1..=lines + 1).contains(&problem.line()), "{problem}");
            assert!(!problem.to_string().contains(char::is_control), "{problem}");
        }
    }
}
