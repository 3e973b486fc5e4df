//! What an idle loop can do with a budget for polling, and beside a program that computes.
//!
//! Runs of one round follow each other at once: first the policies, then the thing they are held
//! against, so that both met the same machine.

use std::process::{Command, Stdio};

use anyhow::Result;

use super::figures::Bar;
use super::trials::{Killed, Program, Stream, median, quiet};

/// The runs of one round, in the order of their flags.
struct Round(Vec<Stream>);

impl Round {
    fn is_conclusive(&self) -> bool {
        self.0.iter().all(Stream::is_conclusive)
    }

    fn has_the_host(&self) -> bool {
        self.0.iter().all(Stream::has_the_host)
    }
}

impl Program {
    /// Flows faster than a wake-up, and as fast as one.
    pub(super) fn idle(&self, rounds: usize) -> Result<Vec<Bar>> {
        let made = quiet(rounds, Round::is_conclusive, || self.round(&[], &[FAST, HYBRID, SLEEPING]))?;
        let fast = |figure: fn(&Stream) -> Option<f64>| median(&made, |round| figure(&round.0[0]));
        println!("\n### Idle loops: medians of {} rounds\n", made.len());
        println!(
            "| flags | of the rate | gap p1 / p50 / p99 µs | CPU | polled away |\n|---|---|---|---|---|"
        );
        for (at, flags) in [FAST, HYBRID, SLEEPING].into_iter().enumerate() {
            println!("| `{flags}` | {} |", columns(&made, at));
        }
        let within = |at: usize| {
            let [low, high] = [gap(&made, at, "p1"), gap(&made, at, "p99")];
            low.zip(high).map(|(low, high)| (40.0 - low).max(high - 40.0) / 40.0)
        };
        let mut bars = vec![Bar::at_least(
            "idle 12 µs, all of a processor allowed: share of the rate".into(),
            0.99,
            fast(share),
        )];
        // Asked for only where a sleep of that length can be on time at all.
        match (within(1), within(2)) {
            (spread, Some(sleeping)) if sleeping <= 0.15 => bars.push(Bar::at_most(
                "idle 40 µs, hybrid: p1 to p99 of the gaps off the target by".into(),
                0.15,
                spread,
            )),
            (spread, sleeping) => bars.push(Bar::at_most(
                format!(
                    "idle 40 µs, hybrid: p1 to p99 of the gaps off the target, against `pwait2`'s {:.0}%",
                    sleeping.unwrap_or(f64::NAN) * 100.0
                ),
                1.0,
                spread.zip(sleeping).map(|(spread, sleeping)| spread / sleeping),
            )),
        }
        Ok(bars)
    }

    /// A short slice, beside a program that computes on the same core.
    pub(super) fn slice(&self, rounds: usize) -> Result<Vec<Bar>> {
        let taskset = Command::new("taskset").arg("--version").stdout(Stdio::null()).status();
        if taskset.is_err() {
            eprintln!("skipped: no taskset, so no hog on the same core");
            return Ok(Vec::new());
        }
        let made = quiet(rounds, Round::has_the_host, || {
            let hog = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn()?;
            let _hog = Killed(Some(hog));
            self.round(&["taskset", "-c", "0"], &[WHOLE_SLICE, SHORT_SLICE])
        })?;
        let late = |at: usize, key: &str| {
            median(&made, |round| round.0[at].sent["late_ns"][key].as_f64().map(|nanos| nanos / 1e3))
        };
        let lost = |at: usize| median(&made, |round| round.0[at].sent["forfeited"].as_f64());
        println!("\n### Beside a hog: medians of {} rounds\n", made.len());
        println!("| flags | late p99.9 / max µs | places lost |\n|---|---|---|");
        for (at, flags) in [WHOLE_SLICE, SHORT_SLICE].into_iter().enumerate() {
            println!(
                "| `{flags}` | {} / {} | {} |",
                shown(late(at, "p999")),
                shown(late(at, "max")),
                shown(lost(at))
            );
        }
        let ratio = |of: &dyn Fn(usize) -> Option<f64>| {
            of(1).zip(of(0)).filter(|&(_, whole)| whole > 0.0).map(|(short, whole)| short / whole)
        };
        Ok(vec![
            Bar::at_most(
                "beside a hog, 120 µs: late p99.9 with a slice of 100 µs, against without".into(),
                0.2,
                ratio(&|at| late(at, "p999")),
            ),
            Bar::at_most(
                "beside a hog, 120 µs: places lost with a slice of 100 µs, against without".into(),
                1.0,
                ratio(&lost),
            ),
        ])
    }

    fn round(&self, wrapper: &[&str], runs: &[&str]) -> Result<Round> {
        let streams = runs.iter().map(|flags| self.stream(wrapper, flags, |_| Ok(())));
        Ok(Round(streams.collect::<Result<_>>()?))
    }
}

fn share(stream: &Stream) -> Option<f64> {
    Some(stream.sent["achieved_pps"].as_f64()? / stream.sent["target_pps"].as_f64()?)
}

fn gap(rounds: &[Round], at: usize, key: &str) -> Option<f64> {
    median(rounds, |round| round.0[at].received["gap_ns"][key].as_f64().map(|nanos| nanos / 1e3))
}

fn columns(rounds: &[Round], at: usize) -> String {
    let percent = |value: Option<f64>| value.map_or("–".into(), |value| format!("{:.1}%", value * 100.0));
    let of = |figure: fn(&Stream) -> Option<f64>| percent(median(rounds, |round| figure(&round.0[at])));
    let gaps = ["p1", "p50", "p99"].map(|key| shown(gap(rounds, at, key)));
    let cpu = of(|stream| stream.sent["cpu_share"].as_f64());
    let polled = of(|stream| stream.sent["polled"]["share"].as_f64());
    format!("{} | {} | {cpu} | {polled}", of(share), gaps.join(" / "))
}

fn shown(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{value:.1}"))
}

const FAST: &str = "--interval 12us --duration 5s --idle spin --cpu-budget 100%";
const HYBRID: &str = "--interval 40us --duration 3s --idle hybrid --cpu-budget 100%";
const SLEEPING: &str = "--interval 40us --duration 3s --timer pwait2";
/// Nothing is made up, so that one pause is late once and not for all that it delays.
const WHOLE_SLICE: &str = "--interval 120us --duration 4s --catch-up none";
const SHORT_SLICE: &str = "--interval 120us --duration 4s --catch-up none --sched-slice 100us";
