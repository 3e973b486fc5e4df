//! `softtimers sim hip-traces`: Table 1, the numbers of the reconstructed traces, and the search for better
//! ones.

use softtimers_core::Trace;
use softtimers_poll::readings::Reading;

use super::fit::{self, Fit};
use super::paper::{PaperTrace, TRACES};
use super::parameters;
use super::traces::{self, TraceNumber};
use crate::engine::arrivals::Bursts;
use crate::experiment::ALWAYS;
use crate::{Column, Experiment, Parameter, Parameters, Row, RunError, Steps, Streams, Value};

/// Table 1, and how the packets of its traces arrive in this model.
pub(crate) static HIP_TRACES: Experiment = Experiment {
    name: "hip-traces",
    about: "The six traces of HIP's Table 1 as reconstructed here, and the search for their numbers",
    details: "The recordings are lost, except for the figures of Table 1, which these traces match exactly. \
              How packets arrived is inferred from Table 3: packets come in trains, trains in sessions, some \
              packets alone. The seven numbers of that model are those that match seven figures of Table 3 \
              best. --refit searches for them again, starting from the known ones.",
    parameters: &[
        Parameter::choice::<TraceNumber>("synthetic", "which trace"),
        Parameter::count("refit", "number of tries in the search for better numbers", 0..=10_000_000, 0),
        Parameter::choice::<Reading>(
            "reading",
            "the reading of the text under which Table 3 should be reproduced: see hip",
        ),
    ],
    columns: &[
        Column::words("synthetic", "which trace"),
        Column::new("packets", "Packets Received"),
        Column::new("paper_packets", "what Table 1 says").given(),
        Column::new("duration_s", "Duration").digits(1),
        Column::new("paper_duration_s", "what Table 1 says").digits(1).given(),
        Column::new("gap_ms", "Average Interarrivals").digits(2),
        Column::new("paper_gap_ms", "what Table 1 says").digits(1).given(),
        Column::new("bytes", "Avg. Packet Length").digits(1),
        Column::new("paper_bytes", "what Table 1 says").given(),
        Column::new("train", "mean packets in a train").digits(3),
        Column::new("train_gap_us", "mean gap within a train"),
        Column::new("train_gap_even", "the constant share of that gap").digits(3),
        Column::new("trains", "mean trains in a session").digits(3),
        Column::new("pause_us", "mean gap between two trains of a session"),
        Column::new("pause_even", "the constant share of that gap").digits(3),
        Column::new("alone", "share of sessions that are a single packet").digits(3),
        Column::new("error", "sum of squared relative errors over seven figures of Table 3").digits(4),
    ],
    sweep: &[("synthetic", "t-high-1,t-high-2,t-med-1,t-med-2,t-low-1,t-low-2")],
    check: ALWAYS,
    run,
};

fn run(set: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let TraceNumber(index) = set.choice("synthetic");
    let (paper, tries) = (&TRACES[index], set.count_u32("refit"));
    let reading = set.choice("reading");
    let config = parameters::preset(reading);
    let of = &set.machine().hip_traces;
    let fit = fit::fit(of, paper, traces::fitted(of, reading)[index], tries, streams, config, steps);
    let trace = traces::lan(of, paper, fit.bursts).trace(streams).map_err(RunError::new)?;
    Ok(vec![row(paper, &trace, fit)])
}

/// Returns the rows of both readings without their distance from Table 3.
#[cfg(test)]
pub(crate) fn traces_of(machine: &crate::constants::Machine, streams: Streams) -> Vec<Row> {
    let of = &machine.hip_traces;
    let fitted = [Reading::Counter, Reading::Event].map(|reading| traces::fitted(of, reading));
    let rows = fitted.iter().flat_map(|fitted| TRACES.iter().zip(fitted)).filter_map(|(paper, &bursts)| {
        let trace = traces::lan(of, paper, bursts).trace(streams).ok()?;
        Some(row(paper, &trace, Fit { bursts, error: 0.0 }))
    });
    rows.collect()
}

fn row(paper: &PaperTrace, trace: &Trace, fit: Fit) -> Row {
    let packets = trace.packets() as u64;
    let seconds = trace.span().as_secs_f64();
    let bytes: u64 = trace.iter().map(|(_, length)| u64::from(length)).sum();
    let mut row: Row = vec![
        paper.name.into(),
        packets.into(),
        paper.packets.into(),
        seconds.into(),
        paper.duration.as_secs_f64().into(),
        (seconds * 1_000.0 / packets.saturating_sub(1).max(1) as f64).into(),
        paper.gap_ms.into(),
        (bytes as f64 / packets.max(1) as f64).into(),
        u64::from(paper.bytes).into(),
    ];
    row.extend(numbers(fit.bursts));
    row.push(fit.error.into());
    row
}

fn numbers(bursts: Bursts) -> [Value; 7] {
    let factor = |factor: softtimers_poll::Factor| Value::Real(f64::from(factor.get()) / 1_000.0);
    let micros = |time: std::time::Duration| Value::Real(time.as_nanos() as f64 / 1_000.0);
    let Bursts { train, gap, gap_even, trains, pause, pause_even, alone } = bursts;
    [
        factor(train),
        micros(gap),
        factor(gap_even),
        factor(trains),
        micros(pause),
        factor(pause_even),
        factor(alone),
    ]
}
