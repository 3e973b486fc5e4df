//! Names that grep does not find, because too many files have a function or a constant of that name.
//!
//! A method of a trait has the trait's name, and a conversion its convention's; neither counts. Sources are read as text, as
//! `count` does: a trait's block ends at the brace that stands where it began.

use std::collections::{BTreeMap, BTreeSet};

/// The most files with a function of one name.
const MOST_WITH_FUNCTION: usize = 10;
/// The most files with a constant of one name.
const MOST_WITH_CONSTANT: usize = 3;

/// Names that mean one thing wherever they stand.
const ANYWHERE: &[(&[&str], &str)] = &[
    (&["new", "main"], "the language's own"),
    (
        &[
            "count", "find", "get", "insert", "is_empty", "iter", "len", "name", "next", "parse", "push",
            "read", "remove", "send", "take", "write",
        ],
        "std's word, with std's meaning",
    ),
    (&["ALL", "NONE", "EMPTY", "ZERO"], "a type's own, always written behind its name"),
];

/// The names above their limit, with the files that have them.
pub(super) struct Common {
    pub(super) functions: Vec<(String, usize)>,
    pub(super) constants: Vec<(String, usize)>,
}

impl Common {
    /// Counts in paths and texts.
    pub(super) fn of_sources(sources: &[(String, String)]) -> Self {
        let (mut functions, mut constants) = (BTreeMap::new(), BTreeMap::new());
        for (path, text) in sources {
            for (is_function, name) in declared(text) {
                let all: &mut BTreeMap<String, BTreeSet<&str>> =
                    if is_function { &mut functions } else { &mut constants };
                all.entry(name.to_owned()).or_default().insert(path);
            }
        }
        let above = |all: BTreeMap<String, BTreeSet<&str>>, most: usize| {
            let mut above: Vec<_> = all.into_iter().map(|(name, files)| (name, files.len())).collect();
            above.retain(|(name, files)| *files > most && !is_exempt(name));
            above.sort_by_key(|common| std::cmp::Reverse(common.1));
            above
        };
        Common {
            functions: above(functions, MOST_WITH_FUNCTION),
            constants: above(constants, MOST_WITH_CONSTANT),
        }
    }
}

fn is_exempt(name: &str) -> bool {
    let is_conversion = ["as_", "from_", "into_", "to_"].iter().any(|begin| name.starts_with(begin));
    is_conversion || ANYWHERE.iter().any(|(names, _)| names.contains(&name))
}

/// Returns the functions (true) and constants that a file declares outside of traits and their implementations.
fn declared(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut trait_end: Option<String> = None;
    text.lines().filter_map(move |line| {
        if let Some(end) = &trait_end {
            if end.as_str() == line {
                trait_end = None;
            }
            return None;
        }
        let item = line.trim_start();
        let words: Vec<&str> = item.split_whitespace().collect();
        let begins = |keyword: &str| words.iter().take(3).any(|word| word.split('<').next() == Some(keyword));
        if begins("trait") || (begins("impl") && words.contains(&"for")) {
            if !item.ends_with('}') {
                trait_end = Some(format!("{}}}", &line[..line.len() - item.len()]));
            }
            return None;
        }
        let behind = |keyword: &str| {
            let at = words.iter().position(|word| *word == keyword)?;
            let are_qualifiers = words[..at].iter().all(|word| {
                word.starts_with("pub")
                    || ["const", "async", "unsafe", "extern", "\"C\"", "in"].contains(word)
            });
            let name = words.get(at + 1)?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
            (are_qualifiers && !name.is_empty()).then_some(name)
        };
        let constant = || behind("const").or_else(|| behind("static")).filter(|name| *name != "_");
        behind("fn").map(|name| (true, name)).or_else(|| constant().map(|name| (false, name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_constants_are_found_outside_of_traits() {
        let text = "pub(crate) const fn a<T>() {}\nconst B: u8 = 1;\nimpl C for D {\n    fn e() {}\n    const F: u8 = 1;\n}\n\
                    impl G {\n    pub async fn h() {}\n}\npub trait I {\n    fn j();\n}\nimpl<T> K for T {}\nfn l() {}\nconst _: () = ();\n";
        let found: Vec<_> = declared(text).collect();
        assert_eq!(found, [(true, "a"), (false, "B"), (true, "h"), (true, "l")]);
    }

    #[test]
    fn a_name_in_too_many_files_is_told_unless_it_means_one_thing() {
        let files = |count: usize| {
            let text = "fn of() {}\nfn new() {}\nfn as_it() {}\nconst MOST: u8 = 1;\nconst ALL: u8 = 1;\n";
            (0..count).map(|file| (format!("{file}.rs"), text.to_owned())).collect::<Vec<_>>()
        };
        let most = Common::of_sources(&files(10));
        assert_eq!((most.functions.len(), most.constants), (0, vec![("MOST".to_owned(), 10)]));
        assert_eq!(Common::of_sources(&files(11)).functions, [("of".to_owned(), 11)]);
        assert!(Common::of_sources(&files(3)).constants.is_empty());
    }
}
