//! Table V and figure 4: how many trigger states each source contributes, and how long the intervals would be without
//! it.
//!
//! The intervals without a source are found in two ways. By calculation: the same run, with the gaps around its trigger
//! states merged. And live: in a loop that disables them, whose packets then leave later. Both must agree that the
//! source with the largest share matters most.
//!
//! Answering 12 requests at a time, the server has all the sources that the paper distinguishes.
//!
//! | here | in the paper |
//! |---|---|
//! | `syscall_exit`, after a group of requests | syscalls |
//! | `send`, during the sending of the answers | ip-output |
//! | `readiness`, when the kernel has reported requests | ip-intr |
//! | `idle`, before it polls | the idle loop |

use std::time::Duration;

use softtimers::{Histogram, Rate, TriggerState};
use softtimers_load::send::Triggers;
use softtimers_load::turns::{Contender, Share};
use softtimers_load::work::Work;
use softtimers_measure::estimate::Estimate;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::{Cell, Table};

use super::Quick;
use crate::bench::Done;
use softtimers_contest::turns;

const TURN: Duration = Duration::from_millis(100);
const CONTENDERS: usize = 4;
/// The sources that a loop can disable; the idle ones end its sleeps.
const REMOVED: [TriggerState; CONTENDERS - 1] =
    [TriggerState::SyscallExit, TriggerState::Send, TriggerState::Readiness];
/// A group of requests has all the sources that the paper distinguishes.
const WORK: Work = Work::Echo { batch: 12 };
const COLUMNS: [(&str, usize); 9] = [
    ("without", 0),
    ("its share %", 1),
    ("mean interval µs, by calculation", 2),
    ("mean interval µs, live", 2),
    ("p50 µs, by calculation", 1),
    ("p99 µs, by calculation", 1),
    ("p50 µs, live", 1),
    ("p99 µs, live", 1),
    ("mean gap of the flow µs", 1),
];

pub(super) fn run(quick: &Quick) -> Done<Vec<Table>> {
    let [syscalls, sends, readiness] = REMOVED.map(|source| Contender::Without(Some(source)));
    let contenders = [Contender::Without(None), syscalls, sends, readiness];
    let time = TURN * CONTENDERS as u32 * if *quick { 3 } else { 25 };
    let contest = turns::contest(Rate::every(Duration::from_micros(40))?, WORK, contenders, TURN, time)?;
    let Some(all) = together(&contest.rounds, 0) else { return Ok(Vec::new()) };
    let mut table = contest.table("sources", &COLUMNS);
    let met = TriggerState::ALL.into_iter().filter(|&source| all.passed[source] > 0);
    let removals: Vec<Removal> = met.map(|source| Removal::new(&contest.rounds, &all, source)).collect();
    removals.iter().for_each(|removal| table.row(removal.row()));
    let mean = all.intervals.mean().unwrap_or(f64::NAN) / 1e3;
    table.note(format!(
        "{} trigger states; with all of them the mean interval is {mean:.2} µs",
        all.passed.total()
    ));
    bars(&all, &removals).into_iter().for_each(|bar| table.bar(bar));
    Ok(vec![table])
}

/// Returns the trigger states of one contender's loops in all rounds.
fn together(rounds: &[[Share; CONTENDERS]], who: usize) -> Option<Triggers> {
    let mut seen = rounds.iter().filter_map(|round| round[who].triggers.as_deref());
    let mut all = seen.next()?.clone();
    seen.for_each(|triggers| all.merge(triggers));
    Some(all)
}

/// The loop without one source.
struct Removal {
    source: TriggerState,
    share: f64,
    calculated: Histogram,
    /// `None` for a source that the loop cannot disable.
    live: Option<Triggers>,
    /// The mean gap of the flow in that loop, in microseconds.
    gap: Option<Estimate>,
}

impl Removal {
    fn new(rounds: &[[Share; CONTENDERS]], all: &Triggers, source: TriggerState) -> Self {
        let who = REMOVED.iter().position(|&removed| removed == source).map(|at| at + 1);
        let gaps =
            |who: usize| Estimate::from_values(rounds.iter().filter_map(|round| round[who].gaps.mean()));
        Removal {
            source,
            share: all.share(source).unwrap_or(0.0),
            calculated: all.without.as_ref().map(|without| (*without[source]).clone()).unwrap_or_default(),
            live: who.and_then(|who| together(rounds, who)),
            gap: who.and_then(gaps).map(|gap| gap.times(1e-3)),
        }
    }

    fn live_intervals(&self) -> Histogram {
        self.live.as_ref().map(|live| live.intervals.clone()).unwrap_or_default()
    }

    fn row(&self) -> [Cell; COLUMNS.len()] {
        let live = self.live_intervals();
        let at =
            |intervals: &Histogram, quantile| micros(intervals.quantile(quantile).map(|nanos| nanos as f64));
        [
            self.source.name().into(),
            (self.share * 100.0).into(),
            micros(self.calculated.mean()),
            micros(live.mean()),
            at(&self.calculated, 0.5),
            at(&self.calculated, 0.99),
            at(&live, 0.5),
            at(&live, 0.99),
            self.gap.into(),
        ]
    }
}

/// Requires that both ways agree on the most important source.
fn bars(all: &Triggers, removals: &[Removal]) -> Vec<Bar> {
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
    let longer = |how: &str, ratio: Option<f64>| {
        let figure =
            format!("mean interval without `{name}`, the largest source, against without any other, {how}");
        Bar::at_least(figure, 1.0, ratio)
    };
    let grows = largest.live_intervals().mean().zip(all.intervals.mean());
    vec![
        longer("by calculation", ratio(&|removal| removal.calculated.mean())),
        longer("live", ratio(&|removal| removal.live_intervals().mean())),
        Bar::at_least(
            format!("mean interval without `{name}`, live, against with all"),
            1.0,
            grows.map(|(without, with)| without / with),
        ),
    ]
}

fn micros(nanos: Option<f64>) -> Cell {
    nanos.map(|nanos| nanos / 1e3).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers::{Config, PerSource, SoftTimers, Timestamp};
    use softtimers_trials::bar::Verdict;

    /// Returns the trigger states of a loop that passed these, a microsecond apart, ten times over.
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
            [SyscallExit, Send, Readiness, Idle].map(|source| Removal::new(&rounds, &all, source)).into();
        assert_eq!((removals[1].share, removals[3].live.is_none()), (0.5, true));
        for bar in bars(&all, &removals) {
            assert!(bar.figure.contains("`send`") && bar.verdict() == Verdict::Met, "{bar:?}");
        }
    }

    #[test]
    fn nothing_met_has_no_distribution() {
        assert!(together(&[], 0).is_none());
    }
}
