//! Reads a saved run, which may contain anything: every query has an answer.

use serde_json::Value;
use softtimers_measure::failure::one_line;

/// Returns the steps of a run.
pub(super) fn steps(run: &Value) -> &[Value] {
    rows(run, "steps")
}

/// Returns every object that a process of the run has printed, with the label of its step.
pub(super) fn outputs(run: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let of_step = |step| {
        let outputs = Value::get(step, "outputs").and_then(Value::as_object).into_iter();
        outputs.flat_map(move |outputs| outputs.values().map(move |output| (text(step, "label"), output)))
    };
    steps(run).iter().flat_map(of_step)
}

/// Returns a number at a path of keys and indices separated by dots; `None` if it is not a plausible number.
pub(super) fn number(value: &Value, path: &str) -> Option<f64> {
    let mut at = value;
    for key in path.split('.') {
        at = match at {
            Value::Array(all) => all.get(key.parse::<usize>().ok()?)?,
            _ => at.get(key)?,
        };
    }
    // A parameter that was swept is a text.
    let number = at.as_f64().or_else(|| at.as_str()?.parse().ok());
    number.filter(|number| number.is_finite() && number.abs() < 1e18)
}

/// Returns a text under a key; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the elements of a list under a key; none if there is no list.
pub(super) fn rows<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Shortens a text from a file to one line that fits a page.
pub(super) fn tamed(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", one_line(&text[..end])),
        None => one_line(text),
    }
}

const LONGEST_TEXT: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_found_by_paths_and_nonsense_is_none() {
        let value =
            json!({ "a": [{ "b": 1.5 }], "t": "2.5", "s": "NaN", "i": "inf", "n": null, "big": 1e300 });
        assert_eq!((number(&value, "a.0.b"), number(&value, "t")), (Some(1.5), Some(2.5)));
        for path in ["a.1.b", "a.b", "s", "i", "n", "big", "", "a.0.b.c"] {
            assert_eq!(number(&value, path), None, "{path}");
        }
    }
}
