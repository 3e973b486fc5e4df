//! Whether docs/stability.md promises what there is: the schemas of the command's objects, both ways, and that each
//! subcommand which prints objects has its line.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::report::Outcome;
use crate::source;
use crate::workspace::TextFile;

const POLICY: &str = "docs/stability.md";
const COMMAND: &str = "crates/cli/src/";

/// Compares the page with the sources.
///
/// # Errors
/// If there is no page.
pub(crate) fn check(files: &[TextFile]) -> Result<Outcome> {
    let page = files.iter().find(|file| file.path == POLICY).with_context(|| format!("no {POLICY}"))?;
    let promised = schemas(&page.text);
    let sources =
        files.iter().filter(|file| file.path.starts_with(COMMAND) && !file.path.ends_with("tests.rs"));
    let made: BTreeSet<String> = sources.flat_map(|file| schemas(without_tests(&file.text))).collect();
    let mut problems = vec![];
    for schema in made.difference(&promised).filter(|schema| !OWN_USE.contains(&schema.as_str())) {
        problems.push(format!("{POLICY} does not list {schema}"));
    }
    for schema in promised.difference(&made) {
        problems.push(format!("{POLICY} lists {schema}, which nothing prints"));
    }
    Ok(Outcome::of(problems, format!("{} schemas", promised.len())))
}

/// What hidden subcommands and benches print, and what `report` saves for itself.
const OWN_USE: &[&str] =
    &["softtimers.bench.timers/1", "softtimers.echo-client/1", "softtimers.report.run/1"];

/// Where tests begin; their schemas are their own.
fn without_tests(text: &str) -> &str {
    let code = source::without_tests(&source::blanked(text));
    // Tests stand at the end of a file, and blanking keeps the lines.
    let lines = code.trim_end().lines().count();
    let end = text.match_indices('\n').nth(lines.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Words like `softtimers.send/1`.
fn schemas(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_/".contains(c);
    let words = text.split(|c: char| !is_part(c));
    let is_schema = |word: &&str| {
        let numbered = word.strip_prefix("softtimers.").and_then(|rest| rest.split_once('/'));
        numbered.is_some_and(|(name, number)| !name.is_empty() && number.parse::<u32>().is_ok())
    };
    words.filter(is_schema).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(page: &str, code: &str) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        match check(&[file(POLICY, page), file("crates/cli/src/send.rs", code)]).unwrap() {
            Outcome::Failed(problems) => problems,
            Outcome::Passed(_) | Outcome::Skipped(_) => vec![],
        }
    }

    #[test]
    fn the_page_and_the_sources_list_the_same() {
        let code = "const S: &str = \"softtimers.send/1\";\n#[cfg(test)]\nmod tests {\n    const S: &str = \"softtimers.test/1\";\n}\n";
        assert!(problems("| `send` | `softtimers.send/1` |", code).is_empty());
        assert_eq!(problems("", code), ["docs/stability.md does not list softtimers.send/1"]);
        assert_eq!(problems("", "\"softtimers.two_words/1\"").len(), 1, "a word with an underscore");
        let page = "softtimers.send/1 softtimers.recv/2";
        assert_eq!(problems(page, code), ["docs/stability.md lists softtimers.recv/2, which nothing prints"]);
    }
}
