//! Checks that dependencies point one way.
//!
//! ```text
//!   core ◄ linux ◄ softtimers ◄ net ◄ load, wan, tokio   core ◄ poll ◄ net, sim, capi, load
//!   softtimers ◄ measure ◄ load, run                  softtimers ◄ tokio ◄ quinn      wan ◄ capi
//!   softtimers ◄ python      core, linux ◄ bpf      nothing on cli
//!   crates ◄ papers, bench     no crate of the product depends on those, not even for its tests
//! ```
//!
//! The simulator never depends on `softtimers`, so it cannot read a real clock by accident; core depends on no crate,
//! so it can be used anywhere. Dev-dependencies count: a test that needs a higher crate belongs into that crate. Cargo
//! itself rejects cycles.

use anyhow::Result;
use cargo_metadata::camino::Utf8PathBuf;
use cargo_metadata::{Dependency, DependencyKind, MetadataCommand, Package};

use crate::report::Outcome;
use crate::workspace::{BESIDE, Workspace};

const CORE: &str = "softtimers-core";
const POLL: &str = "softtimers-poll";
const LINUX: &str = "softtimers-linux";
const LOOPS: &str = "softtimers";
const NET: &str = "softtimers-net";

/// The crates of the workspace on which a crate may depend. One that is not listed may depend on any except [`TOP`].
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    // Only for its benchmark.
    (CORE, &[POLL]),
    (POLL, &[CORE]),
    (LINUX, &[CORE]),
    (LOOPS, &[CORE, LINUX]),
    (NET, &[CORE, POLL, LINUX, LOOPS]),
    ("softtimers-measure", &[CORE, LINUX, LOOPS]),
    ("softtimers-run", &[CORE, LINUX, LOOPS, "softtimers-measure"]),
    ("softtimers-load", &[CORE, POLL, LINUX, LOOPS, NET, "softtimers-measure"]),
    ("softtimers-sim", &[CORE, POLL]),
    ("softtimers-bpf", &[CORE, LINUX]),
    ("softtimers-wan", &[CORE, LINUX, LOOPS, NET]),
    ("softtimers-tokio", &[CORE, LINUX, LOOPS, NET]),
    ("softtimers-quinn", &[CORE, LOOPS, "softtimers-tokio", "softtimers-wan"]),
    ("softtimers-capi", &[CORE, POLL, LOOPS, "softtimers-wan"]),
    ("softtimers-python", &[LOOPS]),
];

/// No crate depends on these.
const TOP: &[&str] = &["softtimers-cli", "softtimers-papers", "softtimers-lab", "xtask"];

/// Heavy dependencies: at most one published crate has each, so that no other waits for it.
const HEAVY: &[&str] = &["quinn", "aya", "clap", "pyo3"];

/// The programs, whose sources are also compiled into the fuzz targets of their workspace.
const PROGRAMS: [(&str, &str); 2] = [("softtimers-cli", "."), ("softtimers-papers", "papers")];

/// Checks the manifests of the members of all workspaces.
///
/// # Errors
/// If cargo fails.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    let mut problems: Vec<_> = workspace.members().flat_map(|member| beside(member, workspace)).collect();
    let mut count = 0;
    for workspace in workspace.all()? {
        problems.extend(problems_of(&workspace));
        count += workspace.members().count();
    }
    for (program, folder) in PROGRAMS {
        let around = Workspace::around(&workspace.root().join(folder))?;
        problems.extend(missing_to_fuzz(&around, program));
    }
    Ok(Outcome::of(problems, format!("{count} crates")))
}

/// Returns the dependencies of a member of the product on crates of papers or benches.
fn beside(member: &Package, workspace: &Workspace) -> Vec<String> {
    let folders = BESIDE.map(|folder| workspace.root().join(folder));
    let leads = |path: &Utf8PathBuf| folders.iter().any(|folder| path.as_std_path().starts_with(folder));
    let wrong = member.dependencies.iter().filter(|needed| needed.path.as_ref().is_some_and(leads));
    wrong
        .map(|needed| format!("{} may not depend on {}: the product stands alone", member.name, needed.name))
        .collect()
}

/// Returns what is wrong with the dependencies within a workspace.
fn problems_of(workspace: &Workspace) -> Vec<String> {
    let mut problems: Vec<_> = workspace.members().flat_map(wrong).collect();
    let core = workspace.member(CORE).into_iter().flat_map(outside);
    problems.extend(core.map(|name| format!("{CORE} depends on {name}; it may depend on nothing")));
    for heavy in HEAVY {
        let has = |member: &&Package| outside(member).any(|name| name == *heavy);
        let owners: Vec<&Package> = workspace.published().filter(has).collect();
        // Who depends on another owner waits for it anyway.
        let waits = |one: &&&Package| outside(one).any(|name| owners.iter().any(|other| other.name == name));
        let owners: Vec<_> =
            owners.iter().filter(|one| !waits(one)).map(|member| member.name.as_str()).collect();
        if owners.len() > 1 {
            problems.push(format!("{heavy} is in {}; only one crate may have it", owners.join(" and ")));
        }
    }
    problems
}

/// Returns dependencies of the program that the fuzz targets' package lacks, or has with fewer features, so that it
/// would not build.
fn missing_to_fuzz(workspace: &Workspace, program: &str) -> Vec<String> {
    let program = workspace.member(program).into_iter().flat_map(|program| &program.dependencies);
    let needed: Vec<_> = program.filter(|needed| needed.kind == DependencyKind::Normal).collect();
    if needed.is_empty() {
        return vec![];
    }
    let manifest = workspace.root().join("fuzz/Cargo.toml");
    let metadata = match MetadataCommand::new().manifest_path(&manifest).no_deps().exec() {
        Ok(metadata) => metadata,
        Err(error) => return vec![format!("{}: {error}", manifest.display())],
    };
    let has = |needed: &Dependency| {
        let mut all = metadata.packages.iter().flat_map(|package| &package.dependencies);
        all.any(|one| {
            one.name == needed.name && needed.features.iter().all(|feature| one.features.contains(feature))
        })
    };
    let missing = needed.into_iter().filter(|needed| !has(needed));
    missing
        .map(|one| format!("{} lacks {}, features {:?}", manifest.display(), one.name, one.features))
        .collect()
}

/// Returns the wrong dependencies of one member.
fn wrong(member: &Package) -> Vec<String> {
    let names = member.dependencies.iter().map(|dependency| dependency.name.as_str());
    // A crate's tests may switch features of its own on.
    let inside = names.filter(|name| name.starts_with("softtimers") && member.name != *name);
    let allowed = MAY_DEPEND_ON.iter().find(|(name, _)| member.name == *name);
    let wrong =
        inside.filter(|name| TOP.contains(name) || allowed.is_some_and(|(_, may)| !may.contains(name)));
    wrong.map(|name| format!("{} may not depend on {name}", member.name)).collect()
}

/// Returns its external dependencies, without those of its tests.
fn outside(member: &Package) -> impl Iterator<Item = &str> {
    let needed =
        member.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
    needed.map(|dependency| dependency.name.as_str())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Creates a workspace of empty crates with these dependencies.
    fn workspace(directory: &Path, crates: &[(&str, &str)]) -> Workspace {
        fs::create_dir_all(directory).unwrap();
        fs::write(
            directory.join("Cargo.toml"),
            "[workspace]\nresolver = \"3\"\nmembers = [\"softtimers-*\"]\nexclude = [\"clap\"]\n",
        )
        .unwrap();
        for (name, dependencies) in crates {
            let path = directory.join(name);
            fs::create_dir_all(path.join("src")).unwrap();
            fs::write(path.join("src/lib.rs"), "").unwrap();
            let head = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
            fs::write(path.join("Cargo.toml"), format!("{head}{dependencies}\n")).unwrap();
        }
        Workspace::around(directory).unwrap()
    }

    fn found(name: &str, crates: &[(&str, &str)]) -> Vec<String> {
        let directory = std::env::temp_dir().join(format!("softtimers-{name}-{}", std::process::id()));
        let problems = problems_of(&workspace(&directory, crates));
        fs::remove_dir_all(&directory).unwrap();
        problems
    }

    #[test]
    fn a_forbidden_arrow_is_found_also_in_tests() {
        let crates = [
            ("softtimers-core", "[dev-dependencies]\nsofttimers-linux.path = \"../softtimers-linux\""),
            ("softtimers-linux", ""),
            ("softtimers-sim", "[dependencies]\nsofttimers-core.path = \"../softtimers-core\""),
            ("softtimers-new", "[dependencies]\nsofttimers-cli.path = \"../softtimers-cli\""),
            ("softtimers-cli", ""),
        ];
        let problems = [
            "softtimers-core may not depend on softtimers-linux",
            "softtimers-new may not depend on softtimers-cli",
        ];
        assert_eq!(found("arrows", &crates), problems);
    }

    #[test]
    fn core_depends_on_nothing_and_one_crate_has_what_is_heavy() {
        let clap = "[dependencies]\nclap.path = \"../clap\"";
        let crates =
            [("softtimers-core", clap), ("softtimers-wan", clap), ("clap", "[lib]\npath = \"src/lib.rs\"")];
        let problems = found("heavy", &crates);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("softtimers-core depends on clap"), "{problems:?}");
        assert!(problems[1].contains("clap is in softtimers-core and softtimers-wan"), "{problems:?}");
    }

    #[test]
    fn what_the_program_depends_on_is_there_to_be_fuzzed() {
        let crates = [
            ("softtimers-cli", "[dependencies]\nsofttimers-new.path = \"../softtimers-new\""),
            ("softtimers-new", ""),
        ];
        let directory = std::env::temp_dir().join(format!("softtimers-fuzzed-{}", std::process::id()));
        let problems = missing_to_fuzz(&workspace(&directory, &crates), "softtimers-cli");
        fs::remove_dir_all(&directory).unwrap();
        assert!(matches!(&problems[..], [one] if one.contains("fuzz/Cargo.toml")), "{problems:?}");
    }

    #[test]
    fn every_rule_names_crates_that_there_are() {
        let workspaces = Workspace::load().unwrap().all().unwrap();
        let is_there = |name: &str| workspaces.iter().any(|workspace| workspace.member(name).is_some());
        let rules = MAY_DEPEND_ON.iter().flat_map(|(name, may)| std::iter::once(name).chain(*may));
        let unknown: Vec<_> = rules.chain(TOP).filter(|name| !is_there(name)).collect();
        assert_eq!(unknown, Vec::<&&str>::new());
    }
}
