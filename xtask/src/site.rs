//! `cargo xtask site`: the documentation of `docs/` as a site, by mdBook.
//!
//! The pages are written for a reader of the repository, where `../crates/…` is a link to a source file. A site does
//! not have these files, so the pages are copied first, and such links become the paths that they name, or links to
//! where the sources can be read:
//!
//! ```text
//!   docs/*.md ─▶ target/site-src/    links out of docs/ rewritten     [`inward`]
//!                     │ mdbook
//!                     ▼
//!               target/site/         every link leads somewhere, nothing is loaded from elsewhere     [`built`]
//! ```
//!
//! mdBook is a program to install, not a dependency: what it would complain about, `ci` finds without it ([`check`]).

mod built;
mod inward;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::links::links;
use crate::program::{self, program as command};
use crate::report::Outcome;
use crate::workspace::{TextFile, Workspace};

/// What the site is made of; all of it is copied.
const PAGES: &str = "docs";
/// The table of contents, which is mdBook's idea of one.
const CONTENTS: &str = "docs/SUMMARY.md";

/// mdBook is not installed: exit code 77.
#[derive(Debug)]
pub(crate) struct NoBook;

impl std::fmt::Display for NoBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("mdbook is not installed; `cargo install mdbook --locked` brings it")
    }
}

impl std::error::Error for NoBook {}

/// `cargo xtask site [--sources URL]`.
///
/// # Errors
/// [`NoBook`]; or an argument is unknown, a file cannot be copied, or mdBook refuses.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let sources = match arguments {
        [] => None,
        [flag, url] if flag == "--sources" => Some(url.as_str()),
        _ => bail!("{}, URL being where the root of the sources can be read", crate::usage_of("site")),
    };
    let workspace = Workspace::load()?;
    match built(&workspace, sources)? {
        Outcome::Skipped(_) => Err(NoBook.into()),
        Outcome::Failed(problems) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            Ok(false)
        }
        Outcome::Passed(note) => {
            println!("{note}");
            Ok(true)
        }
    }
}

/// Builds the site and looks for dead links in it; skipped without mdBook.
///
/// # Errors
/// If a file cannot be copied or read.
pub(crate) fn built(workspace: &Workspace, sources: Option<&str>) -> Result<Outcome> {
    let root = workspace.root();
    if !program::works(command("mdbook", root).arg("--version")) {
        return Ok(Outcome::skipped(NoBook.to_string()));
    }
    let (copy, site) = (workspace.target_directory.join("site-src"), workspace.target_directory.join("site"));
    copied(&root.join(PAGES), &copy, sources)?;
    let mut mdbook = command("mdbook", root);
    let outcome = program::check(mdbook.arg("build").arg(&copy).arg("--dest-dir").arg(&site))?;
    if matches!(outcome, Outcome::Failed(_)) {
        return Ok(outcome);
    }
    let begin = site.join("index.html");
    Ok(Outcome::of(built::problems(&site)?, format!("it begins at {}", begin.display())))
}

/// Copies the pages to `to`, which is made anew, with the links that lead out of them rewritten; directories have none.
fn copied(pages: &Path, to: &Path, sources: Option<&str>) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(pages).with_context(|| format!("cannot list {}", pages.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let place = to.join(&name);
        if entry.file_type()?.is_dir() {
            copied(&entry.path(), &place, sources)?;
        } else if name.ends_with(".md") {
            let text = fs::read_to_string(entry.path()).with_context(|| format!("cannot read {name}"))?;
            fs::write(&place, inward::page(&format!("{PAGES}/{name}"), &text, sources))?;
        } else {
            fs::copy(entry.path(), &place).with_context(|| format!("cannot copy {name}"))?;
        }
    }
    Ok(())
}

/// Whether each page stands in the table of contents once, and that names nothing else.
pub(crate) fn check(files: &[TextFile]) -> Outcome {
    let Some(contents) = files.iter().find(|file| file.path == CONTENTS) else {
        return Outcome::failed(format!("there is no {CONTENTS}"));
    };
    let listed: Vec<_> =
        links(&contents.text).iter().map(|link| format!("{PAGES}/{}", link.target)).collect();
    let is_page = |path: &str| {
        path.strip_prefix("docs/").is_some_and(|name| name.ends_with(".md") && !name.contains('/'))
    };
    let pages: Vec<_> = files
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| is_page(path) && *path != CONTENTS)
        .collect();
    let mut problems = vec![];
    for page in &pages {
        match listed.iter().filter(|path| path == page).count() {
            0 => problems.push(format!("{page} is not in {CONTENTS}")),
            1 => {}
            times => problems.push(format!("{page} stands in {CONTENTS} {times} times")),
        }
    }
    let unknown = listed.iter().filter(|path| !pages.contains(&path.as_str()));
    problems.extend(unknown.map(|path| format!("{CONTENTS} names {path}, which is no page")));
    Outcome::of(problems, format!("{} pages", pages.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(contents: &str, pages: &[&str]) -> Vec<String> {
        let page = |path: &&str| TextFile { path: (*path).into(), text: String::new() };
        let mut files: Vec<_> = pages.iter().map(page).collect();
        files.push(TextFile { path: CONTENTS.into(), text: contents.into() });
        match check(&files) {
            Outcome::Failed(problems) => problems,
            Outcome::Passed(_) | Outcome::Skipped(_) => vec![],
        }
    }

    #[test]
    fn each_page_is_listed_once() {
        let pages = ["docs/a.md", "docs/b.md", "docs/c.txt", "README.md"];
        assert!(problems("# C\n[A](a.md)\n- [B](b.md)\n", &pages).is_empty());
        assert_eq!(
            problems("[A](a.md)\n[A](a.md)\n[D](d.md)\n", &pages),
            [
                "docs/a.md stands in docs/SUMMARY.md 2 times",
                "docs/b.md is not in docs/SUMMARY.md",
                "docs/SUMMARY.md names docs/d.md, which is no page",
            ]
        );
    }

    #[test]
    fn pages_are_copied_and_the_rest_as_it_is() {
        let here = std::env::temp_dir().join(format!("softtimers-site-{}", std::process::id()));
        let (from, to) = (here.join("docs"), here.join("copy"));
        fs::create_dir_all(from.join("outputs")).unwrap();
        fs::write(from.join("outputs/one.txt"), "$ one\n").unwrap();
        fs::write(from.join("a.md"), "[x](../x.rs) [y](y.md)\n").unwrap();
        fs::write(from.join("book.toml"), "[x](../x.rs)\n").unwrap();
        for _ in 0..2 {
            copied(&from, &to, None).unwrap();
            assert_eq!(fs::read_to_string(to.join("a.md")).unwrap(), "x (`x.rs`) [y](y.md)\n");
            assert_eq!(fs::read_to_string(to.join("book.toml")).unwrap(), "[x](../x.rs)\n");
            assert_eq!(fs::read_to_string(to.join("outputs/one.txt")).unwrap(), "$ one\n");
            fs::write(to.join("old.md"), "gone the next time").unwrap();
        }
        copied(&from, &to, None).unwrap();
        assert!(!to.join("old.md").exists());
        fs::remove_dir_all(&here).unwrap();
    }
}
