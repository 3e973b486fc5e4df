//! A Python package as a wheel installs it, and Python that runs on it: for the tests of both packages.
#![allow(dead_code, reason = "not each test uses all of it")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The least Python that the wheel is for.
pub(crate) const SUPPORTED: &str = "import sys; sys.exit(sys.version_info < (3, 9))";

pub(crate) fn skipped(reason: &str) {
    let line = format!("skipped: {}: {reason}\n", std::thread::current().name().unwrap_or("?"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A program of the environment that `.ci/run` makes, if it has made it; else this machine's.
pub(crate) fn program(name: &str) -> PathBuf {
    let made = here().join("../../target/tools/py/bin").join(name);
    if made.is_file() { made } else { PathBuf::from(name) }
}

/// A command of Python, if there is one that is new enough.
pub(crate) fn python() -> Option<Command> {
    let python = || Command::new(program("python3"));
    works(python().args(["-c", SUPPORTED])).then(|| {
        let mut command = python();
        // No byte code is left in the source tree; pictures need no screen, and no cache in a home directory.
        command.arg("-B").env("MPLBACKEND", "Agg").env("MPLCONFIGDIR", env!("CARGO_TARGET_TMPDIR"));
        command
    })
}

/// Says whether Python has a module, which is said if it has not.
pub(crate) fn has(module: &str) -> bool {
    let has = python().is_some_and(|mut asks| works(asks.args(["-c", &format!("import {module}")])));
    if !has {
        skipped(&format!("Python has no {module}"));
    }
    has
}

/// A fresh directory of this name.
pub(crate) fn fresh(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Lays the Python files of a folder into a package of this name.
pub(crate) fn lay(files: &Path, package: &Path) {
    fs::create_dir(package).unwrap();
    for file in fs::read_dir(files).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
}

/// Copies the library that lies beside these tests into a package.
pub(crate) fn lay_library(library: &str, to: &Path) {
    let tests = std::env::current_exe().unwrap();
    fs::copy(tests.with_file_name(library), to).unwrap();
}

/// Runs Python on a package, and returns what it printed; fails the test with what it said.
pub(crate) fn passes(mut python: Command, package: &Path, arguments: &[&str]) -> String {
    let done = python.args(arguments).current_dir(here()).env("PYTHONPATH", package).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{arguments:?}: {}\n{out}{err}", done.status);
    out.into_owned()
}

/// Runs files of `tests/python` on a package.
pub(crate) fn own_tests_pass(package: &Path, files: &[&str]) {
    let mut python = python().unwrap();
    python.env("PYTHONPATH", package).args(["-m", "unittest"]);
    let done = python.args(files).current_dir(here().join("tests/python")).output().unwrap();
    assert!(done.status.success(), "{files:?}: {}", String::from_utf8_lossy(&done.stderr));
}
