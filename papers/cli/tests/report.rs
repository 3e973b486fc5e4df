//! `report`: saved runs become a page that an independent reader finds well-formed, whatever is in them; what is not there
//! is said; and a run that is kept shows the same again.

#[path = "report/browser.rs"]
mod browser;
#[path = "report/claims.rs"]
mod claims;
mod common;
#[path = "report/first.rs"]
mod first;
#[path = "report/html.rs"]
mod html;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::{refusal, run, stderr};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::{Value, json};
use softtimers::{Clock, Monotonic};

/// Runs that were saved on some machine, cut short.
const SAVED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/runs");

/// A directory of its own, removed with what is in it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("softtimers-report-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    /// One with a copy of the saved runs, each as `change` leaves it.
    fn of_saved(name: &str, mut change: impl FnMut(&str, Value) -> Value) -> Self {
        let directory = Directory::new(name);
        for entry in fs::read_dir(SAVED).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap().to_owned();
            let value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            fs::write(directory.0.join(&file), change(&file, value).to_string()).unwrap();
        }
        directory
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Renders `from` with these flags; the page, and the object.
fn rendered(from: &Path, directory: &Directory, flags: &str) -> (String, Value) {
    let out = directory.file("page.html");
    let line = format!("report --from {} --out {} --force --json {flags}", from.display(), out.display());
    let output = run(&line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    let object = serde_json::from_slice(&output.stdout).unwrap();
    let kept = fs::read(out.with_extension("json")).unwrap();
    assert!(kept == output.stdout, "the file has what is printed");
    (fs::read_to_string(out).unwrap(), object)
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}"))
}

fn all<'a>(document: &'a Document<'_>, tag: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.has_tag_name(tag))
}

/// Rules for every page: unique ids, links that lead somewhere, nothing from elsewhere, nothing that runs.
fn check_page(page: &str) -> Document<'_> {
    html::check(page);
    let document = parsed(page);
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "an id is there twice");
    for node in document.descendants().filter(Node::is_element) {
        assert!(
            !["script", "iframe", "object", "embed", "img", "image", "use", "base", "form"]
                .contains(&node.tag_name().name())
        );
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on"), "{name}={value}");
            assert!(name != "src" && name != "style", "{name}={value}");
            // An icon that is none keeps a browser from asking for one.
            if name == "href" && value != "data:," {
                let target = value.strip_prefix('#').unwrap_or_else(|| panic!("a link to {value}"));
                assert!(unique.contains(target), "{value}");
            }
            if name == "aria-labelledby" {
                assert!(value.split(' ').all(|id| unique.contains(id)), "{value}");
            }
        }
    }
    let style: String = all(&document, "style").filter_map(|style| style.text()).collect();
    assert!(!style.contains("url(") && !style.contains("@import"), "{style}");
    document
}

/// Every picture says what it is, names its series, and has axes with units.
fn check_pictures(document: &Document<'_>) -> usize {
    let style: String = all(document, "style").filter_map(|style| style.text()).collect();
    let mut pictures = 0;
    for svg in all(document, "svg") {
        // Colours and dashes are the style sheet's.
        for class in svg.descendants().filter_map(|node| node.attribute("class")) {
            assert!(
                style.contains(&format!(".{class}{{")) || style.contains(&format!(".{class},")),
                "{class}"
            );
        }
        if svg.attribute("aria-hidden") == Some("true") {
            continue;
        }
        pictures += 1;
        let child =
            |tag: &str| svg.children().find(|node| node.has_tag_name(tag)).and_then(|node| node.text());
        let (title, text) = (child("title").expect("a title"), child("desc").expect("a text"));
        assert!(!title.is_empty() && text.len() > 60, "{title}: {text}");
        assert_eq!(svg.attribute("role"), Some("img"));
        let figure = svg.ancestors().find(|node| node.has_tag_name("figure")).expect("a figure");
        let words: Vec<&str> = figure
            .descendants()
            .filter(|node| {
                node.has_tag_name("text") || node.parent_element().is_some_and(|item| item.has_tag_name("li"))
            })
            .filter_map(|node| node.text())
            .map(str::trim)
            .collect();
        let with_unit = words.iter().filter(|word| word.ends_with(')') && word.contains(" (")).count();
        // Names have none.
        assert!(with_unit >= 1, "{title}: no units among {words:?}");
        // Each series stands in the legend, or on the axis; what is alone is named by title and axes.
        let head = figure.descendants().find(|node| node.has_tag_name("thead")).expect("the numbers");
        let names: Vec<&str> = head
            .descendants()
            .filter(|node| node.has_tag_name("th"))
            .skip(1)
            .filter_map(|th| th.text())
            .collect();
        for name in names.iter().filter(|_| names.len() > 1) {
            let series = name.rsplit_once(" (").map_or(*name, |(series, _)| series);
            assert!(words.contains(&series), "{title}: '{series}' is not in the legend {words:?}");
        }
    }
    pictures
}

#[test]
fn saved_runs_become_a_page_that_any_reader_can_read() {
    let directory = Directory::new("golden");
    let (page, object) = rendered(Path::new(SAVED), &directory, "");
    let document = check_page(&page);
    assert!(check_pictures(&document) > 30);
    let html = document.root_element();
    assert_eq!((html.tag_name().name(), html.attribute("lang")), ("html", Some("en")));
    assert!(!page.contains("://") && !page.contains("\"//"), "something from elsewhere");
    assert!(all(&document, "meta").any(|meta| meta.attribute("name") == Some("viewport")));
    // Headings descend one by one.
    let levels: Vec<u32> = document
        .descendants()
        .filter_map(|node| node.tag_name().name().strip_prefix('h')?.parse().ok())
        .collect();
    assert!(levels[0] == 1 && levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    // Each section says what it stands beside, and with which command it was made.
    let sections: Vec<Node> = all(&document, "section").collect();
    assert_eq!(sections.len(), object["sections"].as_array().unwrap().len());
    for (section, shown) in sections.iter().zip(object["sections"].as_array().unwrap()) {
        let text: String = section.descendants().filter_map(|node| node.text()).collect();
        for key in ["title", "papers"] {
            assert!(text.contains(shown[key].as_str().unwrap()), "{key} of {}", shown["name"]);
        }
        for command in
            shown["made"].as_array().unwrap().iter().flat_map(|made| made["steps"].as_array().unwrap())
        {
            assert!(text.contains(command[0].as_str().unwrap()), "{command}");
        }
        // The doctor had not tried a timer's signal.
        let state = if shown["name"] == "summary" { "partial" } else { "complete" };
        assert_eq!(shown["state"], state, "{}: {}", shown["name"], shown["lacks"]);
    }
    let markdown = fs::read_to_string(directory.file("page.md")).unwrap();
    assert!(markdown.contains("### Receive livelock") && markdown.contains("| 26.3% (Table XIII) | 34.1% |"));
    assert_eq!(object["schema"], "softtimers.report/2");
}

#[test]
fn only_what_is_asked_for_is_shown() {
    let directory = Directory::new("only");
    let (page, object) = rendered(Path::new(SAVED), &directory, "--only livelock");
    let document = check_page(&page);
    // The first of the six is also the first screen's.
    assert_eq!(check_pictures(&document), 7);
    let names: Vec<_> = all(&document, "section").filter_map(|section| section.attribute("id")).collect();
    assert_eq!(names, ["livelock"]);
    assert_eq!((&object["complete"], &object["config"]["sections"]), (&1.into(), &json!(["livelock"])));
    assert!(page.contains("1669") && page.contains("unmodified, no screend, paper"));
}

#[test]
fn a_partial_directory_shows_what_there_is_and_says_what_is_missing() {
    let directory = Directory::of_saved("partial", |_, run| run);
    for name in ["sim-hip-gamma", "sim-pacing", "noise"] {
        fs::remove_file(directory.file(&format!("{name}.json"))).unwrap();
    }
    let cut = fs::read(directory.file("wan.json")).unwrap();
    fs::write(directory.file("wan.json"), &cut[..cut.len() / 2]).unwrap();
    let refused = json!({ "label": "", "commands": ["softtimers probe"], "exit": 77, "said": "it needs CAP_BPF", "outputs": null });
    let probe = json!({ "schema": "softtimers.report.run/1", "steps": [refused] });
    fs::write(directory.file("probe.json"), probe.to_string()).unwrap();
    let (page, object) = rendered(&directory.0, &directory, "");
    check_pictures(&check_page(&page));
    let lacks = |name: &str| {
        let sections = object["sections"].as_array().unwrap();
        let section = sections.iter().find(|section| section["name"] == name).unwrap();
        (section["state"].as_str().unwrap(), section["lacks"][0].as_str().unwrap_or_default())
    };
    assert_eq!(lacks("pacing"), ("missing", "sim-pacing: not among the saved runs"));
    assert_eq!(lacks("hip-tradeoffs"), ("partial", "sim-hip-gamma: not among the saved runs"));
    assert_eq!(lacks("triggers"), ("missing", "probe: not possible on that machine: it needs CAP_BPF"));
    assert!(lacks("wan").1.starts_with("wan: the file is damaged: EOF"), "{:?}", lacks("wan"));
    assert_eq!(lacks("livelock").0, "complete");
    // What one figure of several is drawn of, and what one row of the summary needs.
    assert_eq!(lacks("summary").0, "partial");
    assert!(page.contains("it needs CAP_BPF") && page.contains("not run"));
}

/// A series or a row that is not there is told, also where the others are.
#[test]
fn what_is_missing_beside_what_is_there_is_told() {
    let directory = Directory::of_saved("beside", |file, mut run| {
        if file == "noise.json" {
            let printed = &mut run["steps"][0]["outputs"]["noise"];
            assert!(printed["slowdown"].is_array() && printed["p_delayed"].is_number());
            printed["slowdown"] = json!([]);
            printed["p_delayed"] = Value::Null;
        }
        run
    });
    let (_, object) = rendered(&directory.0, &directory, "--only noise --only summary");
    let sections = object["sections"].as_array().unwrap();
    let lacks = |at: usize| (sections[at]["state"].as_str().unwrap(), sections[at]["lacks"].to_string());
    assert!(lacks(0).0 == "partial" && lacks(0).1.contains("2 of 11 rows"), "{:?}", lacks(0));
    let told =
        "'Slowdown of a bulk-synchronous job by its nodes': no figures of this machine, ordinary class";
    assert!(lacks(1).0 == "partial" && lacks(1).1.contains(told), "{:?}", lacks(1));
    fs::remove_file(directory.file("sim-noise.json")).unwrap();
    let (_, object) = rendered(&directory.0, &directory, "--only noise");
    let lacks = object["sections"][0]["lacks"].to_string();
    assert!(lacks.contains("sim-noise: not among the saved runs"), "{lacks}");
}

/// Every text, every number and every structure of the saved runs is something else in turn.
#[test]
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn nothing_in_a_saved_run_breaks_a_page() {
    fn changed(value: Value, change: &dyn Fn(Value) -> Value) -> Value {
        change(match value {
            Value::Array(all) => Value::Array(all.into_iter().map(|value| changed(value, change)).collect()),
            Value::Object(all) => all.into_iter().map(|(key, value)| (key, changed(value, change))).collect(),
            value => value,
        })
    }
    const HOSTILE: &str =
        "</style></svg><script>alert(1)</script>]]>--><!--\u{0}\u{1b}[2J\u{202e}\"'&amp;`|\n# x";
    type Change = (&'static str, &'static dyn Fn(Value) -> Value);
    let changes: &[Change] = &[
        ("texts", &|value| if value.is_string() { HOSTILE.into() } else { value }),
        ("long texts", &|value| if value.is_string() { "µ<".repeat(5_000).into() } else { value }),
        ("huge numbers", &|value| if value.is_number() { json!(1.7e308) } else { value }),
        ("great numbers", &|value| if value.is_number() { json!(9e17) } else { value }),
        ("negative numbers", &|value| if value.is_number() { json!(-1e-300) } else { value }),
        ("zeros", &|value| if value.is_number() { json!(0) } else { value }),
        ("largest integers", &|value| if value.is_number() { json!(u64::MAX) } else { value }),
        ("words for numbers", &|value| if value.is_number() { "NaN".into() } else { value }),
        ("no numbers", &|value| if value.is_number() { Value::Null } else { value }),
        ("no lists", &|value| if value.is_array() { json!({ "0": value[0] }) } else { value }),
        ("empty lists", &|value| if value.is_array() { json!([]) } else { value }),
        ("lists of lists", &|value| if value.is_array() { json!([value, [1], {}]) } else { value }),
    ];
    for (name, change) in changes {
        // What tells a saved run from anything else stays, or nothing would be read.
        let kept = |_: &str, run: Value| {
            let steps: Value = run["steps"].as_array().map_or_else(
                || json!(null),
                |steps| {
                    let step = |step: &Value| {
                        let mut changed_step = changed(step.clone(), change);
                        if changed_step.is_object() {
                            changed_step["label"] = step["label"].clone();
                        }
                        changed_step
                    };
                    steps.iter().map(step).collect()
                },
            );
            json!({ "schema": run["schema"], "steps": steps, "rates": changed(run["rates"].clone(), change),
                    "machine": changed(run["machine"].clone(), change), "when": change(run["when"].clone()) })
        };
        let directory = Directory::of_saved(&name.replace(' ', "-"), kept);
        let (page, object) = rendered(&directory.0, &directory, "");
        check_page(&page);
        assert!(
            !page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'),
            "{name}"
        );
        assert_eq!(object["sections"].as_array().unwrap().len(), 21, "{name}");
        let markdown = fs::read_to_string(directory.file("page.md")).unwrap();
        assert!(!markdown.contains("<script") && !markdown.contains('\u{1b}'), "{name}");
    }
    // Not even an object.
    for (name, content) in
        [("null", "null"), ("text", "\"x\""), ("deep", &"[".repeat(100_000)), ("bytes", "\u{feff}{}")]
    {
        let directory = Directory::of_saved(name, |_, _| json!(null));
        fs::write(directory.file("doctor.json"), content).unwrap();
        let (page, object) = rendered(&directory.0, &directory, "");
        check_page(&page);
        assert_eq!(object["missing"], 21, "{name}");
    }
}

/// Only two sections, of simulations, so that it takes a second: what is kept shows the same again.
#[test]
fn runs_that_are_kept_show_the_same_again() {
    let directory = Directory::new("kept");
    let (runs, out) = (directory.file("runs"), directory.file("made.html"));
    let only = "--only callouts --only framerate";
    let line = format!(
        "report --quick {only} --run {} --out {} --assert complete==2",
        runs.display(),
        out.display()
    );
    let output = run(&line);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 of 2: sim-framerate\n2 of 2: sim-callout"), "{}", stderr(&output));
    let kept: BTreeSet<_> = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept, ["sim-callout.json", "sim-framerate.json"].map(Into::into).into());
    let envelope: Value =
        serde_json::from_str(&fs::read_to_string(runs.join("sim-callout.json")).unwrap()).unwrap();
    assert_eq!((&envelope["schema"], &envelope["quick"]), (&"softtimers.report.run/1".into(), &true.into()));
    assert_eq!(envelope["steps"][0]["commands"], json!(["softtimers sim callout --json"]));
    assert!(envelope["machine"]["kernel"].is_string() && envelope["when"].as_str().unwrap().ends_with('Z'));
    let (page, _) = rendered(&runs, &directory, only);
    assert!(page == fs::read_to_string(&out).unwrap(), "another page");
    // None of them is overwritten by accident, and nothing is measured before that is known.
    let again = refusal(&run(&line), 2);
    assert!(again.contains("made.html': exists; --force"), "{again}");
    fs::remove_file(&out).unwrap();
    let again = refusal(&run(&line), 2);
    assert!(again.contains("made.md': exists"), "{again}");
    assert!(!out.exists(), "what was not written is not left empty");
}

/// A source that fails is one reason, and the others are there.
#[test]
fn a_run_that_is_not_possible_is_told_and_the_others_are_made() {
    let directory = Directory::new("impossible");
    let out = directory.file("made.html");
    common::watch();
    // With so few descriptors that one process can just be run, a chain of three cannot.
    let within = |limit: u32| {
        let line = format!(
            "ulimit -n {limit}; exec \"$0\" report --quick --only framerate --only wan --out {} --force --json",
            out.display()
        );
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line, common::PROGRAM]).stdin(std::process::Stdio::null());
        let object: Value = serde_json::from_slice(&shell.output().unwrap().stdout).ok()?;
        (object["sections"][1]["state"] == "complete").then_some(object)
    };
    let object = (8..64).find_map(within).expect("one process can be run with 64 descriptors");
    let sections = object["sections"].as_array().unwrap();
    assert_eq!((&sections[0]["name"], &sections[1]["name"]), (&"wan".into(), &"framerate".into()));
    assert_eq!(sections[0]["state"], "missing", "{}", sections[0]["lacks"]);
    let lacks = sections[0]["lacks"].to_string();
    assert!(lacks.contains("Too many open files"), "{lacks}");
    assert_eq!((&object["complete"], &object["missing"]), (&1.into(), &1.into()));
    check_page(&fs::read_to_string(&out).unwrap());
}

/// A run of a minute is not waited for, whom the signal may have reached: the report of what was finished is written.
#[test]
fn a_signal_to_the_report_alone_ends_it_with_what_there_is() {
    use std::io::{BufRead, BufReader, Read};

    let directory = Directory::new("ended");
    let out = directory.file("made.html");
    common::watch();
    let mut report = std::process::Command::new(common::PROGRAM);
    report.args(["report", "--only", "noise", "--json", "--out"]).arg(&out);
    report.stdin(std::process::Stdio::null());
    report.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut report = report.spawn().unwrap();
    let begun = Monotonic.now();
    let mut said = String::new();
    BufReader::new(report.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "1 of 2: noise\n");
    let pid = rustix::process::Pid::from_child(&report);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut object = String::new();
    report.stdout.as_mut().unwrap().read_to_string(&mut object).unwrap();
    assert!(report.wait().unwrap().success());
    // 60,000 phases of a millisecond take longer on any machine.
    assert!(Monotonic.now().saturating_duration_since(begun) < std::time::Duration::from_secs(50));
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["inconclusive"], "ended by a signal after 0 of 2 runs");
    assert_eq!(object["missing"], 1);
    let text = object.to_string();
    assert!(
        text.contains("noise: not made: interrupted") && !text.contains("not among the saved runs"),
        "{text}"
    );
    check_page(&fs::read_to_string(&out).unwrap());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_measured() {
    let directory = Directory::new("refused");
    let saved = Directory::of_saved("refused-saved", |_, run| run);
    let own = |directory: &Directory| directory.0.file_name().unwrap().to_str().unwrap().to_owned();
    let out = directory.file("x.html");
    let from = |flags: &str| format!("--out {} {flags}", out.display());
    for (flags, message) in [
        (from("--from /nonexistent"), "--from '/nonexistent': No such file"),
        (
            from(&format!("--from {}", directory.0.display())),
            "no saved runs; softtimers report --run DIR makes them",
        ),
        (from("--only nonsense"), "invalid value 'nonsense' for '--only"),
        (from("--from x --run y"), "cannot be used with"),
        (from("--from x --quick"), "cannot be used with"),
        (from("--assert nonsense==1"), "no key nonsense"),
        ("--out /nonexistent/x.html".to_owned(), "--out '/nonexistent/x.html': No such file"),
        (
            format!("--from {0} --out {0}/../{1}/doctor.html --force", saved.0.display(), own(&saved)),
            "its doctor.json is a saved run",
        ),
        (
            format!("--run {0} --out {0}/wan.html", saved.0.display()),
            "its wan.json is a saved run; another name or another directory is needed",
        ),
        (format!("--out {}", directory.file("x.md").display()), "the name of the file of HTML"),
        ("--out -".to_owned(), "--out '-': three files are made, so it takes the name of one; --json prints"),
        (from("--only framerate --run /proc/x"), "--run '/proc/x'"),
    ] {
        let refused = refusal(&run(&format!("report {flags}")), 2);
        assert!(refused.contains(message), "{flags}: {refused}");
        assert!(!out.exists(), "{flags}");
    }
}
