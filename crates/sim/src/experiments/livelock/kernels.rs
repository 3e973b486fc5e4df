//! `livelock`: one kernel at one rate.

use super::closed::Closed;
use super::parameters::{config, parameters};
use super::router::Router;
use crate::{Column, Experiment, Parameter, Parameters, Row, RunError, Steps, Streams, Value};

/// Output by input, and where the rest was dropped: figures 2, 5, 6, 7, 9 and 10.
pub(crate) static LIVELOCK: Experiment = Experiment {
    name: "livelock",
    about: "A router under overload: output by input for every kernel (livelock paper, sections 6 and 7)",
    details: "Packets of minimum size come to a router on one 10 Mbit/s Ethernet and leave by another. Costs are those of \
              the paper's trace of one packet; beyond, see docs/sim.md. Policies are those of softtimers_core::poll.",
    parameters: &PARAMETERS,
    columns: COLUMNS,
    sweep: &[
        ("kernel", "unmodified,no-polling,polled,high-ipl"),
        ("rate", "1000,2000,3000,4000,5000,6000,7000,8000,9000,10000,11000,12000"),
    ],
    check: |parameters| config(parameters).map(drop),
    run,
};

/// Packets a second that arrive.
pub(super) const RATE: Parameter =
    Parameter::per_second("rate", "Packets a second that arrive", 0..=14_880, 8_000);

const PARAMETERS: [Parameter; 21] = parameters(RATE);

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
