//! Licences of everything in `Cargo.lock`, against the list in `deny.toml`.
//!
//! `cargo deny` does this and more where it is installed; this check always runs.

use std::fs;

use anyhow::{Context, Result};
use cargo_metadata::Package;
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::report::Outcome;
use crate::workspace::Workspace;

/// `deny.toml`, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

/// Additional licences allowed for one package.
#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    package: String,
    allow: Vec<String>,
}

/// Checks every package of `Cargo.lock`, for all platforms.
///
/// # Errors
/// If `deny.toml` cannot be read.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    // Papers and benches stand beside the product, whose list holds for them.
    let path = workspace.root().ancestors().map(|folder| folder.join("deny.toml")).find(|path| path.exists());
    let text = fs::read_to_string(path.context("there is no deny.toml")?).context("cannot read deny.toml")?;
    let deny: Deny = toml::from_str(&text).context("deny.toml")?;
    let problems = workspace.packages.iter().filter_map(|package| problem(package, &deny.licenses)).collect();
    Ok(Outcome::of(problems, format!("{} packages", workspace.packages.len())))
}

fn problem(package: &Package, licences: &Licenses) -> Option<String> {
    let own = licences.exceptions.iter().filter(|exception| package.name == exception.package);
    let allowed: Vec<_> = licences.allow.iter().chain(own.flat_map(|own| &own.allow)).collect();
    let expression = package.license.as_deref().unwrap_or_default();
    let is_met = Expression::parse_mode(expression, ParseMode::LAX).is_ok_and(|read| {
        read.evaluate(|wanted| allowed.iter().any(|licence| **licence == wanted.to_string()))
    });
    let Package { name, version, .. } = package;
    (!is_met).then(|| format!("{name} {version}: `{expression}` is not allowed by deny.toml"))
}
