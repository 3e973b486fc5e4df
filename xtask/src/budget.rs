//! The budget: ceilings of code, public types, arguments and words. What grows is read by fewer people, so a ceiling
//! goes down by itself and goes up only with a reason.
//!
//! ```text
//!   git ls-files ─▶ count ─▶ amounts ─┐
//!   budget.toml ─▶ ceilings ──────────┼─▶ above: fails; more than 5% below: lower it
//!   git log budget.toml ─▶ the lowest ┘   above the lowest it ever had: only with a reason
//! ```

mod count;
mod names;
mod users;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program;
use crate::report::Outcome;

use count::{Amounts, Sources};
use names::Common;

const PATH: &str = "budget.toml";
/// How far below its ceiling an amount may be, in percent, before the ceiling has to follow.
const SLACK_PERCENT: usize = 5;
const HEADER: &str = "\
# Ceilings, checked by `cargo xtask budget`, which is part of ci. `lines` are Rust without tests, comments and blanks,
# `types` public structs, enums, traits, unions and aliases, `args` arguments of a command, `words` those of a page
# without what is rendered into it, `functions` names that more than ten files have a function of, `constants` those of
# constants in more than three. A ceiling that an amount is more than 5% below has to follow it:
# `cargo xtask budget --lower` does that. One that is raised above the lowest it ever had says why in `reason`.
";

/// The file: a table of ceilings for each place.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    places: BTreeMap<String, Ceilings>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
struct Ceilings {
    /// Why one of the ceilings was raised.
    reason: Option<String>,
    #[serde(flatten)]
    most: Amounts,
}

/// Checks that each amount is under its ceiling and not far under it, and that what is public has a user.
///
/// # Errors
/// If git fails, or a source or the budget cannot be read.
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    let sources = Sources::read(root)?;
    let budget = read(&fs::read_to_string(root.join(PATH)).context(PATH)?)?;
    let amounts = sources.amounts();
    let common = Common::of_sources(&sources.rust);
    let mut problems = beyond(&amounts, &budget);
    problems.extend(raised(&budget, &lowest(root)?));
    if problems.iter().any(|problem| problem.contains(" functions; ") || problem.contains(" constants; ")) {
        let names = common.functions.iter().chain(&common.constants);
        let names = names.map(|(name, files)| format!("{name} ({files})")).collect::<Vec<_>>();
        problems.push(format!("names in too many files: {}", names.join(", ")));
    }
    problems.extend(users::missing(&sources));
    Ok(Outcome::of(problems, totals(&amounts)))
}

/// Lowers every ceiling to its amount, adds places that have none and removes those that are gone. Raises nothing.
///
/// # Errors
/// As [`check`], or if the file cannot be written.
pub(crate) fn lower(root: &Path) -> Result<Outcome> {
    let amounts = Sources::read(root)?.amounts();
    let budget = match fs::read_to_string(root.join(PATH)) {
        Ok(text) => read(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Budget::default(),
        Err(error) => return Err(error).context(PATH),
    };
    fs::write(root.join(PATH), written(&amounts, &budget)).context(PATH)?;
    Ok(Outcome::passed(totals(&amounts)))
}

fn read(text: &str) -> Result<Budget> {
    Ok(Budget { places: toml::from_str(text).context(PATH)? })
}

fn totals(amounts: &BTreeMap<String, Amounts>) -> String {
    let of = |place: &str, unit: &str| amounts.get(place).and_then(|all| all.get(unit)).copied().unwrap_or(0);
    format!(
        "{} lines and {} types in crates/, {} lines in all, {} words of pages",
        of(count::PRODUCT, "lines"),
        of(count::PRODUCT, "types"),
        of(count::EVERYTHING, "lines"),
        of(count::EVERYTHING, "words"),
    )
}

/// Returns a line for each amount above its ceiling, far below it, or without one.
fn beyond(amounts: &BTreeMap<String, Amounts>, budget: &Budget) -> Vec<String> {
    let mut problems = vec![];
    for (place, amounts) in amounts {
        for (unit, &amount) in amounts {
            let ceiling = budget.places.get(place).and_then(|ceilings| ceilings.most.get(unit));
            problems.extend(match ceiling {
                None => Some(format!(
                    "{place} has {amount} {unit} and no ceiling: `cargo xtask budget --lower` adds it"
                )),
                Some(&most) if amount > most => Some(format!("{place} has {amount} {unit}; {most} are allowed")),
                Some(&most) if amount * 100 < most * (100 - SLACK_PERCENT) => Some(format!(
                    "{place} has {amount} {unit}, far below its ceiling of {most}: `cargo xtask budget --lower`"
                )),
                Some(_) => None,
            });
        }
    }
    let is_gone = |place: &&String| !amounts.contains_key(*place);
    problems.extend(budget.places.keys().filter(is_gone).map(|place| format!("{PATH}: {place} is gone")));
    problems
}

/// Returns a line for each ceiling above the lowest it ever had, unless its place gives a reason.
fn raised(budget: &Budget, lowest: &BTreeMap<String, Amounts>) -> Vec<String> {
    let unexplained = budget.places.iter().filter(|(_, ceilings)| ceilings.reason.is_none());
    let above = unexplained.flat_map(|(place, ceilings)| {
        ceilings.most.iter().filter_map(move |(unit, &most)| {
            let &least = lowest.get(place)?.get(unit)?;
            (most > least).then(|| {
                format!("{PATH}: {place} may have {most} {unit}, once {least}; a ceiling that is raised needs a `reason`")
            })
        })
    });
    above.collect()
}

/// Returns the lowest ceilings in the file's history.
fn lowest(root: &Path) -> Result<BTreeMap<String, Amounts>> {
    let mut lowest: BTreeMap<String, Amounts> = BTreeMap::new();
    let commits = program::output(program::program("git", root).args(["log", "--format=%H", "--", PATH]))?;
    for commit in commits.lines() {
        let spec = format!("{commit}:{PATH}");
        // A commit that removed the file has none.
        let Ok(text) = program::output(program::program("git", root).args(["show", &spec])) else { continue };
        for (place, ceilings) in read(&text)?.places {
            let known = lowest.entry(place).or_default();
            for (unit, most) in ceilings.most {
                known.entry(unit).and_modify(|least| *least = most.min(*least)).or_insert(most);
            }
        }
    }
    Ok(lowest)
}

fn written(amounts: &BTreeMap<String, Amounts>, budget: &Budget) -> String {
    let mut text = HEADER.to_owned();
    for (place, amounts) in amounts {
        let known = budget.places.get(place);
        write!(text, "\n[{place:?}]\n").expect("a string takes all");
        for (unit, &amount) in amounts {
            let most = known.and_then(|known| known.most.get(unit)).map_or(amount, |&most| amount.min(most));
            writeln!(text, "{unit} = {most}").expect("a string takes all");
        }
        if let Some(reason) = known.and_then(|known| known.reason.as_ref()) {
            writeln!(text, "reason = {reason:?}").expect("a string takes all");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(lines: usize) -> BTreeMap<String, Amounts> {
        BTreeMap::from([("crates/a".to_owned(), Amounts::from([("lines".to_owned(), lines)]))])
    }

    #[test]
    fn an_amount_stays_within_five_percent_below_its_ceiling() {
        let budget = read("[\"crates/a\"]\nlines = 100\n").unwrap();
        assert_eq!(beyond(&amounts(100), &budget), Vec::<String>::new());
        assert_eq!(beyond(&amounts(95), &budget), Vec::<String>::new());
        assert_eq!(beyond(&amounts(101), &budget), ["crates/a has 101 lines; 100 are allowed"]);
        assert!(beyond(&amounts(94), &budget)[0].contains("far below its ceiling of 100"));
    }

    #[test]
    fn each_place_has_a_ceiling_and_each_ceiling_a_place() {
        let problems = beyond(&amounts(7), &read("[\"crates/b\"]\nlines = 7\n").unwrap());
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn a_ceiling_rises_only_with_a_reason() {
        let silent = read("[\"crates/a\"]\nlines = 100\n").unwrap();
        let explained = read("[\"crates/a\"]\nlines = 100\nreason = \"a parser\"\n").unwrap();
        assert_eq!(raised(&silent, &amounts(100)), Vec::<String>::new());
        assert_eq!(raised(&silent, &amounts(99)).len(), 1);
        assert_eq!(raised(&explained, &amounts(99)), Vec::<String>::new());
    }

    #[test]
    fn lowering_keeps_reasons_and_raises_nothing() {
        let budget = read("[\"crates/a\"]\nlines = 100\nreason = \"a \\\"parser\\\"\"\n").unwrap();
        let lowered = read(&written(&amounts(90), &budget)).unwrap();
        assert_eq!(lowered.places["crates/a"].most["lines"], 90);
        assert_eq!(lowered.places["crates/a"].reason, budget.places["crates/a"].reason);
        assert_eq!(read(&written(&amounts(110), &budget)).unwrap().places, budget.places);
    }
}
