//! The cost of calls from C, and C programs compared with libuv and libevent in the same process.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use softtimers_measure::estimate::Estimate;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::{Cell, Table};

use super::{Effort, bench_of, printed};
use crate::bench::Done;
use softtimers_trials::command::{build, output, root, works};

/// Runs the bench of the C API, then the examples that measure.
pub(super) fn c(effort: &Effort) -> Done<Vec<Table>> {
    let mut border = printed("border", &bench_of("softtimers-capi", "border", &[])?);
    border.bars = border.rows.iter().filter_map(|row| row_bar(row)).collect();
    let is_missing = |tool: &&&str| !works(Command::new(tool).arg("--version"));
    if let Some(tool) = ["cc", "pkg-config"].iter().find(is_missing) {
        border.note(format!("skipped: the C programs: there is no `{tool}`"));
        return Ok(vec![border]);
    }
    let mut tables = vec![border];
    tables.extend(costs(effort.of("1000000", "100000"))?);
    for (name, package) in [("libuv", "libuv"), ("libevent", "libevent_core")] {
        tables.extend(paced(name, package, effort.of(7, 1))?);
    }
    Ok(tables)
}

/// Makes a bar of a row `| what | Rust | C | more |`.
fn row_bar(cells: &[Cell]) -> Option<Bar> {
    let [Cell::Text(what), _, _, Cell::Text(more), ..] = cells else { return None };
    let more: f64 = more.split_whitespace().next()?.parse().ok()?;
    Some(Bar::at_most(format!("C, {what}: ns more than Rust"), 8.0, more))
}

/// Measures the time-outs of 10,000 connections, and those of 40,000 packets a second.
fn costs(steps: &str) -> Result<Option<Table>> {
    let Some(program) = compiled("costs", &["libuv", "libevent_core"])? else { return Ok(None) };
    let said = output(Command::new(program).args(["10000", steps]))?;
    let mut table = Table::new("time-outs in C, 10,000 connections", &[("what it says", 0)]);
    said.trim().lines().for_each(|line| table.row([line.into()]));
    let against = |name: &str| Estimate::from_values(numbers(&said, name));
    table.bar(Bar::at_most("C, 10,000 time-outs: a step, against libuv's", 0.3, against("of libuv's ")));
    table.bar(Bar::at_most(
        "C, 10,000 time-outs: a step, against libevent's",
        0.3,
        against("of libevent's "),
    ));
    let share = numbers(&said, "each, ").first().copied();
    table.bar(Bar::at_most("C, 40,000 set and cancel a second: % of a core", 2.0, share));
    Ok(Some(table))
}

/// Measures a flow at 100 µs in a loop of libuv, and of libevent.
fn paced(name: &str, package: &str, rounds: usize) -> Result<Option<Table>> {
    let Some(program) = compiled(name, &[package])? else { return Ok(None) };
    let mut table =
        Table::new(&format!("a flow paced at 100 µs in the loop of {name}"), &[("what it says", 0)]);
    let mut shares = vec![];
    for _ in 0..rounds {
        let said = output(&mut Command::new(&program))?;
        table.row([said.trim().into()]);
        shares.extend(numbers(&said, "of the rate, ").first().copied());
    }
    table.bar(Bar::at_most(
        format!("C, {name}: back to back at 100 µs, %"),
        3.0,
        Estimate::from_values(shares),
    ));
    Ok(Some(table))
}

/// Compiles an example of the C library against the shared one; `None` where a package is missing.
fn compiled(example: &str, packages: &[&str]) -> Result<Option<PathBuf>> {
    let library = build(&["--package", "softtimers-capi"], "libsofttimers_capi.so")?;
    let Ok(flags) = output(Command::new("pkg-config").args(["--cflags", "--libs"]).args(packages)) else {
        println!("skipped: {example}.c: pkg-config does not find {}", packages.join(" and "));
        return Ok(None);
    };
    let here = library.with_file_name("");
    let (program, capi) = (here.join(format!("measure-{example}")), root().join("crates/capi"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-o"]).arg(&program).arg("-I").arg(capi.join("include"));
    cc.arg(capi.join("examples").join(example).with_extension("c"));
    // Shared, like the other libraries: each call goes through the same table.
    cc.arg("-L").arg(&here).arg(format!("-Wl,-rpath,{}", here.display())).arg("-lsofttimers_capi");
    output(cc.args(flags.split_whitespace()))?;
    Ok(Some(program))
}

/// Returns the number behind each occurrence of `name`.
fn numbers(text: &str, name: &str) -> Vec<f64> {
    let behind = text.match_indices(name).map(|(at, _)| &text[at + name.len()..]);
    let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok();
    behind.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_trials::bar::Verdict;

    #[test]
    fn what_the_programs_print_is_read() {
        let said = "of libuv's 0.20, of libevent's 0.14\nof libuv's 0.25, of libevent's 0.13\n40,000 set and \
                    cancel a second: 37.7 ns each, 0.151% of a core\n";
        assert_eq!(numbers(said, "of libuv's "), [0.20, 0.25]);
        assert_eq!(numbers(said, "each, "), [0.151]);
        let row = |more: &str| row_bar(&["a departure", "7.1", "11.2", more].map(Cell::from));
        assert_eq!(row("4.1").unwrap().verdict(), Verdict::Met);
        assert_eq!(row("10.1 (more than 8)").unwrap().verdict(), Verdict::Missed);
        assert!(row("more").is_none());
    }
}
