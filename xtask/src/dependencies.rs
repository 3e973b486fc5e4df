//! Dependencies point one way.
//!
//! ```text
//!      core ◄── linux ◄── softtimers ◄── net ◄── wan ◄── cli ◄── bench      each on any to its left
//!      core ◄── softtimers ◄── tokio ◄── quinn
//!      core ◄── softtimers ◄── wan ◄── capi
//!      core ◄── sim, bpf ◄── cli
//! ```
//!
//! bench may depend on anything, and nothing on it. Only bench and corpora depend on the command: the one drives the same
//! engines, the other tries every reader there is. Neither is ever published.
//!
//! The simulator never sees `softtimers`, so it cannot read a real clock by accident; core sees no
//! crate at all, so it can be used where nothing else can. Dev-dependencies count: a test that needs
//! the crate above it belongs to the crate above.

use crate::report::Outcome;
use crate::workspace::{Dependency, Package, Workspace};

const CORE: &str = "softtimers-core";
const LINUX: &str = "softtimers-linux";
const LOOPS: &str = "softtimers";
const NET: &str = "softtimers-net";

/// What each crate of the workspace may depend on within the workspace. A crate that is not here is
/// refused until it has a line.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    (CORE, &[]),
    (LINUX, &[CORE]),
    (LOOPS, &[CORE, LINUX]),
    (NET, &[CORE, LINUX, LOOPS]),
    ("softtimers-tokio", &[CORE, LOOPS]),
    ("softtimers-quinn", &[CORE, LOOPS, "softtimers-tokio", "softtimers-wan"]),
    ("softtimers-wan", &[CORE, LOOPS, NET]),
    ("softtimers-capi", &[CORE, LOOPS, "softtimers-wan"]),
    ("softtimers-bpf", &[CORE]),
    ("softtimers-sim", &[CORE]),
    ("softtimers-measure", &[CORE, LINUX, LOOPS]),
    (
        "softtimers-cli",
        &[CORE, LINUX, LOOPS, NET, "softtimers-measure", "softtimers-wan", "softtimers-bpf", "softtimers-sim"],
    ),
    (
        "softtimers-corpora",
        &[CORE, "softtimers-wan", "softtimers-capi", "softtimers-measure", "softtimers-cli"],
    ),
    (
        "softtimers-lab",
        &[
            CORE,
            LINUX,
            LOOPS,
            NET,
            "softtimers-tokio",
            "softtimers-quinn",
            "softtimers-wan",
            "softtimers-capi",
            "softtimers-bpf",
            "softtimers-sim",
            "softtimers-measure",
            "softtimers-cli",
        ],
    ),
    ("xtask", &[]),
];

/// Heavy dependencies: at most one crate has each, so that nobody else waits for it.
const HEAVY: &[&str] = &["quinn", "aya", "clap", "plotters"];

/// Compares us with others, so it has what they need; it is never published.
const LAB: &str = "softtimers-lab";

/// Checks the manifests of all members.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let members: Vec<_> = workspace.members().collect();
    Outcome::of(problems(&members), format!("{} crates", members.len()))
}

fn problems(members: &[&Package]) -> Vec<String> {
    let mut problems: Vec<_> = members.iter().flat_map(|member| direction(member, members)).collect();
    let core = members.iter().find(|member| member.name == CORE);
    let outside = core.iter().flat_map(|core| &core.dependencies).filter(|dependency| !dependency.is_dev());
    problems.extend(outside.map(|d| format!("{CORE} depends on {}; it may depend on nothing", d.name)));
    for heavy in HEAVY {
        let has = |member: &&&Package| member.name != LAB && depends_on(member, heavy);
        let owners: Vec<_> = members.iter().filter(has).map(|member| member.name.as_str()).collect();
        if owners.len() > 1 {
            problems.push(format!("{heavy} is in {}; only one crate may have it", owners.join(" and ")));
        }
    }
    problems
}

/// Edges of one member that point the wrong way.
fn direction(member: &Package, members: &[&Package]) -> Vec<String> {
    let name = &member.name;
    let Some((_, allowed)) = MAY_DEPEND_ON.iter().find(|(crate_name, _)| crate_name == name) else {
        return vec![format!("{name} has no line in MAY_DEPEND_ON of xtask/src/dependencies.rs")];
    };
    let inside = |d: &&Dependency| members.iter().any(|other| other.name == d.name);
    let wrong = |d: &&Dependency| !allowed.contains(&d.name.as_str());
    let edges = member.dependencies.iter().filter(inside).filter(wrong);
    edges.map(|d| format!("{name} depends on {}; it may depend on: {}", d.name, listed(allowed))).collect()
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "no crate of the workspace".into() } else { names.join(", ") }
}

fn depends_on(member: &Package, name: &str) -> bool {
    member.dependencies.iter().any(|d| d.name == name && !d.is_dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name: dependency, dependency` a line; `dev:x` is a dev-dependency.
    fn problems_of(manifests: &str) -> Vec<String> {
        let packages: Vec<Package> = manifests.lines().map(package).collect();
        problems(&packages.iter().collect::<Vec<_>>())
    }

    fn package(line: &str) -> Package {
        let (name, list) = line.trim().split_once(':').unwrap();
        let dependency = |word: &str| match word.trim().strip_prefix("dev:") {
            Some(name) => {
                Dependency { name: name.into(), kind: Some("dev".into()), requirement: String::new() }
            }
            None => Dependency { name: word.trim().into(), kind: None, requirement: String::new() },
        };
        let words = list.split(',').filter(|word| !word.trim().is_empty());
        Package {
            id: name.into(),
            name: name.into(),
            version: "0.1.0".into(),
            license: None,
            rust_version: None,
            dependencies: words.map(dependency).collect(),
            targets: vec![],
            manifest_path: "".into(),
            about: Default::default(),
        }
    }

    #[test]
    fn the_picture_itself_is_allowed() {
        let found = problems_of(
            "softtimers-core: dev:proptest
             softtimers: softtimers-core, libc, dev:mio
             softtimers-sim: softtimers-core
             softtimers-wan: softtimers-core, softtimers, dev:proptest
             softtimers-cli: softtimers-core, softtimers, softtimers-sim, softtimers-wan, clap
             xtask: anyhow",
        );
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn edges_that_point_back_are_named() {
        let found = problems_of("softtimers-core:\nsofttimers: softtimers-cli\nsofttimers-cli: softtimers");
        assert_eq!(found, ["softtimers depends on softtimers-cli; it may depend on: softtimers-core"]);
        let found = problems_of("softtimers:\nsofttimers-sim: dev:softtimers");
        assert_eq!(found, ["softtimers-sim depends on softtimers; it may depend on: softtimers-core"]);
    }

    #[test]
    fn core_has_no_dependency_but_for_its_tests() {
        let found = problems_of("softtimers-core: libc, dev:proptest");
        assert_eq!(found, ["softtimers-core depends on libc; it may depend on nothing"]);
    }

    #[test]
    fn a_new_crate_needs_a_line_and_a_heavy_dependency_one_owner() {
        assert_eq!(problems_of("softtimers-new:").len(), 1);
        let found = problems_of("softtimers: clap\nsofttimers-cli: clap\nsofttimers-lab: clap");
        assert_eq!(found, ["clap is in softtimers and softtimers-cli; only one crate may have it"]);
    }
}
