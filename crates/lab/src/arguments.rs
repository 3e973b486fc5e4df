//! What a bench was asked for. `cargo bench NAME` says NAME to every bench, so each has to find out whether it
//! is the one that is meant.

/// The arguments of the bench `name`; `None` if only benches of another name are asked for.
pub fn of(name: &str) -> Option<Vec<String>> {
    among(name, std::env::args().skip(1))
}

/// The benches. A first word that none of them begins with is not for choosing among them: it is a section of one.
const BENCHES: [&str; 15] = [
    "callouts",
    "flows",
    "handover",
    "kernel",
    "null_events",
    "overload",
    "pacing",
    "quinn",
    "quinn_start",
    "server",
    "shared",
    "timers",
    "tokio_timers",
    "waits",
    "work_kept",
];

/// Those of the bench `name`; `None` if the first one is the beginning of other benches' names only.
fn among(name: &str, given: impl Iterator<Item = String>) -> Option<Vec<String>> {
    let mut arguments: Vec<String> = given.filter(|argument| argument != "--bench").collect();
    let is_word = |argument: &&String| argument.starts_with(|first: char| first.is_ascii_alphabetic());
    let chooses = |word: &&String| BENCHES.iter().any(|bench| bench.starts_with(word.as_str()));
    if let Some(filter) = arguments.first().filter(is_word).filter(chooses) {
        if !name.starts_with(filter.as_str()) {
            return None;
        }
        arguments.remove(0);
    }
    Some(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_asks_for_the_benches_of_that_name() {
        let given = |line: &str| among("pacing", line.split_whitespace().map(str::to_owned));
        assert_eq!(given("--bench"), Some(vec![]));
        assert_eq!(given("pac --bench"), Some(vec![]));
        assert_eq!(given("null --bench"), None);
        assert_eq!(given("curve --bench"), Some(vec!["curve".into()]), "a section");
        assert_eq!(given("4 20 --bench"), Some(vec!["4".into(), "20".into()]));
        assert_eq!(given("--csv pacing.csv --bench"), Some(vec!["--csv".into(), "pacing.csv".into()]));
    }
}
