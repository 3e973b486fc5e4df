//! The received packets: from a recording, the paper's traces, or a pattern.

use softtimers_core::Rate;
use softtimers_core::{OnOff, Pattern};

use super::paper::{PaperTrace, TRACES};
use super::parameters::factor;
use super::traces;
use crate::choice::choices;
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
    let paper = |index| of_paper(index, parameters, streams);
    let packets = match parameters.choice("synthetic") {
        Synthetic::Table1 => return (0..TRACES.len()).map(paper).collect(),
        Synthetic::Paper(index) => return Ok(vec![paper(index)?]),
        Synthetic::Arriving(by) => pattern(by, parameters, streams)?,
    };
    Ok(vec![Source { name: parameters.word("synthetic"), packets, paper: None }])
}

/// Packets that are no recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Synthetic {
    /// The six traces of the paper.
    Table1,
    /// One of them, by its number.
    Paper(usize),
    Arriving(Arriving),
}

/// A process by which packets arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arriving {
    Constant,
    Poisson,
    OnOff,
    SelfSimilar,
}

choices! {
    Synthetic:
    "table-1" => Synthetic::Table1,
    "t-high-1" => Synthetic::Paper(0),
    "t-high-2" => Synthetic::Paper(1),
    "t-med-1" => Synthetic::Paper(2),
    "t-med-2" => Synthetic::Paper(3),
    "t-low-1" => Synthetic::Paper(4),
    "t-low-2" => Synthetic::Paper(5),
    "constant" => Synthetic::Arriving(Arriving::Constant),
    "poisson" => Synthetic::Arriving(Arriving::Poisson),
    "on-off" => Synthetic::Arriving(Arriving::OnOff),
    "self-similar" => Synthetic::Arriving(Arriving::SelfSimilar),
}

/// Checks that the requested packets exist.
pub(super) fn check(parameters: &Parameters) -> Result<(), RunError> {
    let by = match parameters.choice("synthetic") {
        Synthetic::Arriving(by) if parameters.trace("trace").is_none() => by,
        _ => return Ok(()),
    };
    let gap = parameters.time("mean-gap");
    Rate::every(if by == Arriving::OnOff { gap / 4 } else { gap }).map_err(RunError::new)?;
    let on = parameters.time("on");
    OnOff::new(on, on * 3).map_err(RunError::new)?;
    factor(parameters, "pareto").map(drop)
}

fn of_paper(index: usize, parameters: &Parameters, streams: Streams) -> Result<Source, RunError> {
    let paper = &TRACES[index];
    let trace = traces::lan(
        &parameters.machine().hip_traces,
        paper,
        traces::fitted(&parameters.machine().hip_traces, parameters.choice("fitted"))[index],
    )
    .trace(streams)
    .map_err(RunError::new)?;
    Ok(Source { name: paper.name, packets: arrivals::of_trace(&trace).collect(), paper: Some(paper) })
}

fn pattern(by: Arriving, parameters: &Parameters, streams: Streams) -> Result<Vec<Arrival>, RunError> {
    let (gap, bytes) = (parameters.time("mean-gap"), parameters.count_u32("bytes"));
    let packets = usize::try_from(parameters.count("packets")).unwrap_or(usize::MAX);
    let rate = |gap| Rate::every(gap).map_err(RunError::new);
    let of = |rate, pattern| arrivals::of_pattern(rate, pattern, bytes).take(packets).collect();
    Ok(match by {
        Arriving::Poisson => of(rate(gap)?, Pattern::Poisson { seed: streams.of("arrivals").next_u64() }),
        Arriving::OnOff => {
            let on = parameters.time("on");
            of(rate(gap / 4)?, Pattern::OnOff(OnOff::new(on, on * 3).map_err(RunError::new)?))
        }
        Arriving::SelfSimilar => {
            let alpha = factor(parameters, "pareto")?;
            let config = SelfSimilarConfig { alpha, ..SelfSimilarConfig::new(gap, bytes) };
            SelfSimilar::new(config, streams).take(packets).collect()
        }
        Arriving::Constant => of(rate(gap)?, Pattern::Constant),
    })
}
