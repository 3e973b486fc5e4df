//! What stands above the figures is held against them: the sentences by which a reader goes, in the saved runs and in runs
//! that are otherwise.

use std::path::Path;

use serde_json::{Value, json};

use super::{Directory, SAVED, rendered};

fn section<'a>(object: &'a Value, name: &str) -> &'a Value {
    let sections = object["sections"].as_array().unwrap();
    sections.iter().find(|section| section["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

fn see<'a>(object: &'a Value, name: &str) -> &'a str {
    section(object, name)["see"].as_str().unwrap()
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
    for shown in object["sections"].as_array().unwrap() {
        // These were made on a machine with no processor to spare, where every method fell behind.
        let otherwise = ["lateness", "lateness-cpu"].contains(&shown["name"].as_str().unwrap());
        assert_eq!(shown["contradicted"].is_string(), otherwise, "{}: {}", shown["name"], shown["see"]);
        assert_eq!(shown["see"].as_str().unwrap().starts_with("Not in this run: "), otherwise);
    }
    // "At most about as much as the cheaper of interrupts and polling", "a tenth to all of what polling waits".
    assert!(see(&object, "hip").contains("a tenth to all of what polling waits"), "{}", see(&object, "hip"));
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
    // "Two phases of three of a job of a thousand".
    let delayed = 1.0 - 0.999f64.powi(1_000);
    assert!((delayed - 2.0 / 3.0).abs() < 0.04 && see(&object, "noise").contains("two phases of three"));
    // A longer burst interval is more even at one target and not at the other.
    let deviations = |target: &str| -> Vec<f64> {
        let rows = rows_of("sim-pacing").into_iter().filter(|row| row["target"] == target);
        rows.map(|row| number(&row, "stddev_us")).collect()
    };
    let (at_40, at_60) = (deviations("40us"), deviations("60us"));
    assert!(at_40[5] > 0.99 * at_40[0] && at_60[5] < 0.85 * at_60[0], "{at_40:?} {at_60:?}");
    let text = section(&object, "pacing")["figures"][1]["text"].as_str().unwrap();
    assert!(
        text.ends_with("gaps are more even at a target of 60us, and no more even at a target of 40us."),
        "{text}"
    );
    // The paper's own words are there, and how much of the fall is had is counted.
    assert!(see(&object, "hip-tradeoffs").ends_with("the paper finds 2 to 3 a good middle for both."));
    let had = section(&object, "hip-tradeoffs")["tables"].as_array().unwrap();
    let phi =
        had.iter().find(|table| table["title"].as_str().unwrap().ends_with("fall each phi has")).unwrap();
    let first = phi["rows"][0].as_array().unwrap();
    // T-High-1 falls from 1.10 to 0.87; 1.03 at 1.
    assert_eq!((first[0].as_str(), first[1].as_str()), (Some("t-high-1"), Some("30.4%")), "{first:?}");
}

/// The papers' headlines beside ours, each row of the soft-timers paper's.
#[test]
fn the_headlines_of_the_papers_stand_beside_ours() {
    let directory = Directory::new("headlines");
    let (_, object) = rendered(Path::new(SAVED), &directory, "--only summary");
    let rows = section(&object, "summary")["tables"][0]["rows"].as_array().unwrap();
    for (paper, here) in [
        // 474.8 ns and 19.62 µs, 50,000 times a second.
        ("2 to 6% (soft timers, abstract and 5.6: packets near 1 Gbit/s, with sending)", "2.37%"),
        ("13 to 36% (abstract, 5.6, 5.9)", "98.1%"),
        ("3 to 25% (abstract, 5.8)", "up to 19.5%"),
        ("26.3% (Table XIII)", "34.1%"),
        ("all, and next to nothing (livelock paper, figures 2 and 6)", "100%, and 87.7%"),
    ] {
        let row = rows.iter().find(|row| row[1] == paper).unwrap_or_else(|| panic!("no '{paper}'"));
        assert_eq!(row[2], here, "{paper}");
    }
    // What to see says it in words: an eighth to a third.
    assert!(see(&object, "summary").contains("an eighth to a third"), "{}", see(&object, "summary"));
    assert!((0.13 - 1.0 / 8.0f64).abs() < 0.01 && (0.36 - 1.0 / 3.0f64).abs() < 0.03);
}

type Change = fn(&mut Value);

/// A run that has something else than the sentence says so, and what.
#[test]
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn a_run_that_contradicts_its_sentence_says_so() {
    fn set(run: &mut Value, wanted: &[(&str, Value)], key: &str, to: Value) {
        let rows = run["steps"][0]["outputs"]["sim"]["rows"].as_array_mut().unwrap();
        let row = rows.iter_mut().rfind(|row| wanted.iter().all(|(key, value)| row[*key] == *value));
        row.expect("such a row")[key] = to;
    }
    let changes: &[(&str, &str, Change, &str)] = &[
        (
            "doctor",
            "costs",
            |run| run["steps"][0]["outputs"]["doctor"]["costs"]["turn_ns"] = json!(4_000),
            "a look cost 4000 ns",
        ),
        (
            "slack",
            "slack",
            |run| run["steps"][3]["outputs"]["send"]["wakeups"] = json!(5_000),
            "and the most 5000",
        ),
        (
            "probe",
            "triggers",
            |run| run["steps"][0]["outputs"]["probe"]["cpus"][0]["interval_ns"]["p50"] = json!(20_000),
            "the median on processor 0 is 20 µs",
        ),
        (
            "bench-hybrid",
            "goodput",
            |run| run["steps"][0]["outputs"]["bench"]["curve"]["behaviour"] = json!("livelock"),
            "with quotas 100% of the peak",
        ),
        (
            "bench-hybrid",
            "goodput",
            |run| run["steps"][0]["outputs"]["bench"]["curve"]["asymptote_share"] = json!(0.4955),
            "with quotas 49.5% of the peak",
        ),
        (
            "wan",
            "wan",
            |run| run["steps"][1]["outputs"]["recv"]["received"] = json!(437),
            "'loss 10 %' 0% of the packets were lost",
        ),
        (
            "rates",
            "overhead",
            |run| run["rates"][2]["cpu_share"] = json!(0.001),
            "the fastest tick took 0.1% of",
        ),
        (
            "sim-pacing",
            "pacing",
            |run| set(run, &[("target", json!("40us")), ("burst", json!("12us"))], "mean_us", json!(50)),
            "a target of 40us comes to 50 µs",
        ),
        (
            "sim-slowstart",
            "slowstart",
            |run| set(run, &[("packets", json!(100))], "reduction_delayed", json!(0.5)),
            "50% is left of it",
        ),
        (
            "sim-deadline",
            "deadline",
            |run| set(run, &[("deadline", json!("1ms"))], "expired", json!(0.4)),
            "a later deadline expires more often",
        ),
        (
            "sim-polling",
            "polling",
            |run| set(run, &[("quota", json!(5))], "gain", json!(0.01)),
            "five packets take 1% of 19.5% with flash",
        ),
        (
            "sim-livelock",
            "livelock",
            |run| set(run, &[("series", json!("polling with feedback, screend"))], "output_pps", json!(0)),
            "with feedback 0% of the peak is left",
        ),
        (
            "sim-hip",
            "hip",
            |run| set(run, &[("scheme", json!("hip"))], "overhead_us", json!(9)),
            "it costs 9 µs on t-low-2",
        ),
        (
            "sim-hip",
            "hip",
            |run| set(run, &[("scheme", json!("hip"))], "delay_us", json!(5_000)),
            "of what polling waits on t-low-2",
        ),
        (
            "sim-hip-phi",
            "hip-tradeoffs",
            |run| set(run, &[("source", json!("t-low-1"))], "overhead_us", json!(9)),
            "overhead on t-low-1 does not fall with each phi",
        ),
        (
            "sim-callout",
            "callouts",
            |run| set(run, &[("kernel", json!("hash"))], "set_cancel_us", json!(900)),
            "'hash' costs 134.3 µs without",
        ),
        (
            "sim-framerate",
            "framerate",
            |run| set(run, &[("hz", json!("smart"))], "achieved_fps", json!(50)),
            "smart timers show 83.3% of them",
        ),
    ];
    for &(source, name, change, instead) in changes {
        let directory = Directory::of_saved(&format!("otherwise-{name}"), |file, mut run| {
            if file == format!("{source}.json") {
                change(&mut run);
            }
            run
        });
        let (page, object) = rendered(&directory.0, &directory, &format!("--only {name}"));
        let shown = section(&object, name);
        let (see, why) = (see(&object, name), shown["contradicted"].as_str().unwrap_or_default());
        assert!(why.contains(instead), "{name}: '{why}' is not '{instead}'");
        assert!(see.starts_with("Not in this run: ") && see.ends_with(&format!(" Here {why}.")), "{see}");
        assert!(page.contains("Not in this run: "), "{name}");
    }
}

/// The other way round: on a machine that keeps up, what the saved runs contradict is so.
#[test]
fn a_run_that_agrees_has_the_sentence_as_it_is() {
    let directory = Directory::of_saved("agrees", |file, mut run| {
        if file == "doctor.json" {
            for cell in run["steps"][0]["outputs"]["doctor"]["pacing"].as_array_mut().unwrap() {
                let (method, load) = (cell["method"].as_str().unwrap(), cell["busy"].as_str().unwrap());
                let (late, share) = match (method, load) {
                    ("soft", _) | (_, "none") => (3_000, 0.99),
                    _ => (900_000, 0.3),
                };
                (cell["late_ns"]["p50"], cell["cpu_share"]) = (json!(late), json!(share));
            }
        }
        run
    });
    let (_, object) = rendered(&directory.0, &directory, "--only lateness --only lateness-cpu --only gaps");
    for name in ["lateness", "lateness-cpu"] {
        assert!(section(&object, name)["contradicted"].is_null(), "{}", see(&object, name));
    }
    // Even streams stand upright at a target that is drawn.
    let series = &section(&object, "gaps")["figures"][0]["series"][0];
    assert_eq!((&series["name"], &series["mark"]), (&"the target, 40 µs".into(), &"rule".into()));
    assert_eq!(series["points"], json!([[40.0, 0.0], [40.0, 100.0]]));
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

/// More processors than colours are told, and the paper's are another's than theirs.
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

/// What runs say against their figures is what the whole says.
#[test]
fn the_report_is_inconclusive_where_its_runs_are() {
    let directory = Directory::of_saved("doubts", |file, mut run| {
        match file {
            "doctor.json" => run["steps"][0]["outputs"]["doctor"]["inconclusive"] = json!("others used 22%"),
            "probe.json" => run["steps"][0]["outputs"]["probe"]["inconclusive"] = json!("7% were stolen"),
            _ => {}
        }
        run
    });
    let (_, object) = rendered(&directory.0, &directory, "");
    assert_eq!(object["inconclusive"], "doctor: others used 22%; inconclusive as well: probe");
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
    assert_eq!(shown["figures"][0]["series"][1]["name"], "smart timers, as late at the median");
    let notes: Vec<&str> = shown["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let apart: Vec<_> = notes.iter().filter(|note| note.starts_with("Not as late in this run")).collect();
    assert_eq!(apart.len(), 1, "{notes:?}");
    assert!(
        apart[0]
            .contains("at 10000 Hz the tick's timers are 50 µs late at the median, the smart ones 150 µs")
    );
    // Runs of before had a whole period as slack and say so.
    let (_, object) = rendered(Path::new(SAVED), &directory, "--only overhead");
    let name = &section(&object, "overhead")["figures"][0]["series"][1]["name"];
    assert_eq!(name, "smart timers with a slack of a period");
}
