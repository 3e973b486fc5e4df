//! `--pattern` as it is typed: `constant`, `poisson`, `onoff:10ms/90ms`.

use std::fmt;
use std::str::FromStr;

use softtimers_core::{OnOff, Pattern};

use softtimers_measure::units::{self, show_duration};

/// The distribution of departures over time, before a seed is known.
///
/// ```
/// use softtimers_load::pattern::SendPattern;
///
/// let pattern: SendPattern = "onoff:10ms/0.09s".parse()?;
/// assert_eq!(pattern.to_string(), "onoff:10ms/90ms");
/// assert!("onoff:10ms".parse::<SendPattern>().is_err()); // and off for how long?
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SendPattern {
    /// Every gap is the same.
    #[default]
    Constant,
    /// Gaps have an exponential distribution, as those of independent events.
    Poisson,
    /// Equal gaps while on, silence while off.
    OnOff(OnOff),
}

impl FromStr for SendPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "constant" => return Ok(SendPattern::Constant),
            "poisson" => return Ok(SendPattern::Poisson),
            _ => {}
        }
        let lengths = text.strip_prefix("onoff:").ok_or(WORDS)?;
        let (on, off) = lengths.split_once('/').ok_or("two times belong to it, such as onoff:10ms/90ms")?;
        let on = units::duration(on).map_err(|error| format!("the on period: {error}"))?;
        let off = units::duration(off).map_err(|error| format!("the off period: {error}"))?;
        OnOff::new(on, off).map(SendPattern::OnOff).map_err(|error| error.to_string())
    }
}

impl SendPattern {
    /// Returns the pattern with this seed, which only random ones use.
    pub fn seeded(self, seed: u64) -> Pattern {
        match self {
            SendPattern::Poisson => Pattern::Poisson { seed },
            SendPattern::Constant => Pattern::Constant,
            SendPattern::OnOff(lengths) => Pattern::OnOff(lengths),
        }
    }
}

impl From<Pattern> for SendPattern {
    fn from(pattern: Pattern) -> Self {
        match pattern {
            Pattern::Poisson { .. } => SendPattern::Poisson,
            Pattern::OnOff(lengths) => SendPattern::OnOff(lengths),
            _ => SendPattern::Constant,
        }
    }
}

/// Prints the pattern as typed.
impl fmt::Display for SendPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendPattern::Constant => f.write_str("constant"),
            SendPattern::Poisson => f.write_str("poisson"),
            SendPattern::OnOff(lengths) => {
                write!(f, "onoff:{}/{}", show_duration(lengths.on()), show_duration(lengths.off()))
            }
        }
    }
}

const WORDS: &str = "constant, poisson and onoff:ON/OFF are allowed, such as onoff:10ms/90ms";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties;
    use proptest::prelude::*;

    #[test]
    fn refusals_say_what_is_allowed() {
        let refusal = |text: &str| text.parse::<SendPattern>().unwrap_err().to_string();
        for text in ["", "steady", "Poisson", "onoff", "onoff10ms/90ms"] {
            assert!(refusal(text).starts_with("constant, poisson and onoff:ON/OFF are allowed"), "{text}");
        }
        assert_eq!(refusal("onoff:10ms"), "two times belong to it, such as onoff:10ms/90ms");
        assert!(refusal("onoff:10/90ms").starts_with("the on period: no unit; a duration ends in ns"));
        assert!(refusal("onoff:10ms/90ms/1ms").starts_with("the off period: unknown unit"));
        assert_eq!(refusal("onoff:0ms/1ms"), "the on period must be above zero");
        assert!(refusal("onoff:1ms/0ms").ends_with("without one the pattern is constant"));
        assert_eq!(refusal("onoff:18446744073709551615ns/1ns"), "on and off together are at most 584 years");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_a_pattern_or_refused(text in "(onoff:)?[0-9.]{0,9}(ns|us|ms|s)?/?[0-9.]{0,9}(ns|us|ms|s)?") {
            properties::pattern(&text);
        }
    }
}
