//! The built site: whether every link leads somewhere, and nothing is loaded from another host.
//!
//! mdBook writes plain HTML with its attributes in double quotes, so its text is searched, not parsed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::links::resolved;

/// mdBook's page for what is not there takes its links from the root of a host that it does not know.
const NOT_FOUND: &str = "404.html";

/// What is wrong with the site in `directory`, a line each.
///
/// # Errors
/// If a page cannot be read.
pub(super) fn problems(directory: &Path) -> Result<Vec<String>> {
    let mut pages = HashMap::new();
    let mut files = HashSet::new();
    for path in below(directory)? {
        let name = path.strip_prefix(directory).unwrap_or(&path).to_string_lossy().into_owned();
        if name.ends_with(".html") && name != NOT_FOUND {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
            pages.insert(name.clone(), text);
        }
        files.insert(name);
    }
    let ids: HashMap<_, HashSet<_>> =
        pages.iter().map(|(name, text)| (name.as_str(), attributes(text, "id").collect())).collect();
    let mut problems = vec![];
    for (name, text) in &pages {
        let loaded = attributes(text, "src").filter(|at| at.contains("//"));
        problems.extend(loaded.map(|at| format!("{name}: loads {at}")));
        let dead = |link: &&str| !leads_somewhere(name, link, &files, &ids);
        problems
            .extend(attributes(text, "href").filter(dead).map(|link| format!("{name}: dead link {link}")));
        problems
            .extend(attributes(text, "src").filter(dead).map(|link| format!("{name}: dead source {link}")));
    }
    problems.sort();
    Ok(problems)
}

fn leads_somewhere(
    page: &str,
    link: &str,
    files: &HashSet<String>,
    ids: &HashMap<&str, HashSet<&str>>,
) -> bool {
    if ["http://", "https://", "mailto:", "data:", "javascript:"]
        .iter()
        .any(|scheme| link.starts_with(scheme))
    {
        return true;
    }
    let (path, id) = link.split_once('#').map_or((link, None), |(path, id)| (path, Some(id)));
    let Some(file) = (if path.is_empty() { Some(page.to_owned()) } else { resolved(page, path) }) else {
        return false;
    };
    let known = ids.get(file.as_str());
    let has = |id: &str| {
        id.is_empty() || known.is_some_and(|known| known.contains(id) || known.contains(&*decoded(id)))
    };
    files.contains(&file) && id.is_none_or(has)
}

/// `%C2%B5` as the letter it is.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (vec![], text.as_bytes());
    while let [first, more @ ..] = rest {
        let hex =
            (*first == b'%').then(|| more.get(..2)).flatten().and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &more[2..]).1,
            None => (bytes.push(*first), rest = more).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The values of an attribute.
fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let opening = format!(" {name}=\"");
    let mut rest = html;
    std::iter::from_fn(move || {
        let start = rest.find(&opening)? + opening.len();
        let value = &rest[start..];
        let end = value.find('"')?;
        rest = &value[end..];
        Some(&value[..end])
    })
}

fn below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        let entries = fs::read_dir(&next).with_context(|| format!("cannot list {}", next.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() { directories.push(path) } else { found.push(path) }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_and_foreign_sources_are_found() {
        let here = std::env::temp_dir().join(format!("softtimers-built-{}", std::process::id()));
        fs::create_dir_all(here.join("css")).unwrap();
        fs::write(here.join("css/a.css"), "").unwrap();
        let page = "<h1 id=\"µs\"></h1> <link href=\"css/a.css\"> <a href=\"b.html#x\"> <a href=\"#%C2%B5s\"> \
                    <a href=\"b.html#y\"> <a href=\"c.html\"> <img src=\"https://host/p.png\"> <a href=\"https://x\">";
        fs::write(here.join("a.html"), page).unwrap();
        fs::write(here.join("b.html"), "<p id=\"x\">").unwrap();
        let found = problems(&here).unwrap();
        fs::remove_dir_all(&here).unwrap();
        assert_eq!(
            found,
            ["a.html: dead link b.html#y", "a.html: dead link c.html", "a.html: loads https://host/p.png"]
        );
    }
}
