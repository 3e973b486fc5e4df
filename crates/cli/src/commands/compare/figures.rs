//! The numbers of an object, by their keys.

use serde_json::Value;

/// Returns every number of an object, `late_ns.p99` for nested ones, in the order of the object; not those of the machine
/// and of the configuration, nor the points of curves.
pub(super) fn numbers(object: &Value) -> Vec<(String, Vec<f64>)> {
    let mut found = vec![];
    for (key, value) in object.as_object().into_iter().flatten() {
        if !ASIDE.contains(&key.as_str()) {
            add(key, value, &mut found);
        }
    }
    found
}

fn add(path: &str, value: &Value, found: &mut Vec<(String, Vec<f64>)>) {
    match value {
        Value::Number(number) => found.extend(number.as_f64().map(|number| (path.to_owned(), vec![number]))),
        Value::Object(parts) if parts.get("rounds").is_some_and(Value::is_array) => {
            let rounds = parts["rounds"].as_array().into_iter().flatten();
            let rounds: Vec<f64> = rounds.filter_map(Value::as_f64).collect();
            found.extend(Some((path.to_owned(), rounds)).filter(|(_, rounds)| !rounds.is_empty()));
        }
        Value::Object(parts) => {
            parts.iter().for_each(|(key, value)| add(&format!("{path}.{key}"), value, found));
        }
        Value::Array(items) if !CURVES.iter().any(|end| path.ends_with(end)) => {
            items.iter().enumerate().for_each(|(at, value)| add(&format!("{path}.{at}"), value, found));
        }
        _ => {}
    }
}

/// What is set, or told, rather than found.
const ASIDE: [&str; 4] = ["config", "machine", "seed", "version"];
/// Lists of points.
const CURVES: [&str; 3] = ["_cdf", "_strip_ns", "points"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_was_found_is_compared() {
        let object = json!({
            "schema": "softtimers.send/2", "version": 2, "machine": {"cores": 2}, "config": {"rate": 1},
            "sent": 7, "late_ns": {"p50": 3, "max": null}, "late_cdf": [{"share": 0.5}], "cpus": [{"idle": 0.5}],
        });
        let found = numbers(&object);
        let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys.len(), 3, "{keys:?}");
        assert!(
            found.contains(&("late_ns.p50".to_owned(), vec![3.0]))
                && found.contains(&("cpus.0.idle".to_owned(), vec![0.5]))
        );
        assert_eq!(numbers(&json!([1])), []);
        let over = json!({"timers": {"soft": {"cpu_share": {"median": 2.0, "within": null, "rounds": [1.0, 2.0, 3.0]},
            "work_rate": {"median": null, "within": null, "rounds": []}}}});
        assert_eq!(numbers(&over), [("timers.soft.cpu_share".to_owned(), vec![1.0, 2.0, 3.0])]);
    }
}
