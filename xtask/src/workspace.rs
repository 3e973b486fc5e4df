//! The workspace as cargo and git see it: packages, edges between them, and the project's files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program;

/// What `cargo metadata` says, as far as the checks ask.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// `1.85` or `1.85.0`.
    pub(crate) rust_version: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
    #[serde(default)]
    pub(crate) manifest_path: PathBuf,
    #[serde(flatten)]
    pub(crate) about: About,
}

/// What a registry shows, and whether it gets to see the package.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    pub(crate) description: Option<String>,
    pub(crate) readme: Option<String>,
    pub(crate) keywords: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// Where it may be published: `None` is everywhere, and an empty list nowhere.
    publish: Option<Vec<String>>,
}

/// A dependency as the manifest declares it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None`: normal; else `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// Of versions, `^0.1.0` for one.
    #[serde(default, rename = "req")]
    pub(crate) requirement: String,
}

impl Dependency {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
    /// Whether `cargo doc` writes a page for it.
    #[serde(default)]
    pub(crate) doc: bool,
}

impl Package {
    /// Where its manifest is.
    pub(crate) fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    pub(crate) fn is_published(&self) -> bool {
        self.about.publish.as_ref().is_none_or(|places| !places.is_empty())
    }
}

impl Target {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|k| k == kind)
    }
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Workspace {
    /// The workspace around the current directory.
    ///
    /// # Errors
    /// If cargo cannot tell.
    pub(crate) fn load() -> Result<Self> {
        let here = std::env::current_dir()?;
        let json = program::output(program::cargo(&here).args(["metadata", "--format-version", "1"]))?;
        serde_json::from_str(&json).context("cannot read the output of `cargo metadata`")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.workspace_root
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// Every package that is built into `package`: all but what only its tests use.
    pub(crate) fn built_into(&self, package: &Package) -> Vec<&Package> {
        let nodes: HashMap<_, _> = self.resolve.nodes.iter().map(|node| (&node.id, node)).collect();
        let mut found = vec![&package.id];
        let mut next = 0;
        while let Some(id) = found.get(next) {
            next += 1;
            let edges = nodes.get(id).map_or(&[][..], |node| &node.deps);
            for edge in edges {
                let only_tests = edge.dep_kinds.iter().all(|kind| kind.kind.as_deref() == Some("dev"));
                if !only_tests && !found.contains(&&edge.pkg) {
                    found.push(&edge.pkg);
                }
            }
        }
        self.packages.iter().filter(|p| p.id != package.id && found.contains(&&p.id)).collect()
    }
}

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// From the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every text file that is in git or would be added by `git add .`; binary files are left out.
///
/// # Errors
/// If git cannot list them, or one cannot be read.
pub(crate) fn text_files(root: &Path) -> Result<Vec<TextFile>> {
    let mut git = program::program("git", root);
    let list = program::output(git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]))?;
    let mut files = vec![];
    for path in list.split_terminator('\0') {
        match fs::read(root.join(path)) {
            Ok(bytes) => {
                if let Ok(text) = String::from_utf8(bytes) {
                    files.push(TextFile { path: path.to_owned(), text });
                }
            }
            // Deleted, and the deletion not yet committed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        }
    }
    Ok(files)
}
