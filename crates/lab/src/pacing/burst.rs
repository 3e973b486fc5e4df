//! Tables VIII and IX: the gaps of a flow by the shortest one that it is allowed, and those of a periodic
//! timer, which makes up nothing.
//!
//! Two loops are paced. The echo server of today passes a trigger state every few microseconds, so
//! that every target is held. To see what the paper saw, the other one computes, and looks at the clock
//! as seldom as the paper's web server did: the processor really is busy in between.
//!
//! ```text
//!   trigger states   │  │     │ │      │       │   │
//!   burst interval   ●──────▷         the next departure is at the first one after it, so the mean gap
//!   sent             ●      ├ wait ┤● cannot be shorter than the burst interval and that wait
//! ```

use std::error::Error;
use std::time::Duration;

use softtimers::{CatchUp, PaceConfig, Rate, Strategy};
use softtimers_cli::args::Timer;
use softtimers_cli::send::{Contender, Share};

use super::record::{Check, Estimate, Record, show};
use super::reference::{self, Reference};
use super::{Found, say};
use crate::turns::{self, Contest, quartiles};

/// Long beside the longest interval between trigger states, short beside the drift of the machine.
const TURN: Duration = Duration::from_millis(100);
const ROWS: usize = 14;
const LOADS: [(&str, &str); 2] = [("echo", "--busy echo --echo-batch 4"), ("web", "--busy web")];

pub(super) fn time(quick: bool) -> Duration {
    TURN * ROWS as u32 * if quick { 3 } else { 15 }
}

pub(super) fn run(quick: bool, found: &mut Found) -> Result<(), Box<dyn Error>> {
    let table: [Reference; ROWS] =
        reference::read()?.try_into().map_err(|_| "the reference table has another length")?;
    let mut contenders = [Contender::Nobody; ROWS];
    for (contender, row) in contenders.iter_mut().zip(&table) {
        *contender = paced(row)?;
    }
    for (load, flags) in LOADS {
        let Contest { rounds, disturbed, interrupted } =
            turns::contest(&format!("--interval 40us {flags}"), contenders, TURN, time(quick))?;
        let is_disturbed = found.note(interrupted, disturbed.as_ref());
        say(format_args!("{}", heading(load, rounds.len())))?;
        let figures: Vec<Figures> =
            table.iter().enumerate().map(|(at, row)| Figures::of(&rounds, at, row.target)).collect();
        for (row, figures) in table.iter().zip(&figures) {
            say(format_args!("{}", figures.row(row)))?;
            figures.records(load, row).into_iter().for_each(|record| found.record(record));
        }
        say(format_args!(""))?;
        for check in checks(load, &table, &figures) {
            found.check(check, is_disturbed);
        }
        if interrupted {
            break;
        }
    }
    Ok(())
}

/// The paper's rule and its conditions: whatever a delay cost is made up.
fn paced(row: &Reference) -> Result<Contender, Box<dyn Error>> {
    let rate = Rate::every(Duration::from_micros(row.target))?;
    let pace = PaceConfig {
        burst_interval: row.burst.map(Duration::from_micros),
        catch_up: CatchUp::ALL,
        strategy: Strategy::TwoSpeed,
        ..PaceConfig::new(rate)
    };
    Ok(Contender::Paced(if row.method == "tick" { Timer::Tick } else { Timer::Soft }, pace))
}

fn heading(load: &str, rounds: usize) -> String {
    let what = match load {
        "echo" => "the busy echo server",
        _ => "a loop with the trigger states of the paper's web server",
    };
    format!(
        "### Gaps by burst interval, {what}\n\nMedians of {rounds} rounds of {TURN:?} turns, with their middle \
         half.\n\n| target µs | burst interval µs | mean gap µs | standard deviation µs | trigger interval µs | \
         lost ticks | target ÷ (1 − lost) µs | the paper's mean | the model's mean (deviation) |\n\
         |---|---|---|---|---|---|---|---|---|"
    )
}

/// What the rounds say of one row; times in microseconds.
struct Figures {
    mean: Estimate,
    stddev: Estimate,
    /// Between trigger states, of softtimers.
    interval: Estimate,
    /// Of a periodic timer: the share of its ticks for which no signal came.
    lost: Estimate,
    /// Of each round, the mean gap as a share of what the lost ticks make of the target.
    explained: Estimate,
}

impl Figures {
    fn of(rounds: &[[Share; ROWS]], row: usize, target: u64) -> Self {
        let over = |figure: &dyn Fn(&Share) -> Option<f64>| {
            Estimate::from(quartiles(rounds.iter().filter_map(|round| figure(&round[row]))))
        };
        let explained = |share: &Share| Some(share.gaps.mean()? / 1e3 * (1.0 - lost(share)?) / target as f64);
        Figures {
            mean: over(&|share| share.gaps.mean()).times(1e-3),
            stddev: over(&|share| share.gaps.stddev()).times(1e-3),
            interval: over(&|share| share.triggers.as_ref()?.intervals.mean()).times(1e-3),
            lost: over(&lost),
            explained: over(&explained),
        }
    }

    /// What the mean gap is if the lost ticks explain it.
    fn by_lost_ticks(&self, target: u64) -> Option<f64> {
        self.lost.value.map(|lost| target as f64 / (1.0 - lost))
    }

    fn row(&self, row: &Reference) -> String {
        let is_tick = row.method == "tick";
        let model = match (row.model_mean, row.model_stddev) {
            (Some(mean), Some(stddev)) => format!("{mean:.1} ({stddev:.1})"),
            _ => "–".to_owned(),
        };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {model} |",
            row.target,
            row.burst.map_or("periodic timer".to_owned(), |burst| burst.to_string()),
            self.mean.show_range(1),
            self.stddev.show(1),
            self.interval.show(1),
            if is_tick { self.lost.times(100.0).show(2) + "%" } else { "–".to_owned() },
            show(self.by_lost_ticks(row.target).filter(|_| is_tick), 1),
            show(row.paper_mean, 1),
        )
    }

    fn records(&self, load: &'static str, row: &Reference) -> Vec<Record> {
        let record = |figure: &str, measured, paper, model| Record {
            experiment: "burst",
            load,
            method: row.method.clone(),
            target_us: Some(row.target),
            burst_us: row.burst,
            figure: figure.to_owned(),
            measured,
            paper,
            model,
        };
        let mut records = vec![
            record("mean_gap_us", self.mean, row.paper_mean, row.model_mean),
            record("stddev_gap_us", self.stddev, None, row.model_stddev),
        ];
        if self.interval.value.is_some() {
            records.push(record("mean_trigger_interval_us", self.interval, None, None));
        }
        if let Some(mean) = self.by_lost_ticks(row.target).filter(|_| row.method == "tick") {
            records.push(record("lost_ticks_share", self.lost, None, None));
            records.push(record("target_by_lost_ticks_us", Estimate::exactly(mean), None, None));
        }
        records
    }
}

/// The share of a turn's ticks for which no signal came; `None` for a timer that does not tell.
fn lost(share: &Share) -> Option<f64> {
    let overruns = share.overruns? as f64;
    let ticks = share.event_rate * TURN.as_secs_f64() + overruns;
    (ticks > 0.0).then(|| overruns / ticks)
}

fn checks(load: &str, table: &[Reference], figures: &[Figures]) -> Vec<Check> {
    let rows = || table.iter().zip(figures);
    let mut checks = Vec::new();
    for target in [40, 60] {
        let at = |text: &str| format!("{load}, target {target} µs: {text}");
        let soft = || rows().filter(|(row, _)| row.target == target && row.method == "soft");
        let held = soft().next().and_then(|(_, figures)| figures.mean.value);
        checks.push(Check::at_most(
            at("mean gap at a burst interval of 12 µs, µs"),
            target as f64 * 1.01,
            held,
        ));
        if load == "web" {
            let off = soft().map(|(row, figures)| Some((figures.mean.value? / row.model_mean? - 1.0).abs()));
            let off: Option<Vec<f64>> = off.collect();
            let most = off.and_then(|off| off.into_iter().max_by(f64::total_cmp));
            checks.push(Check::at_most(at("mean gaps off the model's, at the most"), 0.05, most));
        }
        let tick = rows().find(|(row, _)| row.target == target && row.method == "tick");
        let ratio = tick.and_then(|(_, figures)| figures.explained.value);
        checks.push(Check::at_most(
            at("periodic timer, mean gap against target ÷ (1 − lost), off by"),
            0.02,
            ratio.map(|ratio| (ratio - 1.0).abs()),
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_cli::distribution::Moments;

    #[test]
    fn lost_ticks_explain_the_mean() {
        assert_eq!(lost(&Share::default()), None);
        assert_eq!(lost(&Share { overruns: Some(0), ..Share::default() }), None);
        let mut gaps = Moments::default();
        [40_000, 46_000].into_iter().for_each(|gap| gaps.record(gap));
        // 2,325 signals and 175 overruns in 100 ms.
        let share = Share { event_rate: 23_250.0, gaps, overruns: Some(175), ..Share::default() };
        let rounds = [std::array::from_fn(|_| share.clone())];
        let figures = Figures::of(&rounds, 0, 40);
        assert_eq!((figures.mean.value, figures.stddev.value), (Some(43.0), Some(3.0)));
        assert!((figures.lost.value.unwrap() - 0.07).abs() < 1e-9);
        assert!((figures.by_lost_ticks(40).unwrap() - 43.01).abs() < 0.01);
        assert!((figures.explained.value.unwrap() - 1.0).abs() < 0.001);
        let table = reference::read().unwrap();
        let row = figures.row(&table[12]);
        assert!(
            row.starts_with("| 40 | periodic timer | 43.0 (43.0 to 43.0) | 3.0 | – | 7.00% | 43.0 | 43.0 |"),
            "{row}"
        );
        assert_eq!(figures.records("echo", &table[12]).len(), 4);
    }

    #[test]
    fn every_row_of_the_tables_has_a_contender() {
        for row in reference::read().unwrap() {
            let Contender::Paced(timer, pace) = paced(&row).unwrap() else { panic!("{row:?}") };
            assert_eq!(timer == Timer::Tick, row.burst.is_none());
            assert_eq!(pace.rate.interval().as_micros(), u128::from(row.target));
        }
    }

    #[test]
    fn what_is_to_hold_is_checked_for_both_targets() {
        let table = reference::read().unwrap();
        let exact = |row: &Reference| Figures {
            mean: Estimate::exactly(row.model_mean.unwrap_or(row.target as f64)),
            stddev: Estimate::default(),
            interval: Estimate::default(),
            lost: Estimate::exactly(0.0),
            explained: Estimate::exactly(1.0),
        };
        let figures: Vec<Figures> = table.iter().map(exact).collect();
        for (load, count) in [("echo", 4), ("web", 6)] {
            let checks = checks(load, &table, &figures);
            assert_eq!(checks.len(), count);
            assert!(checks.iter().all(|check| check.row().ends_with("| holds |")), "{checks:?}");
        }
    }
}
