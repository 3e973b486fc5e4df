//! Checks the links of the project's Markdown: every link within the repository has a target.
//!
//! A moved page or a reworded heading breaks links in other files, which only readers would notice. Links into the
//! network are not followed, and no network is needed. (The available checkers, lychee and mdbook-linkcheck, need an
//! HTTP client of hundreds of crates; the Markdown parser is theirs, pulldown-cmark.)
//!
//! ```text
//!   [text](../crates/x.rs)          the file or directory is there
//!   [text](page.md#heading)         and has that heading; in a Rust file its doc comments have
//!   [text](#heading)                so has this file
//! ```

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::report::Outcome;
use crate::workspace::{DOCS, Page};

/// Finds each link and picture of a page, and its destination.
pub(crate) fn links(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter().filter_map(
        |(event, range)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some((range, dest_url.into_string()))
            }
            _ => None,
        },
    )
}

/// Checks every page, and that the table of contents has each page of the folders of pages once and nothing else.
pub(crate) fn check(root: &Path, pages: &[Page]) -> Outcome {
    let (mut problems, mut count) = (vec![], 0);
    for page in pages {
        for (range, target) in links(&page.text) {
            count += 1;
            if let Some(problem) = problem(root, Path::new(&page.path), &target) {
                let line = page.text[..range.start].matches('\n').count() + 1;
                problems.push(format!("{}:{line}: ({target}): {problem}", page.path));
            }
        }
    }
    let contents = pages.iter().find(|page| page.path == CONTENTS);
    let listed = contents.into_iter().flat_map(|page| links(&page.text));
    let listed: Vec<_> = listed.map(|(_, to)| resolved("docs", &to)).collect();
    for Page { path, .. } in pages {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let times = listed.iter().filter(|to| *to == path).count();
        if times != 1 && path != CONTENTS && DOCS.contains(&folder) {
            problems.push(format!("{CONTENTS} has {path} {times} times"));
        }
    }
    Outcome::of(problems, format!("{count} links"))
}

const CONTENTS: &str = "docs/SUMMARY.md";

/// Returns where a relative path leads from a folder, as a path from the root.
pub(crate) fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns why a link of the file `from` has no target, if so.
pub(crate) fn problem(root: &Path, from: &Path, target: &str) -> Option<String> {
    if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let place = if path.is_empty() { from.to_owned() } else { from.parent().unwrap_or(from).join(path) };
    let Ok(file) = fs::canonicalize(root.join(place)) else { return Some(format!("there is no {path}")) };
    if !fs::canonicalize(root).is_ok_and(|root| file.starts_with(root)) {
        return Some("leads out of the repository".into());
    }
    let anchor = anchor?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    let is_rust = file.extension().is_some_and(|end| end == "rs");
    let text = if is_rust { doc_comments(&text) } else { text };
    (!anchors(&text).iter().any(|known| known == anchor)).then(|| format!("there is no heading #{anchor}"))
}

/// Returns the anchors that code hosts give to the headings of a page: `## What is *due*?` ─▶ `what-is-due`.
fn anchors(text: &str) -> Vec<String> {
    let (mut found, mut seen, mut heading) = (vec![], HashMap::new(), None);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(words) | Event::Code(words) => {
                heading = heading.map(|heading| heading + &words);
            }
            Event::End(TagEnd::Heading(_)) => {
                let words = heading.take().unwrap_or_default().to_lowercase();
                let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
                let before = seen.entry(anchor.clone()).or_insert(0);
                found.push(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
                *before += 1;
            }
            _ => {}
        }
    }
    found
}

/// Returns the doc comments of a Rust file.
fn doc_comments(text: &str) -> String {
    let doc = |line: &str| {
        let line = line.trim_start();
        let doc = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")).unwrap_or_default();
        format!("{}\n", doc.strip_prefix(' ').unwrap_or(doc))
    };
    text.lines().map(doc).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_and_code_has_none() {
        let text = "a [`x`](y.md), ![z\nw](../v.rs#u) `a[0](b)`\n\n```sh\n[f](g)\n```\n[j](k) `é[l](m)`\n";
        let found: Vec<_> = links(text).map(|(range, to)| (&text[range], to)).collect();
        let (x, z, j) = ("[`x`](y.md)", "![z\nw](../v.rs#u)", "[j](k)");
        assert_eq!(found, [(x, "y.md".into()), (z, "../v.rs#u".into()), (j, "k".into())]);
    }

    #[test]
    fn headings_get_the_usual_anchors() {
        let text =
            "# What is *due*?\n## One-shot & `tick`\n```\n# no heading\n```\n## Cost\n## Cost\n#no heading\n";
        assert_eq!(anchors(text), ["what-is-due", "one-shot--tick", "cost", "cost-1"]);
        let rust = "//! # Why\nstruct S; // # no\n    /// # Cost\n#[derive(Debug)]\n";
        assert_eq!(anchors(&doc_comments(rust)), ["why", "cost"]);
    }

    #[test]
    fn dead_links_are_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let problem = |target: &str| problem(root, Path::new("docs/start.md"), target);
        assert_eq!(problem("../README.md"), None);
        assert_eq!(problem("https://example.org/#x"), None);
        assert_eq!(problem("nowhere.md").as_deref(), Some("there is no nowhere.md"));
        assert_eq!(problem("../../x").as_deref(), Some("there is no ../../x"));
        assert_eq!(problem("../..").as_deref(), Some("leads out of the repository"));
        assert_eq!(problem("benchmarks.md#x").as_deref(), Some("there is no heading #x"));
    }
}
