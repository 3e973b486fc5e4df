//! Medians over rounds, the tables made of them, and the bars they are held against.

use std::fmt;

use serde_json::Value;

/// The objects of some rounds of `doctor`, all with the same configuration.
#[derive(Debug, Default)]
pub(super) struct Figures {
    rounds: Vec<Value>,
    noisy: usize,
}

impl Figures {
    pub(super) fn add(&mut self, round: Value) {
        let quiet = round["inconclusive"].is_null() && taken(&round) <= MOST_TAKEN;
        if quiet { self.rounds.push(round) } else { self.noisy += 1 }
    }

    pub(super) fn quiet_rounds(&self) -> usize {
        self.rounds.len()
    }

    pub(super) fn machine(&self) -> String {
        let Some(round) = self.rounds.first() else { return "no quiet round".to_owned() };
        let machine = &round["machine"];
        format!("Linux {}, {} x {}", machine["kernel"], machine["cores"], machine["cpu"]).replace('"', "")
    }

    pub(super) fn quality(&self) -> String {
        format!("{} quiet rounds ({} noisy ones set aside)", self.rounds.len(), self.noisy)
    }

    /// The median of a key of one method under one load.
    pub(super) fn cell(&self, method: &str, busy: &str, key: &str) -> Option<f64> {
        self.median(|round| {
            let cells = round["pacing"].as_array()?;
            let cell = cells.iter().find(|cell| cell["method"] == method && cell["busy"] == busy)?;
            key.split('.').try_fold(cell, |value, part| value.get(part))?.as_f64()
        })
    }

    /// The median over rounds of the ratio of two methods within each round. Work is compared as work
    /// kept, each against the baseline right beside it, so that drift between the two cancels out.
    fn ratio(&self, key: &str, busy: &str, of: &str, to: &str) -> Option<f64> {
        self.median(|round| {
            let cells = round["pacing"].as_array()?;
            let value = |method: &str| {
                cells.iter().find(|cell| cell["method"] == method && cell["busy"] == busy)?[key].as_f64()
            };
            Some(value(of)? / value(to)?)
        })
    }

    fn median(&self, figure: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.rounds.iter().filter_map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    pub(super) fn table(&self) -> String {
        let mut table = String::from(
            "| load, target gap | method | of the rate | back to back | longest burst | gap p50 / p99 / p99.9 µs | lateness p50 / p99 µs | CPU | work kept |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for (busy, name) in [("echo", "busy echo, 40 µs"), ("none", "idle, 120 µs")] {
            for method in METHODS {
                let get = |key: &str| self.cell(method, busy, key);
                let percent =
                    |key: &str| get(key).map_or("–".into(), |share| format!("{:.1}%", share * 100.0));
                let micros = |key: &str| get(key).map_or("–".into(), |nanos| format!("{:.1}", nanos / 1e3));
                table += &format!(
                    "| {name} | `{method}` | {} | {} | {} | {} / {} / {} | {} / {} | {} | {} |\n",
                    percent("achieved_share"),
                    percent("back_to_back"),
                    get("longest_burst").map_or("–".into(), |burst| format!("{burst:.0}")),
                    micros("gap_ns.p50"),
                    micros("gap_ns.p99"),
                    micros("gap_ns.p999"),
                    micros("late_ns.p50"),
                    micros("late_ns.p99"),
                    percent("cpu_share"),
                    percent("work_kept"),
                );
            }
        }
        table
    }

    pub(super) fn bars(&self, batch: usize) -> Vec<Bar> {
        let busy = |text: &str| format!("busy, echo batch {batch}: {text}");
        let soft = |key: &str| self.cell("soft", "echo", key);
        let mut bars = vec![
            Bar::at_least(busy("share of 25,000 packets/s"), 0.99, soft("achieved_share")),
            Bar::at_most(busy("back-to-back share, receiver's"), 0.01, soft("back_to_back")),
            Bar::at_most(busy("longest burst, receiver's"), 2.0, soft("longest_burst")),
            Bar::at_most(
                busy("back-to-back share, receiver less sender"),
                0.01,
                soft("back_to_back")
                    .zip(soft("sender_back_to_back"))
                    .map(|(there, here)| (there - here).abs()),
            ),
            Bar::at_most(busy("datagrams lost"), 0.0, soft("lost")),
        ];
        if batch == 4 {
            let turn = self.median(|round| {
                let costs = &round["costs"];
                Some(costs["turn_ns"].as_f64()? - costs["clock_read_ns"].as_f64()?)
            });
            bars.extend([
                Bar::at_least(
                    busy("work kept, against that of a timer's signal for each packet"),
                    1.1,
                    self.ratio("work_kept", "echo", "soft", "signal"),
                ),
                Bar::at_most(
                    "idle 120 µs: CPU against `pwait2`".into(),
                    1.15,
                    self.ratio("cpu_share", "none", "soft", "pwait2"),
                ),
                Bar::at_most(
                    "idle 120 µs: back-to-back share".into(),
                    0.02,
                    self.cell("soft", "none", "back_to_back"),
                ),
                Bar::at_most("an empty turn beyond the clock read, ns".into(), 2.0, turn),
            ]);
        }
        bars
    }
}

/// The share of the processor that saturated loops did not get, in the mean over those that never sleep.
/// A host that takes a virtual processor away need not say so, but such a loop can tell.
fn taken(round: &Value) -> f64 {
    let cells = round["pacing"].as_array().into_iter().flatten();
    let saturated = cells
        .filter(|cell| cell["busy"] == "echo" && NEVER_SLEEP.iter().any(|method| cell["method"] == *method));
    let shares: Vec<f64> = saturated.filter_map(|cell| cell["cpu_share"].as_f64()).collect();
    if shares.is_empty() { 0.0 } else { 1.0 - shares.iter().sum::<f64>() / shares.len() as f64 }
}

/// A figure and what it should be.
#[derive(Debug)]
pub(crate) struct Bar {
    figure: String,
    bound: f64,
    at_least: bool,
    measured: Option<f64>,
}

impl Bar {
    pub(crate) fn at_least(figure: String, bound: f64, measured: Option<f64>) -> Self {
        Bar { figure, bound, at_least: true, measured }
    }

    pub(crate) fn at_most(figure: String, bound: f64, measured: Option<f64>) -> Self {
        Bar { figure, bound, at_least: false, measured }
    }

    pub(super) fn is_met(&self) -> bool {
        self.measured
            .is_some_and(|value| if self.at_least { value >= self.bound } else { value <= self.bound })
    }

    pub(super) fn is_inconclusive(&self) -> bool {
        self.measured.is_none()
    }

    pub(super) fn is_missed(&self) -> bool {
        !self.is_met() && !self.is_inconclusive()
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.at_least { "≥" } else { "≤" };
        let state = match self {
            bar if bar.is_met() => "met",
            bar if bar.is_inconclusive() => "inconclusive",
            _ => "**missed**",
        };
        let measured = self.measured.map_or("–".to_owned(), shown);
        write!(f, "| {} | {sign} {} | {measured} | {state} |", self.figure, shown(self.bound))
    }
}

/// Of these, while their server is saturated.
const NEVER_SLEEP: [&str; 3] = ["soft", "loop", "spin"];
/// As for what the host admits to.
const MOST_TAKEN: f64 = 0.05;
/// In the order of `doctor`.
const METHODS: [&str; 8] = ["soft", "loop", "spin", "pwait2", "timerfd", "ms", "signal", "thread"];

fn shown(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn round(share: f64, noisy: bool) -> Value {
        json!({
            "inconclusive": if noisy { json!("the host") } else { Value::Null },
            "pacing": [
                { "method": "soft", "busy": "echo", "achieved_share": share, "work_rate": 90.0 },
                { "method": "loop", "busy": "echo", "achieved_share": 0.9, "work_rate": 100.0 },
            ],
        })
    }

    #[test]
    fn figures_are_medians_of_quiet_rounds() {
        let mut figures = Figures::default();
        for (share, noisy) in [(0.97, false), (0.2, true), (0.99, false), (1.0, false)] {
            figures.add(round(share, noisy));
        }
        assert_eq!(figures.cell("soft", "echo", "achieved_share"), Some(0.99));
        assert_eq!(figures.ratio("work_rate", "echo", "soft", "loop"), Some(0.9));
        assert_eq!(figures.cell("spin", "echo", "achieved_share"), None);
        assert_eq!((figures.quiet_rounds(), figures.noisy), (3, 1));
    }

    #[test]
    fn a_round_whose_saturated_loops_were_held_up_is_noisy() {
        let round = |share: f64| {
            let cell = |method: &str| json!({ "method": method, "busy": "echo", "cpu_share": share });
            json!({ "inconclusive": null, "pacing": [cell("soft"), cell("loop"), cell("spin")] })
        };
        let mut figures = Figures::default();
        for share in [0.99, 0.94, 0.96] {
            figures.add(round(share));
        }
        assert_eq!((figures.quiet_rounds(), figures.noisy), (2, 1));
    }

    #[test]
    fn every_batch_is_held_against_the_rate() {
        let mut figures = Figures::default();
        figures.add(round(0.5, false));
        for batch in [1, 4, 16] {
            let bars = figures.bars(batch);
            let named = |what: &str| {
                let name = format!("busy, echo batch {batch}: {what}");
                bars.iter().find(move |bar| bar.figure == name)
            };
            assert!(named("share of 25,000 packets/s").is_some_and(Bar::is_missed), "{bars:?}");
            assert!(named("datagrams lost").is_some(), "{bars:?}");
        }
    }

    #[test]
    fn a_bar_without_a_figure_is_inconclusive() {
        let states = |bar: Bar| (bar.is_met(), bar.is_missed(), bar.is_inconclusive());
        assert_eq!(states(Bar::at_least("x".into(), 0.9, Some(0.9))), (true, false, false));
        assert_eq!(states(Bar::at_most("x".into(), 0.9, Some(0.91))), (false, true, false));
        assert_eq!(states(Bar::at_most("x".into(), 0.9, None)), (false, false, true));
    }
}
