//! Links of the project's Markdown: every one that stays in the repository leads somewhere.
//!
//! A page that is moved or a heading that is reworded breaks links in other files, and nobody sees it before a reader
//! does. Links into the network are not followed: what they lead to is not ours to check, and a check needs no network.
//!
//! ```text
//!   [text](../crates/x.rs)          the file or directory is there
//!   [text](page.md#heading)         and has that heading        ─▶ `anchors`
//!   [text](#heading)                so has this file
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use crate::anchors;
use crate::report::Outcome;
use crate::workspace::TextFile;

/// `[text](target)` in Markdown, outside code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// From its `[` to behind its `)`.
    pub(crate) range: Range<usize>,
    pub(crate) text: &'a str,
    pub(crate) target: &'a str,
}

impl<'a> Link<'a> {
    /// Whether it leads into the network.
    pub(crate) fn is_external(&self) -> bool {
        ["http://", "https://", "mailto:"].iter().any(|scheme| self.target.starts_with(scheme))
    }

    /// The path as written, which is empty for a link within the page, and the anchor.
    pub(crate) fn parts(&self) -> (&'a str, Option<&'a str>) {
        match self.target.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor)),
            None => (self.target, None),
        }
    }
}

/// Every link of `text`, in order.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let plain = without_code(text);
    let mut found = vec![];
    for (middle, _) in plain.match_indices("](") {
        let Some(start) = opening(&plain[..middle]) else { continue };
        let Some(length) = plain[middle + 2..].find(')') else { continue };
        let end = middle + 2 + length;
        found.push(Link {
            range: start..end + 1,
            text: &text[start + 1..middle],
            target: text[middle + 2..end].trim(),
        });
    }
    found
}

/// Where the bracket opens that is still open at the end of `before`.
fn opening(before: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, c) in before.char_indices().rev() {
        match c {
            ']' => depth += 1,
            '[' if depth == 0 => return Some(at),
            '[' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `text` with code, in spans and fenced, replaced by as many spaces.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    for paragraph in text.split_inclusive("\n\n") {
        let mut prose = String::new();
        for line in paragraph.split_inclusive('\n') {
            let fence = line.trim_start().starts_with("```");
            if fence || fenced {
                out.push_str(&without_spans(&prose));
                prose.clear();
                blank(line, &mut out);
            } else {
                prose.push_str(line);
            }
            fenced ^= fence;
        }
        out.push_str(&without_spans(&prose));
    }
    out
}

fn without_spans(prose: &str) -> String {
    let mut out = String::with_capacity(prose.len());
    let mut rest = prose;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let inside = &rest[start + ticks..];
        out.push_str(&rest[..start]);
        let Some(length) = closing(inside, ticks) else {
            out.push_str(&rest[start..start + ticks]);
            rest = inside;
            continue;
        };
        blank(&rest[start..start + ticks + length + ticks], &mut out);
        rest = &inside[length + ticks..];
    }
    out + rest
}

/// Where exactly so many backticks stand.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == ticks {
            return Some(start);
        }
        at = start + run;
    }
    None
}

/// As many spaces as `text` has bytes, with its line ends.
fn blank(text: &str, out: &mut String) {
    out.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

/// `target` as seen from the file `from`, from the root; `None` above it.
pub(crate) fn resolved(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Checks every Markdown file.
pub(crate) fn check(root: &Path, files: &[TextFile]) -> Outcome {
    let mut headings = HashMap::new();
    for file in files.iter().filter(|file| [".md", ".rs"].iter().any(|end| file.path.ends_with(end))) {
        headings.insert(file.path.as_str(), file);
    }
    let (mut problems, mut count) = (vec![], 0);
    for page in files.iter().filter(|file| file.path.ends_with(".md")) {
        let links = links(&page.text);
        count += links.len();
        for link in links.iter().filter(|link| !link.is_external()) {
            if let Some(problem) = dead(root, &headings, page, link) {
                let line = page.text[..link.range.start].matches('\n').count() + 1;
                problems.push(format!("{}:{line}: ({}): {problem}", page.path, link.target));
            }
        }
    }
    Outcome::of(problems, format!("{count} links"))
}

fn dead(
    root: &Path,
    headings: &HashMap<&str, &TextFile>,
    page: &TextFile,
    link: &Link<'_>,
) -> Option<String> {
    let (path, anchor) = link.parts();
    let Some(path) = (if path.is_empty() { Some(page.path.clone()) } else { resolved(&page.path, path) })
    else {
        return Some("leads out of the repository".into());
    };
    if !root.join(&path).exists() && !headings.contains_key(path.as_str()) {
        return Some(format!("there is no {path}"));
    }
    let anchor = anchor?;
    let Some(file) = headings.get(path.as_str()) else {
        return Some(format!("{path} has no headings"));
    };
    let known = anchors::of(&file.text, path.ends_with(".rs"));
    (!known.iter().any(|known| known == anchor)).then(|| format!("{path} has no heading #{anchor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    fn problems(files: &[TextFile]) -> Vec<String> {
        match check(Path::new("nowhere"), files) {
            Outcome::Failed(problems) => problems,
            Outcome::Passed(_) | Outcome::Skipped(_) => vec![],
        }
    }

    #[test]
    fn links_are_found_with_their_texts_also_across_lines() {
        let text = "a [`x`](y.md), ![z\nw](../v.rs#u) and [n [m]](l)";
        let found: Vec<_> = links(text).into_iter().map(|link| (link.text, link.target)).collect();
        assert_eq!(found, [("`x`", "y.md"), ("z\nw", "../v.rs#u"), ("n [m]", "l")]);
        let first = &links(text)[0];
        assert_eq!(&text[first.range.clone()], "[`x`](y.md)");
    }

    #[test]
    fn code_has_no_links() {
        let text = "`a[0](b)` and ``c`[d](e)``\n```sh\n[f](g)\n\n[h](i)\n```\n[j](k) `é[l](m)`\n";
        let found: Vec<_> = links(text).into_iter().map(|link| link.target).collect();
        assert_eq!(found, ["k"]);
    }

    #[test]
    fn paths_are_resolved_from_the_page() {
        assert_eq!(resolved("docs/a.md", "../crates/x/").as_deref(), Some("crates/x"));
        assert_eq!(resolved("README.md", "docs/b.md").as_deref(), Some("docs/b.md"));
        assert_eq!(resolved("README.md", "../b.md"), None);
    }

    #[test]
    fn dead_links_are_named_with_their_lines() {
        let files = [
            page("docs/a.md", "# Top\n[1](b.md#two) [2](b.md#three)\n[3](#top) [4](c.md)\n[5](../../d)\n"),
            page("docs/b.md", "## Two\n[6](https://example.org/#x)\n"),
        ];
        assert_eq!(
            problems(&files),
            [
                "docs/a.md:2: (b.md#three): docs/b.md has no heading #three",
                "docs/a.md:3: (c.md): there is no docs/c.md",
                "docs/a.md:4: (../../d): leads out of the repository",
            ]
        );
    }
}
