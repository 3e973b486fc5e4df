//! Help, manual pages and completion scripts of the real command.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{refusal, run};
use serde_json::Value;

fn stdout(words: &str) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(0), "{words}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let help = stdout("--help");
    assert!(help.contains("send") && help.contains("recv") && help.contains("77  not possible"), "{help}");
    assert!(!help.contains("echo-client"), "{help}");
    for (command, example) in [
        ("send", "--busy echo"),
        ("replay", "--speed 2x"),
        ("recv", "--once --json"),
        ("doctor", "--quick"),
        ("forward", "--rules screen.rules"),
    ] {
        let help = stdout(&format!("{command} --help"));
        assert!(
            help.contains("Examples:") && help.contains(example) && help.contains("Exit codes:"),
            "{help}"
        );
        assert!(!["--with-parent", "--rotate"].iter().any(|hidden| help.contains(hidden)), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn help_says_when_silence_ends_a_run() {
    assert!(stdout("recv --help").contains("nothing has come for 10 s"));
}

#[test]
fn versions_are_those_of_the_package() {
    assert_eq!(stdout("--version"), format!("softtimers {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn manual_pages_are_roff() {
    assert!(stdout("man").contains(".TH softtimers 1"));
    assert!(stdout("man recv").contains("expect\\-interval"));
    assert!(stdout("man wan").contains("[\\-\\- \\fICMD\\fR]"));
    assert!(stdout("man wan").contains("As \\-\\-loss, this way only"));
    assert!(stdout("man pace").contains("\\-\\- <\\fICMD\\fR>"));
    assert!(refusal(&run("man nonsense"), 2).contains("no command 'nonsense'; there are send, recv"));
}

#[test]
fn each_shell_gets_a_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(stdout(&format!("completions {shell}")).contains("expect-interval"), "{shell}");
    }
    assert!(refusal(&run("completions csh"), 2).contains("bash, elvish, fish"));
}

/// The keys that docs/stability.md promises to keep: what these runs printed when the promise was made.
#[test]
fn objects_keep_the_keys_of_their_schema() {
    let recording = std::env::temp_dir().join(format!("softtimers-keys-{}.csv", std::process::id()));
    std::fs::write(&recording, "t_us,len\n0,100\n1000,100\n").unwrap();
    let replay = format!("replay {} 127.0.0.1:9 --no-handshake --json", recording.display());
    let keys: BTreeMap<&str, Vec<&str>> = include_str!("keys.txt")
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(schema, keys)| (schema, keys.split(' ').collect()))
        .collect();
    let mut seen = vec![];
    for words in [
        "send 127.0.0.1:9 --no-handshake --rate 1kpps --count 20 --json",
        "recv 127.0.0.1:0 --duration 100ms --json",
        &replay,
    ] {
        let object: Value = serde_json::from_str(&stdout(words)).expect(words);
        let schema = object["schema"].as_str().expect("a schema").to_owned();
        let mut found = BTreeSet::new();
        paths(&object, "", &mut found);
        let promised = keys.get(schema.as_str()).unwrap_or_else(|| panic!("{schema}: {}", joined(&found)));
        for key in promised {
            assert!(found.contains(*key), "{schema} has lost `{key}`");
        }
        seen.push(schema);
    }
    std::fs::remove_file(recording).unwrap();
    assert!(keys.keys().all(|schema| seen.iter().any(|ran| ran == schema)), "{seen:?}");
}

/// Every key with those above it, as in `late_ns.p50`; of a list the keys of what is in it.
fn paths(value: &Value, above: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
                paths(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, above, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn joined(keys: &BTreeSet<String>) -> String {
    keys.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
