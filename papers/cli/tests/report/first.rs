//! The first screen says what the sections below say and no more, whether all runs are fit, some, or none.

use serde_json::{Value, json};

use super::claims::{fit, section};
use super::{Directory, check_page, check_pictures, rendered};

/// Saved runs without disturbance, as `change` leaves them; the page, and the object.
fn shown(name: &str, flags: &str, change: impl Fn(&str, &mut Value)) -> (String, Value) {
    let directory = Directory::of_saved(name, |file, mut run| {
        fit(file, &mut run);
        change(file, &mut run);
        run
    });
    let (page, object) = rendered(&directory.0, &directory, flags);
    check_pictures(&check_page(&page));
    (page, object)
}

fn printed<'a>(run: &'a mut Value, command: &str) -> &'a mut Value {
    &mut run["steps"][0]["outputs"][command]
}

fn verdict(object: &Value) -> &str {
    object["overview"]["verdict"].as_str().unwrap()
}

/// The numbers are cells of the summary's table, in its order, marked as they are there.
fn check_numbers(object: &Value, count: usize) {
    let rows = section(object, "summary")["tables"][0]["rows"].as_array().unwrap();
    let cells: Vec<(&Value, &str)> = rows
        .iter()
        .map(|row| (&row[0], row[2].as_str().unwrap()))
        .filter(|(_, here)| *here != "not run")
        .collect();
    let numbers = object["overview"]["numbers"].as_array().unwrap();
    assert_eq!(numbers.len(), count, "{numbers:?}");
    for (number, (what, cell)) in numbers.iter().zip(cells) {
        assert_eq!(&number["what"], what);
        let mark = match &number["unfit"] {
            Value::Null => "",
            reason if reason["short"] == true => " (short run)",
            _ => " (not fit)",
        };
        assert_eq!(cell, format!("{}{mark}", number["here"].as_str().unwrap()));
    }
}

const THREE: &str = "--only summary --only lateness --only goodput";

#[test]
fn where_all_runs_are_fit_the_doctor_has_the_word() {
    let (page, object) = shown("first-fit", THREE, |file, run| {
        // The summary is of these as well.
        match file {
            "probe.json" => printed(run, "probe")["config"]["duration_s"] = json!(20.0),
            "noise.json" => printed(run, "noise")["config"]["phases"] = json!(60_000),
            _ => {}
        }
    });
    assert_eq!(
        verdict(&object),
        "A busy loop here gains from softtimers. Every measured run is fit for comparison."
    );
    assert_eq!(object["overview"]["picture"], json!(["lateness", 0]));
    assert_eq!(object["overview"]["fit"], true);
    check_numbers(&object, 3);
    assert!(!page.contains("not fit") && !page.contains("short run"));
    assert_eq!(page.matches("<h1>").count(), 1);
    // The verdict comes before the numbers, and the numbers before the picture.
    let at = |what: &str| page.find(what).unwrap();
    assert!(at("class=\"verdict\"") < at("class=\"numbers\"") && at("class=\"numbers\"") < at("<figure>"));
}

/// A contender that was disturbed is no longer the picture, its run is named, and its numbers are marked.
#[test]
fn where_a_run_is_not_fit_the_first_screen_says_so() {
    let (page, object) = shown("first-some", "--only lateness --only goodput --only summary", |file, run| {
        if file == "doctor.json" {
            printed(run, "doctor")["machine"]["others_share"] = json!(0.3);
        }
    });
    assert!(!verdict(&object).contains("gains from softtimers"), "{}", verdict(&object));
    assert!(
        verdict(&object).contains("doctor (other programs used 30% of the CPU time)"),
        "{}",
        verdict(&object)
    );
    assert_eq!(object["overview"]["picture"], json!(["goodput", 0]));
    check_numbers(&object, 3);
    assert_eq!(object["overview"]["numbers"][0]["unfit"]["short"], false);
    assert!(page.contains("(not fit)"));
}

#[test]
fn where_nothing_is_fit_nothing_is_compared() {
    let (page, object) = shown("first-none", "--only lateness --only goodput", |file, run| {
        for command in ["doctor", "bench"] {
            if file.starts_with(command) {
                printed(run, command)["machine"]["steal_share"] = json!(0.2);
            }
        }
    });
    let said = "Nothing measured is fit for comparison, so nothing measured is compared; not fit: doctor (the host took 20% of the CPU time), bench-hybrid, bench-naive.";
    assert_eq!(verdict(&object), said);
    assert_eq!(
        (&object["overview"]["fit"], &object["overview"]["picture"]),
        (&json!(false), &json!(["lateness", 0]))
    );
    let sections = object["sections"].as_array().unwrap();
    assert!(sections.iter().all(|section| section["findings"] == json!([])));
    // The picture is grey on a hatched ground, on the first screen and in its section, and the same in all.
    assert!(
        page.contains("first-hatch") && page.contains("lateness-1-hatch") && page.contains("goodput-1-hatch")
    );
    assert!(!page.contains("class=\"s0\""), "a series in colour");
}

/// A quick run is neither a verdict nor a fault: it is drawn in colour, labelled, and nothing of it is compared.
#[test]
fn a_quick_run_shows_shapes_in_colour_and_compares_nothing() {
    let (page, object) = shown("first-quick", THREE, |file, run| match file {
        "doctor.json" => printed(run, "doctor")["config"]["trial_s"] = json!(0.225),
        "bench-hybrid.json" | "bench-naive.json" => printed(run, "bench")["config"]["trial_s"] = json!(0.1),
        _ => {}
    });
    let said = "A quick run: it shows shapes and compares nothing, because its trials are short.";
    assert_eq!(verdict(&object), said);
    assert!(!page.contains("-hatch") && page.contains("class=\"s0\""), "grey");
    for name in ["lateness", "goodput"] {
        let shown = section(&object, name);
        assert_eq!((&shown["short"], &shown["findings"]), (&json!(true), &json!([])), "{name}");
        assert!(shown["unfit"].as_str().unwrap().contains("too short"), "{name}");
    }
    check_numbers(&object, 3);
    assert!(page.contains("(short run)"));
}

/// A run that is short and was disturbed as well is drawn grey.
#[test]
fn a_quick_run_that_was_disturbed_is_not_fit() {
    let (page, object) = shown("first-both", "--only lateness", |file, run| {
        if file == "doctor.json" {
            printed(run, "doctor")["config"]["trial_s"] = json!(0.225);
            printed(run, "doctor")["machine"]["steal_share"] = json!(0.2);
        }
    });
    assert!(verdict(&object).starts_with("Nothing measured is fit"), "{}", verdict(&object));
    assert!(page.contains("-hatch") && section(&object, "lateness")["short"] == false);
}

/// A figure that was lost is not on the first screen, and nothing takes its place unsaid.
#[test]
fn what_was_lost_is_not_on_the_first_screen() {
    let (_, object) = shown("first-lost", "--only lateness --only livelock --only summary", |file, run| {
        if file == "doctor.json" {
            run["steps"][0] = json!({ "label": "", "exit": 1, "said": "out of memory", "outputs": null });
        }
        if file == "probe.json" || file == "noise.json" || file.starts_with("bench") {
            *run = json!(null);
        }
    });
    let said = "Nothing measured is fit for comparison, so nothing measured is compared; not fit: doctor (broke off: out of memory), bench-hybrid,";
    assert!(verdict(&object).starts_with(said), "{}", verdict(&object));
    assert_eq!(object["overview"]["picture"], json!(["livelock", 0]));
    check_numbers(&object, 3);
    let (_, object) = shown("first-simulated", "--only livelock", |_, _| {});
    assert_eq!(verdict(&object), "Nothing was measured; simulated figures are the same on every machine.");
    assert_eq!(object["overview"]["numbers"], json!([]));
}
