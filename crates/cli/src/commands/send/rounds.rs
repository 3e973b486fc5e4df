//! `send --timer soft,loop,timerfd`: timers in turn, with what can be said of them after some rounds.
//!
//! ```text
//!   round 0   soft  loop  timerfd     each order, and its reverse: the machine's drift is that of all
//!   round 1   timerfd  loop  soft     ─▶ of each figure the median, and its 95% interval from six rounds on
//!   round 2   loop  timerfd  soft     ─▶ the best: its ratio to every other, each within a round, is not 1
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use softtimers_load::engines::Timer;
use softtimers_load::plan::{SendConfig, SendPlan};
use softtimers_load::recv::MOST_FLOWS;
use softtimers_load::send::{self, Notify, Opened, SendReport};
use softtimers_measure::estimate::Estimate;
use softtimers_measure::failure::{Exit, Failure};
use softtimers_measure::stats::Counter;

use super::args::{Send, SendArgs};
use super::show::header;
use crate::commands::compare::{shown, with_interval};
use crate::run::grid::Grid;
use crate::run::output::{Output, Report, say};
use crate::run::privileges::{Needs, Rights};
use crate::run::quantity::or_dash;
use crate::run::table::Table;
use crate::run::{Command, Disturbance, Outcome, Run};

/// Several timers, in turn.
#[derive(Debug)]
pub(crate) struct Rounds {
    plans: Vec<SendPlan>,
    rounds: usize,
    output: Output,
}

/// The `config` object.
#[derive(Serialize)]
pub(crate) struct RoundsConfig {
    /// The timers that are compared.
    timers: Vec<Timer>,
    /// The rounds in which each has a run.
    rounds: usize,
    /// The first timer's run; those of the others differ by the timer.
    #[serde(flatten)]
    send: SendConfig,
}

/// The keys of the object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct RoundsReport {
    /// Of each timer, each figure.
    timers: BTreeMap<&'static str, BTreeMap<&'static str, Over>>,
    /// Of each figure the best timers, or `equal`, or `inconclusive`.
    best: BTreeMap<&'static str, String>,
    /// The timers as they were given.
    #[serde(skip)]
    order: Vec<&'static str>,
}

/// A figure over all rounds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Over {
    /// The median; `null` without a round that has it.
    median: Option<f64>,
    /// The interval in which the true median is with a confidence of 95%; `null` for fewer than six rounds.
    within: Option<[f64; 2]>,
    /// The figure of each round in which every timer that has it has it.
    rounds: Vec<f64>,
}

impl Rounds {
    /// Interprets the arguments of `send` with several timers.
    ///
    /// # Errors
    /// As of each timer alone; and for options that are of one run.
    pub(crate) fn new(args: &SendArgs) -> Result<Self, Failure> {
        let of_one = [
            ("--trace", args.trace.is_some()),
            ("--report", args.page.report.is_some()),
            ("--json-stream", args.engine.output.json_stream),
        ];
        let timers = &args.engine.timer;
        let twice = (1..timers.len()).find(|&at| timers[..at].contains(&timers[at]));
        if let Some((flag, _)) = of_one.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::usage(format_args!("{flag}: allowed with one --timer")));
        } else if let Some(at) = twice {
            return Err(Failure::usage(format_args!("--timer {}: given twice", timers[at])));
        }
        let mut one = args.clone();
        one.engine.end.duration =
            one.engine.end.duration.or(args.engine.end.count.is_none().then_some(USUAL));
        let mut plans: Vec<SendPlan> = vec![];
        for timer in timers {
            (one.engine.timer, one.rounds) = (vec![*timer], None);
            plans.push(Send::new(&one)?.plan);
            // The same schedule for all.
            one.seed = plans[0].traffic.seed();
        }
        let rounds = args.rounds.unwrap_or(USUAL_ROUNDS).into();
        let flows = plans.len() * rounds * args.flows as usize;
        if flows > MOST_FLOWS {
            return Err(Failure::usage(format_args!(
                "--flows {}: in {rounds} rounds of {} timers they are {flows}; at most {MOST_FLOWS} are allowed",
                args.flows,
                plans.len(),
            )));
        }
        Ok(Rounds { plans, rounds, output: Output::from(&args.engine.output) })
    }

    /// The time that all rounds take, without questions and answers.
    fn expected(&self) -> Option<Duration> {
        let round: Option<Duration> = self.plans.iter().map(|plan| plan.traffic.expected()).sum();
        round.map(|round| round * self.rounds as u32)
    }
}

impl RoundsReport {
    /// Sums up the runs of each timer, in the order of the rounds.
    fn new(runs: &[(Timer, Vec<SendReport>)]) -> Self {
        // A round counts if every timer that has the figure has it there.
        let is_whole = |figure: &Figure, round: usize| {
            runs.iter().all(|(_, runs)| {
                runs.get(round).and_then(figure.of).is_some()
                    || runs.iter().all(|run| (figure.of)(run).is_none())
            })
        };
        let over = |runs: &[SendReport], figure: &Figure| {
            let whole = runs.iter().enumerate().filter(|&(round, _)| is_whole(figure, round));
            let rounds: Vec<f64> = whole.filter_map(|(_, run)| (figure.of)(run)).collect();
            let estimate = Estimate::from_values(rounds.iter().copied());
            let (median, within) = (estimate.map(|of| of.median), estimate.and_then(|of| of.interval));
            (figure.key, Over { median, within, rounds })
        };
        let mut report = RoundsReport {
            order: runs.iter().map(|(timer, _)| timer.name()).collect(),
            ..RoundsReport::default()
        };
        for (timer, runs) in runs {
            report.timers.insert(timer.name(), FIGURES.iter().map(|figure| over(runs, figure)).collect());
        }
        report.best =
            FIGURES.iter().filter_map(|figure| Some((figure.key, report.best_by(figure)?))).collect();
        report
    }

    /// Returns the best timers by a figure, of two or more that have it: the one with the best median, and those that are
    /// not worse in pairs. If that is all of them, they are `equal`, or it is `inconclusive`.
    fn best_by(&self, figure: &Figure) -> Option<String> {
        let over = |timer: &str| self.timers.get(timer)?.get(figure.key);
        let sign = figure.better?;
        let known = self.order.iter().filter_map(|&timer| Some((timer, over(timer)?.median? * sign)));
        let known: Vec<(&str, f64)> = known.collect();
        let &(best, _) = known.iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|_| known.len() > 1)?;
        let ratio = |other: &str| Estimate::of_ratios(&over(best)?.rounds, &over(other)?.rounds)?.interval;
        let is_near = |end: f64| (end - 1.0).abs() < WORTH_TELLING;
        let (mut all, mut equal) = (vec![], true);
        for &(timer, _) in &known {
            let ends = if timer == best { Some([1.0; 2]) } else { ratio(timer) };
            equal &= ends.is_some_and(|ends| ends.into_iter().all(is_near));
            if ends.is_none_or(|ends| ends.iter().any(|end| (end - 1.0) * sign < WORTH_TELLING)) {
                all.push(timer);
            }
        }
        Some(if all.len() < known.len() {
            all.join(", ")
        } else {
            if equal { "equal" } else { "inconclusive" }.to_owned()
        })
    }
}

impl Report<Rounds> for RoundsReport {
    const SCHEMA: &'static str = "softtimers.send.rounds/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let has = |figure: &&Figure| {
            self.timers.values().any(|of| of.get(figure.key).is_some_and(|over| over.median.is_some()))
        };
        let figures: Vec<&Figure> = FIGURES.iter().filter(has).collect();
        let mut grid = Grid::new(["timer"].into_iter().chain(figures.iter().map(|figure| figure.label)));
        for &timer in &self.order {
            let cell = |figure: &&Figure| {
                let over =
                    self.timers.get(timer).and_then(|of| of.get(figure.key)).cloned().unwrap_or_default();
                or_dash(over.median, |median| {
                    with_interval(&|value| shown(figure.key, value), median, over.within)
                })
            };
            grid.row(std::iter::once(timer.to_owned()).chain(figures.iter().map(cell)));
        }
        let best = |figure: &&Figure| self.best.get(figure.key).cloned().unwrap_or_default();
        grid.row(std::iter::once("best".to_owned()).chain(figures.iter().map(best)));
        table.grid(grid);
        table
    }
}

impl Command for Rounds {
    type Config = RoundsConfig;
    type Report = RoundsReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static str = concat!(include_str!("fields.txt"), include_str!("rounds.txt"));
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> RoundsConfig {
        let timers = self.plans.iter().map(|plan| plan.timer).collect();
        RoundsConfig { timers, rounds: self.rounds, send: self.plans[0].config() }
    }

    fn header(&self) -> String {
        let names: Vec<&str> = self.plans.iter().map(|plan| plan.timer.name()).collect();
        let config = self.plans[0].config();
        let one = header("send", &config);
        one.replace(
            &format!("timer {}", config.timer),
            &format!("{} rounds of {}", self.rounds, names.join(", ")),
        )
    }

    fn example(&self) -> RoundsReport {
        RoundsReport::new(&self.plans.iter().map(|plan| (plan.timer, vec![])).collect::<Vec<_>>())
    }

    fn seed(&self) -> Option<u64> {
        self.plans[0].traffic.seed()
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<RoundsReport>, Failure> {
        let (mut fallbacks, mut ways, mut skipped) = (vec![], vec![], None);
        for plan in &self.plans {
            match send::open(plan) {
                // All at once, so that each has a port of its own.
                Ok(first) => {
                    let others = (1..self.rounds).map(|_| first.another());
                    let mut opened = others.collect::<Result<Vec<Opened<'_>>, _>>()?;
                    opened.push(first);
                    ways.push((plan, opened));
                }
                Err(failure) if failure.exit() == Exit::NotPossible => {
                    fallbacks.push(format!("skipped: {failure}"));
                    skipped = Some(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        if let Some(failure) = skipped.filter(|_| ways.len() < 2) {
            return Err(failure);
        }
        run.drop_privileges(Needs::default())?;
        let mut runs: Vec<(Timer, Vec<SendReport>)> =
            ways.iter().map(|(plan, _)| (plan.timer, vec![])).collect();
        let _progress = run.begin(self, "sending", self.expected());
        let (mut broke_off, mut is_first) = (None, true);
        'rounds: for round in 0..self.rounds {
            let mut made = vec![];
            for at in turns(round, ways.len()) {
                let (plan, opened) = &mut ways[at];
                let Some(opened) = opened.pop() else { break 'rounds };
                let prepared = match opened.ask() {
                    Err(failure) if !is_first => {
                        broke_off = Some(failure);
                        break 'rounds;
                    }
                    prepared => prepared?,
                };
                let interrupt = run.own_interrupt()?;
                // A receiver that is missing need not be told of in each round.
                let notify: Notify =
                    if is_first { |text| say(format_args!("softtimers: {text}")) } else { |_| {} };
                let sent = prepared.send(interrupt, Counter::new(send::stats(plan)), notify)?;
                is_first = false;
                sent.fallbacks.into_iter().map(|why| format!("{}: {why}", plan.timer)).for_each(|why| {
                    if !fallbacks.contains(&why) {
                        fallbacks.push(why);
                    }
                });
                broke_off = sent.broke_off;
                if broke_off.is_some() || run.interrupt()?.arrived() {
                    // An incomplete round has no pairs.
                    break 'rounds;
                }
                made.push((at, sent.report));
            }
            made.into_iter().for_each(|(at, report)| runs[at].1.push(report));
        }
        let is_empty = runs.iter().all(|(_, runs)| runs.is_empty());
        let broke_off = broke_off.or_else(|| is_empty.then(|| Failure::check("no round is complete")));
        Ok(Outcome { fallbacks, broke_off, ..Outcome::of(RoundsReport::new(&runs)) })
    }
}

/// The order of a round: another one first in every second, and then its reverse.
fn turns(round: usize, timers: usize) -> impl Iterator<Item = usize> {
    let turn = move |turn| if round.is_multiple_of(2) { turn } else { timers - 1 - turn };
    (0..timers).map(move |at| (turn(at) + round / 2) % timers)
}

/// A figure that is compared.
struct Figure {
    key: &'static str,
    label: &'static str,
    of: fn(&SendReport) -> Option<f64>,
    /// 1 if more is better, -1 if less is, `None` if neither.
    better: Option<f64>,
}

const FIGURES: [Figure; 7] = [
    Figure { key: "achieved_pps", label: "rate", of: |report| report.achieved_pps, better: Some(1.0) },
    Figure {
        key: "gap_p50_ns",
        label: "gap p50",
        of: |report| report.gaps.gap_ns.p50.map(|gap| gap as f64),
        better: None,
    },
    Figure {
        key: "gap_p99_ns",
        label: "gap p99",
        of: |report| report.gaps.gap_ns.p99.map(|gap| gap as f64),
        better: Some(-1.0),
    },
    Figure {
        key: "back_to_back",
        label: "back to back",
        of: |report| report.gaps.back_to_back,
        better: Some(-1.0),
    },
    Figure { key: "cpu_share", label: "CPU", of: |report| Some(report.cpu_share), better: Some(-1.0) },
    Figure { key: "work_rate", label: "work", of: |report| report.work_rate, better: Some(1.0) },
    Figure {
        key: "lost",
        label: "lost",
        of: |report| Some(report.receiver?.lost as f64),
        better: Some(-1.0),
    },
];

/// Smaller differences are none to choose by.
const WORTH_TELLING: f64 = 0.01;
/// Of each run: percentiles of a thousand packets a second, and not long to wait for.
const USUAL: Duration = Duration::from_secs(1);
/// The fewest that have an interval.
const USUAL_ROUNDS: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Cli, Command as Words};
    use crate::run::snapshot::{self, Live};
    use clap::Parser;
    use softtimers_load::gaps::GapReport;
    use softtimers_measure::distribution::Distribution;

    fn rounds(line: &str) -> Result<Rounds, String> {
        let words = ["softtimers", "send", "127.0.0.1:9"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Words::Send(args) => Rounds::new(&args).map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        }
    }

    /// Reports of six rounds, whose drift is that of all timers.
    fn made(rate: f64, p99: f64, back_to_back: f64, cpu_share: impl Fn(f64) -> f64) -> Vec<SendReport> {
        let drift = [1.0, 1.2, 0.9, 1.1, 1.0, 1.3];
        let report = |drift: f64| {
            let gap_ns = Distribution {
                p50: Some(40_000),
                p99: Some((p99 * drift) as u64),
                ..Distribution::default()
            };
            SendReport {
                achieved_pps: Some(rate),
                gaps: GapReport { gap_ns, back_to_back: Some(back_to_back), longest_burst: None },
                cpu_share: cpu_share(drift),
                ..SendReport::default()
            }
        };
        drift.map(report).to_vec()
    }

    #[test]
    fn the_best_are_those_that_no_other_beats_in_pairs() {
        let rounds = rounds("-b 25kpps --timer soft,loop,ms").unwrap();
        let timers: Vec<Timer> = rounds.plans.iter().map(|plan| plan.timer).collect();
        let runs = [
            made(25_000.0, 50_000.0, 0.0, |drift| 0.2 * drift),
            made(24_990.0, 80_000.0, 0.0, |drift| 0.2 * drift * drift * drift),
            made(13_000.0, 900_000.0, 0.0, |_| 0.21),
        ];
        let report = RoundsReport::new(&timers.into_iter().zip(runs).collect::<Vec<_>>());
        let best = |key: &str| report.best.get(key).map(String::as_str);
        assert_eq!((best("achieved_pps"), best("gap_p99_ns")), (Some("soft, loop"), Some("soft")));
        assert_eq!((best("back_to_back"), best("cpu_share")), (Some("equal"), Some("inconclusive")));
        assert_eq!((best("gap_p50_ns"), best("work_rate")), (None, None));
        snapshot::check::<Rounds, _>("send-rounds", &rounds.header(), &Live::none(), &report);
    }

    #[test]
    fn only_timers_that_have_a_figure_are_compared() {
        let p99 = |runs: [Vec<SendReport>; 3]| {
            let timers = rounds("-b 25kpps --timer soft,loop,off").unwrap().plans;
            let timers = timers.iter().map(|plan| plan.timer);
            let report = RoundsReport::new(&timers.zip(runs).collect::<Vec<_>>());
            let of = |timer: &str| report.timers[timer]["gap_p99_ns"].rounds.len();
            ((of("soft"), of("loop"), of("off")), report.best.get("gap_p99_ns").cloned())
        };
        let of = |p99: f64| made(25_000.0, p99, 0.0, |_| 0.2);
        let without = || of(0.0).into_iter().map(|run| SendReport { gaps: GapReport::default(), ..run });
        let (none, mut once) = (|| without().collect::<Vec<_>>(), of(80_000.0));
        assert_eq!(p99([of(50_000.0), of(80_000.0), none()]), ((6, 6, 0), Some("soft".to_owned())));
        assert_eq!(p99([of(50_000.0), none(), none()]), ((6, 0, 0), None));
        once[2].gaps.gap_ns.p99 = None;
        assert_eq!(p99([of(50_000.0), once, none()]).0, (5, 5, 0));
    }

    #[test]
    fn each_order_has_its_reverse() {
        let orders = |timers| (0..6).map(|round| turns(round, timers).collect()).collect::<Vec<Vec<_>>>();
        assert_eq!(orders(2)[..4], [[0, 1], [1, 0], [1, 0], [0, 1]]);
        assert_eq!(orders(3), [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [2, 0, 1], [1, 0, 2]]);
    }

    #[test]
    fn each_timer_has_the_same_schedule_and_a_second() {
        let found = rounds("-b 1kpps --pattern poisson --timer loop,soft").unwrap();
        assert_eq!(found.plans[0].traffic.seed(), found.plans[1].traffic.seed());
        assert_eq!((found.rounds, found.expected()), (6, Some(Duration::from_secs(12))));
        assert_eq!(rounds("-b 1kpps -c 9 --timer loop,soft --rounds 2").unwrap().expected(), None);
    }
}
