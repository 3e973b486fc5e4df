//! Runs compared: one of each, and several rounds.

mod common;

use common::{refusal, run, stderr};
use serde_json::Value;

fn json(words: &str) -> Value {
    let output = run(words);
    assert_eq!(output.status.code(), Some(0), "{words}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("an object")
}

#[test]
fn files_of_several_rounds_are_compared_with_intervals() {
    let directory = std::env::temp_dir().join(format!("softtimers-rounds-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let [a, b, mixed] = ["a.json", "b.json", "mixed.json"].map(|name| directory.join(name));
    let object = |sent: u32| format!("{{\"schema\": \"softtimers.send/2\", \"sent\": {sent}}}\n");
    std::fs::write(&a, (1..=6).map(object).collect::<String>()).unwrap();
    std::fs::write(&b, (1..=6).map(|of| object(of * 2)).collect::<String>()).unwrap();
    std::fs::write(&mixed, object(1) + "{\"schema\": \"softtimers.recv/1\"}").unwrap();
    let compared = |a: &std::path::Path, b: &std::path::Path, more: &str| {
        format!("compare {} {} {more}", a.display(), b.display())
    };
    let row = &json(&compared(&a, &b, "--json"))["rows"][0];
    assert_eq!((&row["ratio"], &row["ratio_within"]), (&2.0.into(), &serde_json::json!([2.0, 2.0])), "{row}");
    assert_eq!(row["within"], serde_json::json!([[1.0, 6.0], [2.0, 12.0]]));
    assert!(refusal(&run(&compared(&a, &mixed, "")), 2).contains("is of softtimers.recv/1"));
    std::fs::write(&mixed, "").unwrap();
    assert!(refusal(&run(&compared(&a, &mixed, "")), 2).contains("empty"));
    // Rounds of one run each are no pairs, and what a run has not is left out and said.
    let rounds = |of: &str| {
        format!(
            "{{\"schema\": \"softtimers.send.rounds/1\", \"soft\": {{\"rounds\": [{of}]}}, \"made\": 1}}\n"
        )
    };
    std::fs::write(&a, rounds("1, 2, 3, 4, 5, 6")).unwrap();
    std::fs::write(&b, rounds("2, 4, 6, 8, 10, 12")).unwrap();
    let row = &json(&compared(&a, &b, "--json --only soft"))["rows"][0];
    assert_eq!((&row["ratio"], &row["ratio_within"]), (&2.0.into(), &Value::Null), "{row}");
    assert_eq!(row["within"], serde_json::json!([[1.0, 6.0], [2.0, 12.0]]));
    std::fs::write(&b, rounds("") + &rounds("2, 4")).unwrap();
    let told = run(&compared(&a, &b, ""));
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("left out, as not all runs have them: 1"), "{told}");
    std::fs::remove_dir_all(directory).unwrap();
}
