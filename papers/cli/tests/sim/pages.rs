//! What rows of `papers/docs/sim.md` and `papers/docs/papers.md` say that experiments print is what the commands beside them print. Whole tables are
//! written by `softtimers-sim`'s test `pages`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::stdout;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).unwrap()
}

/// The rows that a command line prints, which begins with the name of the command.
fn rows(command: &str) -> Vec<Value> {
    let words = command.strip_prefix("softtimers ").unwrap_or_else(|| panic!("no command: {command}"));
    let mut object: Value = serde_json::from_str(&stdout(&format!("{words} --json"))).unwrap();
    let Value::Array(rows) = object["rows"].take() else { panic!("{command}: no rows") };
    rows
}

fn column(rows: &[Value], key: &str) -> Vec<f64> {
    rows.iter().map(|row| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))).collect()
}

/// Writes `4022.0` as `4,022`.
fn whole(number: f64) -> String {
    // Half to even, as every table of the command rounds.
    let digits = format!("{number:.0}");
    match digits.len().checked_sub(3).filter(|&at| at > 0) {
        Some(at) => format!("{},{}", &digits[..at], &digits[at..]),
        None => digits,
    }
}

fn output(rows: &[Value]) -> Vec<f64> {
    column(rows, "output_pps")
}

/// The mean of a cell, with half its 95% interval where that has a digit other than zero.
fn mean(row: &Value, key: &str, unit: f64, digits: usize) -> String {
    let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}")) / unit;
    let written = |number: f64| if digits == 0 { whole(number) } else { format!("{number:.digits$}") };
    let (mean, half) = (written(of(key)), written(of(&format!("{key}_ci95"))));
    if half.chars().all(|digit| matches!(digit, '0' | '.')) { mean } else { format!("{mean} ± {half}") }
}

/// Of one row, packets a second that left.
fn left(row: &Value) -> String {
    mean(row, "output_pps", 1.0, 0)
}

fn greatest(numbers: &[f64]) -> usize {
    (0..numbers.len()).max_by(|&one, &other| numbers[one].total_cmp(&numbers[other])).unwrap()
}

fn least(numbers: &[f64]) -> usize {
    (0..numbers.len()).min_by(|&one, &other| numbers[one].total_cmp(&numbers[other])).unwrap()
}

/// What each row says, with a slash between.
fn slashes(rows: &[Value], says: fn(&Value) -> String) -> String {
    rows.iter().map(says).collect::<Vec<_>>().join(" / ")
}

#[test]
fn loss_free_rates_with_screend_are_what_the_flags_beside_them_print() {
    let sim = page("sim.md");
    let command = "softtimers sim livelock-mlfrr --consumer screend --seeds 20";
    let (_, section) = sim.split_once(&format!("`{command}`")).unwrap();
    let lines: Vec<&str> = section.lines().filter(|line| line.starts_with("| `--kernel")).take(3).collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let flags = cells[0].trim_matches('`');
        let row = rows(&format!("{command} {flags}")).swap_remove(0);
        let of = |key: &str| mean(&row, key, 1.0, 0);
        // All seeds say the same.
        let beyond = match row["behaviour"].as_str().unwrap() {
            "livelock" => "livelock".to_owned(),
            "realisable" => format!("flat {}", of("asymptote_pps")),
            other => panic!("{flags}: {other}"),
        };
        assert_eq!(cells[1], format!("{}, then {beyond}", of("mlfrr_pps")), "{flags}");
    }
}

#[test]
fn the_relays_table_is_what_its_commands_print() {
    let page = page("sim.md");
    let (_, section) = page.split_once("## A relay on N CPUs").unwrap();
    let commands: Vec<&str> =
        section.lines().filter(|line| line.starts_with("softtimers sim relay")).collect();
    let (flood, steady) = (rows(commands[0]), rows(commands[1]));
    let lines: Vec<&str> = section
        .lines()
        .skip_while(|line| !line.starts_with("| 1 |"))
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert_eq!((lines.len(), flood.len(), steady.len()), (4, 12, 4));
    for (at, line) in lines.iter().enumerate() {
        let mut cells = vec![steady[at]["pollers"].to_string()];
        cells.extend([0, 4, 8].map(|shared| mean(&flood[shared + at], "relayed_kpps", 1.0, 0)));
        cells.push(mean(&flood[at], "busiest", 0.01, 1) + "%");
        cells.push(["delay_us", "p99_us"].map(|key| mean(&steady[at], key, 1.0, 1)).join(", "));
        assert_eq!(*line, format!("| {} |", cells.join(" | ")));
    }
}

/// The text under "ours", from the rows of the command beside it.
type Figure = fn(&[Value]) -> String;

/// In the order of the page.
const FIGURES: [(&str, Figure); 12] = [
    ("Figure 2: unmodified kernel, peak", |rows| left(&rows[greatest(&output(rows))])),
    ("the same, at 11,000 offered", |rows| left(&rows[0])),
    ("the same with screend: livelock at", |rows| {
        let [at_6, at_7, at_most] = [0, 1, 2].map(|at| left(&rows[at]));
        assert_eq!(at_most, "0");
        format!("{at_6} are left at 6,000, {at_7} at 7,000, none at 14,880")
    }),
    ("Figure 5: without polling, at 11,000 offered", |rows| left(&rows[0])),
    ("Figure 5: polled, quota of 5", |rows| left(&rows[least(&output(rows))])),
    ("Figure 7: quota of 10 / 20 / 100 / none", |rows| slashes(rows, left)),
    ("§6.6.2: the best quota", |rows| whole(column(rows, "quota")[greatest(&output(rows))])),
    ("Figure 6: screend with feedback", |rows| left(&rows[0])),
    ("Figure 10: user's share at limits of 25 / 50 / 75 / 100%", |rows| {
        slashes(rows, |row| mean(row, "user_share", 0.01, 0)) + "%"
    }),
    ("§4.3: first packet of a burst, for each other one", |rows| {
        let (bursts, first) = (column(rows, "burst"), column(rows, "first_us"));
        let last = rows.len() - 1;
        whole((first[last] - first[0]) / (bursts[last] - bursts[0])) + " µs"
    }),
    ("§4.4: transmit starvation by priority", |rows| {
        format!(
            "{} of {} leave, the transmitter idle {}% of the time; {} where it interrupts receiving",
            left(&rows[0]),
            mean(&rows[0], "offered_pps", 1.0, 0),
            mean(&rows[0], "starved", 0.01, 1),
            left(&rows[1])
        )
    }),
    ("§9: captures to disk go flat at", |rows| {
        let captured = column(rows, "captured_pps");
        let most = captured[greatest(&captured)];
        let flat = captured.iter().position(|&rate| rate > 0.999 * most).unwrap();
        let sent = rows[flat]["rate_pps"].as_f64().unwrap();
        format!("{} sent, {} captured", whole(sent), mean(&rows[greatest(&captured)], "captured_pps", 1.0, 0))
    }),
];

#[test]
fn the_papers_figures_are_what_the_commands_beside_them_print() {
    let page = page("papers.md");
    let (_, section) = page.split_once("## Receive livelock").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let lines = section.lines();
    let simulated = lines.filter(|line| line.contains("`softtimers sim livelock"));
    let mut compared = 0;
    for (line, (label, figure)) in simulated.zip(FIGURES) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [of, _, ours, command] = cells[..] else { panic!("{line}") };
        assert_eq!(of.trim_end_matches([' ', '†', '‡']), label);
        let found = rows(command.trim_matches('`'));
        assert_eq!(ours, figure(&found), "{of}");
        compared += 1;
    }
    assert_eq!(compared, FIGURES.len());
    assert_eq!(section.matches("`softtimers sim livelock").count(), FIGURES.len(), "a row without a test");
}
