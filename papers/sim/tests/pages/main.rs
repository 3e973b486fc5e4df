//! The pages' figures of simulated machines: each block between two comments is what this test makes. Where chance has a part they are
//! means of 20 seeds, with half their 95% intervals.
//!
//! `cargo xtask papers` writes them anew.

mod answers;
mod beside;
mod counted;
mod fit;
mod granularity;
mod near;
mod others;
mod overload;
mod paced;
mod papers;
mod parameters;
mod residuals;
mod sentences;
mod table_3;

use std::collections::HashMap;
use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use softtimers_sim::{
    Mean, Parameters, Part, PointError, PointRows, Row, Runs, Setting, Sweep, Value, Watch, experiments,
};

/// A part of a page: the name between its marks, and who writes it.
type Block = (&'static str, fn() -> String);

const HIP: [Block; 10] = [
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

const SIM: [Block; 10] = [
    ("outputs", overload::outputs),
    ("starvation", overload::starvation),
    ("burst of three", counted::burst),
    ("gaps", paced::gaps),
    ("big acks", paced::acks),
    ("deadlines", paced::deadline_table),
    ("slow start", counted::slow_start),
    ("frames", counted::frames),
    ("callouts", counted::callout_table),
    ("wheel", counted::wheel),
];

const PAPERS: [Block; 5] = [
    ("fit in words", fit::in_words),
    ("near", near::in_words),
    ("hip rows", beside::hip),
    ("callout rows", beside::callouts),
    ("misses", residuals::misses),
];

const MODEL: [Block; 4] = [
    ("residuals", residuals::residuals),
    ("fit", fit::fit),
    ("free", fit::free),
    ("constants", papers::constants),
];

#[test]
fn hip_is_what_twenty_seeds_give() {
    check("hip.md", &HIP, str::to_owned);
}

#[test]
fn sim_is_what_its_commands_print() {
    check("sim.md", &SIM, str::to_owned);
}

/// Also the marks of the rows that somebody wrote.
#[test]
fn papers_is_what_the_list_the_fit_and_the_commands_say() {
    check("papers.md", &PAPERS, papers::marked);
    check("model.md", &MODEL, str::to_owned);
}

#[test]
fn figures_in_sentences_are_what_the_commands_print() {
    let pages =
        ["papers.md", "sim.md"].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name));
    for (page, said) in pages.into_iter().zip([sentences::of_papers(), sentences::of_sim()]) {
        let Ok(text) = fs::read_to_string(&page) else { return };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in said {
            assert!(text.contains(&words), "{}: no '{words}'", page.display());
        }
    }
}

/// Holds a page against its blocks, or writes them.
fn check(name: &str, blocks: &[Block], marked: fn(&str) -> String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    // A crate from a registry has no pages.
    let Ok(page) = fs::read_to_string(&file) else { return };
    let rendered = marked(&blocks.iter().fold(page.clone(), |page, (block, content)| {
        let (begin, end) = (format!("<!-- {block}: begin -->\n"), format!("<!-- {block}: end -->"));
        let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("docs/{name}: no {begin}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/{name}: no {end}"));
        format!("{before}{begin}\n{}\n\n{end}{after}", content().trim_end())
    }));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &rendered).expect("the page can be written");
        return;
    }
    for (number, (now, wanted)) in page.lines().zip(rendered.lines()).enumerate() {
        assert_eq!(now, wanted, "docs/{name}, line {}: cargo xtask papers", number + 1);
    }
    assert_eq!(page.lines().count(), rendered.lines().count(), "docs/{name}: cargo xtask papers");
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

/// The rows of an experiment with these flags, `--seed` and `--seeds`. Blocks that want the same rows share a run.
fn rows(experiment: &str, flags: &[Flag], seed: u64, seeds: u32) -> Vec<Row> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Vec<Row>>>> = LazyLock::new(Mutex::default);
    // A recording is not named by what it prints.
    let recorded = flags.iter().any(|(_, setting)| matches!(setting, Setting::Trace(_)));
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("{experiment} {flags:?} {seed} {seeds}");
    if let Some(rows) = known().get(&name).filter(|_| !recorded) {
        return rows.clone();
    }
    let rows = run(experiment, flags, seed, seeds);
    known().insert(name, rows.clone());
    rows
}

fn run(experiment: &str, flags: &[Flag], seed: u64, seeds: u32) -> Vec<Row> {
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
    known(value).unwrap_or_else(|| panic!("no number: {value:?}"))
}

/// None where the paper has nothing.
fn known(value: &Value) -> Option<f64> {
    match value {
        Value::Mean(mean) => Some(mean.mean),
        Value::Real(number) => Some(*number),
        Value::Count(count) => Some(*count as f64),
        _ => None,
    }
}

/// Returns a mean, with `digits` digits, and half its interval if that has a digit other than zero.
fn shown(row: &Row, name: &str, digits: usize) -> String {
    mean(cell(row, name), 1.0, digits)
}

/// Returns the mean of any cell, in another unit.
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
