//! `cargo lab measure`: measures the figures of docs/benchmarks.md on this machine.
//!
//! ```text
//!   batch-N                          the command, as a user starts it: doctor, send, recv
//!   wan-start, one-way               until wan's command has run, and how late it is between kernels
//!   emulators, idle-proxies          wan beside Toxiproxy and netem
//!   c                                C programs beside libuv and libevent
//!   turns, events, flows, …          the benches, each by `cargo bench`
//! ```
//!
//! Rounds of the command are short and many, because a virtual machine's speed drifts by a fifth within seconds; a
//! round in which the host or another program took more than 5% of the CPUs is repeated, up to three times as many
//! rounds in all.
//!
//! A missed bar does not fail the command: it measures, but does not gate.

mod c;
mod doctor;
mod emulators;
mod idle_proxies;
mod one_way;
mod wan_start;

use anyhow::Context as _;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::{Results, Table};

use crate::bench::{Asked, Done, Section};
use softtimers_trials::command;

/// The arguments of `measure`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// Rounds of the command; benches have their own
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// The means of measuring, and the effort.
#[derive(Debug)]
pub struct Effort {
    quick: bool,
    /// Rounds of the command.
    paired: Paired,
}

impl Effort {
    /// Returns one of two values, by the effort.
    fn of<T>(&self, usual: T, quick: T) -> T {
        if self.quick { quick } else { usual }
    }
}

/// The sections that can be measured separately.
pub const SECTIONS: [Section<Effort>; 18] = [
    ("batch-4", |effort| doctor::beside_work(effort, 4)),
    ("batch-1", |effort| doctor::beside_work(effort, 1)),
    ("batch-16", |effort| doctor::beside_work(effort, 16)),
    ("turns", |effort| bench(effort, "work_kept")),
    ("events", |effort| bench_in(PAPERS, effort, "null_events")),
    ("handover", |effort| bench(effort, "handover")),
    ("pacing", |effort| bench_in(PAPERS, effort, "pacing")),
    ("flows", |effort| bench(effort, "flows")),
    ("departures", departures),
    ("shared", |effort| bench(effort, "shared")),
    ("overload", |effort| bench(effort, "overload")),
    ("c", c::c),
    ("server", |effort| bench(effort, "server")),
    ("wan-start", wan_start::wan_start),
    ("one-way", one_way::one_way),
    ("emulators", emulators::emulators),
    ("idle-proxies", idle_proxies::idle_proxies),
    ("quinn", |effort| bench(effort, "quinn")),
];

/// The manifest of the benches of papers.
const PAPERS: &str = "papers/Cargo.toml";

/// Measures the requested sections.
///
/// # Errors
/// If the command cannot be built, or a section fails.
pub fn run(Arguments { asked, rounds }: &Arguments) -> Done {
    let paired = Paired::new(if asked.quick { 1 } else { *rounds as usize }).repeating(3);
    asked.run("cargo lab measure", &SECTIONS, &Effort { quick: asked.quick, paired })
}

/// Returns the tables of a bench of this package.
fn bench(effort: &Effort, name: &str) -> Done<Vec<Table>> {
    bench_in("bench/Cargo.toml", effort, name)
}

/// Returns the tables of a bench of the workspace with this manifest.
fn bench_in(manifest: &str, effort: &Effort, name: &str) -> Done<Vec<Table>> {
    let file = std::env::temp_dir().join(format!("softtimers-lab-{}-{name}.json", std::process::id()));
    let mut cargo = command::cargo(&["bench", "--quiet", "--manifest-path", manifest, "--bench", name, "--"]);
    cargo.args(effort.quick.then_some("--quick")).arg("--json").arg(&file);
    command::output(&mut cargo)?;
    let text = std::fs::read_to_string(&file).context("the bench wrote no results")?;
    std::fs::remove_file(&file)?;
    Ok(Results::parse(&text)?.tables)
}

/// Returns the output of another crate's bench.
fn bench_of(package: &str, name: &str, words: &[&str]) -> anyhow::Result<String> {
    let mut cargo = command::cargo(&["bench", "--quiet", "--package", package, "--bench", name, "--"]);
    command::output(cargo.args(words))
}

/// Measures how long the departure queue takes to decide, with ten thousand flows.
fn departures(effort: &Effort) -> Done<Vec<Table>> {
    let text = bench_of("softtimers-core", "departures", &[effort.of("20000", "2000"), "10000"])?;
    let mut table = printed("departures", &text);
    let row = text.lines().find(|line| line.starts_with("| 10000 | Together |"));
    let cost: Option<f64> =
        row.and_then(|row| row.split('|').nth(5)?.split_whitespace().next()?.parse().ok());
    table.bar(Bar::at_most("departure queue, 10,000 flows: ns of decision a packet", 60.0, cost));
    Ok(vec![table])
}

/// Returns the table that a program has printed in Markdown, with unchanged cells.
fn printed(key: &str, text: &str) -> Table {
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-"));
    let columns = lines.next().map(cells).unwrap_or_default();
    let rows = lines.map(|line| cells(line).into_iter().map(Into::into).collect());
    Table { key: key.to_owned(), columns, rows: rows.collect(), ..Table::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_table_is_read_cell_by_cell() {
        let table = printed("a", "Title\n\n| n | ns |\n|---|---|\n| 1 | 3 (4) |\n| 2 | 5 |\n");
        assert_eq!(table.to_string(), "| n | ns |\n|---|---|\n| 1 | 3 (4) |\n| 2 | 5 |\n");
    }
}
