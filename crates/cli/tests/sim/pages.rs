//! What rows of `docs/sim.md` and `docs/papers.md` say that experiments print is what the commands beside them print. Whole tables are
//! written by `softtimers-sim`'s test `pages`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::stdout;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
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

/// Each with a slash between, as percent without its sign, or as they are.
fn slashes(numbers: impl IntoIterator<Item = f64>) -> String {
    numbers.into_iter().map(whole).collect::<Vec<_>>().join(" / ")
}

fn greatest(numbers: &[f64]) -> usize {
    (0..numbers.len()).max_by(|&one, &other| numbers[one].total_cmp(&numbers[other])).unwrap()
}

#[test]
fn loss_free_rates_with_screend_are_what_the_flags_beside_them_print() {
    let [sim, papers] = ["sim.md", "papers.md"].map(page);
    let (_, section) = sim.split_once("`softtimers sim livelock-mlfrr --consumer screend`").unwrap();
    let lines: Vec<&str> = section.lines().filter(|line| line.starts_with("| `--kernel")).take(3).collect();
    let found = lines.iter().map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let flags = cells[0].trim_matches('`');
        let row = rows(&format!("softtimers sim livelock-mlfrr --consumer screend {flags}")).swap_remove(0);
        let of = |key: &str| whole(row[key].as_f64().unwrap());
        let beyond = match row["behaviour"].as_str().unwrap() {
            "livelock" => "livelock".to_owned(),
            _ => format!("flat {}", of("asymptote_pps")),
        };
        assert_eq!(cells[1], format!("{}, then {beyond}", of("mlfrr_pps")), "{flags}");
        of("mlfrr_pps")
    });
    let found: Vec<String> = found.collect();
    let [feedback, polled, unmodified] = &found[..] else { panic!("{lines:?}") };
    let text = format!(
        "up to {unmodified} packets/s there, the polled one up to {polled}, with feedback {feedback},"
    );
    assert!(papers.contains(&text), "papers.md: {text}");
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
    assert_eq!((lines.len(), flood.len(), steady.len()), (7, 21, 7));
    let of = |row: &Value, key: &str| row[key].as_f64().unwrap();
    for (at, line) in lines.iter().enumerate() {
        let mut cells = vec![of(&steady[at], "pollers").to_string()];
        cells.extend([0, 7, 14].map(|shared| whole(of(&flood[shared + at], "relayed_kpps"))));
        cells.push(format!("{:.1}%", 100.0 * of(&flood[at], "busiest")));
        cells.push(format!("{:.1}, {:.1}", of(&steady[at], "delay_us"), of(&steady[at], "p99_us")));
        assert_eq!(*line, format!("| {} |", cells.join(" | ")));
    }
}

/// The text under "ours", from the rows of the command beside it.
type Figure = fn(&[Value]) -> String;

/// In the order of the page.
const FIGURES: [(&str, Figure); 12] = [
    ("Figure 2: unmodified kernel, peak", |rows| whole(output(rows).into_iter().fold(0.0, f64::max))),
    ("the same, at 11,000 offered", |rows| whole(output(rows)[0])),
    ("the same with screend: livelock at", |rows| match output(rows)[..] {
        [at_6, at_7, 0.0] => {
            format!("{} are left at 6,000, {} at 7,000, none at 14,880", whole(at_6), whole(at_7))
        }
        ref other => format!("{other:?}"),
    }),
    ("Figure 5: without polling, at 11,000 offered", |rows| whole(output(rows)[0])),
    ("Figure 5: polled, quota of 5", |rows| whole(output(rows).into_iter().fold(f64::INFINITY, f64::min))),
    ("Figure 7: quota of 10 / 20 / 100 / none", |rows| slashes(output(rows))),
    ("§6.6.2: the best quota", |rows| whole(column(rows, "quota")[greatest(&output(rows))])),
    ("Figure 6: screend with feedback", |rows| whole(output(rows)[0])),
    ("Figure 10: user's share at limits of 25 / 50 / 75 / 100%", |rows| {
        slashes(column(rows, "user_share").into_iter().map(|share| 100.0 * share)) + "%"
    }),
    ("§4.3: first packet of a burst, for each other one", |rows| {
        let (bursts, first) = (column(rows, "burst"), column(rows, "first_us"));
        let last = rows.len() - 1;
        whole((first[last] - first[0]) / (bursts[last] - bursts[0])) + " µs"
    }),
    ("§4.4: transmit starvation by priority", |rows| {
        let (offered, left) = (column(rows, "offered_pps"), output(rows));
        let idle = 100.0 * column(rows, "starved")[0];
        format!(
            "{} of {} leave, the transmitter idle {idle:.1}% of the time; {} where it interrupts receiving",
            whole(left[0]),
            whole(offered[0]),
            whole(left[1])
        )
    }),
    ("§9: captures to disk go flat at", |rows| {
        let captured = column(rows, "captured_pps");
        let most = captured[greatest(&captured)];
        let flat = captured.iter().position(|&rate| rate > 0.999 * most).unwrap();
        let sent = rows[flat]["rate_pps"].as_f64().unwrap();
        format!("{} sent, {} captured", whole(sent), whole(most))
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
