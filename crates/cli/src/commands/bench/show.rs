//! The report of `bench`: the keys of `softtimers.bench/1`, and the table.

use std::time::Duration;

use serde::{Serialize, Serializer};
use softtimers_load::mode::Mode;
use softtimers_load::overload::{Bench, DropCounts, Point, ROOM};
use softtimers_poll::{Behaviour, Curve};

use super::args::{BenchPlan, Beside, TrialLength};
use super::plot;
use super::run::Overload;
use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::{number, or_dash, packets, setting, share, time};
use crate::run::screen::Tone;
use crate::run::table::Table;

/// The configuration in effect.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct BenchConfig {
    /// When the receiver polls.
    pub(crate) mode: Mode,
    /// The number of threads.
    pub(crate) stages: u8,
    /// Rules of the filter.
    pub(crate) rules: u32,
    /// Datagrams back to back, unless a point says more.
    pub(crate) burst: u32,
    /// Datagrams a turn; `null` if there is no bound.
    pub(crate) quota: Option<u32>,
    /// Datagrams wanted in a poll; `null` in a mode that wants no number.
    pub(crate) aggregate: Option<u32>,
    /// The longest wait for a poll; `null` in a mode without polls.
    pub(crate) max_delay_ns: Option<u64>,
    /// The share of a CPU that input may have; `null`: all of it.
    pub(crate) cpu_limit: Option<f64>,
    /// The nice value of the second stage.
    pub(crate) nice: u8,
    /// The program beside the receiver on its CPU.
    pub(crate) beside: Beside,
    /// The capacity of the queue between the stages in datagrams; `naive` has it even with one stage.
    pub(crate) queue: u32,
    /// The receive buffer, as the system granted it.
    pub(crate) recv_buffer_bytes: usize,
    /// The length of each trial in seconds; `null` if it is a number of datagrams.
    pub(crate) trial_s: Option<f64>,
    /// Datagrams of each trial; `null` if it is a time.
    pub(crate) trial_datagrams: Option<u64>,
}

impl BenchConfig {
    /// Returns the configuration of the plan, with the values that the system granted.
    pub(super) fn from_plan(plan: &BenchPlan, bench: &Bench) -> Self {
        let receiver = &plan.receiver;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        BenchConfig {
            mode: receiver.looking.mode(),
            stages: receiver.stages,
            rules: receiver.rules,
            burst: plan.burst,
            quota: receiver.looking.packets(),
            aggregate: receiver.looking.aggregate(),
            max_delay_ns: receiver.looking.max_delay().map(nanos),
            cpu_limit: receiver.cpu_limit.map(|share| f64::from(share.get()) / 100.0),
            nice: receiver.nice,
            beside: if receiver.computes { Beside::Compute } else { Beside::None },
            queue: ROOM,
            recv_buffer_bytes: bench.recv_buffer(),
            trial_s: match plan.trial {
                TrialLength::Time(time) => Some(time.as_secs_f64()),
                TrialLength::Datagrams(_) => None,
            },
            trial_datagrams: match plan.trial {
                TrialLength::Time(_) => None,
                TrialLength::Datagrams(number) => Some(number),
            },
        }
    }
}

/// The findings of the run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct BenchReport {
    /// The highest rate delivered in a trial of the search, to which multiples refer. `null` without a search, or if a
    /// signal came before its first trial had ended.
    pub(crate) capacity_pps: Option<f64>,
    /// The maximum loss-free receive rate: found by halving to 1%, then offered again for four times as long. It is the
    /// rate sent in that longer trial; `null` without a search, or if it and six lower rates lost datagrams.
    pub(crate) mlfrr_pps: Option<u64>,
    /// The number of trials of the search.
    pub(crate) search_trials: u64,
    /// Whether a signal ended them.
    #[serde(skip)]
    pub(crate) search_ended: bool,
    /// The filter's time per datagram, measured before the first trial.
    pub(crate) work_ns: u64,
    /// The same after the last trial.
    pub(crate) work_after_ns: u64,
    /// The highest multiple of the capacity that the sender reached; `null` without a search.
    pub(crate) highest_multiple: Option<f64>,
    /// The conclusion from all points; `null` without a point.
    pub(crate) curve: Option<CurveReport>,
    /// The smallest share of its periods in which a timer of 20 ms fired, of all points; `null` if trials are shorter.
    pub(crate) timer_share: Option<f64>,
    /// The largest share of a point's time in which there was input and no progress for 10 ms.
    pub(crate) stalled_share: Option<f64>,
    /// One point for each rate.
    pub(crate) points: Vec<Point>,
}

/// The behaviour of a receiver beyond its capacity.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CurveReport {
    /// `ideal`, `realisable` or `livelock`.
    #[serde(serialize_with = "name")]
    pub(crate) behaviour: Behaviour,
    /// The highest rate of a point up to which at most half a percent is lost, or left in a buffer.
    pub(crate) loss_free_pps: u64,
    /// The highest rate delivered within a trial.
    pub(crate) peak_pps: u64,
    /// The rate delivered at the highest offered rates.
    pub(crate) asymptote_pps: u64,
    /// That rate as a share of the peak.
    pub(crate) asymptote_share: f64,
}

fn name<S: Serializer>(behaviour: &Behaviour, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(behaviour.name())
}

impl From<Curve> for CurveReport {
    fn from(curve: Curve) -> Self {
        let Curve { loss_free, peak, asymptote, behaviour } = curve;
        CurveReport {
            behaviour,
            loss_free_pps: loss_free,
            peak_pps: peak,
            asymptote_pps: asymptote,
            asymptote_share: asymptote as f64 / peak.max(1) as f64,
        }
    }
}

impl Report<Overload> for BenchReport {
    const SCHEMA: &'static str = "softtimers.bench/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        if let Some(curve) = &self.curve {
            let CurveReport { behaviour, asymptote_pps, peak_pps, asymptote_share, .. } = *curve;
            let (rate, peak) = (packets(asymptote_pps as f64), packets(peak_pps as f64));
            let tone = if behaviour == Behaviour::Livelock { Tone::Bad } else { Tone::Good };
            let behaviour = if behaviour == Behaviour::Realisable { "stable" } else { behaviour.name() };
            let kept = share(asymptote_share);
            table.toned(
                "overload",
                format!("{behaviour}: {rate} at the highest rate, {kept} of the peak of {peak}"),
                tone,
            );
        }
        if let Some(capacity) = self.capacity_pps {
            let found = match self.mlfrr_pps {
                Some(mlfrr) => format!("{}, confirmed by a longer trial", packets(mlfrr as f64)),
                None if self.search_ended => "none confirmed: interrupted".to_owned(),
                None => "none confirmed: each longer trial lost datagrams".to_owned(),
            };
            table.row("MLFRR", format!("{found}  {}", number(self.search_trials, "trial")));
            table.row("capacity", format!("{}, the most of these trials", packets(capacity)));
        }
        let (before, after) = (time(self.work_ns), time(self.work_after_ns));
        table.row("work", format!("{before} per datagram before the trials, {after} after"));
        table.row("20 ms timer", or_dash(self.timer_share, share));
        table.row("no progress", or_dash(self.stalled_share, share));
        let mut grid = Grid::new(POINTS).keys(2);
        for point in &self.points {
            grid.row(cells(point));
        }
        table.grid(grid);
        if self.points.len() > 2 {
            for (name, line) in plot::lines(&self.points) {
                table.drawn(format!("{name:>15} {line}"));
            }
        }
        table
    }
}

/// Names the receiver and the offers in a line.
pub(super) fn header(config: &BenchConfig) -> String {
    let BenchConfig { mode, stages, rules, trial_s, trial_datagrams, .. } = config;
    let trial = match (trial_s, trial_datagrams) {
        (Some(seconds), _) => setting(Duration::try_from_secs_f64(*seconds).unwrap_or_default()),
        (None, datagrams) => number(datagrams.unwrap_or(0), "datagram"),
    };
    let (stages, rules) = (number(u64::from(*stages), "stage"), number(u64::from(*rules), "rule"));
    format!("bench of a receiver over loopback: mode {mode}, {stages}, {rules}; trials of {trial}")
}

/// Returns datagrams of a trial per second. A single one shows even in a long trial.
fn per_second(point: &Point, datagrams: u64) -> String {
    let rate = datagrams as f64 / point.trial_s;
    format!("{:.0}", if datagrams == 0 { 0.0 } else { rate.max(1.0) })
}

fn cells(point: &Point) -> [String; 13] {
    let whole_percent = |share: Option<f64>| or_dash(share, |share| format!("{:.0}%", share * 100.0));
    let DropCounts { ring, rule, queue, output } = point.dropped;
    let [late, ring, queue, output] =
        [point.late, ring, queue, rule + output].map(|datagrams| per_second(point, datagrams));
    [
        or_dash(point.multiple, |multiple| format!("{multiple} x")),
        format!("{:.0}", point.offered_pps),
        point.burst.to_string(),
        format!("{:.0}", point.delivered_pps),
        late,
        ring,
        queue,
        output,
        or_dash(point.latency_ns.p50, time),
        or_dash(point.latency_ns.p99, time),
        whole_percent(point.timer_share),
        whole_percent(Some(point.cpu_share)),
        whole_percent(point.beside_share),
    ]
}

/// All values from `offered` to `output`, except the burst, are datagrams per second, so that a line adds up: offered
/// datagrams were delivered, left late, or were dropped.
const POINTS: [&str; 13] = [
    "load",
    "offered",
    "burst",
    "delivered",
    "left",
    "ring",
    "queue",
    "output",
    "p50",
    "p99",
    "timer",
    "CPU",
    "else",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::screen::Screen;
    use crate::run::snapshot::{self, Live, times};

    #[test]
    fn a_search_that_a_signal_ended_found_nothing_out() {
        let ended = BenchReport { search_ended: true, ..BenchReport::default() };
        let text = |report: &BenchReport| report.table().draw(&Screen::PIPE);
        assert!(!text(&ended).contains("MLFRR"), "{}", text(&ended));
        let before_its_longer_trial =
            BenchReport { capacity_pps: Some(48_200.0), search_trials: 9, ..ended.clone() };
        let said = text(&before_its_longer_trial);
        assert!(said.contains("none confirmed: interrupted  9 trials"), "{said}");
        let lost = BenchReport { search_ended: false, ..before_its_longer_trial };
        assert!(text(&lost).contains("each longer trial lost datagrams"), "{}", text(&lost));
    }

    #[test]
    fn snapshot() {
        let point = |multiple: f64, offered_pps: f64, delivered_pps: f64| Point {
            multiple: Some(multiple),
            offered_pps,
            delivered_pps,
            burst: 2,
            trial_s: 1.0,
            late: 3,
            dropped: DropCounts { ring: 1_204, queue: 17, ..DropCounts::default() },
            latency_ns: times(),
            timer_share: Some(0.98),
            cpu_share: 0.97,
            beside_share: Some(0.4),
            ..Point::default()
        };
        let report = BenchReport {
            capacity_pps: Some(48_200.0),
            mlfrr_pps: Some(45_100),
            search_trials: 12,
            search_ended: false,
            work_ns: 20_000,
            work_after_ns: 20_400,
            highest_multiple: Some(3.0),
            curve: Some(CurveReport {
                behaviour: Behaviour::Realisable,
                loss_free_pps: 45_100,
                peak_pps: 48_200,
                asymptote_pps: 46_000,
                asymptote_share: 0.954,
            }),
            timer_share: Some(0.98),
            stalled_share: Some(0.0),
            points: vec![
                point(0.5, 24_100.0, 24_090.0),
                point(1.0, 48_200.0, 47_100.0),
                point(3.0, 144_600.0, 46_000.0),
            ],
        };
        let header = "bench of a receiver over loopback: mode hybrid, 1 stage, 100 rules; trials of 500 ms";
        snapshot::check("bench", header, &Live::none(), &report);
    }
}
