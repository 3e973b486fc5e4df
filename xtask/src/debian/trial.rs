//! The packages installed, used and removed in a root that holds nothing else.
//!
//! ```text
//!   an empty directory, with dpkg's state in it     dpkg --install: all files there, and what they depend on is here
//!     softtimers --version, a paced second          cc $(pkg-config …): shared and static, run
//!     dpkg --purge                                  no file is left
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{build, missing, place, tree};
use crate::program::{self, Profile, must, output, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;

/// Builds the packages and tries them.
///
/// # Errors
/// If they cannot be built, or do not hold what they promise.
pub(crate) fn check(workspace: &Workspace, profile: Profile) -> Result<Outcome> {
    if let Some(missing) = missing() {
        return Ok(Outcome::skipped(missing));
    }
    if !program::works(command("dpkg-query", workspace.root()).args(["--status", LIBC])) {
        return Ok(Outcome::skipped(format!("this system has a dpkg, but no package {LIBC}")));
    }
    let (files, place) = (build(workspace, profile)?, place(workspace));
    let unlinted = linted(&files, profile, &place)?;
    let root = Root::make(&place.join("root"))?;
    root.install(&files)?;
    root.use_them(workspace)?;
    let uncompiled = root.compile()?;
    root.remove()?;
    let done = format!("{} packages installed, the command run, removed without a trace", files.len());
    let undone: Vec<String> = unlinted.into_iter().chain(uncompiled).collect();
    Ok(if undone.is_empty() {
        Outcome::passed(format!("{done}; a C program built and run with each library"))
    } else {
        Outcome::skipped(format!("{}; the rest was done: {done}", undone.join("; ")))
    })
}

/// What Debian's own checker says of what is to be handed out; it takes a minute.
///
/// Returns why it could not.
fn linted(files: &[PathBuf], profile: Profile, place: &Path) -> Result<Option<String>> {
    if profile == Profile::Debug {
        return Ok(None);
    }
    if !program::works(command("lintian", place).arg("--version")) {
        return Ok(Some("lintian is not installed".into()));
    }
    let strict = ["--fail-on", "error,warning", "--allow-root", "--suppress-tags"];
    must(command("lintian", place).args(strict).arg(SUPPRESSED.join(",")).args(files))?;
    Ok(None)
}

/// A directory that dpkg takes for `/`.
struct Root {
    directory: PathBuf,
    packages: std::cell::RefCell<Vec<String>>,
}

impl Root {
    fn make(directory: &Path) -> Result<Self> {
        tree::emptied(directory)?;
        let state = directory.join("var/lib/dpkg");
        for part in ["info", "updates", "triggers"] {
            fs::create_dir_all(state.join(part))?;
        }
        // What the packages need of this machine, as this machine's dpkg describes it; dpkg then decides.
        let mut status = String::new();
        for package in [LIBC, UNWINDER] {
            let known = output(command("dpkg-query", directory).args(["--status", package]));
            status += &known.map(|text| format!("{}\n\n", text.trim_end())).unwrap_or_default();
        }
        fs::write(state.join("status"), status)?;
        Ok(Root { directory: directory.to_owned(), packages: vec![].into() })
    }

    fn dpkg(&self) -> Command {
        let mut dpkg = command("dpkg", &self.directory);
        // dpkg looks for ldconfig and start-stop-daemon, which are not where an ordinary user's shell looks.
        let path = std::env::var("PATH").unwrap_or_default();
        dpkg.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
        // Without root as well: the files get the owner that they have.
        dpkg.arg("--root").arg(&self.directory).args(["--force-not-root", "--log=/dev/null"]);
        dpkg
    }

    fn install(&self, files: &[PathBuf]) -> Result<()> {
        must(self.dpkg().arg("--install").args(files))?;
        for file in files {
            let name = output(command("dpkg-deb", &self.directory).arg("--field").arg(file).arg("Package"))?;
            self.packages.borrow_mut().push(name.trim().to_owned());
        }
        for package in self.packages.borrow().iter() {
            let listed = output(self.dpkg().args(["--listfiles", package]))?;
            for path in listed.lines().filter(|path| *path != "/.") {
                let installed = self.directory.join(path.trim_start_matches('/'));
                ensure!(installed.symlink_metadata().is_ok(), "{package}: {path} is not there");
            }
            let verified = output(self.dpkg().args(["--verify", package]))?;
            ensure!(verified.is_empty(), "{package}: {verified}");
        }
        Ok(())
    }

    /// Runs the command.
    fn use_them(&self, workspace: &Workspace) -> Result<()> {
        let command_here = self.directory.join("usr/bin/softtimers");
        let version = output(command(&command_here, &self.directory).arg("--version"))?;
        let expected = &workspace.member("softtimers-cli").context("no softtimers-cli")?.version;
        ensure!(version.trim() == format!("softtimers {expected}"), "it says {version}");
        let send = ["send", "127.0.0.1:9", "--rate", "1kpps", "--count", "100", "--json"];
        let sent = output(command(&command_here, &self.directory).args(send))?;
        ensure!(sent.contains("\"softtimers.send/1\""), "it sent {sent}");
        let installed = |path: &str| self.directory.join("usr/share").join(path).is_file();
        let pages = ["man/man1/softtimers-send.1.gz", "man/man1/softtimers-sim-hip.1.gz"];
        for file in pages.into_iter().chain(["bash-completion/completions/softtimers"]) {
            ensure!(installed(file), "there is no {file}");
        }
        self.units()
    }

    /// That the examples of units start what is installed.
    fn units(&self) -> Result<()> {
        let units = tree::below(&self.directory.join("usr/share/doc/softtimers/examples"))?;
        let mut started = 0;
        for unit in units.iter().filter(|path| path.extension().is_some_and(|end| end == "service")) {
            let text = fs::read_to_string(unit)?;
            for line in text.lines().map(|line| line.trim_start_matches("# ")) {
                let Some(program) = line.strip_prefix("ExecStart=/") else { continue };
                let program = program.split(' ').next().unwrap_or_default();
                let here = self.directory.join(program);
                ensure!(here.is_file(), "{}: /{program} is not installed", unit.display());
                started += 1;
            }
        }
        ensure!(started >= 2, "no unit starts anything");
        Ok(())
    }

    /// Runs programs that are compiled against what is installed, or returns why it could not.
    fn compile(&self) -> Result<Option<String>> {
        for tool in ["cc", "pkg-config"] {
            if !program::works(command(tool, &self.directory).arg("--version")) {
                return Ok(Some(format!("no C program compiled: `{tool}` is not installed")));
            }
        }
        let library = self.directory.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        let work = self.directory.join("tmp");
        fs::create_dir_all(&work)?;
        fs::write(work.join("program.c"), PROGRAM)?;
        for (name, flags, asked) in [("shared", &[][..], &[][..]), ("static", &["-static"], &["--static"])] {
            let mut ask = command("pkg-config", &work);
            ask.env("PKG_CONFIG_LIBDIR", library.join("pkgconfig")).env_remove("PKG_CONFIG_PATH");
            ask.env("PKG_CONFIG_SYSROOT_DIR", &self.directory).args(["--cflags", "--libs", "softtimers"]);
            let found = output(ask.args(asked))?;
            let strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-o", name, "program.c"];
            must(command("cc", &work).args(flags).args(strict).args(found.split_whitespace()))?;
            let mut run = command(work.join(name), &work);
            let said = output(run.env("LD_LIBRARY_PATH", &library))?;
            ensure!(said.trim() == "ok", "{name}: it says {said}");
        }
        fs::remove_dir_all(&work)?;
        Ok(None)
    }

    fn remove(&self) -> Result<()> {
        must(self.dpkg().arg("--purge").args(self.packages.borrow().iter()))?;
        let left = below_but_state(&self.directory)?;
        if !left.is_empty() {
            bail!("removal leaves {}", left.join(", "));
        }
        Ok(())
    }
}

/// What is left but dpkg's own state, which no longer tells of a file.
fn below_but_state(root: &Path) -> Result<Vec<String>> {
    let entries: std::io::Result<Vec<_>> = fs::read_dir(root)?.collect();
    let names = entries?.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut left: Vec<String> = names.filter(|name| name != "var").collect();
    let state = root.join("var/lib/dpkg");
    for file in tree::below(&root.join("var"))? {
        let is_list = file.extension().is_some_and(|end| end == "list");
        if !file.starts_with(&state) || is_list {
            left.push(file.display().to_string());
        }
    }
    Ok(left)
}

const LIBC: &str = "libc6";
const UNWINDER: &str = "libgcc-s1";

/// Of lintian's findings those that are about a distribution, not about a package that a project makes of itself:
/// nobody has asked Debian's bug tracker for it.
const SUPPRESSED: &[&str] = &["initial-upload-closes-no-bugs"];

const PROGRAM: &str = r#"#include <softtimers.h>
#include <stdio.h>
int main(void) {
    softtimers_timers *timers;
    softtimers_config config = {0};
    if (softtimers_timers_new(&config, &timers) != 0) return 1;
    softtimers_timers_free(timers);
    puts("ok");
    return 0;
}
"#;
