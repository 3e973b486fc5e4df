//! The programs without any library, for any Linux, and the content of the image.
//!
//! ```text
//!   rustup's musl targets ─▶ cargo, linked by Rust's own lld ─▶ target/static/PROFILE/ARCHITECTURE ─▶ run in a root of its own, or by qemu
//!                                                                      └▶ this machine's: target/image
//! ```

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{ALL, Build, PROGRAMS, has_target, nameless, notices};
use crate::program::{self, cargo, must, output, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;

/// Builds both programs for each architecture whose target rustup has.
pub(super) fn linked(workspace: &Workspace, what: &Build) -> Result<Outcome> {
    let root = workspace.root();
    let (mut says, mut lacking) = (vec![], vec![]);
    for architecture in what.architectures {
        let musl = format!("{architecture}-unknown-linux-musl");
        if !has_target(workspace, &musl)? {
            lacking.push(format!("`rustup target add {musl}` brings what it needs"));
            continue;
        }
        let to = workspace.target("static").join(what.profile).join(architecture);
        fs::create_dir_all(&to)?;
        for (folder, package, program) in PROGRAMS {
            let mut build = cargo(&root.join(folder));
            build.args(["build", "--profile", what.profile, "--locked", "-p", package, "--target", &musl]);
            // Nothing of it is C: Rust's own linker serves every architecture.
            let linker = format!("CARGO_TARGET_{}_LINKER", musl.to_uppercase().replace('-', "_"));
            nameless(build.env(linker, "rust-lld"), workspace);
            must(build.arg("--target-dir").arg(workspace.target("shipped")))?;
            let folder = if what.profile == "dev" { "debug" } else { what.profile };
            let built = workspace.target("shipped").join(&musl).join(folder).join(program);
            fs::copy(&built, to.join(program)).with_context(|| built.display().to_string())?;
        }
        says.push(format!("{architecture}: {}", run(&to, architecture)?));
    }
    if says.is_empty() {
        return Ok(Outcome::skipped(lacking.join("; ")));
    }
    if what.architectures.len() > 1 {
        image(workspace)?;
    }
    says.append(&mut lacking);
    Ok(Outcome::passed(says.join("; ")))
}

/// Asks both programs for their version.
fn run(folder: &Path, architecture: &str) -> Result<String> {
    let is_own = architecture == std::env::consts::ARCH;
    let Some(emulator) = Some(String::new()).filter(|_| is_own).or_else(|| emulator(architecture)) else {
        return Ok("built, and not run: qemu-user is not installed".to_owned());
    };
    for (_, _, program) in PROGRAMS {
        let said = if is_own {
            alone(folder, &[&format!("/{program}"), "--version"])?
        } else {
            output(command(&emulator, folder).arg(folder.join(program)).arg("--version"))?
        };
        ensure!(said.starts_with("softtimers "), "{program} says {said}");
    }
    Ok(if is_own { "run where nothing else is" } else { "run by qemu" }.to_owned())
}

/// Returns the program that runs those of another architecture, if it is installed.
fn emulator(architecture: &str) -> Option<String> {
    let names = [format!("qemu-{architecture}-static"), format!("qemu-{architecture}")];
    names.into_iter().find(|name| program::works(command(name, Path::new("/")).arg("--version")))
}

/// Runs a program in a root of its own, where nothing else is but the folder's files; without user namespaces, beside the
/// others.
fn alone(folder: &Path, words: &[&str]) -> Result<String> {
    let inside = || {
        let mut run = command("unshare", folder);
        // Found by this, and the program is to have no other variable.
        run.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        run.args(["--map-root-user", "--mount", "chroot"]).arg(folder).args(words);
        run
    };
    if program::works(&mut inside()) {
        return output(&mut inside());
    }
    let program = folder.join(words[0].trim_start_matches('/'));
    output(command(program, folder).env_clear().args(&words[1..]))
}

/// Lays what the image is made of into `target/image`.
fn image(workspace: &Workspace) -> Result<()> {
    let (root, image) = (workspace.root(), workspace.target("image"));
    fs::create_dir_all(&image)?;
    let programs = workspace.target("static").join(ALL.profile).join(std::env::consts::ARCH);
    for (_, _, program) in PROGRAMS {
        fs::copy(programs.join(program), image.join(program)).with_context(|| format!("no {program}"))?;
    }
    for file in ["Containerfile", "LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root.join(file), image.join(file)).with_context(|| format!("no {file}"))?;
    }
    Ok(fs::write(image.join("THIRD-PARTY"), notices(workspace)?)?)
}
