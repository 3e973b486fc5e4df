//! The workspace as cargo and git see it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::program;

/// The folders of the workspaces beside the product's.
pub(crate) const BESIDE: [&str; 2] = ["papers", "bench"];

/// The folders of pages, the product's first.
pub(crate) const DOCS: [&str; 4] = ["docs", "papers/docs", "bench/docs", "xtask/docs"];

/// The output of `cargo metadata`.
pub(crate) struct Workspace(Metadata);

impl Deref for Workspace {
    type Target = Metadata;

    fn deref(&self) -> &Metadata {
        &self.0
    }
}

impl Workspace {
    /// The workspace around the current directory.
    ///
    /// # Errors
    /// If cargo fails.
    pub(crate) fn load() -> Result<Self> {
        Workspace::around(Path::new("."))
    }

    /// The workspace around a directory.
    ///
    /// # Errors
    /// If cargo fails.
    pub(crate) fn around(directory: &Path) -> Result<Self> {
        Ok(Workspace(MetadataCommand::new().current_dir(directory).exec()?))
    }

    /// This workspace, which is the product's, and those beside it.
    ///
    /// # Errors
    /// If cargo fails.
    pub(crate) fn all(&self) -> Result<Vec<Self>> {
        let folders = [""].into_iter().chain(BESIDE);
        folders.map(|folder| Workspace::around(&self.root().join(folder))).collect()
    }

    pub(crate) fn root(&self) -> &Path {
        self.workspace_root.as_std_path()
    }

    /// Returns a path below the target directory.
    pub(crate) fn target(&self, path: &str) -> PathBuf {
        self.target_directory.join(path).into()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.workspace_packages().into_iter()
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// Returns the members that are published to registries.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.members().filter(|member| member.publish.as_ref().is_none_or(|places| !places.is_empty()))
    }

    /// Returns every external package built into `member`, without those that only its tests use.
    pub(crate) fn built_into(&self, member: &Package) -> Vec<&Package> {
        let nodes = self.resolve.iter().flat_map(|resolve| &resolve.nodes);
        let nodes: HashMap<_, _> = nodes.map(|node| (&node.id, node)).collect();
        let (mut found, mut open) = (HashSet::from([&member.id]), vec![&member.id]);
        while let Some(id) = open.pop() {
            for edge in nodes.get(id).map_or(&[][..], |node| &node.deps) {
                let is_built = edge.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development);
                if is_built && found.insert(&edge.pkg) {
                    open.push(&edge.pkg);
                }
            }
        }
        self.packages
            .iter()
            .filter(|package| package.source.is_some() && found.contains(&package.id))
            .collect()
    }
}

/// A page of the project.
pub(crate) struct Page {
    /// Its path from the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Returns every Markdown file that is in git or would be added by `git add .`.
///
/// # Errors
/// If git cannot list them, or one cannot be read.
pub(crate) fn pages(root: &Path) -> Result<Vec<Page>> {
    let words = ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"];
    let list = program::output(program::program("git", root).args(words))?;
    let there = list.lines().filter(|path| root.join(path).is_file());
    let page = |path: &str| {
        let text = fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        Ok(Page { path: path.to_owned(), text })
    };
    there.map(page).collect()
}
