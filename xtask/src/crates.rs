//! The crates as somebody else gets them: described, packaged in order, installed where nothing else is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::program::{self, cargo, must, output, program as command};
use crate::report::Outcome;
use crate::workspace::{Package, Workspace};

/// What a registry shows of each crate, and whether versions agree.
pub(crate) fn described(workspace: &Workspace) -> Outcome {
    let published: Vec<&Package> = published(workspace).collect();
    let mut problems = vec![];
    for package in &published {
        let (name, about) = (&package.name, &package.about);
        let mut lacks = |is: bool, what: &str| {
            if !is {
                problems.push(format!("{name}: {what}"));
            }
        };
        lacks(about.description.as_ref().is_some_and(|text| text.len() > 20), "no description");
        lacks(package.license.is_some(), "no licence");
        lacks(about.readme.is_some(), "no readme");
        lacks((1..=5).contains(&about.keywords.len()), "it needs one to five keywords");
        lacks((1..=5).contains(&about.categories.len()), "it needs one to five categories");
        lacks(package.version == published[0].version, "its version is not the others'");
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            lacks(package.directory().join(licence).is_file(), "its licences are not beside it");
        }
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.is_dev()) {
            let Some(of) = workspace.member(&dependency.name) else { continue };
            lacks(of.is_published(), "it depends on what is never published");
            let agrees = dependency.requirement == format!("^{}", of.version);
            lacks(agrees, &format!("it asks for {} {}", of.name, dependency.requirement));
        }
    }
    Outcome::of(problems, format!("{} crates", published.len()))
}

fn published(workspace: &Workspace) -> impl Iterator<Item = &Package> {
    workspace.members().filter(|member| member.is_published())
}

/// Packages all crates without building them, and looks for what each must bring.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn packaged(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    let package = |offline: &[&str]| {
        let mut cargo = cargo(root);
        cargo.args(["package", "--quiet", "--no-verify", "--allow-dirty"]).args(offline);
        cargo.args(published(workspace).flat_map(|member| ["--package", &member.name]));
        cargo
    };
    // What the lock file names is here already, in most cases.
    if !program::works(&mut package(&["--offline"])) {
        must(&mut package(&[]))?;
    }
    let mut problems = vec![];
    for &(name, needed) in NEEDED {
        let list = output(cargo(root).args(["package", "--list", "--allow-dirty", "--package", name]))?;
        let lacks = needed.iter().filter(|file| !list.lines().any(|line| line == **file));
        problems.extend(lacks.map(|file| format!("{name}: {file} is not in the package")));
    }
    Ok(Outcome::of(problems, format!("{} crates packaged", published(workspace).count())))
}

/// What is not Rust and is needed all the same.
const NEEDED: &[(&str, &[&str])] = &[
    (
        "softtimers-bpf",
        &[
            "object/batch.bpf.o",
            "object/probe.bpf.o",
            "object/softtimer.bpf.o",
            "object/timer.bpf.o",
            "include/footprint.bpf.h",
            "include/kernel.bpf.h",
            "include/orders.bpf.h",
            "include/softtimer.bpf.h",
            "include/sources.bpf.h",
            "LICENSE-MIT",
        ],
    ),
    ("softtimers-capi", &["include/softtimers.h", "softtimers.pc.in", "build.rs", "README.md"]),
    ("softtimers-sim", &["src/experiments/livelock/figures.csv"]),
];

/// Asks the registry's client to publish everything, short of uploading: each package is built from what would be
/// uploaded, in the order in which they depend on each other.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn published_dry(workspace: &Workspace) -> Result<Outcome> {
    // Everything that it needs of crates outside is built once for all.
    let target = workspace.target_directory.join("publish");
    let mut cargo = cargo(workspace.root());
    cargo.args(["publish", "--workspace", "--dry-run", "--allow-dirty", "--target-dir"]).arg(target);
    program::check(&mut cargo)
}

/// `cargo install --path crates/cli` with a compiler, a linker, and no other program: no clang, no pkg-config. Where the
/// kernel lets it, also without root and without the kernel's type information.
///
/// # Errors
/// If a program cannot be started, or does not do what it should.
pub(crate) fn installed(workspace: &Workspace) -> Result<Outcome> {
    let place = workspace.target_directory.join("install");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    let tools = place.join("path");
    fs::create_dir_all(&tools)?;
    for tool in TOOLS {
        let found = found(tool).with_context(|| format!("`{tool}` is not in PATH"))?;
        symlink(found, tools.join(tool))?;
    }
    let (confined, how) = confinement(workspace.root());
    let mut install = match confined {
        Some(mut sandbox) => {
            sandbox.arg(tools.join("cargo"));
            sandbox
        }
        None => command(tools.join("cargo"), workspace.root()),
    };
    // What it takes is the same in each profile, and of this one most has been built.
    install.args(["install", "--debug", "--locked", "--no-track", "--path", "crates/cli"]);
    install.arg("--root").arg(&place).arg("--target-dir").arg(&workspace.target_directory);
    must(install.env("PATH", &tools))?;
    let program = place.join("bin/softtimers");
    let says = output(command(&program, &place).arg("--version"))?;
    ensure!(says.starts_with("softtimers "), "it says {says}");
    Ok(Outcome::passed(format!("PATH has {} alone; {how}", TOOLS.join(", "))))
}

/// What Rust needs to make a program.
const TOOLS: &[&str] = &["cargo", "rustc", "cc", "ld", "as"];

/// Where a program is, by PATH.
fn found(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(tool)).find(|file| file.is_file())
}

/// A shell in which the kernel's type information is hidden, and which then is nobody in particular.
fn confinement(root: &Path) -> (Option<Command>, &'static str) {
    let shell = found("sh").unwrap_or_else(|| "/bin/sh".into());
    let unshare = found("unshare").unwrap_or_else(|| "unshare".into());
    let hide = "if test -d /sys/kernel/btf; then \"$0\" -t tmpfs none /sys/kernel/btf || exit 1; fi; \
                exec \"$@\"";
    let mount = found("mount").unwrap_or_else(|| "mount".into());
    let sandbox = || {
        let mut sandbox = command(&unshare, root);
        sandbox.args(["--map-root-user", "--mount"]).arg(&shell).args(["-c", hide]).arg(&mount);
        sandbox.arg(&unshare).args(["--user", "--map-user=65534"]);
        sandbox
    };
    let mut trial = sandbox();
    if program::works(trial.arg(&shell).args(["-c", "test ! -e /sys/kernel/btf/vmlinux"])) {
        (Some(sandbox()), "without root and without BTF")
    } else {
        (
            None,
            "`unshare` does not work here, so as whoever runs this and with the kernel's BTF, if it has any",
        )
    }
}
