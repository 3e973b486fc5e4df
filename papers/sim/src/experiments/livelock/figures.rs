//! `livelock-figures`: every point of the paper's figures that could be read from its plots, beside the
//! model's.

use softtimers_core::Percent;
use softtimers_poll::{CpuLimitConfig, FeedbackConfig, Preset, Quota};

use super::config::{Config, Consumer, Kernel};
use super::router::Router;
use crate::experiment::ALWAYS;
use crate::{Column, Experiment, Parameter, Parameters, Row, RunError, Steps, Streams, Value};

/// Figures 2, 5, 6, 7, 9 and 10, under their numbers in the earlier version of the paper, 6-1 to 7-1.
pub(crate) static FIGURES: Experiment = Experiment {
    name: "livelock-figures",
    about: "Each point of the livelock paper's figures beside the model's (sections 6 and 7)",
    details: "Each point is a trial as in the paper: 10,000 packets are sent to an idle router, and its \
              output is counted until it is idle again. The points were read from vector plots of the \
              conference version (USENIX 1996), whose figures 6-1, 6-3, 6-4, 6-5, 6-6 and 7-1 are figures 2, \
              5, 6, 7, 9 and 10 of the journal version.",
    parameters: &[
        Parameter::name_of("figure", "Which", &["6-1", "6-3", "6-4", "6-5", "6-6", "7-1"]),
        PACKETS,
    ],
    columns: &[
        Column::words("figure", "number in the conference version"),
        Column::words("series", "which kernel, as the figure names it"),
        Column::new("input_pps", "packets a second that arrive").given(),
        Column::new("paper_pps", "output in packets a second, except for 7-1").digits(1).given(),
        Column::new("output_pps", "the same, of the model").digits(1),
        Column::share("paper_user_share", "CPU share of a computing process; only for 7-1").given(),
        Column::share("user_share", "the same, of the model"),
    ],
    sweep: &[("figure", "6-1,6-3,6-4,6-5,6-6,7-1")],
    check: ALWAYS,
    run,
};

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let (figure, packets) = (parameters.word("figure"), parameters.count("packets"));
    let wanted = || points().filter(|point| point.figure == figure);
    let all = wanted().count() as u64;
    let mut rows = vec![];
    for (point, number) in wanted().zip(0..) {
        if !steps.go_on(number, all) {
            break;
        }
        let config = point.config().on(parameters.hardware());
        let found = Router::trial(config, packets, streams);
        let (rates, shares) = if config.user {
            ([None; 2], [Some(point.output / 100.0), Some(found.user)])
        } else {
            ([Some(point.output), Some(found.output)], [None; 2])
        };
        let mut row: Row = vec![point.figure.into(), point.series.into(), point.input.into()];
        row.extend(rates.into_iter().chain(shares).map(Value::from));
        rows.push(row);
    }
    Ok(rows)
}

/// Packets in a trial.
pub(super) const PACKETS: Parameter = Parameter::count(
    "packets",
    "Packets in each trial, after which the queues drain (6.1)",
    10..=10_000_000,
    10_000,
);

/// A point of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    pub(crate) figure: &'static str,
    /// The figure's name for the kernel.
    pub(crate) series: &'static str,
    /// The input rate in packets a second.
    pub(crate) input: f64,
    /// Packets a second, or % of the CPU.
    pub(crate) output: f64,
}

pub(crate) fn points() -> impl Iterator<Item = Point> {
    DIGITISED.lines().skip(1).filter_map(|line| {
        let (figure, rest) = line.split_once(',')?;
        let (rest, output) = rest.rsplit_once(',')?;
        let (series, input) = rest.rsplit_once(',')?;
        Some(Point {
            figure,
            series: series.trim_matches('"'),
            input: input.parse().ok()?,
            output: output.parse().ok()?,
        })
    })
}

impl Point {
    /// The kernel of its series at its rate.
    pub(crate) fn config(&self) -> Config {
        Config { rate: self.input.round() as u64, ..series(self.series) }
    }
}

/// The kernel of a series.
pub(crate) fn series(name: &str) -> Config {
    let polled = |quota| Config { quota: Quota::new(quota, quota), ..Config::new(Kernel::Polled, 0) };
    let screend = |config| Config { consumer: Consumer::Screend, ..config };
    let number = || {
        let digits = name.split(['=', ' ', ',', '%']).find_map(|word| word.parse().ok());
        digits.unwrap_or(u32::MAX)
    };
    match name {
        "unmodified, no screend" | "unmodified" => Config::new(Kernel::Unmodified, 0),
        "unmodified, screend" => screend(Config::new(Kernel::Unmodified, 0)),
        "no polling (modified kernel)" => Config::new(Kernel::NoPolling, 0),
        "polling no quota" => polled(u32::MAX),
        "polling no feedback, screend" => screend(polled(10)),
        "polling with feedback, screend" => Config { feedback: paper_feedback(), ..screend(polled(20)) },
        name if name.starts_with("threshold") => {
            let limit = Percent::new(number()).ok().map(|share| CpuLimitConfig::preset(Preset::Paper, share));
            Config { user: true, limit, ..polled(5) }
        }
        name if name.ends_with("screend+fb") => {
            Config { feedback: paper_feedback(), ..screend(polled(number())) }
        }
        _ => polled(number()),
    }
}

fn paper_feedback() -> Option<FeedbackConfig> {
    FeedbackConfig::preset(Preset::Paper, crate::constants::Machine::PAPERS.livelock.process_queue).ok()
}

const DIGITISED: &str = include_str!("figures.csv");
