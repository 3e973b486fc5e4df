//! What a bench was asked for. `cargo bench NAME` says NAME to every bench, so each has to find out whether it
//! is the one that is meant.

/// The arguments of the bench `name`; `None` if only benches of another name are asked for.
pub fn of(name: &str) -> Option<Vec<String>> {
    among(name, std::env::args().skip(1))
}

/// Those of the bench `name`; `None` if the first one, a word, is not part of its name.
fn among(name: &str, given: impl Iterator<Item = String>) -> Option<Vec<String>> {
    let mut arguments: Vec<String> = given.filter(|argument| argument != "--bench").collect();
    let is_word = |argument: &&String| argument.starts_with(|first: char| first.is_ascii_alphabetic());
    if let Some(filter) = arguments.first().filter(is_word) {
        if !name.contains(filter.as_str()) {
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
        assert_eq!(given("4 20 --bench"), Some(vec!["4".into(), "20".into()]));
        assert_eq!(given("--csv pacing.csv --bench"), Some(vec!["--csv".into(), "pacing.csv".into()]));
    }
}
