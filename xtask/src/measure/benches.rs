//! The benches whose contenders take turns in one process: what two percent need.

use std::path::Path;

use anyhow::Result;

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

fn bench(root: &Path, name: &str, arguments: &[&str]) -> Result<String> {
    let mut cargo = cargo(root);
    cargo.args(["bench", "--quiet", "--package", "softtimers-bench", "--bench", name, "--"]).args(arguments);
    program::output(&mut cargo)
}

/// The number behind a name at the beginning of a line.
fn figure(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A number of the table's row for this rate and contender.
fn cell(text: &str, rate: &str, who: &str, column: usize) -> Option<f64> {
    text.lines().find_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let wanted = cells.get(1) == Some(&rate) && cells.get(2) == Some(&who);
        if wanted { cells.get(column)?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_name() {
        let text = "work kept, soft   0.915 (..)\nwork, soft over loop       0.997   (middle half 1 to 2)\n";
        assert_eq!(figure(text, "work, soft over loop"), Some(0.997));
        assert_eq!(figure(text, "work, nobody"), None);
        let table = "| 20000 | soft | 19990 | 2.0% | 900 | 800 | 100 |\n| 100 | soft | 1 | 0% | 7 | 8 | 9 |";
        assert_eq!(cell(table, "20000", "soft", 5), Some(900.0));
        assert_eq!(cell(table, "20000", "signal", 5), None);
    }
}
