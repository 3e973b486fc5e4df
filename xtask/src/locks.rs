//! The lock files: each is in git, and says what its manifests ask for.
//!
//! Two workspaces beside this one build from lock files of their own, and `ci` builds neither. A dependency that
//! a crate here gains makes theirs stale, and whoever builds them with `--locked` is the first to learn of it.

use std::path::Path;

use crate::program::{self, cargo, program as command};
use crate::report::Outcome;

/// Every workspace of the project, from the root.
const WORKSPACES: [&str; 3] = [".", "examples", "fuzz"];

/// Checks each lock file. Nothing is built.
pub(crate) fn check(root: &Path) -> Outcome {
    let problems = WORKSPACES.iter().filter_map(|workspace| problem(root, workspace));
    Outcome::of(problems.collect(), format!("{} workspaces", WORKSPACES.len()))
}

fn problem(root: &Path, workspace: &str) -> Option<String> {
    let directory = root.join(workspace);
    if !program::works(command("git", &directory).args(["ls-files", "--error-unmatch", "Cargo.lock"])) {
        return Some(format!("{workspace}/Cargo.lock is not in git"));
    }
    stale(&directory).map(|says| format!("{workspace}/Cargo.lock: {says}"))
}

/// What cargo says against the lock file in `directory`.
fn stale(directory: &Path) -> Option<String> {
    let words = ["metadata", "--locked", "--format-version", "1"];
    program::output(cargo(directory).args(words)).err().map(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lock_file_without_a_new_dependency_is_stale() {
        let here = std::env::temp_dir().join(format!("softtimers-locks-{}", std::process::id()));
        let package = |name: &str| format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
        let other = here.join("other");
        fs::create_dir_all(here.join("src")).unwrap();
        fs::create_dir_all(other.join("src")).unwrap();
        fs::write(here.join("src/lib.rs"), "").unwrap();
        fs::write(other.join("src/lib.rs"), "").unwrap();
        fs::write(other.join("Cargo.toml"), package("other")).unwrap();
        fs::write(here.join("Cargo.toml"), package("one") + "[workspace]\n").unwrap();
        assert!(program::works(cargo(&here).args(["generate-lockfile", "--offline"])));
        assert_eq!(stale(&here), None);

        let depends = "[dependencies]\nother = { path = \"other\" }\n[workspace]\n";
        fs::write(here.join("Cargo.toml"), package("one") + depends).unwrap();
        let says = stale(&here).expect("the lock file does not know `other`");
        assert!(says.contains("--locked"), "{says}");
        fs::remove_dir_all(&here).unwrap();
    }
}
