//! The experiments' tables, as they are: a change of behaviour is a difference of a table.
//!
//! `BLESS=1 cargo test -p softtimers-sim --test tables` writes them anew, for somebody to look at.

use std::fmt::Write as _;
use std::path::PathBuf;

use softtimers_sim::{Experiment, Parameters, Setting, Streams, hip, noise, polling};

/// Runs one after the other, and compares all rows with the file.
fn compare(name: &str, experiment: &Experiment, runs: &[&[(&str, Setting)]]) {
    let names: Vec<&str> = experiment.columns.iter().map(|column| column.name).collect();
    let mut table = format!("{}\n", names.join(","));
    for run in runs {
        let defaults = Parameters::new(experiment.parameters);
        let set = |parameters: Parameters, (name, setting): &(&str, Setting)| {
            parameters.with(name, setting.clone())
        };
        let rows =
            (experiment.run)(&run.iter().fold(defaults, set), Streams::new(1)).expect("a possible run");
        for row in rows {
            let cells = row.iter().zip(experiment.columns);
            let cells: Vec<_> = cells.map(|(value, column)| value.show(column.digits).to_string()).collect();
            let _ = writeln!(table, "{}", cells.join(","));
        }
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &table).expect("the table can be written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    for (number, (found, kept)) in table.lines().zip(kept.lines()).enumerate() {
        assert_eq!(found, kept, "{name}, line {}", number + 1);
    }
    assert_eq!(table.lines().count(), kept.lines().count(), "{name}");
}

#[test]
fn hip_table_1() {
    let names = ["t-high-1", "t-high-2", "t-med-1", "t-med-2", "t-low-1", "t-low-2"];
    let runs = names.map(|name| [("synthetic", Setting::Choice(name))]);
    compare("hip-table-1.csv", &hip::HIP_TRACES, &runs.each_ref().map(|run| &run[..]));
}

#[test]
fn hip_table_3_and_all_baselines() {
    compare("hip-table-3.csv", &hip::HIP, &[&[("scheme", Setting::Choice("all"))]]);
}

#[test]
fn hip_table_3_in_the_other_reading() {
    let event = Setting::Choice("event");
    compare("hip-table-3-event.csv", &hip::HIP, &[&[("reading", event.clone()), ("fitted", event)]]);
}

#[test]
fn hip_figures_3_and_4() {
    let hip = ("scheme", Setting::Choice("hip"));
    let of = |name, value| [hip.clone(), (name, Setting::Real(value))];
    let gammas = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0].map(|value| of("gamma", value));
    compare("hip-figure-3.csv", &hip::HIP, &gammas.each_ref().map(|run| &run[..]));
    let phis = [0.0, 1.0, 2.0, 2.5, 3.0, 4.0, 5.0].map(|value| of("phi", value));
    compare("hip-figure-4.csv", &hip::HIP, &phis.each_ref().map(|run| &run[..]));
}

#[test]
fn hip_of_patterns() {
    let runs =
        ["constant", "poisson", "on-off", "self-similar"].map(|name| [("synthetic", Setting::Choice(name))]);
    compare("hip-patterns.csv", &hip::HIP, &runs.each_ref().map(|run| &run[..]));
}

#[test]
fn noise_by_nodes() {
    let runs = [1, 10, 32, 100, 320, 1_000]
        .map(|nodes| [("nodes", Setting::Count(nodes)), ("phases", Setting::Count(1_000))]);
    compare("noise.csv", &noise::NOISE, &runs.each_ref().map(|run| &run[..]));
}

#[test]
fn polling_by_quota() {
    let of = |server, quota| [("server", Setting::Choice(server)), ("quota", Setting::Count(quota))];
    let runs = [of("apache", 1), of("apache", 5), of("flash", 1), of("flash", 5), of("flash", 15)];
    compare("polling.csv", &polling::POLLING, &runs.each_ref().map(|run| &run[..]));
}
