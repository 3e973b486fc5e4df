//! The Python package, by its own tests and by CPython's, on the library that was built with these tests; and the wheel.
//! What a machine lacks is said and skipped.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use softtimers_sim::{
    Axis, Parameters, Part, PointError, PointRows, Runs, Setting, Sweep, Watch, csv, experiments,
};

/// The least Python that the wheel is for.
const SUPPORTED: &str = "import sys; sys.exit(sys.version_info < (3, 9))";

fn skipped(reason: &str) {
    let line = format!("skipped: {}: {reason}\n", std::thread::current().name().unwrap_or("?"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A command of this machine's Python, if it has one that is new enough.
fn python() -> Option<Command> {
    works(Command::new("python3").args(["-c", SUPPORTED])).then(|| {
        let mut command = Command::new("python3");
        // No byte code is left in the source tree.
        command.arg("-B");
        command
    })
}

/// A fresh directory of this name.
fn fresh(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The package as a wheel installs it: its Python files, and the library that lies beside these tests.
fn package(name: &str) -> PathBuf {
    let directory = fresh(name);
    let package = directory.join("softtimers");
    fs::create_dir(&package).unwrap();
    for file in fs::read_dir(here().join("python/softtimers")).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
    let tests = std::env::current_exe().unwrap();
    let library = tests.with_file_name("libsofttimers_python.so");
    fs::copy(library, package.join("_softtimers.abi3.so")).unwrap();
    directory
}

/// Runs Python on a package, and fails the test with what it said.
fn passes(mut python: Command, package: &Path, arguments: &[&str]) {
    let done = python.args(arguments).current_dir(here()).env("PYTHONPATH", package).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{arguments:?}: {}\n{out}{err}", done.status);
}

const OWN_TESTS: [&str; 5] = ["-m", "unittest", "discover", "-s", "tests/python"];

#[test]
fn timers_pacer_and_simulator_do_what_they_say() {
    let Some(python) = python() else { return skipped("there is no Python 3.9 or later") };
    passes(python, &package("package"), &OWN_TESTS);
}

/// Some 400 tests: what a loop and a selector must do.
#[test]
fn cpythons_own_tests_pass_that_pass_on_the_default_loop() {
    let Some(mut asks) = python() else { return skipped("there is no Python 3.9 or later") };
    if !works(asks.args(["-c", "import test.test_asyncio, test.test_selectors"])) {
        return skipped("this Python has come without its tests");
    }
    let modules = ["test_selectors", "test_selector_events", "test_events.EPollEventLoopTests"];
    let arguments = [&["tests/conformance.py"], &modules[..]].concat();
    passes(python().unwrap(), &package("conformance"), &arguments);
}

/// The CSV is made as the command makes it, of sweeps with means, times, words, numbers and points that are not possible.
#[test]
fn the_simulators_values_are_those_of_the_commands_csv() {
    let axis = |name, values: &[Setting]| {
        let with_text = |setting: &Setting| (setting.to_string(), setting.clone());
        Axis { name, values: values.iter().map(with_text).collect() }
    };
    let counts = |counts: &[u64]| counts.iter().copied().map(Setting::Count).collect::<Vec<_>>();
    let micros = |micros: &[u64]| -> Vec<_> {
        micros.iter().map(|&micros| Setting::Time(Duration::from_micros(micros))).collect()
    };
    let means = Runs { seeds: 3.try_into().unwrap(), ..Runs::from(7) };
    let skips = Runs { skips: true, ..Runs::from(1) };
    for (name, axes, runs, arguments) in [
        (
            "slowstart",
            vec![axis("packets", &counts(&[5, 20])), axis("seed", &counts(&[1, 9]))],
            Runs::from(1),
            r#"{"axes": {"packets": [5, 20], "seed": [1, 9]}}"#,
        ),
        (
            "livelock",
            vec![
                axis("kernel", &["unmodified", "polled"].map(Setting::Choice)),
                axis("rate", &counts(&[8_000])),
            ],
            means,
            r#"{"axes": {"kernel": ["unmodified", "polled"], "rate": [8000]}, "seed": 7, "seeds": 3}"#,
        ),
        (
            "pacing",
            vec![axis("target", &micros(&[40])), axis("burst", &micros(&[12, 60]))],
            skips,
            r#"{"axes": {"target": [40e-6], "burst": [12e-6, 60e-6]}, "skip_infeasible": true}"#,
        ),
    ] {
        let Some(mut compares) = python() else { return skipped("there is no Python 3.9 or later") };
        let experiment = experiments::find(name).unwrap();
        let sweep = Sweep::new(experiment, Parameters::new(experiment.parameters), axes, runs);
        let mut lines = csv::header(&sweep);
        let keep = |point: PointRows| {
            lines += &csv::lines(&sweep, &point);
            Ok::<_, PointError>(())
        };
        sweep.run(Part::default(), 2.try_into().unwrap(), &Watch::new(), keep).unwrap();
        let package = package(name);
        let file = package.join("command.csv");
        fs::write(&file, lines).unwrap();
        let arguments = arguments.replacen('{', &format!("{{\"experiment\": \"{name}\", "), 1);
        compares.arg("tests/same_values.py").arg(file);
        passes(compares, &package, &[&arguments]);
    }
}

#[test]
fn the_wheel_holds_the_package() {
    let Some(mut unpacks) = python() else { return skipped("there is no Python 3.9 or later") };
    if !works(Command::new("maturin").arg("--version")) {
        return skipped("there is no maturin");
    }
    let (wheels, package) = (fresh("wheels"), fresh("unpacked"));
    let built = Command::new("maturin")
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
    passes(python().unwrap(), &package, &OWN_TESTS);
}
