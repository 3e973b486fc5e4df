//! The table as a page: papers, their parts, their rows.

use std::path::Path;

use super::{Features, Level, Mark, Part, Row, State, Was, claims, outputs, paper_of};

const HEAD: &str = "\
<!-- Written by `cargo xtask features` from features.toml. -->
# Features, row by row

Every mechanism, parameter, figure, experiment and limitation of five papers on timers and polling, and how it is shown here:

- **mechanism**: by running the code, on time and input that a test gives it.
- **live**: a test saw it on the kernel that ran the test. CI fails if no test of a row at one of these two levels ran and passed.
- **command**: a command printed it, and the dated output is kept.
- quoted: the linked page has figures of the command; its output is not kept yet. Not counted as shown.
- calibrated: it agrees because a constant was fitted to it. Not counted as shown.
- documented: there is nothing to build; the link leads to the text.
- refused: not claimed, for the reason given. Planned: not yet.

A row that was to be built and became documented or refused says so. A note below the tests says which figures of the row they do not assert, and
why. A row that claims a figure (Q) is shown by its shape (order, ratio, trend), for the papers' absolute times are of their day. P is a
parameter, X an experiment, L a limitation; *sim* is shown in the simulator only; *derived* follows from a paper and is not stated in it.
";

/// Returns the page for `features`; links lead to files that exist under `root`.
pub(crate) fn render(features: &Features, root: &Path) -> String {
    let mut page = String::from(HEAD);
    page += &summary(features);
    for part in &features.parts {
        if let Some(paper) = &part.paper {
            let source = part.source.as_deref().unwrap_or_default();
            page += &format!("\n## {paper}\n\n{source}.\n");
        }
        page += &format!("\n### {} ({})\n\n", part.title, span(features, part));
        page += "| row | section | what | state | by |\n|---|---|---|---|---|\n";
        for (id, row) in features.rows_of(part) {
            page += &line(id, row, root);
        }
    }
    page
}

/// Returns one line per paper, and their sum.
fn summary(features: &Features) -> String {
    let mut text = String::from(
        "\n| paper | rows | mechanism | live | command | shown, of these three | quoted | calibrated | documented | refused | planned |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut add = |name: &str, is_in: &dyn Fn(&str) -> bool| {
        let count = |is: &dyn Fn(&Row) -> bool| {
            features.rows.iter().filter(|(id, row)| is_in(id) && is(row)).count().to_string()
        };
        let at = |level: Level| count(&|row: &Row| row.level == Some(level));
        let state = |state: State| count(&|row: &Row| row.state == state);
        let counts = [
            count(&|_| true),
            at(Level::Mechanism),
            at(Level::Live),
            at(Level::Command),
            format!("**{}**", count(&Row::is_counted)),
            at(Level::Quoted),
            at(Level::Calibrated),
            state(State::Documented),
            state(State::Refused),
            state(State::Planned),
        ];
        text += &format!("| {name} | {} |\n", counts.join(" | "));
    };
    for part in &features.parts {
        if let Some(paper) = &part.paper {
            add(paper, &|id| paper_of(id) == paper_of(&part.first));
        }
    }
    add("together", &|_| true);
    let was = features.rows.iter().filter(|(_, row)| row.was.is_some()).map(|(id, _)| id.as_str());
    let was: Vec<_> = was.collect();
    if !was.is_empty() {
        text += &format!("\nTo be built once, documented or refused now: {}.\n", was.join(", "));
    }
    text
}

/// Returns a span such as `ST-001 to ST-033`.
fn span(features: &Features, part: &Part) -> String {
    let last = features.rows_of(part).last().map_or(&part.first, |(id, _)| id);
    format!("{} to {last}", part.first)
}

fn line(id: &str, row: &Row, root: &Path) -> String {
    let kind = row.kind.map_or(String::new(), |kind| format!(" {kind:?}"));
    let mark = match row.mark {
        None | Some(Mark::Doc) => "",
        Some(Mark::Sim) => " *(sim)*",
        Some(Mark::Derived) => " *(derived)*",
    };
    let state = match (row.state, row.level) {
        (State::Planned, _) => "planned",
        (State::Shown, Some(Level::Mechanism)) => "**mechanism**",
        (State::Shown, Some(Level::Live)) => "**live**",
        (State::Shown, Some(Level::Command)) => "**command**",
        (State::Shown, Some(Level::Quoted)) => "quoted",
        (State::Shown, Some(Level::Calibrated)) => "calibrated",
        (State::Shown, None) => "shown",
        (State::Documented, _) => "documented",
        (State::Refused, _) => "refused",
    };
    let was = row.was.map_or("", |Was::ToBuild| ", was to be built");
    let issue = row.issue.filter(|_| row.state == State::Planned).map(|issue| format!(", issue {issue}"));
    let kept: Vec<_> = row.kept().collect();
    let shown = row.shown_by.iter().map(|claim| match claims::command(claim) {
        Some(command) if kept.contains(&command) => printed(command, root),
        _ => claimed(claim, root),
    });
    let documented = row.documented_in.iter().map(|address| format!("[{address}]({})", from_docs(address)));
    let by: Vec<_> = shown.chain(documented).chain(row.reason.clone()).collect();
    let cells = [
        format!("{id}{kind}"),
        row.section.clone(),
        row.what.clone() + mark,
        state.to_owned() + was + &issue.unwrap_or_default(),
        by.join("<br>"),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// Returns a claim, linked to the file with the test where that is known.
fn claimed(claim: &str, root: &Path) -> String {
    let parts: Vec<_> = claim.split("::").collect();
    let linked = match parts[..] {
        [package, target, ..] if !claim.starts_with('$') => {
            let directory = match package {
                "softtimers-papers" => "cli",
                _ => package.trim_start_matches("softtimers-").trim_start_matches("papers-"),
            };
            let workspaces: &[&str] = if package.starts_with("softtimers-papers") {
                &["papers"]
            } else {
                &["crates", "tools", "papers", "bench"]
            };
            workspaces.iter().find_map(|workspace| {
                let path = format!("{workspace}/{directory}/tests/{target}.rs");
                root.join(&path).is_file().then(|| format!("[`{claim}`]({})", from_docs(&path)))
            })
        }
        _ => None,
    };
    linked.unwrap_or_else(|| format!("`{claim}`"))
}

/// Returns a command whose output is kept, with its date.
fn printed(command: &str, root: &Path) -> String {
    let date = outputs::date(command, root).unwrap_or_else(|| "not yet run".into());
    format!("`$ {command}`: [{date}]({})", from_docs(&outputs::path(command)))
}

/// Returns a path from the root as a link for a page in `papers/docs/`.
fn from_docs(path: &str) -> String {
    let beside = path.strip_prefix("papers/docs/").map(str::to_owned);
    beside
        .or_else(|| Some(format!("../{}", path.strip_prefix("papers/")?)))
        .unwrap_or_else(|| format!("../../{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
[[part]]
first = "ST-001"
rows = 6
paper = "Soft timers"
source = "Somebody, 2000"
title = "Facility"
[ST-001]
what = "a | b"
section = "3"
kind = "L"
state = "documented"
documented_in = "docs/limits.md#tlb"
[ST-002]
what = "c"
section = "3"
state = "planned"
issue = 2
[ST-003]
what = "d"
section = "3"
state = "refused"
reason = "nobody can see it"
was = "to build"
[ST-004]
what = "e"
section = "3"
state = "shown"
level = "calibrated"
reason = "its cost is fitted to it"
shown_by = ["a::lib::b"]
[ST-005]
what = "f"
section = "3"
state = "shown"
level = "command"
shown_by = ["$ softtimers doctor"]
[ST-006]
what = "g"
section = "3"
state = "shown"
level = "quoted"
shown_by = ["$ softtimers noise"]
documented_in = "papers/docs/noise.md#x"
"#;

    #[test]
    fn rows_are_counted_and_linked() {
        let features = Features::parse(TABLE).unwrap();
        let page = render(&features, Path::new("."));
        for line in [
            "| together | 6 | 0 | 0 | 1 | **1** | 1 | 1 | 1 | 1 | 1 |",
            "To be built once, documented or refused now: ST-003.",
            "### Facility (ST-001 to ST-006)",
            "| ST-001 L | 3 | a \\| b | documented | [docs/limits.md#tlb](../../docs/limits.md#tlb) |",
            "| ST-002 | 3 | c | planned, issue 2 |  |",
            "| ST-003 | 3 | d | refused, was to be built | nobody can see it |",
            "| ST-004 | 3 | e | calibrated | `a::lib::b`<br>its cost is fitted to it |",
            "| ST-005 | 3 | f | **command** | `$ softtimers doctor`: [not yet run](../outputs/softtimers-doctor.txt) |",
            "| ST-006 | 3 | g | quoted | `$ softtimers noise`<br>[papers/docs/noise.md#x](noise.md#x) |",
        ] {
            assert!(page.lines().any(|is| is == line), "{line}: {page}");
        }
    }

    #[test]
    fn a_test_file_that_exists_is_linked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(claimed("softtimers-core::none::x", root), "`softtimers-core::none::x`");
        assert_eq!(claimed("$ softtimers doctor", root), "`$ softtimers doctor`");
        assert_eq!(from_docs("README.md#when"), "../../README.md#when");
    }
}
