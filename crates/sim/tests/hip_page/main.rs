//! The figures of `docs/hip.md` that chance has a part in: means of 20 seeds, with half their 95% intervals.
//!
//! `cargo xtask papers` writes them anew.

mod answers;
mod granularity;
mod others;
mod parameters;
mod table_3;

use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::time::Duration;

use softtimers_sim::{
    Mean, Parameters, Part, PointError, PointRows, Row, Runs, Setting, Sweep, Value, Watch, experiments,
};

/// A part of the page: the name between its marks, and who writes it.
type Block = (&'static str, fn() -> String);

const BLOCKS: [Block; 10] = [
    ("table 3", table_3::table),
    ("inside", table_3::inside),
    ("schemes", table_3::schemes),
    ("soft", granularity::soft),
    ("ticks", granularity::ticks),
    ("fall", parameters::fall),
    ("readings", answers::readings),
    ("bursts", parameters::bursts),
    ("recordings", others::recordings),
    ("server", others::server),
];

#[test]
fn the_page_is_what_twenty_seeds_give() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hip.md");
    // A crate from a registry has no pages.
    let Ok(page) = fs::read_to_string(&file) else { return };
    let rendered = BLOCKS.iter().fold(page.clone(), |page, (name, block)| {
        let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
        let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("docs/hip.md: no {begin}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/hip.md: no {end}"));
        format!("{before}{begin}\n{}\n{end}{after}", block())
    });
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &rendered).expect("the page can be written");
        return;
    }
    for (number, (now, wanted)) in page.lines().zip(rendered.lines()).enumerate() {
        assert_eq!(now, wanted, "docs/hip.md, line {}: cargo xtask papers", number + 1);
    }
    assert_eq!(page.lines().count(), rendered.lines().count(), "docs/hip.md: cargo xtask papers");
}

const SEEDS: u32 = 20;

/// A parameter that is not at its default.
type Flag = (&'static str, Setting);

fn word(name: &'static str, word: &'static str) -> Flag {
    (name, Setting::Choice(word))
}

fn micros(name: &'static str, micros: u64) -> Flag {
    (name, Setting::Time(Duration::from_micros(micros)))
}

fn real(name: &'static str, number: f64) -> Flag {
    (name, Setting::Real(number))
}

/// The rows of `softtimers sim hip` with these flags and `--seeds 20`.
fn means(flags: &[Flag]) -> Vec<Row> {
    rows("hip", flags, 1, SEEDS)
}

/// The rows of an experiment with these flags, `--seed` and `--seeds`.
fn rows(experiment: &str, flags: &[Flag], seed: u64, seeds: u32) -> Vec<Row> {
    let experiment = experiments::find(experiment).expect("it is in the list");
    let set = |parameters: Parameters, (name, setting): &Flag| parameters.with(name, setting.clone());
    let parameters = flags.iter().fold(Parameters::new(experiment.parameters), set);
    let runs = Runs { seed, seeds: NonZeroU32::new(seeds).expect("some"), ..Runs::default() };
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut rows = vec![];
    let keep = |found: PointRows| {
        rows.extend(found.rows);
        Ok::<_, PointError>(())
    };
    Sweep::new(experiment, parameters, vec![], runs)
        .run(Part::default(), threads, &Watch::new(), keep)
        .expect("a possible run");
    rows
}

/// The cell of a row of `softtimers sim hip`.
fn cell<'a>(row: &'a Row, name: &str) -> &'a Value {
    of("hip", row, name)
}

fn of<'a>(experiment: &str, row: &'a Row, name: &str) -> &'a Value {
    let columns = experiments::find(experiment).expect("it is in the list").columns;
    &row[columns.iter().position(|column| column.name == name).unwrap_or_else(|| panic!("no column {name}"))]
}

fn number(row: &Row, name: &str) -> f64 {
    value(cell(row, name))
}

fn value(value: &Value) -> f64 {
    match value {
        Value::Mean(mean) => mean.mean,
        Value::Real(number) => *number,
        Value::Count(count) => *count as f64,
        other => panic!("no number: {other:?}"),
    }
}

/// A mean, with so many digits, and half its interval if that has a digit other than zero.
fn shown(row: &Row, name: &str, digits: usize) -> String {
    mean(cell(row, name), 1.0, digits)
}

/// The same of any cell, in another unit.
fn mean(value: &Value, unit: f64, digits: usize) -> String {
    let Value::Mean(Mean { mean, interval, .. }) = *value else { panic!("no mean: {value:?}") };
    let half = thousands(interval.unwrap_or(0.0) / unit, digits);
    let mean = thousands(mean / unit, digits);
    if half.chars().all(|digit| matches!(digit, '0' | '.')) { mean } else { format!("{mean} ± {half}") }
}

/// Writes `4022.04` as `4,022.0`.
fn thousands(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    if let Value::Text(text) = cell(row, name) { text } else { panic!("{name}: {row:?}") }
}

/// `t-high-1` is `T-High-1`.
fn trace(row: &Row) -> String {
    let words = text(row, "source").split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect::<Vec<_>>().join("-")
}

/// The least and the greatest.
fn range(numbers: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    numbers.into_iter().fold(start, |(least, most), number| (least.min(number), most.max(number)))
}

#[test]
fn numbers_are_grouped() {
    let all = [(0.95, 2), (118.0, 0), (1_539.04, 1), (22_997_292.0, 0)]
        .map(|(number, digits)| thousands(number, digits));
    assert_eq!(all, ["0.95", "118", "1,539.0", "22,997,292"]);
}
