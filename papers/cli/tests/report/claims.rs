//! The sentences above the figures are held against them, in the saved runs and in runs
//! that are otherwise.

use std::path::Path;

use serde_json::{Value, json};

use super::{Directory, SAVED, rendered};

pub(super) fn section<'a>(object: &'a Value, name: &str) -> &'a Value {
    let sections = object["sections"].as_array().unwrap();
    sections.iter().find(|section| section["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The rows of a saved run of one command.
fn rows_of(source: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(format!("{SAVED}/{source}.json")).unwrap();
    let run: Value = serde_json::from_str(&text).unwrap();
    run["steps"][0]["outputs"]["sim"]["rows"].as_array().unwrap().clone()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().or_else(|| row[key].as_str()?.parse().ok()).unwrap_or_else(|| panic!("{key}: {row}"))
}

/// The words of a sentence against the numbers below it, by other means than the report's own.
#[test]
fn the_sentences_above_the_figures_are_true_of_the_saved_runs() {
    let directory = Directory::new("sentences");
    let (_, object) = rendered(Path::new(SAVED), &directory, "");
    // "At most about as much as the cheaper of interrupts and polling", "a tenth to all of what polling waits".
    let hip = rows_of("sim-hip");
    for of_trace in hip.chunks(3) {
        let [interrupts, polling, ours] = of_trace else { panic!("{of_trace:?}") };
        let overhead = |row| number(row, "overhead_us");
        assert!(overhead(ours) <= 1.05 * overhead(interrupts).min(overhead(polling)), "{ours}");
        let share = number(ours, "delay_us") / number(polling, "delay_us");
        assert!(
            (0.096..1.0).contains(&share) && number(ours, "delay_us") > 60.0 * number(interrupts, "delay_us")
        );
    }
    // A longer burst interval is more even at one target and not at the other.
    let deviations = |target: u64| -> Vec<f64> {
        let rows = rows_of("sim-pacing").into_iter().filter(|row| row["target_ns"] == target);
        rows.map(|row| number(&row, "stddev_us")).collect()
    };
    let (at_40, at_60) = (deviations(40_000), deviations(60_000));
    assert!(at_40[5] > 0.99 * at_40[0] && at_60[5] < 0.85 * at_60[0], "{at_40:?} {at_60:?}");
    let text = section(&object, "pacing")["figures"][1]["text"].as_str().unwrap();
    assert!(
        text.ends_with("gaps are more even at a target of 60µs, and no more even at a target of 40µs."),
        "{text}"
    );
    // The paper's own words are there.
    for figure in section(&object, "hip-tradeoffs")["figures"].as_array().unwrap() {
        assert_eq!(figure["series"][0]["name"], "2 to 3, the paper's good middle");
    }
}

/// The papers' headlines beside ours, each row of the soft-timers paper's.
#[test]
fn the_headlines_of_the_papers_stand_beside_ours() {
    let directory = Directory::new("headlines");
    let (_, object) = rendered(Path::new(SAVED), &directory, "--only summary");
    let rows = section(&object, "summary")["tables"][0]["rows"].as_array().unwrap();
    for (paper, here) in [
        // 474.8 ns and 19.62 µs, 50,000 times a second, by a doctor that gave no verdict.
        ("2 to 6% (soft timers, abstract and 5.6: packets near 1 Gbit/s, with sending)", "2.37% (not fit)"),
        ("13 to 36% (abstract, 5.6, 5.9)", "98.1% (not fit)"),
        ("3 to 25% (abstract, 5.8)", "up to 19.5%"),
        ("26.3% (Table XIII)", "34.1%"),
        ("all, and next to nothing (livelock paper, figures 2 and 6)", "81.8% and 100% (short run)"),
    ] {
        let row = rows.iter().find(|row| row[1] == paper).unwrap_or_else(|| panic!("no '{paper}'"));
        assert_eq!(row[2], here, "{paper}");
    }
}

/// The saved runs as a machine without disturbance would have left them, each method later than the one before it.
pub(super) fn fit(file: &str, run: &mut Value) {
    match file {
        "doctor.json" => {
            let doctor = &mut run["steps"][0]["outputs"]["doctor"];
            doctor["config"]["trial_s"] = json!(2.0);
            doctor["verdict"] =
                json!("a busy loop here gains from softtimers: soft (100% of the rate), against loop");
            for (at, cell) in doctor["pacing"].as_array_mut().unwrap().iter_mut().enumerate() {
                cell["cpu_share"] = json!(0.99);
                cell["late_ns"]["p99"] = json!(10_000 * (at + 1));
                cell["late"] = json!({});
            }
        }
        "bench-hybrid.json" | "bench-naive.json" => {
            run["steps"][0]["outputs"]["bench"]["config"]["trial_s"] = json!(1.0);
        }
        _ => {}
    }
}

/// The findings of a section against its own series: the named winner is the one the numbers have, and there is none where a
/// series is unfit.
fn check_findings(shown: &Value, at: f64) {
    let figures = shown["figures"].as_array().unwrap();
    for finding in shown["findings"].as_array().unwrap() {
        let text = finding["text"].as_str().unwrap();
        let figure = figures.iter().find(|figure| text.starts_with(figure["title"].as_str().unwrap()));
        let figure = figure.unwrap_or(&figures[0]);
        let series = figure["series"].as_array().unwrap();
        assert!(series.iter().all(|series| series["unfit"].is_null()), "{text}");
        let value = |series: &Value| {
            let points: Vec<[f64; 2]> = serde_json::from_value(series["points"].clone()).unwrap();
            if shown["name"] == "goodput" {
                // Each of these trials has less load by more than a tenth than the one above it.
                let peak = points.iter().map(|point| point[1]).fold(0.0, f64::max);
                let kept = points.iter().max_by(|a, b| a[0].total_cmp(&b[0])).unwrap()[1] / peak;
                let row = shown["tables"][0]["rows"].as_array().unwrap().iter();
                let row = row.clone().find(|row| row[0] == series["name"]).unwrap();
                let share = row[4].as_str().unwrap();
                assert!(text.contains(&format!("{} {share}", row[0].as_str().unwrap())), "{text}: {row}");
                assert!((share.trim_end_matches('%').parse::<f64>().unwrap() - 100.0 * kept).abs() < 0.1);
                -kept
            } else {
                points.iter().find(|point| point[0] == at).unwrap()[1]
            }
        };
        let best = series.iter().min_by(|a, b| value(a).total_cmp(&value(b))).unwrap();
        if let Some(winner) = finding["winner"].as_str() {
            assert_eq!(best["name"], winner, "{text}");
            assert!(text.contains(winner), "{text}");
        }
    }
}

/// Each contender in turn is disturbed, or was not tried.
#[test]
fn no_sentence_contradicts_its_table_whoever_was_disturbed_or_lost() {
    let sections = "--only lateness --only goodput";
    for (at, how) in (0..6).flat_map(|at| ["fit", "disturbed", "lost"].map(|how| (at, how))) {
        let directory = Directory::of_saved(&format!("turn-{at}-{how}"), |file, mut run| {
            fit(file, &mut run);
            if file == "doctor.json" {
                let cell = &mut run["steps"][0]["outputs"]["doctor"]["pacing"][at];
                match how {
                    "disturbed" => {
                        cell["busy"] = json!("echo");
                        cell["cpu_share"] = json!(0.3);
                        cell["late"] = json!({ "steal": { "count": 7, "longest_ns": 1 } });
                    }
                    "lost" => cell["not_made"] = json!("it broke off"),
                    _ => cell["late_ns"]["p99"] = json!(1_000),
                }
            }
            run
        });
        let (page, object) = rendered(&directory.0, &directory, sections);
        let shown = section(&object, "lateness");
        check_findings(shown, 0.99);
        let findings = shown["findings"].as_array().unwrap();
        match how {
            "disturbed" => {
                assert!(shown["unfit"].as_str().unwrap().contains("had its CPU for only 30%"), "{shown}");
                assert!(page.contains("Not fit for comparison.") && page.contains("-hatch"));
                assert!(findings.len() < 2, "{findings:?}");
            }
            "lost" => assert!(shown["lacks"].to_string().contains("it broke off")),
            _ => {
                assert!(shown["unfit"].is_null() && !page.contains("url(#"), "{}", shown["unfit"]);
                assert_eq!(findings.len(), 2, "{findings:?}");
                assert!(findings.iter().any(|finding| finding["winner"].is_string()));
            }
        }
    }
}

/// A share of what a receiver delivers is only named where both benches are fit.
#[test]
fn no_share_is_named_beside_a_bench_that_was_disturbed_or_lost() {
    let sections = "--only goodput";
    for unfit in ["bench-hybrid.json", "bench-naive.json"] {
        for lost in [false, true] {
            let directory = Directory::of_saved(&format!("{unfit}-{lost}"), |file, mut run| {
                fit(file, &mut run);
                if file == unfit {
                    run["steps"][0]["outputs"]["bench"]["machine"]["others_share"] = json!(0.22);
                }
                run
            });
            if lost {
                std::fs::remove_file(directory.file(unfit)).unwrap();
            }
            let (_, object) = rendered(&directory.0, &directory, sections);
            let shown = section(&object, "goodput");
            assert!(shown["findings"].as_array().unwrap().is_empty(), "{}", shown["findings"]);
            assert_eq!(shown["unfit"].is_null(), lost, "{}", shown["unfit"]);
        }
    }
    let directory = Directory::of_saved("all-fit", |file, mut run| {
        fit(file, &mut run);
        run
    });
    let (_, object) = rendered(&directory.0, &directory, sections);
    check_findings(section(&object, "goodput"), 0.0);
    assert_eq!(section(&object, "goodput")["findings"].as_array().unwrap().len(), 1);
}

/// Rates and losses are the two ends' own counts.
#[test]
fn the_path_is_shown_as_its_ends_counted_it() {
    let directory = Directory::new("ends");
    let (_, object) = rendered(Path::new(SAVED), &directory, "--only wan");
    let table = &section(&object, "wan")["tables"][0];
    let row =
        |label: &str| table["rows"].as_array().unwrap().iter().find(|row| row[0] == label).unwrap().clone();
    // 397 of 437 came; 242.5 packets a second of 1,028 bytes.
    let (loss, rate) = (row("loss 10 %"), row("rate 2 Mbit/s"));
    assert_eq!((&loss[7], &loss[8], &loss[9]), (&"9.15%".into(), &"437".into(), &"397".into()), "{loss}");
    assert_eq!((&rate[4], &rate[5]), (&"2".into(), &"1.99".into()), "{rate}");
    assert_eq!(row("delay 20 ms")[2], "14.6");
}

/// More CPUs than colours are told, and the paper's are another's than theirs.
#[test]
fn intervals_are_drawn_by_their_buckets_and_what_is_left_out_is_told() {
    let directory = Directory::of_saved("processors", |file, mut run| {
        if file == "probe.json" {
            let cpus = &mut run["steps"][0]["outputs"]["probe"]["cpus"];
            cpus[0]["interval_cdf"] =
                json!([{ "share": 0.2, "ns": 1_000 }, { "share": 0.9999, "ns": 9_000 }]);
            *cpus = (0..9)
                .map(|cpu| {
                    cpus[0]["cpu"] = json!(cpu);
                    cpus[0].clone()
                })
                .collect();
        }
        run
    });
    let (_, object) = rendered(&directory.0, &directory, "--only triggers");
    let shown = section(&object, "triggers");
    assert_eq!((&shown["state"], shown["lacks"].as_array().unwrap().len()), (&"partial".into(), 1));
    assert!(
        shown["lacks"][0].as_str().unwrap().ends_with("3 more are in the tables alone"),
        "{}",
        shown["lacks"]
    );
    let series = shown["figures"][0]["series"].as_array().unwrap();
    let mut colours: Vec<u64> = series.iter().map(|series| series["colour"].as_u64().unwrap()).collect();
    colours.dedup();
    assert_eq!((series.len(), colours.len()), (7, 7));
    assert_eq!(series[5]["points"], json!([[0.2, 1.0], [0.9999, 9.0]]));
    assert_eq!(series[6]["mark"], "paper");
    // The longest is a book's word and not in the paper's row.
    let paper = shown["tables"][0]["rows"].as_array().unwrap().iter().find(|row| row[1] == "31.6").unwrap();
    assert_eq!(paper[6], "–");
}

/// The verdict on the whole follows the verdicts of its runs.
#[test]
fn the_report_is_inconclusive_where_its_runs_are() {
    let directory = Directory::of_saved("doubts", |file, mut run| {
        fit(file, &mut run);
        if file == "doctor.json" {
            run["steps"][0]["outputs"]["doctor"]["inconclusive"] = json!("others used 22%");
        }
        run
    });
    let (_, object) = rendered(&directory.0, &directory, "--only lateness --only triggers");
    assert_eq!(object["inconclusive"], "not fit: doctor (others used 22%), probe");
    let (_, object) = rendered(&directory.0, &directory, "--only hip");
    assert_eq!(object["inconclusive"], Value::Null);
}

/// Medians beside each other, and a note where they are not as near as the legend says.
#[test]
fn wake_ups_are_compared_where_timers_are_as_late() {
    let directory = Directory::of_saved("as-late", |file, mut run| {
        if file == "rates.json" {
            for (rate, smart) in
                run["rates"].as_array_mut().unwrap().iter_mut().zip([5_000_000, 500_000, 150_000])
            {
                let half = rate["late_at_most_ns"].as_u64().unwrap() / 2;
                rate["smart_slack_ns"] = json!(half);
                rate["lateness_ns"]["p50"] = json!(half);
                rate["smart"]["lateness_ns"]["p50"] = json!(smart);
            }
        }
        run
    });
    let (_, object) = rendered(&directory.0, &directory, "--only overhead");
    let shown = section(&object, "overhead");
    assert_eq!(shown["figures"][0]["series"][1]["name"], "smart timers, slack of half a period");
    let notes: Vec<&str> = shown["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let apart: Vec<_> = notes.iter().filter(|note| note.starts_with("Not as late in this run")).collect();
    assert_eq!(apart.len(), 1, "{notes:?}");
    assert!(apart[0].contains("at 10000 Hz the median lateness of the two differs"), "{}", apart[0]);
}
