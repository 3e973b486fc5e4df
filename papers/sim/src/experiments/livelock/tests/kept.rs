//! The tables as this model makes them, which are kept in `tests/tables`: a change of a policy or of the model is a
//! difference there. `BLESS=1 cargo test` writes them.

use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::{Column, Kind, Row};

/// Compares with what is kept, or keeps it.
fn snapshot(name: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(name);
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&path, table).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (kept, made) in kept.lines().zip(table.lines()) {
        assert_eq!(made, kept, "{name}: not the table that is kept; BLESS=1 keeps this one");
    }
    assert_eq!(table.len(), kept.len(), "{name}: longer or shorter than the table that is kept");
}

fn curve(table: &mut String, name: &str, config: impl Fn(u64) -> Config) {
    let outputs = RATES.map(|rate| format!("{:6.0}", output(config(rate))));
    let _ = writeln!(table, "{name:24}{}", outputs.join(""));
}

const RATES: [u64; 12] =
    [1_000, 2_000, 3_000, 4_000, 4_500, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000, 11_000];

/// Figures 2, 5, 6, 7 and 9 (6-1 to 6-6).
#[test]
fn output_by_input_is_the_table_that_is_kept() {
    let mut table = format!("{:24}{}\n", "input", RATES.map(|rate| format!("{rate:6}")).join(""));
    curve(&mut table, "unmodified", |rate| kernel(Kernel::Unmodified, rate));
    curve(&mut table, "no-polling", |rate| kernel(Kernel::NoPolling, rate));
    for quota in [2, 5, 8, 10, 20, 100, u32::MAX] {
        let name = if quota == u32::MAX { "none".to_owned() } else { quota.to_string() };
        curve(&mut table, &format!("polled, quota {name}"), |rate| polled(quota, rate));
    }
    curve(&mut table, "high-ipl", |rate| kernel(Kernel::HighIpl, rate));
    curve(&mut table, "clocked", |rate| kernel(Kernel::Clocked, rate));
    curve(&mut table, "screend, unmodified", |rate| screend(kernel(Kernel::Unmodified, rate)));
    curve(&mut table, "screend, polled", |rate| screend(polled(10, rate)));
    for quota in [5, 10, u32::MAX] {
        let name = if quota == u32::MAX { "none".to_owned() } else { quota.to_string() };
        curve(&mut table, &format!("screend, feedback, {name}"), |rate| with_feedback(polled(quota, rate)));
    }
    snapshot("output.txt", &table);
}

/// Figure 10 (7-1).
#[test]
fn user_share_is_the_table_that_is_kept() {
    let rates = [500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 6_000, 8_000, 10_000];
    let mut table = format!("{:24}{}\n", "input", rates.map(|rate| format!("{rate:6}")).join(""));
    for percent in [25, 50, 75, 100] {
        let shares = rates.map(|rate| {
            let found = run(limited(percent, rate));
            format!("{:6.1}", 100.0 * found.share(found.user))
        });
        let _ = writeln!(table, "threshold {percent:3}%          {}", shares.join(""));
    }
    snapshot("user.txt", &table);
}

/// Packets of the paper's trials.
const TRIAL: u64 = 10_000;

/// All 543 points: how far the model is from them, on average and in the root of the mean square.
#[test]
fn the_distance_from_the_figures_is_the_table_that_is_kept() {
    let mut found: Vec<(&str, &str, Vec<[f64; 3]>)> = vec![];
    for point in points() {
        let config = point.config();
        let trial = Router::trial(config, TRIAL, Streams::new(1));
        let ours = if config.user { 100.0 * trial.user } else { trial.output };
        let at = [point.input, point.output, ours];
        match found.last_mut() {
            Some((figure, name, points)) if (*figure, *name) == (point.figure, point.series) => {
                points.push(at);
            }
            _ => found.push((point.figure, point.series, vec![at])),
        }
    }
    let mut table =
        format!("{:8}{:34}{:>6}{:>8}{:>8}{:>8}", "figure", "series", "points", "bias", "rms", "paper");
    table.push_str("   farthest, paper and model\n");
    for (figure, name, points) in found {
        let mean =
            |values: &dyn Fn(&[f64; 3]) -> f64| points.iter().map(values).sum::<f64>() / points.len() as f64;
        let error = |[_, paper, ours]: &[f64; 3]| ours - paper;
        let (bias, rms) = (mean(&error), mean(&|at| error(at) * error(at)).sqrt());
        let _ = write!(table, "{figure:8}{name:34}{:6}{bias:8.0}{rms:8.0}", points.len());
        let farthest = points.iter().max_by(|one, other| error(one).abs().total_cmp(&error(other).abs()));
        let [at, paper, ours] = farthest.expect("a series has a point");
        let _ = writeln!(table, "{:8.0}{at:11.0}{paper:8.0}{ours:8.0}", mean(&|[_, paper, _]| *paper));
    }
    snapshot("figures.txt", &table);
}

/// Sections 4.3 and 8.2, and the monitor of section 9.
#[test]
fn bursts_and_captures_are_the_tables_that_are_kept() {
    for (name, file) in [("livelock-burst", "burst.txt"), ("livelock-monitor", "monitor.txt")] {
        let mut table = String::new();
        for (rows, columns) in tables(name) {
            for row in rows {
                let cells = row
                    .iter()
                    .zip(columns)
                    .map(|(value, column)| format!("{:>12}", column.rounded(value).to_string()));
                let _ = writeln!(table, "{}", cells.collect::<String>().trim_end());
            }
        }
        snapshot(file, &table);
    }
}

/// The table of an experiment, as without `--sweep`.
fn tables(name: &str) -> Vec<(Vec<Row>, &'static [Column])> {
    let experiment = experiments::find(name).unwrap();
    let mut all = vec![Parameters::new(experiment.parameters)];
    if experiment.parameters.iter().any(|parameter| parameter.name == "duration") {
        all[0] = all[0].clone().with("duration", Setting::Time(SHORT));
    }
    for (axis, values) in experiment.sweep {
        let parameter = experiment.parameters.iter().find(|parameter| parameter.name == *axis).unwrap();
        let setting = |text: &str| match parameter.kind {
            Kind::Choice(words) => Setting::Choice(words.iter().copied().find(|word| *word == text).unwrap()),
            _ => Setting::Count(text.parse().unwrap()),
        };
        let each = |base: &Parameters| {
            let base = base.clone();
            values.split(',').map(move |text| base.clone().with(axis, setting(text))).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(each).collect();
    }
    let run = |parameters| {
        ((experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap(), experiment.columns)
    };
    all.into_iter().map(run).collect()
}
