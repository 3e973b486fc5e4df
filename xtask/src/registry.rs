//! The links of the READMEs as a registry shows them: on a page of its own, without the repository around it.
//!
//! crates.io knows where a relative link leads only if the manifest names a repository on one of three hosts; then it puts the
//! crate's directory there before it. Without one it shows the words and drops the link. PyPI always does.
//!
//! ```text
//!   (https://docs.rs/softtimers)     leads to a crate that is published with this one
//!   (https://docs.rs/crate/softtimers-tokio/latest/source/examples/x.rs)    and that file is in its package
//!   (#heading)                       is a heading of the README
//!   (examples/x.rs)                  needs a repository
//! ```

use std::path::Path;

use cargo_metadata::Package;

use crate::links::{links, problem};
use crate::report::Outcome;
use crate::workspace::{Page, Workspace};

/// The hosts of repositories that crates.io links to.
const HOSTS: [&str; 3] = ["https://github.com/", "https://gitlab.com/", "https://bitbucket.org/"];
/// The README of the package that PyPI gets.
const PYTHON: &str = "crates/python/README.md";

/// Checks the README of each crate that is published, and of the Python package.
pub(crate) fn check(workspace: &Workspace, pages: &[Page]) -> Outcome {
    let root = workspace.root();
    let published: Vec<&Package> = workspace.published().collect();
    let (mut problems, mut count) = (vec![], 0);
    let mut check = |path: &str, repository: Option<&str>| {
        let Some(page) = pages.iter().find(|page| page.path == path) else {
            problems.push(format!("{path} is not there"));
            return;
        };
        for (range, target) in links(&page.text) {
            count += 1;
            if let Some(problem) = dead(root, &published, path, &target, repository) {
                let line = page.text[..range.start].matches('\n').count() + 1;
                problems.push(format!("{path}:{line}: ({target}): {problem}"));
            }
        }
    };
    for package in &published {
        let readme = package.readme.as_ref().map(|readme| package.manifest_path.with_file_name(readme));
        let readme = readme.as_ref().and_then(|readme| readme.strip_prefix(&workspace.workspace_root).ok());
        if let Some(readme) = readme {
            check(readme.as_str(), package.repository.as_deref());
        }
    }
    check(PYTHON, None);
    Outcome::of(problems, format!("{count} links of {} pages", published.len() + 1))
}

/// Why a link leads nowhere from a registry's page, if so.
fn dead(
    root: &Path,
    published: &[&Package],
    path: &str,
    target: &str,
    repository: Option<&str>,
) -> Option<String> {
    if target.starts_with('#') {
        return problem(root, Path::new(path), target);
    }
    if target.contains("://") || target.starts_with("mailto:") {
        return unpublished(published, target);
    }
    match repository {
        Some(repository) if HOSTS.iter().any(|host| repository.starts_with(host)) => {
            problem(root, Path::new(path), target)
        }
        _ => Some("a registry drops this link: give an address, or the path in words".into()),
    }
}

/// What an address of docs.rs or crates.io names and is not published with these crates, if so. Those of others are not
/// followed.
fn unpublished(published: &[&Package], target: &str) -> Option<String> {
    let path = ["https://docs.rs/crate/", "https://docs.rs/", "https://crates.io/crates/"];
    let path = path.iter().find_map(|start| target.strip_prefix(start))?;
    let path = path.split(['#', '?']).next()?;
    let mut parts = path.splitn(4, '/');
    let name = parts.next()?;
    if !name.starts_with("softtimers") {
        return None;
    }
    let Some(package) = published.iter().find(|package| package.name == name) else {
        return Some(format!("no crate {name} is published"));
    };
    // NAME/VERSION/source/FILE
    let file = target.starts_with("https://docs.rs/crate/").then(|| parts.nth(2)).flatten()?;
    let is_there = package.manifest_path.with_file_name(file).is_file();
    (!is_there).then(|| format!("{name} has no {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::pages;

    #[test]
    fn what_a_registry_cannot_follow_is_named() {
        let workspace = Workspace::load().unwrap();
        let published: Vec<&Package> = workspace.published().collect();
        let dead = |target: &str, repository: Option<&str>| {
            dead(workspace.root(), &published, "crates/tokio/README.md", target, repository)
        };
        let host = Some("https://github.com/somebody/softtimers");
        assert_eq!(dead("https://docs.rs/softtimers-net/latest/softtimers_net/#x", None), None);
        assert_eq!(dead("https://example.org", None), None);
        assert_eq!(dead("#licence", None), None);
        assert_eq!(dead("../../docs/tokio.md", host), None);
        assert_eq!(dead("#none", None).as_deref(), Some("there is no heading #none"));
        assert!(dead("../../docs/tokio.md", None).is_some_and(|why| why.contains("drops this link")));
        assert!(dead("../../docs/tokio.md", Some("https://example.org/x")).is_some());
        assert_eq!(dead("nowhere.md", host).as_deref(), Some("there is no nowhere.md"));
        let none = Some("no crate softtimers-lab is published".to_owned());
        assert_eq!(dead("https://crates.io/crates/softtimers-lab", None), none);
        let source = |file: &str| format!("https://docs.rs/crate/softtimers-tokio/latest/source/{file}");
        assert_eq!(dead(&source("examples/paced_flows.rs"), None), None);
        let none = Some("softtimers-tokio has no examples/none.rs".to_owned());
        assert_eq!(dead(&source("examples/none.rs"), None), none);
        let pages = pages(workspace.root()).unwrap();
        assert!(matches!(check(&workspace, &pages), Outcome::Passed(_)), "{:?}", check(&workspace, &pages));
    }
}
