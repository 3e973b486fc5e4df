//! `livelock-mlfrr`: the maximum loss-free receive rate of a kernel, and its behaviour under overload (§3.1,
//! §4.2).

use softtimers_poll::{Curve, LossFree, Point};

use super::closed::Closed;
use super::config::Config;
use super::kernels::RATE;
use super::parameters::{config, parameters};
use super::router::Router;
use crate::{Column, Experiment, Need, Parameter, Parameters, Row, RunError, Steps, Streams};

/// One row for a whole curve.
pub(crate) static MLFRR: Experiment = Experiment {
    name: "livelock-mlfrr",
    about: "The loss-free rate of each kernel and its behaviour beyond (livelock paper, 3.1, 4.2, 6.6.2)",
    details: "The loss-free rate is searched by doubling and bisection. The curve has thirty rates, up to \
              the capacity of the wire. --rate is only for livelock.",
    parameters: &PARAMETERS,
    columns: &[
        Column::words("kernel", "which kernel"),
        Column::new("mlfrr_pps", "the highest rate at which nothing is lost"),
        Column::new("closed_mlfrr_pps", "the same, from a closed form"),
        Column::new("peak_pps", "highest output at any rate"),
        Column::new("asymptote_pps", "output at the highest rates"),
        Column::new("ratio", "asymptote divided by peak").digits(3),
        Column::words("behaviour", "ideal, realisable or livelock"),
        Column::new("livelock_pps", "input rate from which output is zero, from the closed form"),
    ],
    sweep: &[("kernel", "unmodified,no-polling,polled,high-ipl,clocked")],
    check: |parameters| config(parameters).map(drop),
    run,
};

const PARAMETERS: [Parameter; 22] =
    parameters(RATE.needs(SEARCHED), Parameter::trace("trace", "Only for livelock").needs(SEARCHED));

const SEARCHED: Need =
    Need { with: "livelock, not with livelock-mlfrr, which searches for it,", met: |_| false };

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let config = config(parameters)?;
    let at = |rate, run| Router::new(Config { rate, ..config }, streams).run_in(steps, run, SEARCH + RATES);
    let wire = config.most();
    let mut search = LossFree::new(100, wire);
    let mut runs = 0;
    while let Some(rate) = search.rate() {
        let drops = at(rate, runs.min(SEARCH - 1)).drops;
        runs += 1;
        search.tried(drops.ring + drops.ipintrq + drops.process + drops.output == 0);
    }
    let points: Vec<_> = (1..=RATES)
        .map(|step| {
            let offered = wire * step / RATES;
            let found = at(offered, SEARCH + step - 1);
            Point { offered: found.rate(found.arrived) as u64, delivered: found.rate(found.delivered) as u64 }
        })
        .collect();
    let Some(curve) = Curve::from_points(&points) else { return Err(RunError::new("no rates")) };
    let closed = Closed::from_config(&config);
    let quota_of_none = config.kernel.polls() && config.quota.receive() == u32::MAX;
    Ok(vec![vec![
        parameters.word("kernel").into(),
        search.found().into(),
        (!quota_of_none).then(|| closed.loss_free()).into(),
        curve.peak.into(),
        curve.asymptote.into(),
        (curve.asymptote as f64 / curve.peak.max(1) as f64).into(),
        curve.behaviour.name().into(),
        closed.livelock().into(),
    ]])
}

const RATES: u64 = 30;
/// Approximate number of runs in the search, for the progress display.
const SEARCH: u64 = 20;
