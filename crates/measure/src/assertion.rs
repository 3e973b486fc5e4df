//! `--assert 'gap_ns.p99<60000'`: a condition on a report, so that a script needs no JSON parser.
//!
//! The left side is a key of the report, with dots for nesting and a number for a place in a list;
//! the right side is a number in the key's own unit. Syntax is checked before a run, keys too, so
//! that a mistyped one costs no ten-second run.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::failure::Failure;

/// A condition that a report is checked against.
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
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Assertion {
    key: String,
    symbol: &'static str,
    holds: Holds,
    /// As it was written, so that `sent==9007199254740993` means that number.
    number: String,
}

type Holds = fn(Ordering) -> bool;

/// The longer symbols first: `<` is also the beginning of `<=`.
const COMPARISONS: [(&str, Holds); 5] = [
    ("<=", Ordering::is_le),
    (">=", Ordering::is_ge),
    ("==", Ordering::is_eq),
    ("<", Ordering::is_lt),
    (">", Ordering::is_gt),
];

impl Assertion {
    /// Checks that `example`, a report of the kind that the run will make, has this key at all. The first element of
    /// the list `rows` stands for all.
    ///
    /// # Errors
    /// A usage failure that names the nearest keys, or all if none is near; also if the key is no number.
    pub fn check_key(&self, example: &Value, rows: Option<&str>) -> Result<(), Failure> {
        match self.find(example, rows) {
            Some(Value::Number(_) | Value::Null) => Ok(()),
            Some(_) => Err(Failure::usage(format_args!("--assert '{self}': {} is no number", self.key))),
            None => {
                let mut known = Vec::new();
                numeric_keys(example, "", &mut known);
                let (key, near) = (&self.key, nearest(&self.key, &known).join(", "));
                Err(Failure::usage(if near.is_empty() {
                    format!("--assert '{self}': no key {key}; known are {}", known.join(", "))
                } else {
                    format!("--assert '{self}': no key {key}; did you mean {near}? --json shows all keys")
                }))
            }
        }
    }

    /// Checks the condition on `report`.
    ///
    /// # Errors
    /// A check failure that names the actual value, also where the report has `null` because that was not measured,
    /// or no such key because nothing was: after a run it is too late for a usage failure.
    pub fn check(&self, report: &Value) -> Result<(), Failure> {
        let key = &self.key;
        let actual = match self.find(report, None) {
            Some(Value::Number(actual)) => actual,
            Some(Value::String(text)) => {
                return Err(Failure::check(format_args!(
                    "--assert '{self}' does not hold: {key} is '{text}', no number"
                )));
            }
            Some(Value::Null) => {
                return Err(Failure::check(format_args!(
                    "--assert '{self}' does not hold: {key} was not measured"
                )));
            }
            _ => {
                return Err(Failure::check(format_args!(
                    "--assert '{self}' does not hold: nothing was measured"
                )));
            }
        };
        let order = match (actual.as_i128(), self.number.parse::<i128>()) {
            (Some(actual), Ok(number)) => Some(actual.cmp(&number)),
            _ => actual
                .as_f64()
                .zip(self.number.parse().ok())
                .and_then(|(left, right)| left.partial_cmp(&right)),
        };
        if order.is_some_and(self.holds) {
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

impl PartialEq for Assertion {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |problem: &str| {
            format!("{problem}; write KEY, one of < <= > >= ==, and a number, such as 'gap_ns.p99<60000'")
        };
        let found = text.find(['<', '>', '=']).and_then(|at| {
            let known = COMPARISONS.into_iter().find(|(symbol, _)| text[at..].starts_with(symbol))?;
            Some((at, known))
        });
        let (at, (symbol, holds)) = found.ok_or_else(|| refused("no comparison"))?;
        let (key, number) = (text[..at].trim(), text[at + symbol.len()..].trim());
        let word =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !key.split('.').all(word) {
            return Err(refused("the left side is no key"));
        }
        // Digits with an optional sign and point; no `inf`, `nan` or exponent.
        let digits = number.strip_prefix('-').unwrap_or(number);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let finite = number.parse::<f64>().is_ok_and(f64::is_finite);
        if !numeric(whole) || !numeric(fraction) || !finite {
            return Err(refused("the right side is no plain number"));
        }
        Ok(Assertion { key: key.to_owned(), symbol, holds, number: number.to_owned() })
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.key, self.symbol, self.number)
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

/// Those of `known` that somebody may have meant by `typed`, nearest first, three at the most: spelled nearly alike, or
/// alike up to the object that they belong to.
fn nearest<'a>(typed: &str, known: &'a [String]) -> Vec<&'a str> {
    let alike = |known: &str| {
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let parts = if typed.contains('.') { 0.0 } else { strsim::jaro_winkler(typed, &last(known)) };
        // A key below another one is not as near as that one itself.
        strsim::jaro_winkler(typed, known).max(parts - 0.01)
    };
    let mut near: Vec<_> = known.iter().map(|key| (alike(key), key.as_str())).collect();
    near.retain(|&(alike, _)| alike > ALIKE);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().take(3).map(|(_, key)| key).collect()
}

/// One typing error in four letters, or an unfinished word, and little more.
const ALIKE: f64 = 0.85;

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
        assert_eq!(
            unknown.to_string(),
            "--assert 'snet>1': no key snet; did you mean sent? --json shows all keys"
        );
        let far = check("weight>1", &report).unwrap_err().to_string();
        assert_eq!(far, "--assert 'weight>1': no key weight; known are config.size, none, sent");
        assert_eq!(
            check("schema>1", &report).unwrap_err().to_string(),
            "--assert 'schema>1': schema is no number"
        );
        assert_eq!(check("config>1", &report).unwrap_err().exit(), Exit::Usage);
        assert_eq!(check("none>1", &report), Ok(()));
    }

    #[test]
    fn the_nearest_keys_are_named_first() {
        let known =
            ["back_to_back", "gap_ns.p50", "gap_ns.p99", "gap_ns.p999", "late_ns.p99", "lost", "received"];
        let known = known.map(str::to_owned);
        for (typed, near) in [
            ("recieved", &["received"][..]),
            ("backtoback", &["back_to_back"]),
            ("p99", &["gap_ns.p99", "late_ns.p99", "gap_ns.p999"]),
            ("gap_ns.p9", &["gap_ns.p99", "gap_ns.p999", "gap_ns.p50"]),
            ("loss", &["lost"]),
            ("latency", &[]),
        ] {
            assert_eq!(nearest(typed, &known), near, "{typed}");
        }
    }

    #[test]
    fn after_the_run_there_are_no_usage_errors() {
        let report = json!({ "schema": "x", "none": null, "per_flow": [] });
        let nothing = "nothing was measured";
        for (text, why) in [
            ("none>1", "none was not measured"),
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
        assert!(error("sent").starts_with("no comparison"));
        assert!(error("sent=5").starts_with("no comparison"));
        assert!(error("<5").starts_with("the left side is no key"));
        assert!(error("a..b<5").starts_with("the left side is no key"));
        assert!(error("a b<5").starts_with("the left side is no key"));
        for text in ["a<", "a<=>5", "a<5us", "a<nan", "a<inf", "a<1e3", "a<b", "a<-", "a<1.", "a<.5"] {
            assert!(error(text).starts_with("the right side is no plain number"), "{text}");
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
