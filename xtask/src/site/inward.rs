//! A page without links that lead out of the site.

use crate::links::{links, resolved};

/// The page `path` with each link to a file beyond its directory as the file's path, or below `sources`.
///
/// Links within the directory and into the network stay as they are.
pub(super) fn page(path: &str, text: &str, sources: Option<&str>) -> String {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for link in links(text) {
        let (target, anchor) = link.parts();
        let Some(target) = outside(path, directory, target).filter(|_| !link.is_external()) else { continue };
        out.push_str(&text[at..link.range.start]);
        out.push_str(&match (sources, anchor) {
            (Some(root), Some(anchor)) => format!("[{}]({root}/{target}#{anchor})", link.text),
            (Some(root), None) => format!("[{}]({root}/{target})", link.text),
            (None, _) => named(link.text, &target),
        });
        at = link.range.end;
    }
    out + &text[at..]
}

/// `target` from the root, if it is a file beyond `directory`.
fn outside(page: &str, directory: &str, target: &str) -> Option<String> {
    let target = resolved(page, target).filter(|_| !target.is_empty())?;
    let inside = target.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
    (!inside).then_some(target)
}

/// The text of a link, and the path it led to, unless the text is its end already, or says by itself where something is.
fn named(text: &str, path: &str) -> String {
    match text.trim_matches('`') {
        item if item.contains("::") => text.to_owned(),
        end if path.ends_with(end) => format!("`{path}`"),
        _ => format!("{text} (`{path}`)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[`Hip`](../crates/hip.rs), [hip.rs](../crates/hip.rs#x), [a](a.md#b), [c](#c), \
                        [unit](x.service), [net](https://example.org), `[no](../link)` [`a::b`](../b.rs)\n";

    #[test]
    fn links_out_become_paths() {
        assert_eq!(
            page("docs/p.md", TEXT, None),
            "`Hip` (`crates/hip.rs`), `crates/hip.rs`, [a](a.md#b), [c](#c), [unit](x.service), \
             [net](https://example.org), `[no](../link)` `a::b`\n"
        );
    }

    #[test]
    fn or_links_to_where_the_sources_are() {
        let found = page("docs/p.md", TEXT, Some("https://host/tree"));
        assert!(found.starts_with(
            "[`Hip`](https://host/tree/crates/hip.rs), [hip.rs](https://host/tree/crates/hip.rs#x), [a](a.md#b)"
        ));
    }
}
