//! The received packets: from a recording, the paper's traces, or a pattern.

use softtimers_core::Rate;
use softtimers_core::{OnOff, Pattern};

use super::paper::{PaperTrace, TRACES};
use super::parameters::{factor, reading};
use super::traces;
use crate::engine::arrivals::{self, Arrival, SelfSimilar, SelfSimilarConfig};
use crate::{Parameters, RunError, Streams};

/// Packets that are the same for every scheme.
pub(super) struct Source {
    pub(super) name: &'static str,
    packets: Vec<Arrival>,
    /// The paper's row for them.
    pub(super) paper: Option<&'static PaperTrace>,
}

impl Source {
    pub(super) fn arrivals(&self) -> impl Iterator<Item = Arrival> + '_ {
        self.packets.iter().copied()
    }
}

/// Returns all requested sources.
pub(super) fn sources(parameters: &Parameters, streams: Streams) -> Result<Vec<Source>, RunError> {
    if let Some(trace) = parameters.trace("trace") {
        return Ok(vec![Source { name: "trace", packets: arrivals::of_trace(trace).collect(), paper: None }]);
    }
    let name = parameters.choice("synthetic");
    if name == "table-1" {
        return (0..TRACES.len()).map(|index| of_paper(index, parameters, streams)).collect();
    }
    if let Some(index) = traces::find(name) {
        return Ok(vec![of_paper(index, parameters, streams)?]);
    }
    Ok(vec![Source { name, packets: pattern(name, parameters, streams)?, paper: None }])
}

/// Checks that the requested packets exist.
pub(super) fn check(parameters: &Parameters) -> Result<(), RunError> {
    let name = parameters.choice("synthetic");
    if parameters.trace("trace").is_some() || name == "table-1" || traces::find(name).is_some() {
        return Ok(());
    }
    let gap = parameters.time("mean-gap");
    Rate::every(if name == "on-off" { gap / 4 } else { gap }).map_err(RunError::new)?;
    let on = parameters.time("on");
    OnOff::new(on, on * 3).map_err(RunError::new)?;
    factor(parameters, "pareto").map(drop)
}

fn of_paper(index: usize, parameters: &Parameters, streams: Streams) -> Result<Source, RunError> {
    let paper = &TRACES[index];
    let trace = traces::lan(
        &parameters.machine().hip_traces,
        paper,
        traces::fitted(&parameters.machine().hip_traces, reading(parameters, "fitted"))[index],
    )
    .trace(streams)
    .map_err(RunError::new)?;
    Ok(Source { name: paper.name, packets: arrivals::of_trace(&trace).collect(), paper: Some(paper) })
}

fn pattern(name: &str, parameters: &Parameters, streams: Streams) -> Result<Vec<Arrival>, RunError> {
    let (gap, bytes) = (parameters.time("mean-gap"), parameters.count_u32("bytes"));
    let packets = usize::try_from(parameters.count("packets")).unwrap_or(usize::MAX);
    let rate = |gap| Rate::every(gap).map_err(RunError::new);
    let of = |rate, pattern| arrivals::of_pattern(rate, pattern, bytes).take(packets).collect();
    Ok(match name {
        "poisson" => of(rate(gap)?, Pattern::Poisson { seed: streams.of("arrivals").next_u64() }),
        "on-off" => {
            let on = parameters.time("on");
            of(rate(gap / 4)?, Pattern::OnOff(OnOff::new(on, on * 3).map_err(RunError::new)?))
        }
        "self-similar" => {
            let alpha = factor(parameters, "pareto")?;
            let config = SelfSimilarConfig { alpha, ..SelfSimilarConfig::new(gap, bytes) };
            SelfSimilar::new(config, streams).take(packets).collect()
        }
        _ => of(rate(gap)?, Pattern::Constant),
    })
}
