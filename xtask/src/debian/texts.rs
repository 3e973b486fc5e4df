//! What Debian wants to be said of each package: who, under which licences, since when.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{REVISION, tree};
use crate::program::{Profile, must, output, program as command};
use crate::shipped;
use crate::workspace::Workspace;

pub(super) struct Texts {
    pub(super) version: String,
    pub(super) maintainer: String,
    /// Of the last commit, in seconds: who builds again gets the same bytes.
    pub(super) epoch: String,
    /// For `dpkg-deb`: a trial is not kept for long enough to be small.
    pub(super) compression: &'static str,
    copyright: String,
    /// The licences of what is built in.
    notices: String,
    changelog: String,
    /// The project's own.
    changes: String,
}

impl Texts {
    pub(super) fn of(workspace: &Workspace, profile: Profile) -> Result<Self> {
        let root = workspace.root();
        let version =
            workspace.member("softtimers-cli").context("there is no softtimers-cli")?.version.clone();
        let commit = |format: &str| -> Result<String> {
            let text = output(command("git", root).args(["log", "-1", &format!("--format={format}")]))?;
            Ok(text.trim().to_owned())
        };
        let maintainer = maintainer();
        let changelog = format!(
            "softtimers ({version}-{REVISION}) unstable; urgency=medium\n\n  * The project's release {version}: see \
             changelog.gz beside this file.\n\n -- {maintainer}  {}\n",
            commit("%cD")?
        );
        let changes = fs::read_to_string(root.join("CHANGELOG.md")).context("no CHANGELOG.md")?;
        Ok(Texts {
            compression: if profile == Profile::Debug { "-Zgzip" } else { "-Zxz" },
            version,
            maintainer,
            epoch: commit("%ct")?,
            copyright: copyright(workspace)?,
            notices: shipped::notices(workspace, &["softtimers-cli", "softtimers-capi"])?,
            changelog,
            changes,
        })
    }

    /// The documents of a package, under the names that Debian wants.
    pub(super) fn documents(&self, package: &str, directory: &Path) -> Result<()> {
        let place = directory.join("usr/share/doc").join(package);
        tree::write(&place.join("copyright"), &self.copyright)?;
        tree::write(&place.join("THIRD-PARTY"), &self.notices)?;
        tree::write(&place.join("changelog"), &self.changes)?;
        tree::write(&place.join("changelog.Debian"), &self.changelog)?;
        must(command("gzip", &place).args(["-9", "-n", "changelog", "changelog.Debian", "THIRD-PARTY"]))
    }
}

/// Of the packages: as Debian's own tools take it from the environment, else the project as such.
fn maintainer() -> String {
    let said = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    match said("DEBFULLNAME").zip(said("DEBEMAIL")) {
        Some((name, address)) => format!("{name} <{address}>"),
        None => "The softtimers authors <softtimers@packages.invalid>".to_owned(),
    }
}

/// The project's licences, and those of what is built into its programs.
fn copyright(workspace: &Workspace) -> Result<String> {
    let mit = fs::read_to_string(workspace.root().join("LICENSE-MIT")).context("no LICENSE-MIT")?;
    let holder =
        mit.lines().find(|line| line.starts_with("Copyright")).context("LICENSE-MIT names nobody")?;
    let mut text = format!(
        "softtimers is under the MIT licence or the Apache licence 2.0, at your choice.\n\n\
         On Debian systems the Apache licence is in /usr/share/common-licenses/Apache-2.0.\n\n{mit}\n{holder}\n\n\
         Built into the programs, each under the licence that its source comes with, of which \
         THIRD-PARTY.gz beside this file has the text:\n\n"
    );
    let members = ["softtimers-cli", "softtimers-capi"].into_iter().filter_map(|name| workspace.member(name));
    let built: BTreeSet<String> = members
        .flat_map(|member| workspace.built_into(member))
        .filter(|package| !workspace.workspace_members.contains(&package.id))
        .map(|package| {
            let licence = package.license.as_deref().unwrap_or("not said");
            format!("  {} {}: {licence}\n", package.name, package.version)
        })
        .collect();
    text.extend(built);
    Ok(text)
}
