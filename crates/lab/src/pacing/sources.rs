//! Table V and figure 4: how many trigger states each source contributes, and how long the intervals between
//! them would be without it.
//!
//! What would be left without a source is known in two ways. By calculation: the same run, with the gaps
//! around its trigger states merged. And live: in a loop that really does without them, whose packets then
//! leave later. Both have to agree that the source with the largest share matters most.
//!
//! Answering 12 requests at a time, the server has all the sources that the paper tells apart.
//!
//! | here | in the paper |
//! |---|---|
//! | `syscall_exit`, after a group of requests | syscalls |
//! | `send`, in the middle of sending the answers | ip-output |
//! | `readiness`, when the kernel has reported requests | ip-intr |
//! | `idle`, before it is asked | the idle loop |

use std::error::Error;
use std::time::Duration;

use softtimers::{Histogram, TriggerState};
use softtimers_cli::failure::Failure;
use softtimers_cli::send::{Contender, Share, Triggers};

use super::record::{Check, Estimate, Record};
use super::{Found, say};
use crate::turns::{self, Contest, quartiles};

const TURN: Duration = Duration::from_millis(100);
const CONTENDERS: usize = 4;
/// Those that a loop can do without; the idle ones end its sleeps.
const REMOVED: [TriggerState; CONTENDERS - 1] =
    [TriggerState::SyscallExit, TriggerState::Send, TriggerState::Readiness];
/// Where the distributions are told, in microseconds: up to the paper's longest.
const POINTS: [u64; 16] = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 500, 1_000];
const FLAGS: &str = "--interval 40us --busy echo --echo-batch 12";

pub(super) fn time(quick: bool) -> Duration {
    TURN * CONTENDERS as u32 * if quick { 3 } else { 25 }
}

pub(super) fn run(quick: bool, found: &mut Found) -> Result<(), Box<dyn Error>> {
    let [syscalls, sends, readiness] = REMOVED.map(|source| Contender::Without(Some(source)));
    let contenders = [Contender::Without(None), syscalls, sends, readiness];
    let Contest { rounds, disturbed, interrupted } = turns::contest(FLAGS, contenders, TURN, time(quick))?;
    let is_disturbed = found.note(interrupted, disturbed.as_ref());
    let Some(all) = together(&rounds, 0) else { return Ok(()) };
    say(format_args!("{}", heading(rounds.len(), &all)))?;
    let mut removals = Vec::new();
    for source in TriggerState::ALL {
        if all.passed[source] == 0 {
            continue;
        }
        let removal = Removal::of(&rounds, &all, source);
        say(format_args!("{}", removal.row()))?;
        removal.records().into_iter().for_each(|record| found.record(record));
        removals.push(removal);
    }
    distributions(&all, &removals, found)?;
    for check in checks(&all, &removals) {
        found.check(check, is_disturbed);
    }
    Ok(())
}

/// What one contender's loops met in all rounds.
fn together(rounds: &[[Share; CONTENDERS]], who: usize) -> Option<Triggers> {
    let mut seen = rounds.iter().filter_map(|round| round[who].triggers.as_deref());
    let mut all = seen.next()?.clone();
    seen.for_each(|triggers| all.merge(triggers));
    Some(all)
}

fn heading(rounds: usize, all: &Triggers) -> String {
    format!(
        "### Trigger states by source\n\nThe busy echo server with batches of 12 beside a flow of 40 µs: {rounds} \
         rounds of {TURN:?} turns, {} trigger states. With all of them the mean interval is {} µs.\n\n\
         | without | its share | mean interval µs, by calculation | live | p50 / p99 µs, by calculation | live | \
         mean gap of the flow µs |\n|---|---|---|---|---|---|---|",
        all.passed.total(),
        micros(all.intervals.mean()).show(2),
    )
}

/// What the loop is without one source.
struct Removal {
    source: TriggerState,
    share: f64,
    calculated: Histogram,
    /// `None` of a source that the loop cannot do without.
    live: Option<Triggers>,
    /// The mean gap of the flow in that loop, in microseconds.
    gap: Estimate,
}

impl Removal {
    fn of(rounds: &[[Share; CONTENDERS]], all: &Triggers, source: TriggerState) -> Self {
        let who = REMOVED.iter().position(|&removed| removed == source).map(|at| at + 1);
        let gaps = |who: usize| quartiles(rounds.iter().filter_map(|round| round[who].gaps.mean()));
        Removal {
            source,
            share: all.share(source).unwrap_or(0.0),
            calculated: all.without.as_ref().map(|without| (*without[source]).clone()).unwrap_or_default(),
            live: who.and_then(|who| together(rounds, who)),
            gap: who.map_or_else(Estimate::default, |who| Estimate::from(gaps(who)).times(1e-3)),
        }
    }

    fn live_intervals(&self) -> Histogram {
        self.live.as_ref().map(|live| live.intervals.clone()).unwrap_or_default()
    }

    fn row(&self) -> String {
        let live = self.live_intervals();
        let spread = |intervals: &Histogram| {
            let at = |quantile| micros(intervals.quantile(quantile).map(|nanos| nanos as f64)).show(1);
            format!("{} / {}", at(0.5), at(0.99))
        };
        format!(
            "| `{}` | {:.1}% | {} | {} | {} | {} | {} |",
            self.source.name(),
            self.share * 100.0,
            micros(self.calculated.mean()).show(2),
            micros(live.mean()).show(2),
            spread(&self.calculated),
            spread(&live),
            self.gap.show_range(1),
        )
    }

    fn records(&self) -> Vec<Record> {
        let name = self.source.name();
        let mut records = vec![
            record(name.to_owned(), "share_of_trigger_states", Estimate::exactly(self.share)),
            record(calculated(name), "mean_interval_us", micros(self.calculated.mean())),
        ];
        if self.live.is_some() {
            let intervals = micros(self.live_intervals().mean());
            records.push(record(live(name), "mean_interval_us", intervals));
            records.push(record(live(name), "mean_gap_us", self.gap));
        }
        records
    }
}

/// Figure 4: shares of the intervals up to each point, all as they are and without each source.
fn distributions(all: &Triggers, removals: &[Removal], found: &mut Found) -> Result<(), Failure> {
    let mut curves = vec![("all".to_owned(), all.intervals.clone())];
    for removal in removals {
        let name = removal.source.name();
        curves.push((calculated(name), removal.calculated.clone()));
        if let Some(triggers) = &removal.live {
            curves.push((live(name), triggers.intervals.clone()));
        }
    }
    let names: Vec<&str> = curves.iter().map(|(name, _)| name.as_str()).collect();
    say(format_args!(
        "\nShares of the intervals up to so many µs, in percent:\n\n| µs | {} |",
        names.join(" | ")
    ))?;
    say(format_args!("|---|{}", "---|".repeat(names.len())))?;
    for point in POINTS {
        let shares = curves.iter().map(|(_, intervals)| within(intervals, point).times(100.0).show(1));
        say(format_args!("| {point} | {} |", shares.collect::<Vec<_>>().join(" | ")))?;
        for (name, intervals) in &curves {
            let figure = format!("share_within_{point}us");
            found.record(record(name.clone(), &figure, within(intervals, point)));
        }
    }
    say(format_args!(""))
}

/// The share of intervals of at most so many microseconds, to 3% of the interval.
fn within(intervals: &Histogram, micros: u64) -> Estimate {
    let share = 1.0 - intervals.share_above(micros * 1_000);
    if intervals.count() > 0 { Estimate::exactly(share) } else { Estimate::default() }
}

/// That both ways agree which source matters most.
fn checks(all: &Triggers, removals: &[Removal]) -> Vec<Check> {
    let removable: Vec<&Removal> = removals.iter().filter(|removal| removal.live.is_some()).collect();
    let Some(largest) = removable.iter().max_by(|one, other| one.share.total_cmp(&other.share)) else {
        return Vec::new();
    };
    let others = || removable.iter().filter(|removal| removal.source != largest.source);
    let ratio = |mean: &dyn Fn(&Removal) -> Option<f64>| {
        let longest = others().filter_map(|removal| mean(removal)).max_by(f64::total_cmp);
        mean(largest).zip(longest).map(|(largest, longest)| largest / longest)
    };
    let name = largest.source.name();
    let longer = |how: &str, ratio| {
        let figure =
            format!("mean interval without `{name}`, the largest source, against without any other, {how}");
        Check::at_least(figure, 1.0, ratio)
    };
    let grows = largest.live_intervals().mean().zip(all.intervals.mean());
    vec![
        longer("by calculation", ratio(&|removal| removal.calculated.mean())),
        longer("live", ratio(&|removal| removal.live_intervals().mean())),
        Check::at_least(
            format!("mean interval without `{name}`, live, against with all"),
            1.0,
            grows.map(|(without, with)| without / with),
        ),
    ]
}

fn micros(nanos: Option<f64>) -> Estimate {
    nanos.map_or_else(Estimate::default, |nanos| Estimate::exactly(nanos / 1e3))
}

fn calculated(name: &str) -> String {
    format!("without {name} (calculated)")
}

fn live(name: &str) -> String {
    format!("without {name} (live)")
}

fn record(method: String, figure: &str, measured: Estimate) -> Record {
    Record {
        experiment: "sources",
        load: "echo",
        method,
        target_us: Some(40),
        figure: figure.to_owned(),
        measured,
        ..Record::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers::{Config, PerSource, SoftTimers, Timestamp};

    /// What a loop met with these trigger states, a microsecond apart, ten times over.
    fn met(visits: &[TriggerState], disabled: Option<TriggerState>) -> Triggers {
        let config = Config::default().intervals_without_each(true);
        let mut timers = SoftTimers::<()>::new(disabled.into_iter().fold(config, Config::disable_source));
        let mut now = Timestamp::ZERO;
        for &source in visits.iter().cycle().take(10 * visits.len()) {
            now += Duration::from_micros(1);
            let turn = timers.trigger(source, now);
            assert!(timers.next(&turn).is_none());
        }
        let intervals = timers.intervals().unwrap();
        Triggers {
            passed: timers.stats().triggers,
            intervals: intervals.all(),
            without: Some(PerSource::from_fn(|source| Box::new(intervals.without(source).unwrap().clone()))),
        }
    }

    fn rounds(visits: &[TriggerState]) -> Vec<[Share; CONTENDERS]> {
        let share = |disabled| Share { triggers: Some(Box::new(met(visits, disabled))), ..Share::default() };
        let [a, b, c] = REMOVED.map(Some);
        vec![[share(None), share(a), share(b), share(c)]; 2]
    }

    #[test]
    fn the_largest_source_matters_most_in_both_ways() {
        use TriggerState::{Idle, Readiness, Send, SyscallExit};
        let rounds = rounds(&[Readiness, SyscallExit, Send, Send, Send, Idle]);
        let all = together(&rounds, 0).unwrap();
        assert_eq!(all.passed.total(), 120);
        let removals: Vec<_> =
            [SyscallExit, Send, Readiness, Idle].map(|source| Removal::of(&rounds, &all, source)).into();
        assert_eq!((removals[1].share, removals[3].live.is_none()), (0.5, true));
        for check in checks(&all, &removals) {
            assert!(check.figure.contains("`send`") && check.row().ends_with("| holds |"), "{check:?}");
        }
        let mut found = Found::default();
        distributions(&all, &removals, &mut found).unwrap();
        // As they are, four by calculation, three live.
        assert_eq!(found.findings.records.len(), POINTS.len() * 8);
        let send = found.findings.records.iter().find(|record| record.method == live("send")).unwrap();
        assert_eq!(
            (send.figure.as_str(), send.measured.value.map(|share| share < 1.0)),
            ("share_within_1us", Some(true))
        );
    }

    #[test]
    fn nothing_met_has_no_distribution() {
        assert_eq!(within(&Histogram::new(), 10), Estimate::default());
        assert!(together(&[], 0).is_none());
    }
}
