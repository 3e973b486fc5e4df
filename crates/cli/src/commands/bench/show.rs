//! What `bench` tells: the keys of `softtimers.bench/1`, and the table.

use std::time::Duration;

use serde::Serialize;
use softtimers::poll::{Behaviour, Curve};
use softtimers_forward::Mode;
use softtimers_forward::overload::{Bench, Point, ROOM};
use softtimers_forward::stats::DropCounts;
use softtimers_measure::units::show_duration;

use super::args::{BenchPlan, Beside, TrialLength};
use super::plot;
use crate::run::output::Report;
use crate::run::table::Table;

/// The configuration in effect.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct BenchConfig {
    /// When the receiver looks.
    pub(crate) mode: Mode,
    /// Threads it has.
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
    /// The share of a processor that input may have; `null`: all of it.
    pub(crate) cpu_limit: Option<f64>,
    /// The nice value of the second stage.
    pub(crate) nice: u8,
    /// What else wants the processor.
    pub(crate) beside: Beside,
    /// Datagrams the queue between the stages has room for; of `naive` also with one stage.
    pub(crate) queue: u32,
    /// The receive buffer, as the system granted it.
    pub(crate) recv_buffer_bytes: usize,
    /// How long each trial is; `null` if it is a number of datagrams.
    pub(crate) trial_s: Option<f64>,
    /// Datagrams of each trial; `null` if it is a time.
    pub(crate) trial_datagrams: Option<u64>,
}

impl BenchConfig {
    /// As it was asked for, with what the system granted.
    pub(super) fn of(plan: &BenchPlan, bench: &Bench) -> Self {
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

/// The findings.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct BenchReport {
    /// The most that was delivered in a trial of the search: what multiples are multiples of. `null` without a search.
    pub(crate) capacity_pps: Option<f64>,
    /// The maximum loss-free receive rate: found by halving to 1%, then offered again for four times as long. The rate that
    /// was offered in that longer trial; `null` without a search, or if it and six lower rates lost datagrams.
    pub(crate) mlfrr_pps: Option<u64>,
    /// Trials that this took.
    pub(crate) search_trials: u64,
    /// What the filter costs a datagram, measured before the first trial.
    pub(crate) work_ns: u64,
    /// The same after the last trial.
    pub(crate) work_after_ns: u64,
    /// The highest multiple of the capacity that the sender reached; `null` without a search.
    pub(crate) highest_multiple: Option<f64>,
    /// What the points together say; `null` without a point.
    pub(crate) curve: Option<CurveReport>,
    /// The least share of its times that a timer of 20 ms fired, of all points; `null` if trials are shorter.
    pub(crate) timer_share: Option<f64>,
    /// The largest share of a point's time in which there was input and no progress for 10 ms.
    pub(crate) stalled_share: Option<f64>,
    /// One for each rate.
    pub(crate) points: Vec<Point>,
}

/// How a receiver behaves beyond its capacity.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CurveReport {
    /// `ideal`, `realisable` or `livelock`.
    pub(crate) behaviour: &'static str,
    /// The highest rate of a point up to which no more than half a percent is lost, or left to a buffer.
    pub(crate) loss_free_pps: u64,
    /// The most that was delivered within a trial.
    pub(crate) peak_pps: u64,
    /// What is delivered at the highest rate.
    pub(crate) asymptote_pps: u64,
    /// That as a share of the peak.
    pub(crate) asymptote_share: f64,
}

impl From<Curve> for CurveReport {
    fn from(curve: Curve) -> Self {
        let Curve { loss_free, peak, asymptote, behaviour } = curve;
        let behaviour = match behaviour {
            Behaviour::Ideal => "ideal",
            Behaviour::Realisable => "realisable",
            Behaviour::Livelock => "livelock",
        };
        CurveReport {
            behaviour,
            loss_free_pps: loss_free,
            peak_pps: peak,
            asymptote_pps: asymptote,
            asymptote_share: asymptote as f64 / peak.max(1) as f64,
        }
    }
}

impl Report for BenchReport {
    const SCHEMA: &'static str = "softtimers.bench/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let nanos = |nanos| show_duration(Duration::from_nanos(nanos));
        let (before, after) = (nanos(self.work_ns), nanos(self.work_after_ns));
        table.row("work", format!("{before} per datagram before the trials, {after} after them"));
        if let Some(capacity) = self.capacity_pps {
            let found = match self.mlfrr_pps {
                Some(mlfrr) => format!("{mlfrr} packets/s without a loss, confirmed by a longer trial"),
                None => "none confirmed: each longer trial lost datagrams".to_owned(),
            };
            table.row("MLFRR", format!("{found}; {} trials", self.search_trials));
            table.row("capacity", format!("{capacity:.0} packets/s: the most of these trials"));
        }
        table.row("points", HEADER);
        for point in &self.points {
            let name = point.multiple.map_or_else(String::new, |multiple| format!("  {multiple} x"));
            table.row(&name, line(point));
        }
        if self.points.len() > 2 {
            for (name, line) in plot::lines(&self.points) {
                table.row(&name, line);
            }
        }
        if let Some(curve) = &self.curve {
            table.row(
                "beyond capacity",
                format!(
                    "{}: {} of {} packets/s at the highest rate ({:.0}% of the peak)",
                    curve.behaviour,
                    curve.asymptote_pps,
                    curve.peak_pps,
                    curve.asymptote_share * 100.0
                ),
            );
        }
        table.share("20 ms timer", self.timer_share);
        table.share("input, no progress", self.stalled_share);
        table
    }
}

/// So many datagrams of a trial, in a second. A single one is seen in a long trial, too.
fn per_second(point: &Point, datagrams: u64) -> f64 {
    let rate = datagrams as f64 / point.trial_s;
    if datagrams == 0 { 0.0 } else { rate.max(1.0) }
}

fn line(point: &Point) -> String {
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0}%", share * 100.0));
    let latency = |value: Option<u64>| {
        value.map_or("-".to_owned(), |nanos| show_duration(Duration::from_nanos(rounded(nanos))))
    };
    let DropCounts { ring, rule, queue, output } = point.dropped;
    let [late, ring, queue, output] =
        [point.late, ring, queue, rule + output].map(|datagrams| per_second(point, datagrams));
    format!(
        "{:>7.0} {:>2} {:>9.0} {:>6.0} {:>7.0} {:>6.0} {:>6.0} {:>6} {:>6} {:>5} {:>4} {:>4}",
        point.offered_pps,
        point.burst,
        point.delivered_pps,
        late,
        ring,
        queue,
        output,
        latency(point.latency_ns.p50),
        latency(point.latency_ns.p99),
        percent(point.timer_share),
        percent(Some(point.cpu_share)),
        percent(point.beside_share),
    )
}

/// To two digits, which is what a table has room for.
fn rounded(nanos: u64) -> u64 {
    let step = 10u64.pow(nanos.checked_ilog10().unwrap_or(0).saturating_sub(1));
    nanos / step * step
}

/// All but `in` and what follows `output` is packets a second, so that a line adds up: what was offered was delivered, left
/// late, or was dropped.
const HEADER: &str = "offered in delivered   late    ring  queue output    p50    p99 timer  CPU else";
