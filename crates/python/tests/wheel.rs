//! The Python package, by its own tests and by CPython's, on the library that was built with these tests; and the wheel.
//! Tests say what the machine lacks, and skip.

#[path = "wheel/package.rs"]
mod package;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use package::{fresh, has, here, lay, lay_library, own_tests_pass, passes, program, python, skipped, works};

/// The package as a wheel installs it.
fn package(name: &str) -> PathBuf {
    let directory = fresh(name);
    lay(&here().join("python/softtimers"), &directory.join("softtimers"));
    lay_library("libsofttimers_python.so", &directory.join("softtimers/_softtimers.abi3.so"));
    directory
}

/// They import nothing but the package.
const OWN_TESTS: [&str; 4] = ["test_asyncio", "test_page", "test_pacer", "test_replaced"];

#[test]
fn timers_and_pacer_do_what_they_say() {
    if python().is_none() {
        return skipped("there is no Python 3.9 or later");
    }
    own_tests_pass(&package("package"), &OWN_TESTS);
}

/// Paths of the command that is built beside these tests.
#[test]
fn a_test_has_a_bad_network() {
    if python().is_none() {
        return skipped("there is no Python 3.9 or later");
    }
    let command = std::env::current_exe().unwrap().with_file_name("../softtimers");
    if !command.is_file() {
        return skipped("the command softtimers is not built");
    }
    let mut tests = python().unwrap();
    tests.env("SOFTTIMERS", command).env("PYTHONPATH", package("wan"));
    let done =
        tests.args(["-m", "unittest", "test_wan"]).current_dir(here().join("tests/python")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The simulator's package is installed by itself; without it one line says how.
#[test]
fn without_the_papers_package_its_modules_say_how_to_install_it() {
    if python().is_none() {
        return skipped("there is no Python 3.9 or later");
    }
    let package = package("alone");
    for module in ["sim", "plot", "cluster"] {
        let done = python()
            .unwrap()
            .args(["-S", "-c", &format!("import softtimers.{module}")])
            .env("PYTHONPATH", &package)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let last = said.trim().lines().last().unwrap_or_default();
        let told = format!(
            "ModuleNotFoundError: softtimers.{module} is in the package softtimers-papers; from a clone: pip install"
        );
        assert!(last.starts_with(&told), "{said}");
    }
}

/// The package against its own annotations, and its stubs against the library.
#[test]
fn the_types_are_true() {
    if has("mypy") {
        let (package, cache) = (package("types"), fresh("mypy"));
        let cache = cache.to_str().unwrap();
        let files =
            ["-m", "mypy", "--config-file", "tests/mypy.ini", "--cache-dir", cache, "-p", "softtimers"];
        passes(python().unwrap(), &package, &files);
        let stubs = ["-m", "mypy.stubtest", "--mypy-config-file", "tests/mypy.ini", "softtimers._softtimers"];
        let mut compares = python().unwrap();
        compares.env("MYPY_CACHE_DIR", cache);
        passes(compares, &package, &stubs);
    }
}

/// Those of the parts that are replaced: timers, the wait for descriptors, signals and child processes, and what tasks
/// make of them.
#[test]
fn cpythons_own_tests_pass_that_pass_on_the_default_loop() {
    if std::env::var_os("SOFTTIMERS_LONG").is_none() {
        return skipped("it takes minutes; SOFTTIMERS_LONG=1 runs it");
    }
    let Some(mut asks) = python() else { return skipped("there is no Python 3.9 or later") };
    if !works(asks.args(["-c", "import test.test_asyncio, test.test_selectors"])) {
        return skipped("this Python has come without its tests");
    }
    passes(python().unwrap(), &package("conformance"), &["tests/conformance.py", "--replaced"]);
}

#[test]
fn the_wheel_holds_the_package() {
    let Some(mut unpacks) = python() else { return skipped("there is no Python 3.9 or later") };
    let maturin = || Command::new(program("maturin"));
    if !works(maturin().arg("--version")) {
        return skipped("there is no maturin");
    }
    let (wheels, package) = (fresh("wheels"), fresh("unpacked"));
    let built = maturin()
        .args(["build", "--quiet", "--profile", "dev", "--manifest-path"])
        .arg(here().join("Cargo.toml"))
        .arg("--out")
        .arg(&wheels)
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("maturin"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let wheel = fs::read_dir(&wheels).unwrap().next().unwrap().unwrap().path();
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-cp39-abi3-"), "{name} is not for every Python from 3.9 on");
    assert!(
        works(unpacks.args(["-m", "zipfile", "-e"]).args([&wheel, &package])),
        "{name} cannot be unpacked"
    );
    for file in ["py.typed", "_softtimers.pyi"] {
        assert!(package.join("softtimers").join(file).is_file(), "the wheel lacks {file}");
    }
    let licences = format!("softtimers-{}.dist-info/licenses", env!("CARGO_PKG_VERSION"));
    let licence = fs::read_to_string(package.join(licences).join("LICENSE-MIT")).unwrap();
    assert!(licence.contains("Permission is hereby granted"), "{licence}");
    own_tests_pass(&package, &OWN_TESTS);
}
