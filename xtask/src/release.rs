//! `cargo xtask release --dry-run`: what a release needs, tried to the last step before the upload.
//!
//! ```text
//!   versions, changelog ─▶ oldest Rust ─▶ public interface ─▶ crates, in order ─▶ install ─▶ static ─▶ Debian ─▶ image
//! ```
//!
//! A step may be run alone, by its name. Uploading is for a person, who is told the commands: what is published can't be taken back.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::c_library::soname;
use crate::debian::trial;
use crate::program::{self, Profile, cargo, must, output, program as command};
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;
use crate::{crates, header, licences, shipped, toolchains};

/// `cargo xtask release --dry-run [STEP …]`.
///
/// # Errors
/// If the flag is missing or there is no such step, or the workspace cannot be read.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let usage = || crate::usage_of("release");
    let chosen = match arguments {
        [flag, chosen @ ..] if flag == "--dry-run" => chosen,
        _ => bail!("{}; it uploads nothing, and prints the commands that would", usage()),
    };
    if let Some(unknown) = chosen.iter().find(|chosen| !names().contains(&chosen.as_str())) {
        bail!("no step `{unknown}`; {}", usage());
    }
    let workspace = Workspace::load()?;
    let mut report = Report::default();
    for (name, step) in STEPS {
        if chosen.is_empty() || chosen.iter().any(|chosen| chosen == name) {
            report.step(name, || step(&workspace));
        }
    }
    let is_well = report.close();
    if is_well {
        println!("\nWhat is left to a person:\n{}", UPLOAD.replace("VERSION", version(&workspace)?));
    }
    Ok(is_well)
}

/// Of its steps.
pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|(name, _)| *name).collect()
}

type Step = fn(&Workspace) -> Result<Outcome>;

const STEPS: &[(&str, Step)] = &[
    ("versions", versions),
    ("changelog", |workspace| {
        let text = fs::read_to_string(workspace.root().join("CHANGELOG.md")).context("no CHANGELOG.md")?;
        Ok(changelog(&text, version(workspace)?))
    }),
    ("licences", licences::check),
    ("header", |workspace| header::check(workspace.root())),
    ("msrv", toolchains::msrv_check),
    ("semver", |workspace| semver(workspace.root())),
    ("described", |workspace| Ok(crates::described(workspace))),
    ("publish", crates::published_dry),
    ("install", crates::installed),
    ("static", static_binary),
    ("image", image),
    ("debian", |workspace| trial::check(workspace, Profile::Release)),
];

/// The version of the command, and so of all.
fn version(workspace: &Workspace) -> Result<&str> {
    Ok(&workspace.member("softtimers-cli").context("there is no softtimers-cli")?.version)
}

/// Whether whatever names a version names the same.
fn versions(workspace: &Workspace) -> Result<Outcome> {
    let (root, version) = (workspace.root(), version(workspace)?);
    let mut problems = vec![];
    for member in workspace.members().filter(|member| member.is_published() && member.version != version) {
        problems.push(format!("{} is {}, the command {version}", member.name, member.version));
    }
    let policy = fs::read_to_string(root.join(POLICY)).with_context(|| format!("no {POLICY}"))?;
    if !policy.contains(&soname(version)) {
        problems.push(format!("{POLICY} does not name {}", soname(version)));
    }
    Ok(Outcome::of(problems, format!("{version}, {}", soname(version))))
}

const POLICY: &str = "docs/stability.md";

/// Whether the changelog says what is in this version.
fn changelog(text: &str, version: &str) -> Outcome {
    let section = |heading: &str| {
        let (_, rest) = text.split_once(&format!("\n## [{heading}]"))?;
        let own = rest.split("\n## [").next()?;
        Some(own.lines().filter(|line| line.starts_with("- ")).count()).filter(|&items| items > 0)
    };
    match (section(version), section("Unreleased")) {
        (Some(items), None) => Outcome::passed(format!("[{version}] has {items} entries")),
        (Some(_), Some(items)) => {
            Outcome::failed(format!("{items} entries of [Unreleased] are not in [{version}]"))
        }
        (None, Some(items)) => Outcome::passed(format!(
            "the {items} entries of [Unreleased] become [{version}] when it is named"
        )),
        (None, None) => Outcome::failed(format!("neither [{version}] nor [Unreleased] says anything")),
    }
}

/// Whether programs that the last release compiles still do.
fn semver(root: &Path) -> Result<Outcome> {
    let tags = output(command("git", root).args(["tag", "--list", "v*", "--sort=-version:refname"]))?;
    let Some(last) = tags.lines().next() else {
        return Ok(Outcome::skipped("there is no earlier release to compare with"));
    };
    if !program::works(cargo(root).args(["semver-checks", "--version"])) {
        return Ok(Outcome::skipped(format!(
            "cargo-semver-checks is not installed; it compares with {last}"
        )));
    }
    program::check(cargo(root).args(["semver-checks", "--workspace", "--baseline-rev", last]))
}

/// The command without any library, for whatever Linux.
fn static_binary(workspace: &Workspace) -> Result<Outcome> {
    let (root, image) = (workspace.root(), workspace.target_directory.join("image"));
    // The image shall never be made of an earlier one.
    if image.exists() {
        fs::remove_dir_all(&image).with_context(|| format!("cannot empty {}", image.display()))?;
    }
    let musl = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let sysroot = output(command("rustc", root).args(["--print", "sysroot"]))?;
    if !Path::new(sysroot.trim()).join("lib/rustlib").join(&musl).is_dir() {
        return Ok(Outcome::skipped(format!("`rustup target add {musl}` brings what it needs")));
    }
    let built = shipped::build(workspace, Profile::Release, COMMAND, Some(&musl))?.join("softtimers");
    let headers = output(command("objdump", root).arg("-p").arg(&built))?;
    if let Some(line) = headers.lines().find(|line| line.contains("NEEDED")) {
        return Ok(Outcome::failed(format!("{} is not static: {}", built.display(), line.trim())));
    }
    // Where nothing but it is, it has to run too.
    let says = output(command(&built, root).env_clear().arg("--version"))?;
    let stripped = stripped(workspace, &built)?;
    shipped::is_nowhere(workspace, &stripped)?;
    let size = fs::metadata(&stripped)?.len();
    Ok(Outcome::passed(format!("{}, {} KiB, {}", says.trim(), size / 1024, stripped.display())))
}

/// A copy without symbols, where the image's recipe expects it.
fn stripped(workspace: &Workspace, built: &Path) -> Result<PathBuf> {
    let directory = workspace.target_directory.join("image");
    fs::create_dir_all(&directory)?;
    let copy = directory.join("softtimers");
    fs::copy(built, &copy)?;
    must(command("strip", &directory).arg("--strip-all").arg(&copy))?;
    fs::write(directory.join("THIRD-PARTY"), shipped::notices(workspace, &[COMMAND])?)?;
    for file in ["Containerfile", "LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(workspace.root().join(file), directory.join(file)).with_context(|| format!("no {file}"))?;
    }
    Ok(copy)
}

/// The image, built from the static binary by whatever builds images here, and run.
fn image(workspace: &Workspace) -> Result<Outcome> {
    let directory = workspace.target_directory.join("image");
    if !directory.join("softtimers").is_file() {
        return Ok(Outcome::skipped("it is made of the static binary, which there is none of"));
    }
    let tools = ["buildah", "podman", "docker"];
    let Some(tool) = tools.iter().find(|tool| program::works(command(tool, &directory).arg("--version")))
    else {
        return Ok(Outcome::skipped(format!("none of {} is installed", tools.join(", "))));
    };
    let name = format!("softtimers:{}", version(workspace)?);
    let mut build = command(tool, &directory);
    build.args(["build", "--file", "Containerfile", "--tag", &name]);
    must(build.args(if *tool == "buildah" { &["--isolation", "chroot"][..] } else { &[] }).arg("."))?;
    if *tool != "buildah" {
        let mut run = command(tool, &directory);
        let alone =
            ["run", "--rm", "--network", "none", "--cap-drop", "ALL", "--read-only", &name, "--version"];
        return says(&output(run.args(alone))?, workspace);
    }
    let container = output(command(tool, &directory).args(["from", &name]))?;
    let mut run = command(tool, &directory);
    let alone = [
        "run",
        "--isolation",
        "chroot",
        "--cap-drop",
        "ALL",
        container.trim(),
        "--",
        "/softtimers",
        "--version",
    ];
    let said = output(run.args(alone));
    must(command(tool, &directory).args(["rm", container.trim()]))?;
    says(&said?, workspace)
}

/// Whether the image has the command of this version.
fn says(said: &str, workspace: &Workspace) -> Result<Outcome> {
    let expected = format!("softtimers {}", version(workspace)?);
    Ok(if said.trim() == expected {
        Outcome::passed(format!("it says {expected}"))
    } else {
        Outcome::failed(format!("it says {}, and not {expected}", said.trim()))
    })
}

const COMMAND: &str = "softtimers-cli";

const UPLOAD: &str = "\
- name the section of CHANGELOG.md [VERSION] with its date; commit
- git tag --annotate vVERSION && git push --tags
- cargo publish --workspace
- hand out target/debian/*.deb and target/image (softtimers, and the licences beside it) with their sums";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changelog_has_the_version_or_will_have_it() {
        let text = |sections: &str| format!("# Changelog\n\n{sections}\n");
        let is_well = |sections: &str| matches!(changelog(&text(sections), "1.2.0"), Outcome::Passed(_));
        assert!(is_well("## [Unreleased]\n\n### Added\n\n- A.\n\n## [1.1.0]\n\n- B."));
        assert!(is_well("## [Unreleased]\n\n## [1.2.0] - 2026-01-01\n\n- A."));
        assert!(!is_well("## [Unreleased]\n\n- B.\n\n## [1.2.0]\n\n- A."));
        assert!(!is_well("## [Unreleased]\n\n## [1.1.0]\n\n- A.") && !is_well("## [Unreleased]\n"));
    }

    #[test]
    fn without_the_flag_nothing_runs() {
        for arguments in [&[][..], &["--now"], &["--dry-run", "upload"]] {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
            assert!(run(&arguments).is_err(), "{arguments:?}");
        }
    }
}
