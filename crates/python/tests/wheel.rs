//! The Python package, by its own tests and by CPython's, on the library that was built with these tests; and the wheel.
//! Tests say what the machine lacks, and skip.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use softtimers_core::{Timestamp, TraceBuilder};
use softtimers_poll::readings::Costs;
use softtimers_poll::{AnyPolicy, Interrupts};
use softtimers_sim::machine::MachineSpec;
use softtimers_sim::{
    Axis, Hashed, Parameters, Part, PointError, PointRows, Received, Recording, Runs, Setting, Sha256, Sweep,
    Watch, csv, experiments, receive,
};

#[expect(dead_code, reason = "its main prints a table of the same")]
#[path = "../../../papers/sim/examples/own_policy.rs"]
mod own_policy;

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

/// A program of the environment that `.ci/run` makes, if it has made it; else this machine's.
fn program(name: &str) -> PathBuf {
    let made = here().join("../../target/tools/py/bin").join(name);
    if made.is_file() { made } else { PathBuf::from(name) }
}

/// A command of Python, if there is one that is new enough.
fn python() -> Option<Command> {
    let python = || Command::new(program("python3"));
    works(python().args(["-c", SUPPORTED])).then(|| {
        let mut command = python();
        // No byte code is left in the source tree; pictures need no screen, and no cache in a home directory.
        command.arg("-B").env("MPLBACKEND", "Agg").env("MPLCONFIGDIR", env!("CARGO_TARGET_TMPDIR"));
        command
    })
}

/// Says whether Python has a module, which is said if it has not.
fn has(module: &str) -> bool {
    let has = python().is_some_and(|mut asks| works(asks.args(["-c", &format!("import {module}")])));
    if !has {
        skipped(&format!("Python has no {module}"));
    }
    has
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

/// Runs Python on a package, and returns what it printed; fails the test with what it said.
fn passes(mut python: Command, package: &Path, arguments: &[&str]) -> String {
    let done = python.args(arguments).current_dir(here()).env("PYTHONPATH", package).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{arguments:?}: {}\n{out}{err}", done.status);
    out.into_owned()
}

/// Runs files of `tests/python` on a package.
fn own_tests_pass(package: &Path, files: &[&str]) {
    let mut python = python().unwrap();
    python.env("PYTHONPATH", package).args(["-m", "unittest"]);
    let done = python.args(files).current_dir(here().join("tests/python")).output().unwrap();
    assert!(done.status.success(), "{files:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// They import nothing but the package.
const OWN_TESTS: [&str; 6] =
    ["test_asyncio", "test_page", "test_pacer", "test_replaced", "test_sim", "test_values"];

#[test]
fn timers_pacer_and_simulator_do_what_they_say() {
    if python().is_none() {
        return skipped("there is no Python 3.9 or later");
    }
    own_tests_pass(&package("package"), &OWN_TESTS);
}

#[test]
fn pandas_and_polars_have_the_tables_values() {
    if ["pyarrow", "pandas", "polars"].into_iter().all(has) {
        own_tests_pass(&package("tables"), &["test_tables"]);
    }
}

#[test]
fn a_worker_that_is_killed_loses_no_point_of_a_sweep() {
    if has("distributed") {
        own_tests_pass(&package("cluster"), &["test_cluster"]);
    }
}

#[test]
fn plots_show_what_was_found_and_what_was_published() {
    if has("matplotlib") {
        own_tests_pass(&package("plot"), &["test_plot"]);
    }
}

#[test]
fn the_snippets_of_the_page_run() {
    if ["pyarrow", "pandas", "matplotlib", "distributed"].into_iter().all(has) {
        own_tests_pass(&package("page"), &["test_page_runs"]);
    }
}

#[test]
fn the_notebook_runs() {
    if ["ipykernel", "nbclient", "nbformat", "pyarrow", "pandas", "matplotlib"].into_iter().all(has) {
        own_tests_pass(&package("notebook"), &["test_notebook"]);
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

/// The Pentium II, as the command describes it, and packets.
fn on_a_machine() -> Parameters {
    let mut machine = MachineSpec::preset("pentium-ii").unwrap();
    let printed = machine.to_string();
    machine.described_in("pentium-ii", Hashed::new(printed.as_bytes()).finish().0);
    let mut packets = TraceBuilder::default();
    [(0, 60), (900_000, 1_500), (2_000_000, 60)]
        .into_iter()
        .for_each(|(at, length)| packets.push(Timestamp::from_nanos(at), length));
    let sha256 = Hashed::new("0,60\n900000,1500\n2000000,60\n".as_bytes()).finish().0;
    let recording = Recording { name: "packets".to_owned(), sha256, trace: packets.finish().unwrap() };
    let hip = machine.parameters(experiments::find("hip").unwrap()).unwrap();
    hip.with("trace", Setting::Trace(Some(recording)))
}

/// The CSV is made as the command makes it, of sweeps with means, times, words, numbers and points that are not possible.
/// Its values are those of the columns; as text it is the same to the byte, whole and of parts that are merged.
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
    let sha256 = Hashed::new("the command".as_bytes()).finish().0;
    let build = Some(sha256);
    let means = Runs { seeds: 3.try_into().unwrap(), build, ..Runs::from(7) };
    let skips = Runs { skips: true, build, ..Runs::from(1) };
    let ends = Runs {
        seeds: 12.try_into().unwrap(),
        precision: Some("delay_us=2%".parse().unwrap()),
        build,
        ..Runs::from(1)
    };
    let papers = |name| Parameters::new(experiments::find(name).unwrap().parameters);
    for (name, base, axes, runs, arguments) in [
        (
            "slowstart",
            papers("slowstart"),
            vec![axis("packets", &counts(&[5, 20])), axis("seed", &counts(&[1, 9]))],
            Runs { build, ..Runs::from(1) },
            r#"{"axes": {"packets": [5, 20], "seed": [1, 9]}}"#,
        ),
        (
            "livelock",
            papers("livelock"),
            vec![
                axis("kernel", &["unmodified", "polled"].map(Setting::Choice)),
                axis("rate", &counts(&[8_000])),
            ],
            means,
            r#"{"axes": {"kernel": ["unmodified", "polled"], "rate": [8000]}, "seed": 7, "seeds": 3}"#,
        ),
        (
            "pacing",
            papers("pacing"),
            vec![axis("target", &micros(&[40])), axis("burst", &micros(&[12, 60]))],
            skips,
            r#"{"axes": {"target": [40e-6], "burst": [12e-6, 60e-6]}, "skip_infeasible": true}"#,
        ),
        (
            "hip",
            on_a_machine(),
            vec![axis("gamma", &[1.5, 2.5].map(Setting::Real))],
            ends,
            r#"{"axes": {"gamma": [1.5, 2.5]}, "seeds": 12, "precision": "delay_us=2%", "machine": "pentium-ii", "trace": [[0, 60], [900000, 1500], [2000000, 60]]}"#,
        ),
    ] {
        if python().is_none() {
            return skipped("there is no Python 3.9 or later");
        }
        let sweep = Sweep::new(experiments::find(name).unwrap(), base, axes, runs);
        same_in_python(&sweep, arguments, sha256);
    }
}

/// Holds what Python finds by these arguments against the CSV of a sweep that a program of this hash makes.
fn same_in_python(sweep: &Sweep, arguments: &str, build: Sha256) {
    let mut lines = csv::header(sweep);
    let keep = |point: PointRows| {
        lines += &csv::lines(sweep, &point);
        Ok::<_, PointError>(())
    };
    sweep.run(Part::default(), 2.try_into().unwrap(), &Watch::new(), keep).unwrap();
    let name = sweep.experiment().name;
    let package = package(name);
    let file = package.join("command.csv");
    fs::write(&file, lines).unwrap();
    let arguments = arguments.replacen('{', &format!("{{\"experiment\": \"{name}\", "), 1);
    let mut compares = python().unwrap();
    compares.arg("tests/same_values.py").arg(file);
    passes(compares, &package, &[&arguments, &build.to_string()]);
}

/// Bit for bit: both print the shortest text that is the same number again.
#[test]
fn a_policy_in_python_receives_as_the_same_in_rust() {
    let Some(mut receives) = python() else { return skipped("there is no Python 3.9 or later") };
    let (package, packets) = (package("policy"), own_policy::packets());
    let lines = packets.iter().map(|(time, length)| format!("{} {length}\n", time.as_nanos()));
    let file = package.join("packets");
    fs::write(&file, lines.collect::<String>()).unwrap();
    receives.arg("tests/own_policy.py").arg(file);
    let printed = passes(receives, &package, &[]);
    let found = [
        receive(Interrupts, Costs::HIP, &packets),
        receive("hip".parse::<AnyPolicy>().unwrap(), Costs::HIP, &packets),
        receive(own_policy::Patient::new(), Costs::HIP, &packets),
    ];
    assert_ne!(found[0], found[2]);
    assert_eq!(printed.lines().count(), found.len(), "{printed}");
    for (line, of_rust) in printed.lines().zip(found) {
        let fields: Vec<_> = line.split(' ').collect();
        let count = |place: usize| fields[place].parse::<u64>().unwrap();
        let of_python = Received {
            packets: count(0),
            overhead_us: fields[1].parse().unwrap(),
            delay_us: fields[2].parse().unwrap(),
            longest_delay: Duration::from_nanos(count(3)),
            interrupts: count(4),
            polls: count(5),
            unsuccessful: count(6),
            switches: count(7),
        };
        assert_eq!(of_python, of_rust);
    }
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
