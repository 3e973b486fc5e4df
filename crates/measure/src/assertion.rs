//! `--assert 'gap_ns.p99<60000'`: a condition on a report, so that a script needs no JSON parser.
//!
//! The left side is a key of the report, with dots for nesting and a number for a place in a list;
//! the right side is a number in the key's own unit. Syntax is checked before a run, keys too, so
//! that a mistyped one costs no ten-second run.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::failure::Failure;

/// One condition.
///
/// ```
/// use softtimers_measure::assertion::Assertion;
///
/// let report = serde_json::json!({ "back_to_back": 0.01, "gap_ns": { "p99": 55_000 } });
/// let calm: Assertion = "back_to_back<0.05".parse()?;
/// assert!(calm.check(&report).is_ok());
/// let even: Assertion = "gap_ns.p99 <= 50000".parse()?;
/// assert_eq!(
///     even.check(&report).unwrap_err().to_string(),
///     "--assert 'gap_ns.p99<=50000' does not hold: gap_ns.p99 is 55000"
/// );
/// # Ok::<(), softtimers_measure::assertion::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Assertion {
    key: String,
    comparison: Comparison,
    number: Number,
}

impl Assertion {
    /// Whether `example`, a report of the kind that the run will make, has this key at all. Of the list `rows` its
    /// first element stands for all.
    ///
    /// # Errors
    /// A usage failure that lists the keys, if it has not, or if it is no number.
    pub fn check_key(&self, example: &Value, rows: Option<&str>) -> Result<(), Failure> {
        match self.find(example, rows) {
            Some(Value::Number(_) | Value::Null) => Ok(()),
            Some(_) => Err(Failure::usage(format_args!("--assert '{self}': {} is no number", self.key))),
            None => {
                let mut known = Vec::new();
                numeric_keys(example, "", &mut known);
                Err(Failure::usage(format_args!(
                    "--assert '{self}': no key {}; known are {}",
                    self.key,
                    known.join(", ")
                )))
            }
        }
    }

    /// Whether the condition holds for `report`.
    ///
    /// # Errors
    /// A check failure that names the actual value, also where the report has `null` or no such key
    /// because nothing was measured: after a run it is too late for a usage failure.
    pub fn check(&self, report: &Value) -> Result<(), Failure> {
        let key = &self.key;
        let actual = match self.find(report, None) {
            Some(Value::Number(actual)) => actual,
            Some(Value::String(text)) => {
                return Err(Failure::check(format_args!(
                    "--assert '{self}' does not hold: {key} is '{text}', no number"
                )));
            }
            _ => {
                return Err(Failure::check(format_args!(
                    "--assert '{self}' does not hold: nothing was measured"
                )));
            }
        };
        let number = Number::from_json(actual);
        if number.is_some_and(|actual| self.comparison.holds(actual, self.number)) {
            return Ok(());
        }
        Err(Failure::check(format_args!("--assert '{self}' does not hold: {key} is {actual}")))
    }

    fn find<'a>(&self, report: &'a Value, rows: Option<&str>) -> Option<&'a Value> {
        let mut list = "";
        self.key.split('.').try_fold(report, |value, part| {
            let before = std::mem::replace(&mut list, part);
            match value {
                Value::Object(fields) => fields.get(part),
                Value::Array(items) => {
                    let place = part.parse::<usize>().ok()?;
                    items.get(if rows == Some(before) { 0 } else { place })
                }
                _ => None,
            }
        })
    }
}

impl FromStr for Assertion {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let (at, symbol, comparison) = Comparison::find(text).ok_or(SyntaxError::NoComparison)?;
        let key = text[..at].trim();
        let number = text[at + symbol.len()..].trim();
        let word =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !key.split('.').all(word) {
            return Err(SyntaxError::Key);
        }
        let number = number.parse().map_err(|()| SyntaxError::Number)?;
        Ok(Assertion { key: key.to_owned(), comparison, number })
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.key, self.comparison.symbol(), self.number)
    }
}

/// Why a text is no assertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyntaxError {
    /// No `<`, `<=`, `>`, `>=` or `==` in it.
    NoComparison,
    /// The left side is no key.
    Key,
    /// The right side is no number.
    Number,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self {
            SyntaxError::NoComparison => "no comparison",
            SyntaxError::Key => "the left side is no key",
            SyntaxError::Number => "the right side is no plain number",
        };
        write!(f, "{problem}; write KEY, one of < <= > >= ==, and a number, such as 'gap_ns.p99<60000'")
    }
}

impl std::error::Error for SyntaxError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

impl Comparison {
    /// The longer symbols first: `<` is also the beginning of `<=`.
    const ALL: [(&str, Comparison); 5] = [
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("==", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];

    fn find(text: &str) -> Option<(usize, &'static str, Comparison)> {
        let at = text.find(['<', '>', '='])?;
        let (symbol, comparison) =
            Self::ALL.into_iter().find(|(symbol, _)| text[at..].starts_with(symbol))?;
        Some((at, symbol, comparison))
    }

    fn symbol(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, comparison)| *comparison == self).map_or("", |(symbol, _)| symbol)
    }

    fn holds(self, left: Number, right: Number) -> bool {
        use std::cmp::Ordering;
        let Some(order) = left.partial_cmp(&right) else { return false };
        match self {
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::GreaterOrEqual => order != Ordering::Less,
            Comparison::Equal => order == Ordering::Equal,
        }
    }
}

/// Integers stay integers, so that `sent==9007199254740993` means that number.
#[derive(Clone, Copy, Debug)]
enum Number {
    Integer(i128),
    Decimal(f64),
}

impl Number {
    fn from_json(number: &serde_json::Number) -> Option<Self> {
        match number.as_i128() {
            Some(integer) => Some(Number::Integer(integer)),
            None => number.as_f64().map(Number::Decimal),
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Decimal(decimal) => decimal,
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(std::cmp::Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Number::Integer(left), Number::Integer(right)) => left.partial_cmp(right),
            _ => self.as_f64().partial_cmp(&other.as_f64()),
        }
    }
}

impl FromStr for Number {
    type Err = ();

    /// Digits with an optional sign and point; no `inf`, `nan` or exponent.
    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !numeric(whole) || !numeric(fraction) {
            return Err(());
        }
        match text.parse::<i128>() {
            Ok(integer) => Ok(Number::Integer(integer)),
            Err(_) => {
                text.parse().ok().filter(|decimal: &f64| decimal.is_finite()).map(Number::Decimal).ok_or(())
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(integer) => integer.fmt(f),
            Number::Decimal(decimal) => decimal.fmt(f),
        }
    }
}

/// Collects the dotted names of all numbers in `value`; of a list, those of its first element.
fn numeric_keys(value: &Value, path: &str, keys: &mut Vec<String>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Number(_) | Value::Null if !path.is_empty() => keys.push(path.to_owned()),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| numeric_keys(value, &below(name), keys));
        }
        Value::Array(items) => {
            items.first().into_iter().for_each(|first| numeric_keys(first, &below("0"), keys));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;
    use crate::properties;
    use proptest::prelude::*;
    use serde_json::json;

    fn check(text: &str, report: &Value) -> Result<(), Failure> {
        text.parse::<Assertion>().unwrap().check(report)
    }

    #[test]
    fn each_comparison_compares() {
        let report = json!({ "n": 5, "x": 0.5 });
        for text in ["n<6", "n<=5", "n>4", "n>=5", "n==5", "n==5.0", "x<0.6", "x>0", "x==0.5", "n > -1"] {
            assert_eq!(check(text, &report), Ok(()), "{text}");
        }
        for text in ["n<5", "n<=4", "n>5", "n>=6", "n==4", "x>0.5", "x<-1"] {
            assert_eq!(check(text, &report).unwrap_err().exit(), Exit::Check, "{text}");
        }
    }

    #[test]
    fn keys_nest_and_lists_count_from_zero() {
        let report = json!({ "gap_ns": { "p99": 7 }, "per_flow": [{ "lost": 1 }, { "lost": 2 }] });
        assert_eq!(check("gap_ns.p99==7", &report), Ok(()));
        assert_eq!(check("per_flow.1.lost==2", &report), Ok(()));
    }

    #[test]
    fn what_is_no_number_is_a_usage_error() {
        let report = json!({ "schema": "x", "config": { "size": 1 }, "none": null, "sent": 3 });
        let check = |text: &str, report| text.parse::<Assertion>().unwrap().check_key(report, None);
        let unknown = check("snet>1", &report).unwrap_err();
        assert_eq!(unknown.exit(), Exit::Usage);
        assert_eq!(unknown.to_string(), "--assert 'snet>1': no key snet; known are config.size, none, sent");
        assert_eq!(
            check("schema>1", &report).unwrap_err().to_string(),
            "--assert 'schema>1': schema is no number"
        );
        assert_eq!(check("config>1", &report).unwrap_err().exit(), Exit::Usage);
        assert_eq!(check("none>1", &report), Ok(()));
    }

    #[test]
    fn after_the_run_there_are_no_usage_errors() {
        let report = json!({ "schema": "x", "none": null, "per_flow": [] });
        let nothing = "nothing was measured";
        for (text, why) in [
            ("none>1", nothing),
            ("per_flow.0.lost==0", nothing),
            ("snet>1", nothing),
            ("schema>1", "schema is 'x', no number"),
        ] {
            let failure = check(text, &report).unwrap_err();
            assert_eq!(failure.exit(), Exit::Check, "{text}");
            assert!(failure.to_string().ends_with(&format!("does not hold: {why}")), "{failure}");
        }
    }

    #[test]
    fn large_integers_are_exact() {
        let report = json!({ "sent": 9_007_199_254_740_993u64 });
        assert_eq!(check("sent==9007199254740993", &report), Ok(()));
        assert!(check("sent==9007199254740992", &report).is_err());
    }

    #[test]
    fn bad_syntax_is_told_apart() {
        let error = |text: &str| text.parse::<Assertion>().unwrap_err();
        assert_eq!(error("sent"), SyntaxError::NoComparison);
        assert_eq!(error("sent=5"), SyntaxError::NoComparison);
        assert_eq!(error("<5"), SyntaxError::Key);
        assert_eq!(error("a..b<5"), SyntaxError::Key);
        assert_eq!(error("a b<5"), SyntaxError::Key);
        for text in ["a<", "a<=>5", "a<5us", "a<nan", "a<inf", "a<1e3", "a<b", "a<-", "a<1.", "a<.5"] {
            assert_eq!(error(text), SyntaxError::Number, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_an_assertion_or_refused(text in "\\PC*") {
            properties::assertion(&text);
        }

        #[test]
        fn near_misses_are_assertions_or_refused(text in "[a-z_.0-9 ]{0,12}[<>=]{0,3} ?-?[0-9.]{0,50}") {
            properties::assertion(&text);
        }
    }
}
