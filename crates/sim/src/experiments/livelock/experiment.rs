//! `livelock`: one kernel at one rate; the parameters that all experiments of the paper share.

use softtimers_core::Percent;
use softtimers_core::poll::{CpuLimitConfig, FeedbackConfig, Preset, Quota, TimeOut};
use std::time::Duration;

use super::closed::Closed;
use super::config::{Config, Consumer, Kernel, TransmitPriority};
use super::generator::Spacing;
use super::needs;
use super::router::Router;
use crate::{Column, Experiment, Kind, Parameter, Parameters, Row, RunError, Setting, Steps, Streams, Value};

/// Output by input, and where the rest was dropped: figures 2, 5, 6, 7, 9 and 10.
pub static LIVELOCK: Experiment = Experiment {
    name: "livelock",
    about: "A router under overload: output by input for every kernel (livelock paper, sections 6 and 7)",
    details: "Packets of minimum size come to a router on one 10 Mbit/s Ethernet and leave by another. Costs are those of \
              the paper's trace of one packet; beyond, see docs/sim.md. Policies are those of softtimers_core::poll.",
    parameters: PARAMETERS,
    columns: COLUMNS,
    sweep: &[
        ("kernel", "unmodified,no-polling,polled,high-ipl"),
        ("rate", "1000,2000,3000,4000,5000,6000,7000,8000,9000,10000,11000,12000"),
    ],
    needs: needs::LIVELOCK,
    check: |parameters| config(parameters).map(drop),
    run,
};

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let config = config(parameters)?;
    // It knows of no limit by processor time.
    let closed = config.limit.is_none().then(|| Closed::of(&config).output(config.rate as f64));
    let found = Router::new(config, streams).run_in(steps, 0, 1);
    let of_arrived = |count: u64| Value::Real(count as f64 / found.arrived.max(1) as f64);
    let micros = |q| found.latency.quantile(q).map(|nanos| nanos as f64 / 1e3);
    let quota = found.quota.map_or(parameters.limit("quota"), |quota| Some(quota.into()));
    let delivered = found.delivered.max(1) as f64;
    Ok(vec![vec![
        parameters.choice("kernel").into(),
        if config.kernel.polls() { quota.map_or("none".into(), Value::from) } else { Value::Missing },
        found.rate(found.arrived).into(),
        found.rate(found.delivered).into(),
        closed.into(),
        of_arrived(found.drops.ring),
        of_arrived(found.drops.ipintrq),
        of_arrived(found.drops.process),
        of_arrived(found.drops.output),
        micros(0.5).into(),
        micros(0.99).into(),
        config.user.then(|| found.share(found.user)).into(),
        (found.interrupts as f64 / delivered).into(),
        (found.starts as f64 / delivered).into(),
        config.kernel.polls().then(|| found.rate(found.polling.empty_looks)).into(),
        found.share(found.starved).into(),
        found.livelocked.into(),
    ]])
}

const COLUMNS: &[Column] = &[
    Column::new("kernel", "which kernel"),
    Column::new("quota", "packets a turn; with --auto-quota the one that was found"),
    Column::new("offered_pps", "packets that arrived, a second"),
    Column::new("output_pps", "packets that came through, a second"),
    Column::new("closed_pps", "what a closed form says of that"),
    Column::share("ring_drops", "share of arrivals that the interface dropped"),
    Column::share("ipintrq_drops", "share dropped between driver and IP"),
    Column::share("process_drops", "share dropped at the queue to a process"),
    Column::share("out_drops", "share dropped at the output queue"),
    Column::new("p50_us", "median time from arrival to the end of transmission").digits(0),
    Column::new("p99_us", "the 99th percentile of that").digits(0),
    Column::share("user_share", "of the processor that the computing process had (--user yes)"),
    Column::new("interrupts", "interrupts for each packet that came through").digits(2),
    Column::new("starts", "hand-overs to the transmitter for each of them").digits(2),
    Column::new("empty_pps", "polls that found nothing, a second"),
    Column::share(
        "starved",
        "share of time in which packets waited for a transmitter that idled for 5 ms and more",
    ),
    Column::share("livelocked", "share of time in which input had come to nothing for 10 ms"),
];

/// What a kernel and its load are set by.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "kernel",
        about: "The kernel",
        kind: Kind::Choice(Kernel::NAMES),
        default: Setting::Choice("polled"),
    },
    Parameter {
        name: "rate",
        about: "Packets a second that arrive",
        kind: Kind::PerSecond { least: 0, most: 14_880 },
        default: Setting::Count(8_000),
    },
    Parameter {
        name: "spacing",
        about: "How: each gap up to a quarter off, all the same, at random",
        kind: Kind::Choice(Spacing::NAMES),
        default: Setting::Choice("varied"),
    },
    Parameter {
        name: "quota",
        about: "Packets in a turn, of the kernels that poll (6.6.2)",
        kind: Kind::Limit { least: 1, most: 10_000 },
        default: Setting::Limit(Some(5)),
    },
    Parameter {
        name: "auto-quota",
        about: "Let it find its quota",
        kind: YES_NO,
        default: Setting::Choice("no"),
    },
    Parameter {
        name: "consumer",
        about: "Who takes packets",
        kind: Kind::Choice(&["kernel", "screend", "monitor"]),
        default: Setting::Choice("kernel"),
    },
    Parameter {
        name: "feedback",
        about: "Input is shut by a full queue to the process (6.6.1)",
        kind: YES_NO,
        default: Setting::Choice("no"),
    },
    Parameter {
        name: "queue",
        about: "Room in that",
        kind: QUEUE,
        default: Setting::Count(PAPERS.process_queue as u64),
    },
    Parameter {
        name: "high",
        about: "% at which it shuts input",
        kind: PERCENT,
        default: Setting::Count(75),
    },
    Parameter {
        name: "low",
        about: "% at which it opens it; none: by the time-out alone (9)",
        kind: Kind::Limit { least: 0, most: 100 },
        default: Setting::Limit(Some(25)),
    },
    Parameter {
        name: "timeout",
        about: "After which input is opened anyway",
        kind: Kind::Time { least: Duration::from_micros(1), most: Duration::from_secs(1) },
        default: Setting::Time(Duration::from_millis(1)),
    },
    Parameter {
        name: "cpu-limit",
        about: "% of each 10 ms that packets may have (7)",
        kind: Kind::Limit { least: 0, most: 100 },
        default: Setting::Limit(None),
    },
    Parameter {
        name: "user",
        about: "A process computes without end",
        kind: YES_NO,
        default: Setting::Choice("no"),
    },
    Parameter {
        name: "batching",
        about: "All packets there are in one interrupt (4.1)",
        kind: YES_NO,
        default: Setting::Choice("yes"),
    },
    Parameter {
        name: "transmit",
        about: "Priority of the transmit interrupt, to the receive interrupt (4.4)",
        kind: Kind::Choice(TransmitPriority::NAMES),
        default: Setting::Choice("equal"),
    },
    Parameter {
        name: "ip",
        about: "Where kernels that do not poll do it: a thread below all interrupts, or the receive interrupt (4.4)",
        kind: Kind::Choice(&["thread", "interrupt"]),
        default: Setting::Choice("thread"),
    },
    Parameter {
        name: "eager",
        about: "Load the transmitter while it is active (8.2)",
        kind: YES_NO,
        default: Setting::Choice("no"),
    },
    Parameter {
        name: "cost",
        about: "% of the paper's machine that each step costs (5.4)",
        kind: Kind::Count { least: 0, most: 10_000 },
        default: Setting::Count(100),
    },
    Parameter {
        name: "period",
        about: "Of the clocked kernel (10)",
        kind: Kind::Time { least: Duration::from_micros(50), most: Duration::from_secs(1) },
        default: Setting::Time(Duration::from_millis(1)),
    },
    Parameter {
        name: "ring",
        about: "Packets that the interface holds",
        kind: QUEUE,
        default: Setting::Count(PAPERS.ring as u64),
    },
    Parameter {
        name: "duration",
        about: "Simulated time that is measured, after 0.2 s",
        kind: Kind::Time { least: Duration::from_millis(10), most: Duration::from_secs(1_000) },
        default: Setting::Time(Duration::from_secs(2)),
    },
];
const PAPERS: crate::constants::Livelock = crate::Machine::PAPERS.livelock;
const YES_NO: Kind = Kind::Choice(&["no", "yes"]);
const QUEUE: Kind = Kind::Count { least: 1, most: 65_536 };
const PERCENT: Kind = Kind::Count { least: 0, most: 100 };

/// What they mean together.
pub(super) fn config(parameters: &Parameters) -> Result<Config, RunError> {
    let yes = |name| parameters.choice(name) == "yes";
    let kernel = Kernel::named(parameters.choice("kernel"));
    let consumer = match parameters.choice("consumer") {
        "screend" => Consumer::Screend,
        "monitor" => Consumer::Monitor,
        _ => Consumer::Kernel,
    };
    let quota = parameters.limit("quota").map_or(Quota::NONE, |quota| {
        let quota = u32::try_from(quota).unwrap_or(u32::MAX);
        Quota::new(quota, quota)
    });
    let limit = parameters.limit("cpu-limit");
    for (name, asked) in
        [("auto-quota", yes("auto-quota")), ("feedback", yes("feedback")), ("cpu-limit", limit.is_some())]
    {
        if asked && !kernel.polls() {
            let kernel = parameters.choice("kernel");
            return Err(RunError::new(format_args!(
                "{name}: kernel {kernel} has none; a kernel that polls has"
            )));
        }
    }
    if parameters.choice("ip") == "interrupt" && kernel.polls() {
        let kernel = parameters.choice("kernel");
        return Err(RunError::new(format_args!(
            "ip interrupt: kernel {kernel} polls; unmodified and no-polling do not"
        )));
    }
    let config = Config {
        consumer,
        quota,
        auto_quota: yes("auto-quota"),
        feedback: if yes("feedback") { Some(feedback(parameters, consumer)?) } else { None },
        limit: limit.map(share).transpose()?.map(|share| CpuLimitConfig::preset(Preset::Paper, share)),
        period: parameters.time("period"),
        user: yes("user"),
        batching: yes("batching"),
        transmit: TransmitPriority::named(parameters.choice("transmit")),
        to_completion: parameters.choice("ip") == "interrupt",
        eager: yes("eager"),
        percent: parameters.count_u32("cost"),
        spacing: Spacing::named(parameters.choice("spacing")),
        ring: parameters.count_u32("ring"),
        queue: parameters.count_u32("queue"),
        duration: parameters.time("duration"),
        ..Config::new(kernel, parameters.count("rate")).on(parameters.machine().livelock)
    };
    Ok(config)
}

fn feedback(parameters: &Parameters, consumer: Consumer) -> Result<FeedbackConfig, RunError> {
    if consumer == Consumer::Kernel {
        return Err(RunError::new("feedback yes: consumer kernel has no queue; screend and monitor have"));
    }
    let queue = parameters.count("queue");
    let mark = |percent| Ok(u32::try_from(share(percent)?.of_units(queue)).unwrap_or(u32::MAX));
    let marks = FeedbackConfig {
        high: mark(parameters.count("high"))?,
        low: parameters.limit("low").map(mark).transpose()?,
        time_out: TimeOut::After(parameters.time("timeout")),
    };
    marks.checked(parameters.count_u32("queue")).map_err(RunError::new)
}

fn share(percent: u64) -> Result<Percent, RunError> {
    Percent::new(u32::try_from(percent).unwrap_or(u32::MAX)).map_err(RunError::new)
}
