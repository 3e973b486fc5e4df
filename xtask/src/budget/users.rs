//! Whether what is public has a user: a type outside its crate and its crate's tests, a flag on a page for people. What
//! has none is a promise to nobody, and goes.

use std::collections::{HashMap, HashSet};

use super::count::{Sources, public_types};

/// Crates whose public types are those of their own program, or of C and Python, whose users do not write Rust.
const WITHOUT_RUST_USERS: &[&str] = &["crates/cli", "crates/capi", "crates/python"];
/// Where the arguments of people's commands are defined, and which of those files have commands that `--help` hides.
const COMMANDS: &[&str] = &["crates/cli/src/", "papers/cli/src/"];
const HIDDEN: &[&str] = &["crates/cli/src/commands/echo/", "crates/cli/src/commands/wan/inside/"];
/// Where a flag that only stands there is not used, but listed.
const LISTS: &[&str] = &["docs/output.md", "CHANGELOG.md"];

/// Returns a line for each public type and each flag without a user.
pub(super) fn missing(sources: &Sources) -> Vec<String> {
    let mut problems = types(sources);
    problems.extend(flags(sources));
    problems
}

/// A type is used where another crate, an example or a page names it, or where it is part of a public signature.
fn types(sources: &Sources) -> Vec<String> {
    let mut places: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (path, text) in sources.rust.iter().chain(&sources.pages) {
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
            places.entry(word).or_default().insert(path);
        }
    }
    let mut problems = vec![];
    for (path, text) in &sources.rust {
        let Some(package) = published(path) else { continue };
        for name in public_types(text) {
            let is_outside = |place: &&str| !place.starts_with(&format!("{package}/src/"));
            let is_named = places.get(name).is_some_and(|places| places.iter().any(is_outside));
            if !is_named && !is_in_a_signature(sources, package, name) {
                problems.push(format!("{path}: nobody outside {package} uses the public type {name}"));
            }
        }
    }
    problems
}

fn published(path: &str) -> Option<&str> {
    let end = path.strip_prefix("crates/").and_then(|_| path.find("/src/"))?;
    Some(&path[..end]).filter(|package| !WITHOUT_RUST_USERS.contains(package))
}

fn is_in_a_signature(sources: &Sources, package: &str, name: &str) -> bool {
    let own = sources.rust.iter().filter(|(path, _)| published(path) == Some(package));
    let has = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    let is_signature = |line: &str| {
        let line = line.trim_start();
        let is_item = line.starts_with("pub ") && public_types(line).next() != Some(name);
        is_item || line.starts_with("type ") || line.starts_with("fn ") || line.contains("-> ")
    };
    own.flat_map(|(_, text)| text.lines())
        .any(|line| is_signature(line) && !line.trim_start().starts_with("pub use") && has(line))
}

/// A flag is used where a page for people has it, in its long or in its short form.
fn flags(sources: &Sources) -> Vec<String> {
    let is_page =
        |path: &str| path.ends_with("README.md") || (path.contains("docs/") && !LISTS.contains(&path));
    let pages: Vec<&str> =
        sources.pages.iter().filter(|(path, _)| is_page(path)).map(|(_, text)| text.as_str()).collect();
    let is_told = |form: &String| pages.iter().any(|page| has_flag(page, form));
    let is_defined = |path: &str| {
        let starts = |prefix: &&str| path.starts_with(prefix);
        COMMANDS.iter().any(starts) && !HIDDEN.iter().any(starts)
    };
    let mut problems = vec![];
    for (path, text) in sources.rust.iter().filter(|(path, _)| is_defined(path)) {
        let lost = flags_of(text).into_iter().filter(|forms| !forms.iter().any(is_told));
        problems.extend(lost.map(|forms| format!("{path}: no page tells what {} is for", forms[0])));
    }
    problems
}

fn has_flag(page: &str, flag: &str) -> bool {
    let ends = |c: char| !c.is_alphanumeric() && c != '-';
    page.match_indices(flag).any(|(at, _)| {
        page[..at].chars().next_back().is_none_or(ends)
            && page[at + flag.len()..].chars().next().is_none_or(ends)
    })
}

/// Returns the flags that a source defines for clap, hidden ones left out: the long form of each, then the short one.
fn flags_of(text: &str) -> Vec<Vec<String>> {
    let mut found = vec![];
    for part in text.split("#[arg(").skip(1) {
        let Some((attribute, rest)) = part.split_once(")]") else { continue };
        let words: Vec<&str> = attribute.split(',').map(str::trim).collect();
        let value = |key: &str| {
            let word = words.iter().find(|word| word.split([' ', '=']).next() == Some(key))?;
            Some(word.split(['"', '\'']).nth(1).map(str::to_owned))
        };
        if value("hide").is_some() {
            continue;
        }
        let Some(long) = value("long").map(|given| given.or_else(|| field(rest))) else { continue };
        let Some(long) = long else { continue };
        let short = value("short").map(|given| given.unwrap_or_else(|| long[..1].to_owned()));
        let short = short.map(|letter| format!("-{letter}"));
        found.push([Some(format!("--{long}")), short].into_iter().flatten().collect());
    }
    found
}

/// Returns the name of the field that an attribute belongs to, as clap spells it.
fn field(rest: &str) -> Option<String> {
    let line = rest.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', '/']))?;
    let name = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
    Some(name.split_once(':')?.0.trim_start_matches("r#").replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let (rust, pages) = files
            .iter()
            .map(|&(path, text)| (path.to_owned(), text.to_owned()))
            .partition(|(path, _): &(String, String)| path.ends_with(".rs"));
        Sources { rust, pages }
    }

    #[test]
    fn a_public_type_needs_a_user() {
        let own = (
            "crates/a/src/lib.rs",
            "pub struct Used;\npub struct Lost;\npub struct Got;\npub fn got() -> Got {}\n",
        );
        let other = ("crates/b/src/lib.rs", "use a::Used;\n");
        assert_eq!(
            missing(&sources(&[own, other])),
            ["crates/a/src/lib.rs: nobody outside crates/a uses the public type Lost"]
        );
    }

    #[test]
    fn a_flag_needs_a_page() {
        let args = "#[arg(long, short)]\npub(crate) burst_interval: u8,\n#[arg(long = \"to\", value_name = \"A\")]\n/// X\nto_all: u8,\n#[arg(long, hide = true)]\nold: u8,\n";
        let own = ("crates/cli/src/args.rs", args);
        let forms = [vec!["--burst-interval".to_owned(), "-b".to_owned()], vec!["--to".to_owned()]];
        assert_eq!(flags_of(args), forms);
        let told = ("docs/send.md", "Use -b 1ms, --to-all.");
        assert_eq!(
            missing(&sources(&[own, told])),
            ["crates/cli/src/args.rs: no page tells what --to is for"]
        );
    }
}
