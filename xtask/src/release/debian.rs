//! The Debian packages: of the command with its manual pages, and of the C library.
//!
//! ```text
//!   cargo build ─▶ its own pages, completions, licences ─▶ cargo-deb ─▶ target/debian ─▶ a fresh Debian by debootstrap, as root;
//!                  target/release/root, by step `library` ─┘                             else unpacked into a folder
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::{COMMAND, PROGRAMS, nameless, notices};
use crate::program::{self, cargo, must, output, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;

/// Builds the Debian packages, by the tables `package.metadata.deb` of the command and the C library.
pub(super) fn packaged(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    if !program::works(cargo(root).args(["deb", "--version"])) {
        return Ok(Outcome::skipped("cargo-deb is not installed"));
    }
    let has_library = workspace.target("release/root/usr/include/softtimers.h").is_file();
    for (folder, package, _) in PROGRAMS {
        let mut build = cargo(&root.join(folder));
        must(nameless(build.args(["build", "--release", "--locked", "-p", package]), workspace))?;
    }
    pages(workspace)?;
    must(cargo(root).args(["deb", "--no-build", "-p", COMMAND]))?;
    for variant in [&[][..], &["--variant=dev"]].into_iter().filter(|_| has_library) {
        let library = ["deb", "--no-build", "-p", "softtimers-capi", "--multiarch=same"];
        must(cargo(root).args(library).args(variant))?;
    }
    let without = if has_library { "" } else { "; the library's need step `library`" };
    let version = &workspace.member(COMMAND).context("there is no softtimers-cli")?.version;
    let packages = packages(&workspace.target("debian"), &format!("{version}-"))?;
    let tools = ["debootstrap", "chroot"];
    let has_all = tools.iter().all(|tool| program::works(command(tool, root).arg("--version")));
    let says = if has_all && is_root(root) {
        installed(workspace, &packages)?
    } else {
        unpacked(workspace, &packages)?
    };
    Ok(Outcome::passed(format!("{} packages in target/debian, {says}{without}", packages.len())))
}

/// Returns the packages of a version in a folder.
fn packages(folder: &Path, version: &str) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".deb") && name.contains(&format!("_{version}")) {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_root(root: &Path) -> bool {
    output(command("id", root).arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Installs all packages in a Debian that has nothing else, with what they depend on, and uses them there.
fn installed(workspace: &Workspace, packages: &[PathBuf]) -> Result<String> {
    let (root, to) = (workspace.root(), workspace.target("debian/root"));
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    let system = fs::read_to_string("/etc/os-release")?;
    let suite = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.context("/etc/os-release has no VERSION_CODENAME")?;
    must(command("debootstrap", root).args(["--variant=minbase", suite]).arg(&to))?;
    let mut names = vec![];
    for package in packages {
        let name = package.file_name().context("a file")?;
        fs::copy(package, to.join(name))?;
        names.push(format!("/{}", name.to_string_lossy()));
    }
    let there = |words: &[&str]| {
        let mut run = command("chroot", root);
        run.arg(&to).args(words).env("DEBIAN_FRONTEND", "noninteractive");
        run
    };
    let install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends"];
    must(there(&install).args(&names))?;
    for (_, _, program) in PROGRAMS {
        output(&mut there(&[program, "--version"]))?;
    }
    for file in ["usr/share/man/man1/softtimers-wan.1.gz", "usr/share/bash-completion/completions/softtimers"]
    {
        fs::metadata(to.join(file)).with_context(|| format!("no {file}"))?;
    }
    // As a program of this Debian: by PATH, from the package.
    output(&mut there(&["softtimers", "sim", "--help"]))?;
    must(there(&["apt-get", "remove", "--yes", "--quiet", "softtimers"]).stdout(Stdio::null()))?;
    ensure!(!to.join("usr/bin/softtimers").exists(), "it is still there once it is removed");
    Ok(format!("installed, used and removed in a fresh {suite}"))
}

/// Unpacks the command's package into a folder, and runs the command from there: its manual pages have to be there, too.
fn unpacked(workspace: &Workspace, packages: &[PathBuf]) -> Result<String> {
    let to = workspace.target("debian/unpacked");
    let is_command = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("softtimers_"))
    };
    let package = packages.iter().find(is_command).context("no package of the command")?;
    must(command("dpkg-deb", workspace.root()).arg("--extract").arg(package).arg(&to))?;
    fs::metadata(to.join("usr/share/man/man1/softtimers-wan.1.gz")).context("no manual page of wan")?;
    output(command(to.join("usr/bin/softtimers"), &to).env_clear().arg("--version"))?;
    Ok("unpacked and run".to_owned())
}

/// Writes manual pages and completions by the commands themselves, of which the first finds the other beside it, licences, and examples of systemd units for the package.
fn pages(workspace: &Workspace) -> Result<()> {
    let (program, to) = (workspace.target("release/softtimers"), workspace.target("release/pages"));
    let says = |words: &[&str]| output(command(&program, workspace.root()).args(words));
    fs::create_dir_all(&to)?;
    let (mut open, mut pages) = (vec![String::new()], vec![]);
    while let Some(words) = open.pop() {
        let page = says(&[&["man"], &words.split_whitespace().collect::<Vec<_>>()[..]].concat())?;
        let name = format!("softtimers{}", words.replace(' ', "-"));
        // It names the pages of its subcommands: `softtimers\-send(1)`.
        let below = page.lines().filter_map(|line| {
            let other = line.strip_suffix("(1)")?.replace("\\-", "-");
            other.strip_prefix(&name)?.strip_prefix('-').filter(|name| *name != "help").map(str::to_owned)
        });
        open.extend(below.map(|other| format!("{words} {other}")));
        fs::write(to.join(format!("{name}.1")), &page)?;
        pages.push(format!("{name}.1"));
    }
    must(command("gzip", &to).args(["-9", "-n", "-f"]).args(pages))?;
    let papers = workspace.target("release/softtimers-papers");
    for shell in ["bash", "zsh", "fish"] {
        fs::write(to.join(shell), says(&["completions", shell])?)?;
        let script = output(command(&papers, workspace.root()).args(["completions", shell]))?;
        fs::write(to.join(format!("{shell}-papers")), script)?;
    }
    for unit in ["softtimers-wan.service", "softtimers-forward.service"] {
        let text = fs::read_to_string(workspace.root().join("docs").join(unit)).context(unit)?;
        fs::write(to.join(unit), text.replace("/usr/local/bin/", "/usr/bin/"))?;
    }
    Ok(fs::write(to.join("THIRD-PARTY"), notices(workspace)?)?)
}
