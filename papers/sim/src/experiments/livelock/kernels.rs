//! `livelock`: one kernel at one rate.

use super::closed::Closed;
use super::parameters::{SYNTHETIC, config, parameters};
use super::router::Router;
use crate::{Column, Experiment, Parameter, Parameters, Row, RunError, Steps, Streams, Value};

/// Output by input, and where the other packets were dropped: figures 2, 5, 6, 7, 9 and 10.
pub(crate) static LIVELOCK: Experiment = Experiment {
    name: "livelock",
    about: "A router under overload: output by input for every kernel (livelock paper, sections 6 and 7)",
    details: "Packets of minimum size arrive at a router on one 10 Mbit/s Ethernet and leave by another. The \
              costs come from the paper's trace of one packet; for the others, see papers/docs/sim.md. The policies \
              are those of softtimers_poll.",
    parameters: &PARAMETERS,
    columns: COLUMNS,
    sweep: &[
        ("kernel", "unmodified,no-polling,polled,high-ipl"),
        ("rate", "1000,2000,3000,4000,5000,6000,7000,8000,9000,10000,11000,12000"),
    ],
    check,
    run,
};

fn check(parameters: &Parameters) -> Result<(), RunError> {
    let config = config(parameters)?;
    let Some(recording) = parameters.trace("trace") else { return config.checked().map(drop) };
    if recording.span().is_zero() {
        return Err(RunError::new("trace: all its packets come at one time; a rate needs two times"));
    }
    // At least two fit into any time: one at its beginning and one at its end.
    let between = recording.packets().saturating_sub(2) as u128;
    if between * config.machine.wire.as_nanos() > recording.span().as_nanos() {
        let rate = (recording.packets() - 1) as f64 / recording.span().as_secs_f64();
        return Err(RunError::new(format_args!(
            "trace: {rate:.0} packets a second come in it; at most {} fit on the wire",
            config.most()
        )));
    }
    Ok(())
}

/// Packets a second that arrive.
pub(super) const RATE: Parameter =
    Parameter::per_second("rate", "Packets a second that arrive", 0..=MOST_PPS, 8_000);

/// More than any wire of these machines carries.
pub(super) const MOST_PPS: u64 = 100_000_000;

const PARAMETERS: [Parameter; 22] = parameters(
    RATE.needs(SYNTHETIC),
    Parameter::trace(
        "trace",
        "Packets of a recording, at its times, instead: of minimum size, and no closer than the wire carries them",
    ),
);

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    check(parameters)?;
    let config = config(parameters)?;
    let recording = parameters.trace("trace");
    // The closed form knows neither the limit on CPU time nor bursts.
    let closed = (config.limit.is_none() && recording.is_none())
        .then(|| Closed::from_config(&config).output(config.rate as f64));
    let router = match recording {
        Some(recording) => Router::of_recording(config, recording),
        None => Router::new(config, streams),
    };
    let found = router.run_in(steps, 0, 1);
    let of_arrived = |count: u64| Value::Real(count as f64 / found.arrived.max(1) as f64);
    let micros = |q| found.latency.quantile(q).map(|nanos| nanos as f64 / 1e3);
    let quota = found.quota.map_or(parameters.limit("quota"), |quota| Some(quota.into()));
    let delivered = found.delivered.max(1) as f64;
    Ok(vec![vec![
        parameters.word("kernel").into(),
        if config.kernel.polls() {
            quota.map_or(Value::Without("none"), Value::from)
        } else {
            Value::Missing
        },
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
        found.settled.map(|settled| settled.as_secs_f64() * 1e3).into(),
    ]])
}

const COLUMNS: &[Column] = &[
    Column::words("kernel", "which kernel"),
    Column::new("quota", "packets in a turn; with --auto-quota the quota it found"),
    Column::new("offered_pps", "packets that arrived, a second"),
    Column::new("output_pps", "packets forwarded or captured, a second"),
    Column::new("closed_pps", "the same, from a closed form"),
    Column::share("ring_drops", "share of arrivals dropped by the interface"),
    Column::share("ipintrq_drops", "share dropped between driver and IP"),
    Column::share("process_drops", "share dropped at the queue to a process"),
    Column::share("out_drops", "share dropped at the output queue"),
    Column::new("p50_us", "median time from arrival to the end of transmission").digits(0),
    Column::new("p99_us", "the 99th percentile of that").digits(0),
    Column::share("user_share", "CPU share of the computing process (--user yes)"),
    Column::new("interrupts", "interrupts for each output packet").digits(2),
    Column::new("starts", "hand-overs to the transmitter for each output packet").digits(2),
    Column::new("empty_pps", "empty polls, a second"),
    Column::share("starved", "share of time: packets wait, no output for 5 ms or more"),
    Column::share("livelocked", "share of time without progress for 10 ms in spite of input"),
    Column::new("settled_ms", "when output was steady (MSER-5); above 200: too late").greatest(),
];
