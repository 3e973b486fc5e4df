//! The benches whose contenders take turns in one process: what two percent need.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::figures::Bar;
use crate::program::{self, cargo};

/// Work kept by softtimers and by the loop that looks after each handler.
pub(super) fn work_kept(root: &Path, batch: usize, seconds: u32) -> Result<Vec<Bar>> {
    let text = bench(root, "work_kept", &[&batch.to_string(), &seconds.to_string()])?;
    println!("\n### In turns of 10 ms, echo batch {batch}\n\n```text\n{}\n```\n", text.trim());
    let quiet = |name: &str| figure(&text, name).filter(|_| !text.contains("inconclusive"));
    let busy = |what: &str| format!("busy, echo batch {batch}: {what}");
    let kept = Bar::at_least(busy("work kept of the loop without pacing"), 0.88, quiet("work kept, soft"));
    // Where `loop` cannot hold the rate, it keeps the work of the packets that it does not send.
    if batch == 16 {
        return Ok(vec![kept]);
    }
    let ratio = quiet("work, soft over loop");
    Ok(vec![kept, Bar::at_least(busy("work kept, against `loop`'s"), 0.98, ratio)])
}

/// What an event costs that does nothing.
pub(super) fn null_events(root: &Path, seconds: u32) -> Result<Vec<Bar>> {
    let text = bench(root, "null_events", &[&seconds.to_string()])?;
    println!("\n### Null events\n\n{}\n", text.trim());
    let cost = |who: &str| cell(&text, "20000", who, 5).filter(|_| !text.contains("inconclusive"));
    let ratio = cost("soft").zip(cost("periodic signal")).map(|(soft, signal)| soft / signal);
    Ok(vec![Bar::at_most("null events, 20,000/s: cost of a soft one, against a signal's".into(), 0.5, ratio)])
}

/// Many flows from one thread, for so many seconds and rounds.
pub(super) fn flows(root: &Path, [seconds, rounds]: [u32; 2]) -> Result<Vec<Bar>> {
    let text = bench(root, "flows", &["--json", &seconds.to_string(), &rounds.to_string()])?;
    let (table, object) = text.trim().rsplit_once('\n').context("a table, and an object in the last line")?;
    let found: Value = serde_json::from_str(object).context("the last line is an object")?;
    println!("\n### Many flows: medians of {rounds} rounds\n\n{}\n", table.trim());
    Ok(found["loads"].as_array().into_iter().flatten().flat_map(flows_bars).collect())
}

/// What is asked of softtimers under one load; nothing is measured where no round was quiet.
fn flows_bars(load: &Value) -> Vec<Bar> {
    let name = load["load"].as_str().unwrap_or_default();
    let called = |what: &str| format!("{name}: {what}");
    let of =
        |who: &str, key: &str| load["medians"][who][key].as_f64().filter(|_| load["inconclusive"].is_null());
    let soft = |key: &str| of("soft", key);
    match (load["flows"].as_u64(), load["rate_pps"].as_u64()) {
        (Some(1), Some(1)) => vec![Bar::at_most(called("CPU"), 0.001, soft("cpu_share"))],
        (Some(1), _) => vec![Bar::at_most(called("back-to-back share"), 0.03, soft("back_to_back"))],
        _ => {
            let cpu = |who| of(who, "cpu_us_per_packet");
            let of_each = soft("cpu_us_per_packet").zip(cpu("timerfd each")).map(|(soft, each)| soft / each);
            vec![
                Bar::at_least(called("rate of the slowest flow"), 0.999, soft("rate_min")),
                Bar::at_most(called("rate of the fastest flow"), 1.001, soft("rate_max")),
                Bar::at_most(called("gap deviation of the median flow, µs"), 20.0, soft("gap_stddev_p50_us")),
                Bar::at_most(called("gap deviation of the worst flow, µs"), 20.0, soft("gap_stddev_max_us")),
                Bar::at_most(called("longest train over all flows"), 8.0, soft("longest_train")),
                Bar::at_most(called("CPU per packet, against the heap loop's"), 1.1, soft("cpu_of_heap")),
                Bar::at_most(called("CPU per packet, against one timerfd a flow"), 1.0, of_each),
            ]
        }
    }
}

/// What it costs to hand datagrams to the kernel.
pub(super) fn handover(root: &Path, seconds: u32) -> Result<Vec<Bar>> {
    let text = bench(root, "handover", &[&seconds.to_string()])?;
    println!("\n### Handing datagrams over\n\n{}\n", text.trim());
    let quiet =
        |who: &str| in_brackets(&text, "polls", who, EIGHT).filter(|_| !text.contains("inconclusive"));
    Ok(vec![
        Bar::at_most("eight datagrams as one send, against as many".into(), 0.5, quiet("gso")),
        Bar::at_most(
            "eight datagrams by one sendmmsg, against as many sends".into(),
            0.95,
            quiet("sendmmsg"),
        ),
    ])
}

/// The column of eight at a time.
const EIGHT: usize = 6;

/// The pacing experiments of the soft timers paper, whose checks are their bars.
pub(super) fn pacing(root: &Path, quick: bool) -> Result<Vec<Bar>> {
    let file = std::env::temp_dir().join(format!("softtimers-pacing-{}.json", std::process::id()));
    let path = file.to_str().context("the directory for temporary files has a name that is no text")?;
    let flags: &[&str] = if quick { &["--quick"] } else { &[] };
    let text = bench(root, "pacing", &[&["--json", path], flags].concat())?;
    let findings = std::fs::read_to_string(&file).context("the bench wrote no findings")?;
    std::fs::remove_file(&file)?;
    // The bars are printed with all others.
    println!("\n{}\n", text.split("### What is to hold").next().unwrap_or_default().trim());
    Ok(checks(&serde_json::from_str(&findings)?))
}

/// The bars among its findings.
fn checks(findings: &Value) -> Vec<Bar> {
    let checks = findings["checks"].as_array().into_iter().flatten();
    checks
        .filter_map(|check| {
            let figure = format!("pacing, {}", check["figure"].as_str()?);
            let (bound, measured) = (check["bound"].as_f64()?, check["measured"].as_f64());
            let at_least = check["at_least"].as_bool()?;
            Some(if at_least {
                Bar::at_least(figure, bound, measured)
            } else {
                Bar::at_most(figure, bound, measured)
            })
        })
        .collect()
}

/// What the departure queue takes to decide, with ten thousand flows.
pub(super) fn departures(root: &Path, packets: u32) -> Result<Vec<Bar>> {
    let text = bench_of(root, "softtimers-core", "departures", &[&packets.to_string(), "10000"])?;
    println!("\n### The departure queue\n\n{}\n", text.trim());
    let row = text.lines().find(|line| line.starts_with("| 10000 | Together |"));
    let cost = row.and_then(|row| row.split('|').nth(5)?.split_whitespace().next()?.parse().ok());
    Ok(vec![Bar::at_most("departure queue, 10,000 flows: ns of decision a packet".into(), 60.0, cost)])
}

/// How long the lock of timers is held that threads share, when 100,000 of them are due together.
pub(super) fn shared(root: &Path, rounds: usize, quick: bool) -> Result<Vec<Bar>> {
    in_sections(root, "shared", "Shared timers", rounds, quick)
}

/// Receivers under overload.
pub(super) fn overload(root: &Path, rounds: usize, quick: bool) -> Result<Vec<Bar>> {
    in_sections(root, "overload", "Receiving under overload", rounds, quick)
}

/// A web server, polled and by epoll.
pub(super) fn server(root: &Path, rounds: usize, quick: bool) -> Result<Vec<Bar>> {
    in_sections(root, "server", "A web server that polls", rounds, quick)
}

/// A bench whose sections say for themselves whether they were quiet.
fn in_sections(root: &Path, name: &str, title: &str, rounds: usize, quick: bool) -> Result<Vec<Bar>> {
    let rounds = rounds.to_string();
    let arguments = ["--rounds", &rounds, "--quick"];
    let text = bench(root, name, &arguments[..if quick { 3 } else { 2 }])?;
    println!("\n### {title}\n\n{}\n", text.trim().replace("\n## ", "\n#### "));
    let bars = text.split("\n## ").flat_map(|section| {
        let is_quiet = !section.contains("inconclusive");
        section.lines().filter_map(move |line| section_bar(line, is_quiet))
    });
    Ok(bars.collect())
}

/// Of a line such as `- what: 0.950 (at least 0.9: holds)`.
fn section_bar(line: &str, is_quiet: bool) -> Option<Bar> {
    let (figure, bar) = line.strip_prefix("- ")?.rsplit_once(" (")?;
    let (what, figure) = figure.rsplit_once(": ")?;
    let measured = figure.parse().ok().filter(|_| is_quiet);
    let number = |words: &str| words.split([':', ',']).next()?.trim().parse().ok();
    match bar.strip_prefix("at least ") {
        Some(least) => Some(Bar::at_least(what.to_owned(), number(least)?, measured)),
        None => {
            let most = bar.strip_prefix("at most ").or_else(|| bar.strip_prefix("below "))?;
            Some(Bar::at_most(what.to_owned(), number(most)?, measured))
        }
    }
}

fn bench(root: &Path, name: &str, arguments: &[&str]) -> Result<String> {
    bench_of(root, "softtimers-bench", name, arguments)
}

pub(super) fn bench_of(root: &Path, package: &str, name: &str, arguments: &[&str]) -> Result<String> {
    let mut cargo = cargo(root);
    cargo.args(["bench", "--quiet", "--package", package, "--bench", name, "--"]).args(arguments);
    program::output(&mut cargo)
}

/// The number behind a name at the beginning of a line.
fn figure(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A number of the table's row for this rate and contender.
fn cell(text: &str, rate: &str, who: &str, column: usize) -> Option<f64> {
    words(text, rate, who, column)?.parse().ok()
}

/// The number in brackets that follows another one.
fn in_brackets(text: &str, first: &str, who: &str, column: usize) -> Option<f64> {
    let (_, rest) = words(text, first, who, column)?.split_once('(')?;
    rest.trim_end_matches(')').parse().ok()
}

fn words<'a>(text: &'a str, first: &str, who: &str, column: usize) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let wanted = cells.get(1) == Some(&first) && cells.get(2) == Some(&who);
        if wanted { cells.get(column).copied() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_become_bars() {
        let check = |measured: Option<f64>, at_least| serde_json::json!({ "figure": "a", "bound": 1.0, "measured": measured, "at_least": at_least });
        let found = [check(Some(2.0), true), check(Some(2.0), false), check(None, false)];
        let bars = checks(&serde_json::json!({ "checks": found }));
        assert!(bars[0].is_met() && bars[1].is_missed() && bars[2].is_inconclusive());
        assert!(checks(&Value::Null).is_empty());
    }

    #[test]
    fn many_flows_are_judged_by_what_was_quiet() {
        let soft = serde_json::json!({
            "rate_min": 0.9995, "rate_max": 1.0, "gap_stddev_p50_us": 12.0, "gap_stddev_max_us": 21.0,
            "longest_train": 8.0, "cpu_of_heap": 0.8, "cpu_us_per_packet": 4.0
        });
        let mut load = serde_json::json!({
            "load": "many", "flows": 64, "rate_pps": 1000, "inconclusive": null,
            "medians": { "soft": soft, "timerfd each": { "cpu_us_per_packet": 5.0 } }
        });
        let missed = |load: &Value| flows_bars(load).iter().filter(|bar| bar.is_missed()).count();
        assert_eq!((flows_bars(&load).len(), missed(&load)), (7, 1));
        load["inconclusive"] = "busy".into();
        assert!(flows_bars(&load).iter().all(Bar::is_inconclusive));
    }

    #[test]
    fn a_line_of_the_overload_bench_is_a_bar() {
        let line =
            "- limit 75%: the other's share: 0.100 (at least 0.125, half of the rest: does **not** hold)";
        assert!(section_bar(line, true).is_some_and(|bar| bar.is_missed()));
        assert!(section_bar(line, false).is_some_and(|bar| bar.is_inconclusive()));
        assert!(
            section_bar("- hybrid: p50 / plain epoll's: 1.148 (at most 1.3: holds)", true).unwrap().is_met()
        );
        assert!(section_bar("- no limit: share: 0.008 (below 0.02: holds)", true).unwrap().is_met());
        assert!(section_bar("- skipped: socat: No such file or directory (os error 2)", true).is_none());
    }

    #[test]
    fn figures_are_found_by_name() {
        let text = "work kept, soft   0.915 (..)\nwork, soft over loop       0.997   (middle half 1 to 2)\n";
        assert_eq!(figure(text, "work, soft over loop"), Some(0.997));
        assert_eq!(figure(text, "work, nobody"), None);
        let table = "| 20000 | soft | 19990 | 2.0% | 900 | 800 | 100 |\n| 100 | soft | 1 | 0% | 7 | 8 | 9 |";
        assert_eq!(cell(table, "20000", "soft", 5), Some(900.0));
        assert_eq!(cell(table, "20000", "signal", 5), None);
        let table = "| polls | gso | 3034 (1.14) | 2152 (0.80) | 1296 (0.48) | 928 (0.32) | 564 (0.19) |";
        assert_eq!(
            (in_brackets(table, "polls", "gso", EIGHT), cell(table, "polls", "gso", EIGHT)),
            (Some(0.32), None)
        );
    }
}
