//! Sentences of the docs and of SECURITY.md that promise safety: the test named beside each exists, ran, and did not fail.
//!
//! ```text
//!   A client gets at most three times what it sent. <!-- shown by: package::target::test -->
//! ```
//!
//! Readers of the page do not see it; who changes the sentence does. A promise whose test was renamed or deleted is
//! found here.

use std::collections::BTreeMap;

use crate::report::Outcome;
use crate::testing::Status;
use crate::workspace::TextFile;

/// Holds the names in SECURITY.md and on all pages of `docs/` against the tests that ran.
pub(crate) fn check(files: &[TextFile], statuses: &BTreeMap<String, Status>) -> Outcome {
    let pages = files.iter().filter(|file| {
        file.path == "SECURITY.md" || file.path.starts_with("docs/") && file.path.ends_with(".md")
    });
    let (mut problems, mut skipped, mut names) = (vec![], vec![], 0);
    for (page, line, name) in pages.flat_map(named) {
        names += 1;
        match statuses.get(name) {
            Some(Status::Passed) => {}
            Some(Status::Skipped(reason)) => skipped.push(format!("{page}:{line} by {name} ({reason})")),
            Some(Status::Failed) => problems.push(format!("{page}:{line}: {name} failed")),
            None => problems.push(format!("{page}:{line}: {name} is no test that ran")),
        }
    }
    if problems.is_empty() && !skipped.is_empty() {
        return Outcome::skipped(format!("not shown on this machine: {}", skipped.join("; ")));
    }
    Outcome::of(problems, format!("{names} tests show what sentences promise"))
}

/// Page, line and name of each test.
fn named(page: &TextFile) -> Vec<(&str, usize, &str)> {
    let mut found = vec![];
    for (line, number) in page.text.lines().zip(1..) {
        for rest in line.split(BEGIN).skip(1) {
            let names = rest.split_once("-->").map_or(rest, |(names, _)| names);
            found.extend(names.split(',').map(|name| (page.path.as_str(), number, name.trim())));
        }
    }
    found
}

const BEGIN: &str = "<!-- shown by:";

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Outcome {
        let page = TextFile { path: "docs/page.md".into(), text: text.into() };
        let elsewhere = TextFile { path: "README.md".into(), text: "<!-- shown by: none -->".into() };
        let statuses = [
            ("a::lib::holds", Status::Passed),
            ("a::lib::fails", Status::Failed),
            ("a::lib::skipped", Status::Skipped("no root".into())),
        ];
        check(&[page, elsewhere], &statuses.map(|(name, status)| (name.to_owned(), status)).into())
    }

    #[test]
    fn a_promise_needs_a_test_that_ran() {
        let good = "It holds. <!-- shown by: a::lib::holds --> And so. <!-- shown by: a::lib::holds, a::lib::holds -->";
        assert_eq!(judged(good), Outcome::passed("3 tests show what sentences promise"));
        assert_eq!(
            judged("It does.\nIt fails. <!-- shown by: a::lib::fails --> <!-- shown by: a::lib::gone -->"),
            Outcome::Failed(vec![
                "docs/page.md:2: a::lib::fails failed".into(),
                "docs/page.md:2: a::lib::gone is no test that ran".into(),
            ])
        );
        assert_eq!(
            judged("| x <!-- shown by: a::lib::skipped --> |"),
            Outcome::skipped("not shown on this machine: docs/page.md:1 by a::lib::skipped (no root)")
        );
    }
}
