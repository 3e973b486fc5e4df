//! Every method next to an echo server, and on an idle machine: a round is one `softtimers doctor`, which runs each
//! method once, in rotating order.

use serde_json::Value;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Round};
use softtimers_trials::result::Table;

use super::Effort;
use crate::bench::Done;
use crate::figures::{self, Figure};
use softtimers_trials::command::Program;

/// The methods, in the order of `doctor`.
const METHODS: [&str; 8] = ["soft", "loop", "spin", "pwait2", "timerfd", "ms", "signal", "thread"];
/// The loops that never sleep while their server is saturated.
const NEVER_SLEEP: [&str; 3] = ["soft", "loop", "spin"];
/// The same limit as for interference that the host reports.
const MOST_TAKEN: f64 = 0.05;
/// Well above the cost of a wake-up, so that sleeping can work, which the bars are about.
const IDLE_INTERVAL: &str = "120us";
const LOADS: [(&str, &str); 2] = [("echo", "busy echo, 40 µs"), ("none", "idle, 120 µs")];

const FIGURES: [Figure; 10] = [
    ("of the rate %", 1, "achieved_share", 100.0),
    ("back to back %", 1, "back_to_back", 100.0),
    ("longest burst", 0, "longest_burst", 1.0),
    ("gap p50 µs", 1, "gap_ns.p50", 1e-3),
    ("gap p99 µs", 1, "gap_ns.p99", 1e-3),
    ("gap p99.9 µs", 1, "gap_ns.p999", 1e-3),
    ("late p50 µs", 1, "late_ns.p50", 1e-3),
    ("late p99 µs", 1, "late_ns.p99", 1e-3),
    ("CPU %", 1, "cpu_share", 100.0),
    ("work kept %", 1, "work_kept", 100.0),
];

pub(super) fn beside_work(effort: &Effort, batch: usize) -> Done<Vec<Table>> {
    let program = Program::build()?;
    let measured = effort.paired.rounds(|number, round| {
        let words = format!(
            "doctor --json --duration 500ms --idle-interval {IDLE_INTERVAL} --echo-batch {batch} --rotate {number}"
        );
        note(round, &program.object(&words)?);
        Ok::<(), anyhow::Error>(())
    })?;
    let rows = LOADS.iter().flat_map(|(_, load)| METHODS.map(|method| row(load, method)));
    let mut table = figures::table(&format!("batch-{batch}"), &measured, rows, &FIGURES);
    bars(&measured, batch).into_iter().for_each(|bar| table.bar(bar));
    Ok(vec![table])
}

fn row(load: &str, method: &str) -> String {
    format!("{load}, {method}")
}

/// Records the figures of one `doctor` run, which may set itself aside.
fn note(round: &mut Round, doctor: &Value) {
    let cells = doctor["pacing"].as_array().into_iter().flatten();
    let mut had = Vec::new();
    for cell in cells {
        let (method, busy) = (cell["method"].as_str().unwrap_or_default(), &cell["busy"]);
        let Some((_, load)) = LOADS.iter().find(|(name, _)| busy == name) else { continue };
        let row = row(load, method);
        let get = |key| figures::at(cell, key);
        figures::put(round, &row, cell, &FIGURES);
        round.put(&row, LOST, get("lost"));
        let apart = get("back_to_back").zip(get("sender_back_to_back"));
        round.put(&row, APART, apart.map(|(there, here)| 100.0 * (there - here).abs()));
        had.extend(get("cpu_share").filter(|_| busy == "echo" && NEVER_SLEEP.contains(&method)));
    }
    let costs = |key: &str| doctor["costs"][key].as_f64();
    round.put(COSTS, TURN, costs("turn_ns").zip(costs("clock_read_ns")).map(|(turn, clock)| turn - clock));
    if let Some(reason) = doctor["inconclusive"].as_str() {
        round.set_aside(reason);
    }
    // A host that takes a virtual CPU away may not report it, but a loop that never sleeps shows it.
    let taken = 1.0 - had.iter().sum::<f64>() / had.len() as f64;
    if taken > MOST_TAKEN {
        round.set_aside(format!("loops that never sleep did not get {:.1}% of their CPU", 100.0 * taken));
    }
}

fn bars(measured: &Measured, batch: usize) -> Vec<Bar> {
    let busy = |text: &str| format!("busy, echo batch {batch}: {text}");
    let [of_echo, of_idle] = LOADS.map(|(_, load)| move |method: &str| row(load, method));
    let soft = |column: &str| measured.estimate(&of_echo("soft"), column);
    let mut bars = vec![
        Bar::at_least(busy("% of 25,000 packets/s"), 99.0, soft("of the rate %")),
        Bar::at_most(busy("back to back, receiver's, %"), 1.0, soft("back to back %")),
        Bar::at_most(busy("longest burst, receiver's"), 2.0, soft("longest burst")),
        Bar::at_most(busy("back to back, receiver less sender, %"), 1.0, soft(APART)),
        Bar::at_most(busy("datagrams lost"), 0.0, soft(LOST)),
    ];
    if batch == 4 {
        bars.extend([
            Bar::at_least(
                busy("work kept, against that of a timer's signal for each packet"),
                1.1,
                measured.ratio("work kept %", &of_echo("soft"), &of_echo("signal")),
            ),
            Bar::at_most(
                "idle 120 µs: CPU against `pwait2`",
                1.15,
                measured.ratio("CPU %", &of_idle("soft"), &of_idle("pwait2")),
            ),
            Bar::at_most(
                "idle 120 µs: back to back, %",
                2.0,
                measured.estimate(&of_idle("soft"), "back to back %"),
            ),
            Bar::at_most("an empty turn beyond the clock read, ns", 2.0, measured.estimate(COSTS, TURN)),
        ]);
    }
    bars
}

const LOST: &str = "lost";
const APART: &str = "back to back, receiver less sender %";
const COSTS: &str = "costs";
const TURN: &str = "turn less clock ns";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use softtimers_trials::bar::Verdict;

    fn doctor(share: f64, cpu: f64, reason: Option<&str>) -> Value {
        let cell = |method: &str, share: f64| json!({ "method": method, "busy": "echo", "achieved_share": share, "cpu_share": cpu, "lost": 0 });
        json!({ "inconclusive": reason, "pacing": [cell("soft", share), cell("loop", 0.9)] })
    }

    fn measured(rounds: &[Value]) -> Measured {
        let mut rounds = rounds.iter();
        let paired = softtimers_trials::paired::Paired::new(rounds.len()).as_a_whole().beside_others();
        let made: anyhow::Result<Measured> = paired.rounds(|_, round| {
            note(round, rounds.next().unwrap());
            Ok(())
        });
        made.unwrap()
    }

    #[test]
    fn a_round_whose_saturated_loops_were_held_up_is_set_aside() {
        let rounds =
            [(0.97, 0.99, None), (0.2, 0.99, Some("the host")), (0.99, 0.94, None), (1.0, 0.96, None)];
        let measured = measured(&rounds.map(|(share, cpu, reason)| doctor(share, cpu, reason)));
        assert_eq!(measured.made(), [2, 2]);
        assert_eq!(measured.median("busy echo, 40 µs, soft", "of the rate %"), Some(98.5));
        assert_eq!(measured.median("busy echo, 40 µs, spin", "of the rate %"), None);
    }

    #[test]
    fn every_batch_is_held_against_the_rate() {
        let measured = measured(&[doctor(0.5, 0.99, None)]);
        for batch in [1, 4, 16] {
            let bars = bars(&measured, batch);
            assert_eq!(bars[0].verdict(), Verdict::Missed, "{bars:?}");
            assert!(
                bars.iter()
                    .any(|bar| bar.figure.ends_with("datagrams lost") && bar.verdict() == Verdict::Met)
            );
        }
    }
}
