//! Tables VIII and IX: the gaps of a flow by its burst interval, and those of a periodic timer, which makes up nothing.
//!
//! Two loops are paced. Today's echo server passes a trigger state every few microseconds, so that every target is
//! held. To reproduce the paper, the other one computes, and checks the clock as rarely as the paper's web server did,
//! with a CPU that really is busy in between.
//!
//! ```text
//!   trigger states   │  │     │ │      │       │   │
//!   burst interval   ●──────▷         the next departure is at the first one after it, so the mean gap
//!   sent             ●      ├ wait ┤● cannot be shorter than the burst interval and that wait
//! ```

use std::error::Error;
use std::time::Duration;

use softtimers::{CatchUp, PaceConfig, Rate, Strategy};
use softtimers_load::turns::{Contender, Share};
use softtimers_load::work::Work;
use softtimers_measure::estimate::Estimate;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::Table;

use super::Quick;
use super::reference::{self, Reference};
use crate::bench::Done;
use softtimers_contest::turns::{self, Contest};

/// Long compared with the longest interval between trigger states, short compared with the machine's drift.
const TURN: Duration = Duration::from_millis(100);
const ROWS: usize = 14;
const LOADS: [(&str, Work); 2] = [("echo", Work::Echo { batch: 4 }), ("web", Work::Web)];
const COLUMNS: [(&str, usize); 10] = [
    ("target µs", 0),
    ("burst interval µs", 0),
    ("mean gap µs", 1),
    ("deviation µs", 1),
    ("trigger interval µs", 1),
    ("lost ticks %", 2),
    ("target ÷ (1 − lost) µs", 1),
    ("the paper's mean", 1),
    ("the model's mean", 1),
    ("the model's deviation", 1),
];

pub(super) fn run(quick: &Quick) -> Done<Vec<Table>> {
    let rows: [Reference; ROWS] =
        reference::read()?.try_into().map_err(|_| "the reference table has another length")?;
    let mut contenders = [Contender::Nobody; ROWS];
    for (contender, row) in contenders.iter_mut().zip(&rows) {
        *contender = paced(row)?;
    }
    let time = TURN * ROWS as u32 * if *quick { 3 } else { 15 };
    let mut tables = Vec::new();
    let rate = Rate::every(Duration::from_micros(40))?;
    for (load, work) in LOADS {
        let contest = turns::contest(rate, work, contenders, TURN, time)?;
        tables.push(told(load, &rows, &contest));
        if contest.interrupted {
            break;
        }
    }
    Ok(tables)
}

/// The paper's rule and its conditions: every delay is made up.
fn paced(row: &Reference) -> Result<Contender, Box<dyn Error>> {
    let rate = Rate::every(Duration::from_micros(row.target))?;
    let pace = PaceConfig {
        burst_interval: row.burst.map(Duration::from_micros),
        catch_up: CatchUp::ALL,
        strategy: Strategy::TwoSpeed,
        ..PaceConfig::new(rate)
    };
    Ok(Contender::Paced(turns::engine(&row.method), pace))
}

fn told(load: &str, rows: &[Reference], contest: &Contest<ROWS>) -> Table {
    let mut table = contest.table(load, &COLUMNS);
    let figures: Vec<Figures> =
        rows.iter().enumerate().map(|(at, row)| Figures::from_contest(contest, at, row.target)).collect();
    for (row, figures) in rows.iter().zip(&figures) {
        table.row([
            (row.target as f64).into(),
            row.burst.map_or("periodic timer".into(), |burst| (burst as f64).into()),
            figures.mean.into(),
            figures.stddev.into(),
            figures.interval.into(),
            figures.lost.map(|lost| lost.times(100.0)).into(),
            figures.by_lost_ticks(row.target).into(),
            row.paper_mean.into(),
            row.model_mean.into(),
            row.model_stddev.into(),
        ]);
    }
    bars(load, rows, &figures).into_iter().for_each(|bar| table.bar(bar));
    table
}

/// The figures of one row over all rounds; times in microseconds.
struct Figures {
    mean: Option<Estimate>,
    stddev: Option<Estimate>,
    /// The interval between softtimers' trigger states.
    interval: Option<Estimate>,
    /// The share of a periodic timer's ticks without a signal.
    lost: Option<Estimate>,
    /// The mean gap of each round, relative to the target lengthened by the lost ticks.
    explained: Option<Estimate>,
}

impl Figures {
    fn from_contest(contest: &Contest<ROWS>, row: usize, target: u64) -> Self {
        let over = |figure: &dyn Fn(&Share) -> Option<f64>| contest.over(|round| figure(&round[row]));
        let micros = |figure: &dyn Fn(&Share) -> Option<f64>| over(figure).map(|nanos| nanos.times(1e-3));
        Figures {
            mean: micros(&|share| share.gaps.mean()),
            stddev: micros(&|share| share.gaps.stddev()),
            interval: micros(&|share| share.triggers.as_ref()?.intervals.mean()),
            lost: over(&lost),
            explained: over(&|share| Some(share.gaps.mean()? / 1e3 * (1.0 - lost(share)?) / target as f64)),
        }
    }

    /// Returns the mean gap if the lost ticks explain it.
    fn by_lost_ticks(&self, target: u64) -> Option<f64> {
        self.lost.map(|lost| target as f64 / (1.0 - lost.median))
    }
}

/// Returns the share of a turn's ticks without a signal; `None` for a timer that does not count them.
fn lost(share: &Share) -> Option<f64> {
    let overruns = share.overruns? as f64;
    let ticks = share.event_rate * TURN.as_secs_f64() + overruns;
    (ticks > 0.0).then(|| overruns / ticks)
}

fn bars(load: &str, table: &[Reference], figures: &[Figures]) -> Vec<Bar> {
    let rows = || table.iter().zip(figures);
    let mean = |figures: &Figures| figures.mean.map(|mean| mean.median);
    let mut bars = Vec::new();
    for target in [40, 60] {
        let at = |text: &str| format!("{load}, target {target} µs: {text}");
        let soft = || rows().filter(|(row, _)| row.target == target && row.method == "soft");
        let held = soft().next().and_then(|(_, figures)| mean(figures));
        bars.push(Bar::at_most(at("mean gap at a burst interval of 12 µs, µs"), target as f64 * 1.01, held));
        if load == "web" {
            let off = soft().map(|(row, figures)| Some((mean(figures)? / row.model_mean? - 1.0).abs()));
            let off: Option<Vec<f64>> = off.collect();
            let most = off.and_then(|off| off.into_iter().max_by(f64::total_cmp));
            bars.push(Bar::at_most(at("mean gaps off the model's, at the most"), 0.05, most));
        }
        let tick = rows().find(|(row, _)| row.target == target && row.method == "tick");
        let off = tick.and_then(|(_, figures)| Some((figures.explained?.median - 1.0).abs()));
        bars.push(Bar::at_most(
            at("periodic timer, mean gap against target ÷ (1 − lost), off by"),
            0.02,
            off,
        ));
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_load::send::SendStats;
    use softtimers_measure::distribution::Moments;
    use softtimers_trials::bar::Verdict;

    #[test]
    fn lost_ticks_explain_the_mean() {
        assert_eq!(lost(&Share::default()), None);
        assert_eq!(lost(&Share { overruns: Some(0), ..Share::default() }), None);
        let mut gaps = Moments::default();
        [40_000, 46_000].into_iter().for_each(|gap| gaps.record(gap));
        // 2,325 signals and 175 overruns in 100 ms.
        let share = Share { event_rate: 23_250.0, gaps, overruns: Some(175), ..Share::default() };
        let rounds = vec![std::array::from_fn(|_| share.clone())];
        let contest = Contest {
            rounds,
            stats: std::array::from_fn(|_| SendStats::new(Duration::ZERO, 1)),
            disturbed: None,
            interrupted: false,
        };
        let figures = Figures::from_contest(&contest, 0, 40);
        let of = |estimate: Option<Estimate>| estimate.unwrap().median;
        assert_eq!((of(figures.mean), of(figures.stddev)), (43.0, 3.0));
        assert!((of(figures.lost) - 0.07).abs() < 1e-9 && (of(figures.explained) - 1.0).abs() < 0.001);
        assert!((figures.by_lost_ticks(40).unwrap() - 43.01).abs() < 0.01);
        let shown = told("echo", &reference::read().unwrap(), &contest).to_string();
        let row = "| 40 | periodic timer | 43.0 | 3.0 | – | 7.00 | 43.0 | 43.0 |";
        assert!(shown.lines().any(|line| line.starts_with(row)), "{shown}");
    }

    #[test]
    fn every_row_of_the_tables_has_a_contender() {
        for row in reference::read().unwrap() {
            let Contender::Paced(timer, pace) = paced(&row).unwrap() else { panic!("{row:?}") };
            assert_eq!(timer == turns::engine("tick"), row.burst.is_none());
            assert_eq!(pace.rate.interval().as_micros(), u128::from(row.target));
        }
    }

    #[test]
    fn what_is_to_hold_is_checked_for_both_targets() {
        let table = reference::read().unwrap();
        let exact = |row: &Reference| Figures {
            mean: Estimate::from_values([row.model_mean.unwrap_or(row.target as f64)]),
            stddev: None,
            interval: None,
            lost: Estimate::from_values([0.0]),
            explained: Estimate::from_values([1.0]),
        };
        let figures: Vec<Figures> = table.iter().map(exact).collect();
        for (load, count) in [("echo", 4), ("web", 6)] {
            let bars = bars(load, &table, &figures);
            assert_eq!(bars.len(), count);
            assert!(bars.iter().all(|bar| bar.verdict() == Verdict::Met), "{bars:?}");
        }
    }
}
