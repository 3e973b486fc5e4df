//! The experiments' tables, as they are: a change of behaviour is a difference of a table.
//!
//! `BLESS=1 cargo test -p softtimers-sim --test tables` writes them anew, for somebody to look at.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use softtimers_sim::{Parameters, Setting, Steps, Streams, experiments};

/// Runs one after the other, and compares all rows with the file.
fn compare(name: &str, experiment: &str, runs: &[&[(&str, Setting)]]) {
    let experiment = experiments::find(experiment).expect("an experiment");
    let names: Vec<&str> = experiment.columns.iter().map(|column| column.name).collect();
    let mut table = format!("{}\n", names.join(","));
    for run in runs {
        let defaults = Parameters::new(experiment.parameters);
        let set = |parameters: Parameters, (name, setting): &(&str, Setting)| {
            parameters.with(name, setting.clone())
        };
        let rows = (experiment.run)(&run.iter().fold(defaults, set), Streams::new(1), &Steps::unwatched())
            .expect("a possible run");
        for row in rows {
            let cells = row.iter().zip(experiment.columns);
            let cells: Vec<_> = cells.map(|(value, column)| column.rounded(value).to_string()).collect();
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

/// The kept fit belongs to the constants of the list: their distance from the points is the one that it found.
#[test]
fn the_fit_that_is_kept_is_of_these_constants() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tables/livelock-fit.csv");
    let kept = std::fs::read_to_string(file).expect("a kept fit");
    let experiment = experiments::find("livelock-fit").expect("an experiment");
    let parameters = Parameters::new(experiment.parameters).with("iterations", Setting::Count(0));
    let rows = (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).expect("a possible run");
    let mut compared = 0;
    for row in rows {
        let cells: Vec<_> = row
            .iter()
            .zip(experiment.columns)
            .map(|(value, column)| column.data(value).to_string())
            .collect();
        let name = if cells[1].contains(',') { format!("\"{}\"", cells[1]) } else { cells[1].clone() };
        // Behind the sweep, its point and row, the build, the seed and what is left out.
        let wanted = match cells[0].as_str() {
            "constant" => format!(",none,constant,{name},,,{},", cells[4]),
            of => format!(
                ",none,{of},{name},{},{},,,{},{},{}",
                cells[2], cells[3], cells[6], cells[7], cells[8]
            ),
        };
        assert!(
            kept.lines().any(|line| line.contains(&wanted)),
            "{wanted}: softtimers sim livelock-fit --out FILE"
        );
        compared += 1;
    }
    assert_eq!(compared, 9 + 18 + 1, "constants, series and their sum");
}

#[test]
fn hip_table_1() {
    let names = ["t-high-1", "t-high-2", "t-med-1", "t-med-2", "t-low-1", "t-low-2"];
    let runs = names.map(|name| [("synthetic", Setting::Choice(name))]);
    compare("hip-table-1.csv", "hip-traces", &runs.each_ref().map(|run| &run[..]));
}

#[test]
fn hip_table_3_and_all_baselines() {
    compare("hip-table-3.csv", "hip", &[&[("scheme", Setting::Choice("all"))]]);
}

#[test]
fn hip_table_3_in_the_other_reading() {
    let event = Setting::Choice("event");
    compare("hip-table-3-event.csv", "hip", &[&[("reading", event.clone()), ("fitted", event)]]);
}

#[test]
fn hip_figures_3_and_4() {
    let hip = ("scheme", Setting::Choice("hip"));
    let of = |name, value| [hip.clone(), (name, Setting::Real(value))];
    let gammas = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0].map(|value| of("gamma", value));
    compare("hip-figure-3.csv", "hip", &gammas.each_ref().map(|run| &run[..]));
    let phis = [0.0, 1.0, 2.0, 2.5, 3.0, 4.0, 5.0].map(|value| of("phi", value));
    compare("hip-figure-4.csv", "hip", &phis.each_ref().map(|run| &run[..]));
}

#[test]
fn hip_of_patterns() {
    let runs =
        ["constant", "poisson", "on-off", "self-similar"].map(|name| [("synthetic", Setting::Choice(name))]);
    compare("hip-patterns.csv", "hip", &runs.each_ref().map(|run| &run[..]));
}

#[test]
fn noise_by_nodes() {
    let runs = [1, 10, 32, 100, 320, 1_000]
        .map(|nodes| [("nodes", Setting::Count(nodes)), ("phases", Setting::Count(1_000))]);
    compare("noise.csv", "noise", &runs.each_ref().map(|run| &run[..]));
}

#[test]
fn polling_by_quota() {
    let of = |server, quota| [("server", Setting::Choice(server)), ("quota", Setting::Count(quota))];
    let runs = [of("apache", 1), of("apache", 5), of("flash", 1), of("flash", 5), of("flash", 15)];
    compare("polling.csv", "polling", &runs.each_ref().map(|run| &run[..]));
}

/// All combinations of two parameters' values.
fn grid(
    (first, rows): (&'static str, Vec<Setting>),
    (second, columns): (&'static str, Vec<Setting>),
) -> Vec<Vec<(&'static str, Setting)>> {
    let row = |row: &Setting| {
        columns.iter().map(|column| vec![(first, row.clone()), (second, column.clone())]).collect()
    };
    rows.iter().flat_map(|value: &Setting| -> Vec<_> { row(value) }).collect()
}

fn micros(micros: &[u64]) -> Vec<Setting> {
    micros.iter().map(|&micros| Setting::Time(Duration::from_micros(micros))).collect()
}

fn counts(counts: &[u64]) -> Vec<Setting> {
    counts.iter().map(|&count| Setting::Count(count)).collect()
}

fn compare_all(name: &str, experiment: &str, runs: &[Vec<(&str, Setting)>]) {
    compare(name, experiment, &runs.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn soft_timers_tables_8_and_9() {
    let mut runs = grid(("target", micros(&[40, 60])), ("burst", micros(&[12, 15, 20, 25, 30, 35])));
    for strategy in ["exact-deadline", "fixed-series", "relative", "interrupts"] {
        let strategy = Setting::Choice(strategy);
        runs.extend(grid(("strategy", vec![strategy]), ("target", micros(&[40, 60]))));
    }
    runs.extend(grid(("flows", counts(&[20])), ("slowest", vec![Setting::Real(3.0)])));
    compare_all("pacing.csv", "pacing", &runs);
}

#[test]
fn soft_timers_answers_to_big_acks() {
    let answers = ["self-clocked", "paced", "maxburst", "window-cut"].map(Setting::Choice).to_vec();
    let away = [5, 15, 50].map(|millis| Setting::Time(Duration::from_millis(millis))).to_vec();
    compare_all("pacing-acks.csv", "pacing-acks", &grid(("away", away), ("answer", answers)));
}

#[test]
fn soft_timers_table_13() {
    let hardware = ["each", "lazy"].map(Setting::Choice).to_vec();
    let mut runs = grid(("hardware", hardware), ("deadline", micros(&[10, 20, 50, 100, 200, 500, 1_000])));
    runs.push(vec![("after-interrupt", Setting::Choice("now"))]);
    compare_all("deadline.csv", "deadline", &runs);
}

#[test]
fn soft_timers_tables_10_and_11() {
    let packets = counts(&[5, 10, 20, 100, 1_000, 10_000]);
    let mut runs = grid(("mbit", counts(&[50, 100])), ("packets", packets.clone()));
    runs.extend(grid(("set-up", vec![Setting::Choice("yes")]), ("packets", packets)));
    compare_all("slowstart.csv", "slowstart", &runs);
}

#[test]
fn frames_of_a_film() {
    let hz = [Some(100), Some(250), Some(1_000), None].map(Setting::Limit).to_vec();
    compare_all("framerate.csv", "framerate", &grid(("hz", hz), ("fps", counts(&[25, 30, 50, 60]))));
}

#[test]
fn bsd_timers_table_1() {
    let kernels = ["old", "hash", "handles"].map(Setting::Choice).to_vec();
    let outstanding = counts(&[0, 200, 400, 600, 800, 1_000, 10_000]);
    let mut runs = grid(("kernel", kernels.clone()), ("outstanding", outstanding));
    let protocol = [
        ("call", Setting::Time(Duration::ZERO)),
        ("timeout", Setting::Limit(Some(50))),
        ("answer", Setting::Time(Duration::from_millis(30))),
        ("cancelled", Setting::Real(98.0)),
    ];
    let rates = [1_000, 40_000].map(|rate| Setting::Limit(Some(rate))).to_vec();
    let mut streams = grid(("kernel", kernels), ("rate", rates));
    streams.extend([16, 64, 256, 1_024, 4_096].map(|buckets| {
        vec![("rate", Setting::Limit(Some(1_000))), ("buckets", Setting::Limit(Some(buckets)))]
    }));
    streams.iter_mut().for_each(|run| run.extend_from_slice(&protocol));
    runs.extend(streams);
    compare_all("callout.csv", "callout", &runs);
}
