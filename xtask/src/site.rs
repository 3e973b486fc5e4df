//! `cargo xtask site`: the documentation of `docs/`, `papers/docs/`, `bench/docs/` and `xtask/docs/` as a site, by mdBook.
//!
//! The pages are written for readers of the repository, where `../crates/…` is a link to a source file. A site does not
//! have these files, so the pages are copied to `target/site-src` first, and such links become links to the published
//! sources, or plain paths.
//!
//! ```text
//!   docs/, papers/docs/, … ──▶ target/site-src ── mdbook ──▶ target/site ──▶ addresses: does each link lead somewhere?
//!                                                └────────▶ browser: is anything cut off, or too pale?
//! ```

mod addresses;
mod browser;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::links::{links, resolved};
use crate::program::{self, program as command};
use crate::report::Outcome;
use crate::workspace::{DOCS, Workspace};

/// Builds the site, and follows its links; skipped without mdBook.
///
/// # Errors
/// If a file cannot be copied, or the site cannot be read.
pub(crate) fn built(workspace: &Workspace, sources: Option<&str>) -> Result<Outcome> {
    let root = workspace.root();
    if !program::works(command("mdbook", root).arg("--version")) {
        return Ok(Outcome::skipped("mdbook is not installed; `cargo install mdbook --locked` brings it"));
    }
    let (copy, site) = (workspace.target("site-src"), workspace.target("site"));
    program::must(command("rm", root).arg("-rf").arg(&copy))?;
    fs::create_dir_all(&copy)?;
    for folder in DOCS {
        program::must(command("cp", root).arg("-r").arg(format!("{folder}/.")).arg(copy.join("")))?;
    }
    for folder in DOCS {
        rewrite(&root.join(folder), folder, &copy, sources)?;
    }
    let built = program::check(command("mdbook", root).arg("build").arg(&copy).arg("--dest-dir").arg(&site))?;
    if !matches!(built, Outcome::Passed(_)) {
        return Ok(built);
    }
    let (dead, count) = addresses::dead(&site)?;
    Ok(Outcome::of(dead, format!("{count} links")))
}

/// Builds the site, and looks at it in a browser; skipped without either.
///
/// # Errors
/// As [`built`].
pub(crate) fn shown(workspace: &Workspace, sources: Option<&str>) -> Result<Outcome> {
    match built(workspace, sources)? {
        Outcome::Passed(_) => browser::look(&workspace.target("site"), &workspace.target("site-shown")),
        other => Ok(other),
    }
}

/// Copies the pages of a folder, with links as the site needs them.
fn rewrite(pages: &Path, folder: &str, copy: &Path, sources: Option<&str>) -> Result<()> {
    for entry in fs::read_dir(pages).with_context(|| format!("cannot list {}", pages.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "md") {
            let text = fs::read_to_string(&path)?;
            fs::write(copy.join(path.file_name().unwrap_or_default()), inward(&text, folder, sources))?;
        }
    }
    Ok(())
}

/// Returns a page of a folder without links that lead out of the site, which has the pages of all folders side by side.
fn inward(text: &str, folder: &str, sources: Option<&str>) -> String {
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, target) in links(text) {
        if target.starts_with('#') || target.contains(':') {
            continue;
        }
        let path = resolved(folder, &target);
        let Some((words, _)) = text[range.clone()].rsplit_once("](") else { continue };
        // A site has no page for a directory.
        let is_directory = !target.contains(['.', '#']);
        let own = DOCS.iter().find_map(|docs| path.strip_prefix(docs)?.strip_prefix('/'));
        if let Some(own) = own.filter(|_| !is_directory) {
            if own != target {
                out += &text[at..range.start];
                out += &format!("{words}]({own})");
                at = range.end;
            }
            continue;
        }
        out += &text[at..range.start];
        out += &match (sources, words.trim_start_matches('[')) {
            (Some(root), _) => format!("{words}]({root}/{path})"),
            (None, words) if path.ends_with(words.trim_matches('`')) => format!("`{path}`"),
            (None, words) => format!("{words} (`{path}`)"),
        };
        at = range.end;
    }
    out + &text[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_become_paths_or_lead_to_the_sources() {
        let text = "[`Hip`](../crates/hip.rs), [hip.rs](../crates/hip.rs), [a](a.md#b), [net](https://example.org)\n";
        assert_eq!(
            inward("[`docs/data`](data), [d](data/d.json)", "docs", None),
            "`docs/data`, [d](data/d.json)"
        );
        let rest = "[a](a.md#b), [net](https://example.org)\n";
        assert_eq!(inward(text, "docs", None), format!("`Hip` (`crates/hip.rs`), `crates/hip.rs`, {rest}"));
        let (url, file) = ("https://host/tree", "crates/hip.rs");
        let linked = format!("[`Hip`]({url}/{file}), [hip.rs]({url}/{file}), {rest}");
        assert_eq!(inward(text, "docs", Some(url)), linked);
        let text = "[s](../papers/docs/sim.md#x) [o](output.md)";
        assert_eq!(inward(text, "docs", None), "[s](sim.md#x) [o](output.md)");
        let text = "[o](../../docs/output.md) [e](../sim/e.rs) [s](sim.md)";
        assert_eq!(inward(text, "papers/docs", None), "[o](output.md) e (`papers/sim/e.rs`) [s](sim.md)");
    }
}
