//! **The effect of a little noise on a large job**: a bulk-synchronous program computes in phases between
//! barriers, and at each barrier all nodes wait for the one that was delayed (Tsafrir, Etsion, Feitelson,
//! *General-purpose timing: the failure of periodic timers*, 2005, §2.2).
//!
//! ```text
//!   node 1   ▓▓▓▓▓▓▓▓│▓▓▓▓▓▓▓▓····│▓▓▓▓▓▓▓▓│
//!   node 2   ▓▓▓▓▓▓▓▓│▓▓▓▓▓▓▓▓xxxx│▓▓▓▓▓▓▓▓│        x: a tick, an interrupt, a daemon
//!   node 3   ▓▓▓▓▓▓▓▓│▓▓▓▓▓▓▓▓····│▓▓▓▓▓▓▓▓│        ·: waiting for node 2
//! ```
//!
//! If a share p of phases is delayed on one node, (1 − p)ⁿ of them are delayed on none of n. So p has to be
//! well below 1/n: noise that is negligible on one node dominates the time of a thousand, because the job
//! takes the longest of n phases each time.

mod phases;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Column, Experiment, Need, Parameter, Parameters, Row, RunError, Steps, Streams};
pub use phases::{Longest, Phases, undelayed, wanted};

/// The share of phases that are delayed on none of n nodes, and the slowdown of the job.
pub(crate) static NOISE: Experiment = Experiment {
    name: "noise",
    about: "A bulk-synchronous job on n nodes, each with a little noise (Tsafrir, Etsion, Feitelson 2005, section 2.2)",
    details: "Each phase of the job takes as long as the longest of its nodes' phases, drawn independently: \
              from a model in which a share of the phases is delayed, or from time stamps taken after each \
              phase of a real loop. The exact expectation is shown beside the drawn values.",
    parameters: &[
        Parameter::count("nodes", "nodes of the job", COUNT, 100),
        Parameter::count("phases", "phases to draw", COUNT, 10_000),
        Parameter::trace("stamps", "a recording whose times are the ends of phases, instead of the model"),
        Parameter::time("phase", "length of a phase that is not delayed", TIME, Duration::from_millis(1))
            .needs(MODEL),
        Parameter::real("p", "share of phases that are delayed (section 2.2, figure 3)", SHARE, PAPERS.p)
            .needs(MODEL),
        Parameter::real(
            "held-up",
            "length of a delayed phase, as a multiple of other phases (section 2.2)",
            TIMES,
            PAPERS.held_up,
        )
        .needs(HELD_UP),
        Parameter::real(
            "p-long",
            "share of the delayed phases that take twice as long: rare, but a large machine waits for them",
            SHARE,
            PAPERS.p_long,
        )
        .needs(HELD_UP),
        Parameter::real("threshold", "a phase counts as delayed when longer than N medians", TIMES, 1.3),
    ],
    columns: &[
        Column::new("nodes", "n").given(),
        Column::new("p_delayed", "p: share of phases delayed on one node").digits(5),
        Column::new("undelayed", "(1 - p)^n: share of phases delayed on no node").digits(4),
        Column::new("undelayed_drawn", "the same, as drawn").digits(4),
        Column::new("slowdown", "time of the job relative to one without noise, as drawn").digits(3),
        Column::new("slowdown_expected", "the same, exactly").digits(3),
        Column::new("p_wanted", "target for p: an order of magnitude below 1/n").digits(6),
        Column::new("undelayed_wanted", "share of phases delayed on no node with that p").digits(4),
    ],
    sweep: &[("nodes", "1,10,32,100,320,1000")],
    check,
    run,
};

const PAPERS: crate::constants::Noise = crate::constants::Machine::PAPERS.noise;
const COUNT: RangeInclusive<u64> = 1..=1_000_000;
const TIME: RangeInclusive<Duration> = Duration::from_nanos(1_000)..=Duration::from_secs(3_600);
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
const TIMES: RangeInclusive<f64> = 1.0..=1_000.0;

const MODEL: Need =
    Need { with: "the model, not with stamps,", met: |parameters| parameters.trace("stamps").is_none() };
const HELD_UP: Need = Need {
    with: "the model and a p above zero, not with stamps,",
    met: |parameters| (MODEL.met)(parameters) && parameters.real("p") > 0.0,
};

fn check(parameters: &Parameters) -> Result<(), RunError> {
    let (nodes, count) = (parameters.count("nodes"), parameters.count("phases"));
    if nodes.saturating_mul(count) > MOST_DRAWN {
        return Err(RunError::new(format_args!(
            "nodes {nodes} times phases {count}: more than {MOST_DRAWN} are not drawn in a run"
        )));
    }
    match parameters.trace("stamps") {
        Some(stamps) if stamps.packets() < 2 => {
            Err(RunError::new("stamps: a phase needs at least two time stamps"))
        }
        _ => Ok(()),
    }
}

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    check(parameters)?;
    let phases = match parameters.trace("stamps") {
        Some(stamps) => Phases::of_stamps(stamps)
            .ok_or_else(|| RunError::new("stamps: a phase needs at least two time stamps"))?,
        None => model(parameters),
    };
    let (nodes, count) = (parameters.count("nodes"), parameters.count("phases"));
    let median = phases.median().max(1);
    let threshold = (median as f64 * parameters.real("threshold")) as u64;
    let Longest { mean, undelayed: none } =
        phases.draw_watched(nodes, count, threshold, &mut streams.of("phases"), steps);
    let p = phases.share_above(threshold);
    Ok(vec![vec![
        nodes.into(),
        p.into(),
        undelayed(p, nodes).into(),
        none.into(),
        (mean / median as f64).into(),
        (phases.expected_longest(nodes) / median as f64).into(),
        wanted(nodes).into(),
        undelayed(wanted(nodes), nodes).into(),
    ]])
}

/// Three lengths, with their shares in billionths.
fn model(parameters: &Parameters) -> Phases {
    let phase = parameters.time("phase").as_nanos() as f64;
    let share = |share: f64| (share * 1e9).round() as u64;
    let held_up = share(parameters.real("p"));
    let long = share(parameters.real("p") * parameters.real("p-long"));
    let lengths = [
        (phase as u64, 1_000_000_000 - held_up),
        ((phase * parameters.real("held-up")) as u64, held_up.saturating_sub(long)),
        ((phase * 2.0) as u64, long),
    ];
    Phases::new(lengths).expect("shares add up to one")
}

/// The number of draws that takes about a minute.
const MOST_DRAWN: u64 = 10_000_000_000;

#[cfg(test)]
mod tests;
