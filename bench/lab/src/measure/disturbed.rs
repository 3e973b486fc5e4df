//! A stopped sender, one next to a computing program, and idle loops with a budget for polling. Runs of one round
//! directly follow each other, so that all meet the same machine.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Round};
use softtimers_trials::result::Table;

use super::Effort;
use crate::bench::Done;
use crate::figures::{self, Figure};
use softtimers_trials::command::{self, Program, pause, signal};

/// A busy run of three seconds.
const BUSY: &str = "--interval 40us --duration 3s --busy echo";
const FAST: &str = "--interval 12us --duration 5s --idle spin --cpu-budget 100%";
const HYBRID: &str = "--interval 40us --duration 3s --idle hybrid --cpu-budget 100%";
const SLEEPING: &str = "--interval 40us --duration 3s --timer pwait2";
/// Nothing is made up, so that a pause counts once and not for every datagram that it delays.
const WHOLE_SLICE: &str = "--interval 120us --duration 4s --catch-up none";
const SHORT_SLICE: &str = "--interval 120us --duration 4s --catch-up none --sched-slice 100us";

const FIGURES: [Figure; 13] = [
    ("of the rate %", 1, "", 0.0),
    ("gap p1 µs", 1, "received.gap_ns.p1", 1e-3),
    ("gap p50 µs", 1, "received.gap_ns.p50", 1e-3),
    ("gap p99 µs", 1, "received.gap_ns.p99", 1e-3),
    ("CPU %", 1, "sent.cpu_share", 100.0),
    ("polled away %", 1, "sent.polled.share", 100.0),
    ("late p99.9 µs", 1, "sent.late_ns.p999", 1e-3),
    ("late max µs", 1, "sent.late_ns.max", 1e-3),
    ("places lost", 0, "sent.forfeited", 1.0),
    ("longest burst, sender's", 0, "sent.longest_burst", 1.0),
    ("longest burst, receiver's", 0, "received.longest_burst", 1.0),
    ("late by a stop", 0, "sent.late.stopped.count", 1.0),
    ("late by the scheduler", 0, "sent.late.scheduler.count", 1.0),
];

fn note(round: &mut Round, row: &str, stream: &Value) {
    figures::put(round, row, stream, &FIGURES);
    let rate = |key| figures::at(&stream["sent"], key);
    let share = rate("achieved_pps").zip(rate("target_pps")).map(|(achieved, target)| achieved / target);
    round.put(row, "of the rate %", share.map(|share| 100.0 * share));
}

/// Sets the round aside if an end reports inconclusive figures.
fn judge(round: &mut Round, stream: &Value) {
    let reasons = ["sent", "received"].map(|end| stream[end]["inconclusive"].as_str());
    reasons.into_iter().flatten().for_each(|reason| round.set_aside(reason));
}

/// Returns the table of the figures with these names.
fn table(key: &str, measured: &Measured, rows: &[&str], names: &[&str]) -> Table {
    let wanted = FIGURES.into_iter().filter(|(name, ..)| names.contains(name));
    figures::table(key, measured, rows, &wanted.collect::<Vec<_>>())
}

/// SIGSTOP for 50 ms during a busy run; then a process that computes on the same core.
pub(super) fn disturbed(effort: &Effort) -> Done<Vec<Table>> {
    let mut tables = vec![stall(effort)?];
    if command::hog()?.is_some() {
        tables.extend([hog(effort)?, slice(effort)?]);
    } else {
        eprintln!("skipped: no taskset, so no hog on the same core");
    }
    Ok(tables)
}

fn stall(effort: &Effort) -> Result<Table> {
    let program = Program::build()?;
    // A stopped sender uses no time, so its stop does not count as interference.
    let measured = effort.paired.rounds(|_, round| {
        let stream = program.stream(&[], BUSY, |sender| {
            pause(Duration::from_secs(1));
            signal(sender, "STOP")?;
            pause(Duration::from_millis(50));
            signal(sender, "CONT")
        })?;
        judge(round, &stream);
        note(round, STOPPED, &stream);
        anyhow::Ok(())
    })?;
    let mut table = bursts("stopped", &measured, STOPPED);
    // 50 ms minus the 10 ms that are made up, at 40 µs per scheduled time: at least this many are skipped.
    let of = |name: &str| measured.estimate(STOPPED, name);
    table.bar(Bar::at_least(format!("{STOPPED}: places forfeited"), 900.0, of("places lost")));
    table.bar(Bar::at_least(
        format!("{STOPPED}: departures counted as late by a stop"),
        1.0,
        of("late by a stop"),
    ));
    Ok(table)
}

fn hog(effort: &Effort) -> Result<Table> {
    let program = Program::build()?;
    let measured = effort.paired.beside_others().rounds(|_, round| {
        let _hog = command::hog()?;
        note(round, BESIDE, &program.stream(&["taskset", "-c", "0"], BUSY, |_| Ok(()))?);
        anyhow::Ok(())
    })?;
    let mut table = bursts("hog", &measured, BESIDE);
    let late = measured.estimate(BESIDE, "late by the scheduler");
    table.bar(Bar::at_least(format!("{BESIDE}: departures counted as late by the scheduler"), 1.0, late));
    Ok(table)
}

/// The receiver's own interrupts can bring two timestamps together; more would be caused by the sender.
fn bursts(key: &str, measured: &Measured, row: &str) -> Table {
    let names = [
        "longest burst, sender's",
        "longest burst, receiver's",
        "places lost",
        "late by a stop",
        "late by the scheduler",
    ];
    let mut table = table(key, measured, &[row], &names);
    for (name, most) in [(names[0], 1.0), (names[1], 2.0)] {
        table.bar(Bar::at_most(format!("{row}: {name}"), most, measured.estimate(row, name)));
    }
    table
}

/// A short slice, next to a program that computes on the same core.
fn slice(effort: &Effort) -> Result<Table> {
    let program = Program::build()?;
    let measured = effort.paired.beside_others().contest(
        &[()],
        &mut [WHOLE_SLICE, SHORT_SLICE],
        |(), flags, round| {
            let _hog = command::hog()?;
            note(round, flags, &program.stream(&["taskset", "-c", "0"], flags, |_| Ok(()))?);
            anyhow::Ok(())
        },
    )?;
    let names = ["late p99.9 µs", "late max µs", "places lost"];
    let mut table = table("slice", &measured, &[WHOLE_SLICE, SHORT_SLICE], &names);
    let ratio = |name: &str| measured.ratio(name, SHORT_SLICE, WHOLE_SLICE);
    let what = |name: &str| format!("beside a hog, 120 µs: {name} with a slice of 100 µs, against without");
    table.bar(Bar::at_most(what("late p99.9"), 0.2, ratio("late p99.9 µs")));
    table.bar(Bar::at_most(what("places lost"), 1.0, ratio("places lost")));
    Ok(table)
}

/// Flows faster than a wake-up, and as fast as one.
pub(super) fn idle(effort: &Effort) -> Done<Vec<Table>> {
    let program = Program::build()?;
    let measured = effort.paired.contest(&[()], &mut [FAST, HYBRID, SLEEPING], |(), flags, round| {
        let stream = program.stream(&[], flags, |_| Ok(()))?;
        judge(round, &stream);
        note(round, flags, &stream);
        anyhow::Ok(())
    })?;
    let names = ["of the rate %", "gap p1 µs", "gap p50 µs", "gap p99 µs", "CPU %", "polled away %"];
    let mut table = table("idle", &measured, &[FAST, HYBRID, SLEEPING], &names);
    let share = measured.estimate(FAST, "of the rate %");
    table.bar(Bar::at_least("idle 12 µs, all of a CPU allowed: % of the rate", 99.0, share));
    let within = |flags: &str| {
        let gap = |name: &str| measured.median(flags, name);
        gap("gap p1 µs").zip(gap("gap p99 µs")).map(|(low, high)| (40.0 - low).max(high - 40.0) / 40.0)
    };
    let (spread, sleeping) = (within(HYBRID), within(SLEEPING));
    let what = "idle 40 µs, hybrid: p1 to p99 of the gaps off the target";
    // Only where a sleep of that length can be on time at all.
    table.bar(match sleeping {
        Some(sleeping) if sleeping <= 0.15 => Bar::at_most(format!("{what} by"), 0.15, spread),
        _ => {
            let off = 100.0 * sleeping.unwrap_or(f64::NAN);
            let ratio = spread.zip(sleeping).map(|(spread, sleeping)| spread / sleeping);
            Bar::at_most(format!("{what}, against `pwait2`'s {off:.0}%"), 1.0, ratio)
        }
    });
    Ok(vec![table])
}

const STOPPED: &str = "stopped for 50 ms";
const BESIDE: &str = "beside a hog";
