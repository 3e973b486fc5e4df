//! What the border to C costs, and C programs beside libuv and libevent in the same process.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::benches::bench_of;
use super::figures::Bar;
use crate::c_library::{self, Place};
use crate::program::{self, Profile, must, output, program as command};
use crate::workspace::Workspace;

/// The bench of the border, then the examples that measure.
pub(super) fn c(workspace: &Workspace, quick: bool) -> Result<Vec<Bar>> {
    let border = bench_of(workspace.root(), "softtimers-capi", "border", &[])?;
    println!("\n### The border to C\n\n{}\n", border.trim());
    let mut bars: Vec<_> = border.lines().filter_map(row).collect();
    for tool in ["cc", "pkg-config"] {
        if !program::works(command(tool, workspace.root()).arg("--version")) {
            println!("skipped: the C programs: there is no `{tool}`");
            return Ok(bars);
        }
    }
    let rounds = if quick { 1 } else { 7 };
    bars.extend(costs(workspace, if quick { "100000" } else { "1000000" })?);
    bars.extend(paced(workspace, rounds)?);
    Ok(bars)
}

/// The time-outs of 10,000 connections, and those of 40,000 packets a second.
fn costs(workspace: &Workspace, steps: &str) -> Result<Vec<Bar>> {
    let Some(program) = compiled(workspace, "costs", &["libuv", "libevent_core"])? else { return Ok(vec![]) };
    let said = output(command(program, workspace.root()).args(["10000", steps]))?;
    println!("\n### Time-outs in C, 10,000 connections\n\n```text\n{}\n```\n", said.trim());
    let [uv, event] = ["of libuv's ", "of libevent's "].map(|name| median(numbers(&said, name)));
    Ok(vec![
        Bar::at_most("C, 10,000 time-outs: a step, against libuv's".into(), 0.3, uv),
        Bar::at_most("C, 10,000 time-outs: a step, against libevent's".into(), 0.3, event),
        Bar::at_most(
            "C, 40,000 set and cancel a second: % of a core".into(),
            2.0,
            numbers(&said, "each, ").first().copied(),
        ),
    ])
}

/// A flow at 100 us in a loop of libuv, and of libevent.
fn paced(workspace: &Workspace, rounds: usize) -> Result<Vec<Bar>> {
    let mut bars = vec![];
    println!("### A flow paced at 100 µs in another library's loop\n");
    for (name, package) in [("libuv", "libuv"), ("libevent", "libevent_core")] {
        let Some(program) = compiled(workspace, name, &[package])? else { continue };
        let mut shares = vec![];
        for _ in 0..rounds {
            let said = output(&mut command(&program, workspace.root()))?;
            println!("{name}: {}  ", said.trim());
            shares.extend(numbers(&said, "of the rate, ").first().map(|percent| percent / 100.0));
        }
        bars.push(Bar::at_most(format!("C, {name}: back to back at 100 µs"), 0.03, median(shares)));
    }
    Ok(bars)
}

/// An example of the C library, compiled against it as it is installed; `None` where a package is missing.
fn compiled(workspace: &Workspace, example: &str, packages: &[&str]) -> Result<Option<PathBuf>> {
    let under = workspace.target_directory.join("measure-c");
    c_library::put(workspace, Profile::Release, &Place { prefix: "/usr", library: "lib", under: &under })?;
    let mut ask = command("pkg-config", workspace.root());
    let found = output(ask.args(["--cflags", "--libs"]).args(packages));
    let Ok(flags) = found else {
        println!("skipped: {example}.c: pkg-config does not find {}", packages.join(" and "));
        return Ok(None);
    };
    let (program, usr) = (under.join(example), under.join("usr"));
    let source = Path::new("crates/capi/examples").join(example).with_extension("c");
    let mut cc = command("cc", workspace.root());
    cc.args(["-std=gnu11", "-O2", "-o"]).arg(&program).arg(source).arg("-I").arg(usr.join("include"));
    // Shared, as the others are: each call goes through the same table.
    let lib = usr.join("lib");
    cc.arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display())).arg("-lsofttimers");
    cc.args(flags.split_whitespace());
    must(&mut cc)?;
    Ok(Some(program))
}

/// A row of the bench: `| what | Rust | C | more |`.
fn row(line: &str) -> Option<Bar> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let more = cells.get(4)?.split_whitespace().next()?.parse().ok()?;
    Some(Bar::at_most(format!("C, {}: ns more than Rust", cells[1]), 8.0, Some(more)))
}

/// The number behind each place where `name` stands.
fn numbers(text: &str, name: &str) -> Vec<f64> {
    let behind = text.match_indices(name).map(|(at, _)| &text[at + name.len()..]);
    let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok();
    behind.filter_map(number).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_print_is_read() {
        let said = "of libuv's 0.20, of libevent's 0.14\nof libuv's 0.25, of libevent's 0.13\n40,000 set and \
                    cancel a second: 37.7 ns each, 0.151% of a core\n";
        assert_eq!(numbers(said, "of libuv's "), [0.20, 0.25]);
        assert_eq!(median(numbers(said, "of libevent's ")), Some(0.14));
        assert_eq!(numbers(said, "each, "), [0.151]);
        assert!(row("| a departure | 7.1 | 11.2 | 4.1 |").is_some_and(|bar| bar.is_met()));
        assert!(row("| a departure | 7.1 | 17.2 | 10.1 (more than 8) |").is_some_and(|bar| bar.is_missed()));
        assert!(row("| operation | Rust | C | more |").is_none() && row("|---|---|---|---|").is_none());
    }
}
