//! `docs/errors.md`: what the command says when it stops, held against the sources.
//!
//! A page of messages rots with the first one that is reworded. So each message on it is a string of the sources, with `…`
//! where that has a value; and each string with which the command ends by a check or for want of something is on it.
//!
//! ```text
//!   Failure::not_possible(format_args!("capture {name}: {error}; CAP_NET_RAW is needed"))
//!   | `capture …: …; CAP_NET_RAW is needed` | 77 | run it as root, or … |
//! ```

use crate::report::Outcome;
use crate::source;
use crate::workspace::TextFile;

const PAGE: &str = "docs/errors.md";
/// How the tables of messages begin.
const HEAD: &str = "| message |";
/// Where the command's own messages are made.
const COMMAND: &str = "crates/cli/src/";
/// Endings that the page must have all of; usage errors name what is allowed by themselves.
const ENDINGS: &[&str] = &["Failure::not_possible(", "Failure::check("];
/// Fewer letters than these are glue between values.
const LEAST_LETTERS: usize = 8;

/// Checks the page against the sources, and the sources against the page.
pub(crate) fn check(files: &[TextFile]) -> Outcome {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return Outcome::failed(format!("there is no {PAGE}"));
    };
    let quoted = quoted(&page.text);
    let is_source = |file: &&TextFile| {
        file.path.starts_with("crates/") && file.path.contains("/src/") && file.path.ends_with(".rs")
    };
    let sources: Vec<_> = files.iter().filter(is_source).collect();
    let said: Vec<_> = sources.iter().flat_map(|file| strings(&file.text)).collect();
    let mut problems = vec![];
    for (line, message) in &quoted {
        if !said.iter().any(|said| said.contains(message)) {
            problems.push(format!("{PAGE}:{line}: no source says `{message}`"));
        }
    }
    for file in sources.iter().filter(|file| file.path.starts_with(COMMAND)) {
        for ending in endings(&file.text).iter().filter(|ending| letters(ending) >= LEAST_LETTERS) {
            if !quoted.iter().any(|(_, message)| message == ending) {
                problems.push(format!("{}: `{ending}` is not on {PAGE}", file.path));
            }
        }
    }
    Outcome::of(problems, format!("{} messages", quoted.len()))
}

/// The messages in the tables of the page, with their lines.
fn quoted(page: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    let mut in_table = false;
    for (line, number) in page.lines().zip(1..) {
        in_table = line.starts_with(HEAD) || (in_table && line.starts_with('|'));
        let code = line.strip_prefix("| `` ").and_then(|rest| rest.split_once(" `` |"));
        let code = code.or_else(|| line.strip_prefix("| `")?.split_once("` |"));
        if let Some((message, _)) = code.filter(|_| in_table) {
            found.push((number, message.replace("\\|", "|")));
        }
    }
    found
}

/// The strings of a Rust file as messages; its tests are left out.
fn strings(text: &str) -> Vec<String> {
    let code = source::without_tests(&source::blanked(text));
    let ranges = source::strings(text).into_iter().filter(|range| !code[range.clone()].trim().is_empty());
    ranges.map(|range| message(&text[range])).collect()
}

/// The strings that end the command in one of the [`ENDINGS`], directly.
fn endings(text: &str) -> Vec<String> {
    let code = source::without_tests(&source::blanked(text));
    let strings = source::strings(text);
    let mut found = vec![];
    for (at, ending) in ENDINGS.iter().flat_map(|ending| code.match_indices(ending)) {
        let begin = at + ending.len();
        let Some(next) = strings.iter().find(|range| range.start >= begin) else { continue };
        let between: String = code[begin..next.start].split_whitespace().collect();
        if matches!(between.as_str(), "" | "format_args!(") {
            found.push(message(&text[next.clone()]));
        }
    }
    found
}

/// A string of the source, in its quotes, as the page writes it: without escapes, and with `…` for values.
fn message(literal: &str) -> String {
    let mut out = String::new();
    let mut rest = literal[1..literal.len() - 1].chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('\n') => while rest.next_if(|c| c.is_whitespace()).is_some() {},
                Some('n') => out.push('\n'),
                Some(escaped) => out.push(escaped),
                None => {}
            },
            '{' if rest.next_if_eq(&'{').is_some() => out.push('{'),
            '}' if rest.next_if_eq(&'}').is_some() => out.push('}'),
            '{' => {
                out.push('…');
                rest.by_ref().find(|c| *c == '}');
            }
            c => out.push(c),
        }
    }
    out
}

fn letters(message: &str) -> usize {
    message.chars().filter(|c| c.is_alphabetic()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = r#"
        fn f() {
            Failure::not_possible(format_args!(
                "capture {name}: {error}; CAP_NET_RAW \
                 is needed"
            ));
            Failure::check("the \"thread\" {{panicked}}");
            Failure::check(format_args!("{a}: {b}"));
            Failure::check(other, "no ending");
        }
        #[cfg(test)]
        mod tests { fn t() { Failure::check("only in a test"); } }
    "#;

    fn problems(page: &str) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        match check(&[file(PAGE, page), file("crates/cli/src/a.rs", CODE)]) {
            Outcome::Failed(problems) => problems,
            Outcome::Passed(_) | Outcome::Skipped(_) => vec![],
        }
    }

    #[test]
    fn messages_are_those_of_the_sources() {
        let page = "| message | code |\n|---|---|\n| `capture …: …; CAP_NET_RAW is needed` | 77 |\n\
                    | `` the \"thread\" {panicked} `` | 1 |\n| `no ending` | 1 |\n\n| other |\n| `not a message` |\n";
        assert!(problems(page).is_empty(), "{:?}", problems(page));
    }

    #[test]
    fn what_nobody_says_and_what_is_missing_is_named() {
        let page = "| message |\n| `capture …: …; CAP_BPF is needed` |\n| `the \"thread\" {panicked}` |\n| `only in a test` |\n";
        assert_eq!(
            problems(page),
            [
                "docs/errors.md:2: no source says `capture …: …; CAP_BPF is needed`",
                "docs/errors.md:4: no source says `only in a test`",
                "crates/cli/src/a.rs: `capture …: …; CAP_NET_RAW is needed` is not on docs/errors.md",
            ]
        );
    }
}
