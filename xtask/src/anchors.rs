//! `path#anchor`: whether the file has such a heading.
//!
//! Claims of `docs/features.toml` and links between pages name headings so. A heading is a Markdown one, in a Markdown file or in the doc comments of a Rust file, and its
//! anchor is the one that code hosts give it: `## What is *due*?` ─▶ `what-is-due`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// What is wrong with `address`, if anything.
pub(crate) fn problem(root: &Path, address: &str) -> Option<String> {
    let Some((path, anchor)) = address.split_once('#') else {
        return Some(format!("documented_in `{address}` must be path#anchor"));
    };
    let Ok(text) = fs::read_to_string(root.join(path)) else {
        return Some(format!("documented_in `{address}`: there is no file {path}"));
    };
    let anchors = of(&text, path.ends_with(".rs"));
    let missing = !anchors.iter().any(|known| known == anchor);
    missing.then(|| format!("documented_in `{address}`: {path} has no heading #{anchor}"))
}

/// The anchors of a file's headings, in order.
pub(crate) fn of(text: &str, is_rust: bool) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = vec![];
    let mut in_code = false;
    for line in text.lines() {
        let Some(line) = markdown(line, is_rust) else { continue };
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if in_code || !(1..=6).contains(&level) || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading.trim());
        let before = seen.entry(anchor.clone()).or_default();
        found.push(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    found
}

/// The line as Markdown; in a Rust file only doc comments are.
fn markdown(line: &str, is_rust: bool) -> Option<&str> {
    if !is_rust {
        return Some(line);
    }
    let line = line.trim_start();
    let doc = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?;
    Some(doc.strip_prefix(' ').unwrap_or(doc))
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_get_the_usual_anchors() {
        let text = "# What is *due*?\n## One-shot & tick\n```\n# no heading\n```\n## Cost 2\n## Cost\n## Cost\n#no heading\n";
        assert_eq!(of(text, false), ["what-is-due", "one-shot--tick", "cost-2", "cost", "cost-1"]);
    }

    #[test]
    fn doc_comments_have_headings_and_code_has_none() {
        let text = "//! # Why\nstruct S; // # no\n    /// # Cost\n#[derive(Debug)]\n";
        assert_eq!(of(text, true), ["why", "cost"]);
    }

    #[test]
    fn missing_files_and_headings_are_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(problem(root, "nowhere"), Some("documented_in `nowhere` must be path#anchor".into()));
        assert!(problem(root, "no.md#x").unwrap().ends_with("there is no file no.md"));
        assert!(problem(root, "src/anchors.rs#x").unwrap().ends_with("has no heading #x"));
    }
}
