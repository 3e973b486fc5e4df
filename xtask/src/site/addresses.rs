//! The links of the built site: each leads to a file of it, and to a place that this file has.
//!
//! The pages' own links are checked where they are written ([`links`](crate::links)), by the anchors of code hosts. mdBook makes its
//! own, and adds links of the navigation; so what it has written is read again, as a browser does:
//!
//! ```text
//!   href="overload.html#several-cpus"   ──▶  target/site/overload.html is there, and has id="several-cpus"
//!   src="overload.svg"                  ──▶  is there
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Returns the dead links of a site, and how many links it has.
///
/// # Errors
/// If the site cannot be read.
pub(super) fn dead(site: &Path) -> Result<(Vec<String>, usize)> {
    let mut pages = BTreeMap::new();
    for page in pages_of(site)? {
        let text = fs::read_to_string(site.join(&page)).with_context(|| format!("cannot read {page}"))?;
        pages.insert(page, text);
    }
    let places = |text: &str| attributes(text, &["id", "name"]).collect::<BTreeSet<_>>();
    let places: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|(page, text)| (page.as_str(), places(text))).collect();
    let (mut dead, mut count) = (BTreeSet::new(), 0);
    for (page, text) in &pages {
        for address in attributes(text, &["href", "src"]) {
            if ["https:", "http:", "mailto:", "data:"].iter().any(|scheme| address.starts_with(scheme)) {
                continue;
            }
            count += 1;
            let (path, place) = address.split_once('#').unwrap_or((&address, ""));
            let path = if path.is_empty() { page } else { path };
            let known = places.get(path).map(|places| place.is_empty() || places.contains(place));
            match known {
                Some(true) => {}
                Some(false) => drop(dead.insert(format!("{page}: ({address}): {path} has no #{place}"))),
                None if place.is_empty() && site.join(path).is_file() => {}
                None => drop(dead.insert(format!("{page}: ({address}): there is no {path}"))),
            }
        }
    }
    Ok((dead.into_iter().collect(), count))
}

/// The names of the site's pages, without the copy that is to be printed, which repeats all others, and the one for addresses that
/// are not there, which leads to the root of whatever host it is on.
///
/// # Errors
/// If the site cannot be listed.
pub(super) fn pages_of(site: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(site).with_context(|| format!("cannot list {}", site.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    let names = names.filter(|name| name.ends_with(".html") && !["print.html", "404.html"].contains(name));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// The values of these attributes. Within text `"` is written `&quot;` and `<` as `&lt;`, so no code block has one.
fn attributes<'a>(text: &'a str, names: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let tags = text.split('<').skip(1).map(|rest| rest.split_once('>').map_or(rest, |(tag, _)| tag));
    tags.flat_map(move |tag| {
        names.iter().filter_map(move |name| {
            let (_, value) = tag.split_once(&format!(" {name}=\""))?;
            Some(value.split('"').next()?.replace("&amp;", "&"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_those_of_tags() {
        let text = "<a class=\"x\" href=\"a.html?b&amp;c#d\">href=\"no\"</a> <h2 id=\"due\"><img src=\"p.svg\" alt=\"\">";
        let of = |names: &[&str]| attributes(text, names).collect::<Vec<_>>();
        assert_eq!(of(&["href", "src"]), ["a.html?b&c#d", "p.svg"]);
        assert_eq!(of(&["id"]), ["due"]);
    }

    #[test]
    fn dead_links_are_found() {
        let site = std::env::temp_dir().join(format!("softtimers-site-{}", std::process::id()));
        fs::create_dir_all(&site).unwrap();
        fs::write(site.join("a.html"), "<a href=\"b.html#there\"><a href=\"#no\"><img src=\"none.svg\">")
            .unwrap();
        fs::write(site.join("b.html"), "<p id=\"there\"><a href=\"https://example.org\"><a href=\"a.html\">")
            .unwrap();
        fs::write(site.join("print.html"), "<a href=\"nowhere\">").unwrap();
        let found = dead(&site).unwrap();
        fs::remove_dir_all(&site).unwrap();
        let dead = ["a.html: (#no): a.html has no #no", "a.html: (none.svg): there is no none.svg"];
        assert_eq!(found, (dead.map(str::to_owned).to_vec(), 4));
    }
}
