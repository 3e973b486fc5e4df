//! Figures of one run, medians over rounds, and how both are printed.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::Load;
use crate::contender::{Contender, Sent};

/// What is compared, by name; what a contender does not tell is not there.
///
/// | name | of | |
/// |---|---|---|
/// | `rate_min`, `rate_max` | receiver | of the slowest and the fastest flow, as a share of what was asked for |
/// | `gap_stddev_p50_us`, `gap_stddev_max_us` | receiver | of the flow in the middle, and of the worst |
/// | `longest_train` | receiver | datagrams of all flows in a row, closer than half of the interval they have together |
/// | `back_to_back` | receiver | the share of gaps within a flow that are shorter than half its interval |
/// | `lost` | receiver | datagrams |
/// | `packets_per_turn` | sender | what left at once |
/// | `cpu_share`, `cpu_us_per_packet` | sender | of its thread |
/// | `forfeited` | sender | places given up, 10 ms behind |
/// | `lost_processor` | sender | departures a millisecond late for want of one: the host's, other programs', a late wake-up's |
#[derive(Clone, Default, Debug)]
pub(crate) struct Figures(BTreeMap<&'static str, f64>);

impl Figures {
    pub(crate) fn new(load: &Load, sent: &Sent, received: &Value) -> Self {
        let over = &received["over_flows"];
        let share =
            |key: &str| over["rate_pps"][key].as_f64().map(|rate| rate / f64::from(load.packets_per_second));
        let deviation = |key: &str| over["gap_stddev_ns"][key].as_f64().map(|nanos| nanos / 1e3);
        let told = [
            ("rate_min", share("min")),
            ("rate_max", share("max")),
            ("gap_stddev_p50_us", deviation("p50")),
            ("gap_stddev_max_us", deviation("max")),
            ("longest_train", over["longest_train"].as_f64()),
            ("back_to_back", received["back_to_back"].as_f64()),
            ("lost", received["lost"].as_f64()),
            ("packets_per_turn", sent.per_turn),
            ("cpu_share", Some(sent.cpu_seconds / sent.wall_seconds)),
            ("cpu_us_per_packet", (sent.packets > 0).then(|| sent.cpu_seconds * 1e6 / sent.packets as f64)),
            ("forfeited", sent.forfeited.map(|places| places as f64)),
            ("lost_processor", sent.lost_processor.map(|departures| departures as f64)),
        ];
        Figures(told.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }

    pub(crate) fn of(told: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        Figures(told.into_iter().collect())
    }
}

/// All rounds under one load.
#[derive(Default)]
pub(crate) struct Rounds {
    quiet: Vec<Vec<(Contender, Figures)>>,
    /// With the reason of the last.
    noisy: Vec<Vec<(Contender, Figures)>>,
    disturbance: Option<String>,
    skipped: Option<String>,
}

impl Rounds {
    pub(crate) fn add(&mut self, round: Vec<(Contender, Figures)>, disturbed: Option<String>) {
        match disturbed {
            None => self.quiet.push(round),
            Some(reason) => {
                eprintln!("set aside: {reason}");
                self.noisy.push(round);
                self.disturbance = Some(reason);
            }
        }
    }

    pub(crate) fn skip(&mut self, reason: String) {
        if self.skipped.as_ref() != Some(&reason) {
            eprintln!("{reason}");
        }
        self.skipped = Some(reason);
    }

    pub(crate) fn quiet(&self) -> usize {
        self.quiet.len()
    }

    /// Why the figures prove nothing, if so.
    fn inconclusive(&self) -> Option<&str> {
        if self.quiet.is_empty() { self.disturbance.as_deref() } else { None }
    }

    /// The quiet rounds, or those that there are.
    fn counted(&self) -> &[Vec<(Contender, Figures)>] {
        if self.quiet.is_empty() { &self.noisy } else { &self.quiet }
    }

    fn median(&self, contender: Contender, name: &str) -> Option<f64> {
        middle(self.counted().iter().filter_map(|round| figure(round, contender, name)))
    }

    /// CPU for each packet, of that of the heap loop in the same round.
    fn of_heap(&self, contender: Contender) -> Option<f64> {
        let cpu = |round: &[(Contender, Figures)], who| figure(round, who, "cpu_us_per_packet");
        middle(
            self.counted()
                .iter()
                .filter_map(|round| Some(cpu(round, contender)? / cpu(round, Contender::Heap)?)),
        )
    }

    pub(crate) fn json(&self, load: &Load) -> Value {
        let medians = |contender: Contender| {
            let names = self.counted().iter().flatten().filter(|(who, _)| *who == contender);
            let mut object: BTreeMap<&str, Option<f64>> = names
                .flat_map(|(_, figures)| figures.0.keys())
                .map(|&name| (name, self.median(contender, name)))
                .collect();
            object.insert("cpu_of_heap", self.of_heap(contender));
            (contender.name(), object)
        };
        json!({
            "load": load.name(),
            "flows": load.flows,
            "rate_pps": load.packets_per_second,
            "seconds": load.time.as_secs(),
            "quiet_rounds": self.quiet.len(),
            "noisy_rounds": self.noisy.len(),
            "inconclusive": self.inconclusive(),
            "skipped": self.skipped,
            "medians": load.contenders.iter().map(|&contender| medians(contender)).collect::<BTreeMap<_, _>>(),
        })
    }

    pub(crate) fn table(&self, load: &Load) -> String {
        let mut table = String::new();
        for &contender in load.contenders {
            if self.median(contender, "cpu_us_per_packet").is_none() {
                continue;
            }
            let get = |name| self.median(contender, name);
            let shown =
                |value: Option<f64>, digits| value.map_or("–".into(), |value| format!("{value:.digits$}"));
            let percent =
                |name, digits| get(name).map_or("–".into(), |share| format!("{:.digits$}%", share * 100.0));
            let _ = writeln!(
                table,
                "| {} | {} | {} to {} | {} / {} | {} | {} | {} | {} | {} | {} |",
                load.name(),
                contender.name(),
                percent("rate_min", 2),
                percent("rate_max", 2),
                shown(get("gap_stddev_p50_us"), 1),
                shown(get("gap_stddev_max_us"), 1),
                shown(get("longest_train"), 0),
                percent("back_to_back", 2),
                shown(get("packets_per_turn"), 2),
                percent("cpu_share", 2),
                shown(get("cpu_us_per_packet"), 2),
                shown(self.of_heap(contender), 3),
            );
        }
        for note in
            [self.inconclusive().map(|reason| format!("inconclusive: {reason}")), self.skipped.clone()]
        {
            let Some(note) = note else { continue };
            let _ = writeln!(table, "| {} | {note} | | | | | | | | |", load.name());
        }
        table
    }
}

fn figure(round: &[(Contender, Figures)], contender: Contender, name: &str) -> Option<f64> {
    round.iter().find(|(who, _)| *who == contender)?.1.0.get(name).copied()
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

pub(crate) const HEADER: &str = "\
| load | by | rate of the flows | gap deviation, median / worst flow µs | longest train | back to back | left in a turn | CPU | CPU µs/packet | of heap's |
|---|---|---|---|---|---|---|---|---|---|";
