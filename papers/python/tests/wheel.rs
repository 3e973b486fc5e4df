//! The papers' Python package, by its own tests, on the library that was built with these tests; and the wheel.
//! Tests say what the machine lacks, and skip.

#[path = "../../../crates/python/tests/wheel/package.rs"]
mod package;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use softtimers_core::{Timestamp, TraceBuilder};
use softtimers_poll::readings::Costs;
use softtimers_poll::{Hip, HipConfig, Interrupts};
use softtimers_sim::machine::MachineSpec;
use softtimers_sim::{
    Axis, Hashed, Parameters, Part, PointError, PointRows, Received, Recording, Runs, Setting, Sha256, Sweep,
    Watch, csv, experiments, receive,
};

use package::{fresh, has, here, lay, lay_library, own_tests_pass, passes, program, python, skipped, works};

#[expect(dead_code, reason = "its main prints a table of the same")]
#[path = "../../sim/examples/own_policy.rs"]
mod own_policy;

/// The package as a wheel installs it, beside the Python files of `softtimers`, which show its modules under that name.
fn package(name: &str) -> PathBuf {
    let directory = fresh(name);
    lay(&here().join("python/softtimers_papers"), &directory.join("softtimers_papers"));
    lay_library("libsofttimers_papers_python.so", &directory.join("softtimers_papers/_sim.abi3.so"));
    lay(&here().join("../../crates/python/python/softtimers"), &directory.join("softtimers"));
    directory
}

/// They import nothing but the package.
const OWN_TESTS: [&str; 3] = ["test_page", "test_sim", "test_values"];

#[test]
fn the_simulator_does_what_it_says() {
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
        let files = [
            "-m",
            "mypy",
            "--config-file",
            "tests/mypy.ini",
            "--cache-dir",
            cache,
            "-p",
            "softtimers_papers",
        ];
        passes(python().unwrap(), &package, &files);
        let stubs = ["-m", "mypy.stubtest", "--mypy-config-file", "tests/mypy.ini", "softtimers_papers._sim"];
        let mut compares = python().unwrap();
        compares.env("MYPY_CACHE_DIR", cache);
        passes(compares, &package, &stubs);
    }
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
        receive(Hip::new(HipConfig::default()), Costs::HIP, &packets),
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
    for file in ["py.typed", "_sim.pyi"] {
        assert!(package.join("softtimers_papers").join(file).is_file(), "the wheel lacks {file}");
    }
    let licences = format!("softtimers_papers-{}.dist-info/licenses", env!("CARGO_PKG_VERSION"));
    let licence = fs::read_to_string(package.join(licences).join("LICENSE-MIT")).unwrap();
    assert!(licence.contains("Permission is hereby granted"), "{licence}");
    lay(&here().join("../../crates/python/python/softtimers"), &package.join("softtimers"));
    own_tests_pass(&package, &OWN_TESTS);
}
