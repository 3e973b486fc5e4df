//! The cost of events, from turns of the same work with them and without (soft timers §5.1, §5.5).
//!
//! There are two losses: a loop's cost of noticing events, whether there are any or not, and the cost of each event. So
//! the throughput lost is relative to a plain loop, and the cost of an event is relative to the same loop without
//! events.
//!
//! ```text
//!   server   │ plain │ soft, none │ soft │ signal │   in total ┐ pollution =
//!   compute  │ plain │ soft, none │ soft │ signal │   base     ┘ total − base
//! ```
//!
//! In a loop that only computes, with nothing in the caches to lose, the cost is that of the event itself, the *base*;
//! the additional loss of a server is *pollution*.

use std::time::Duration;

use softtimers::Rate;
use softtimers_load::turns::{Contender, Share};
use softtimers_load::work::Work;
use softtimers_measure::estimate::Estimate;
use softtimers_trials::result::{Cell, Table};

use crate::bench::Done;
use crate::turns::{Contest, TURN, contest};

/// The index of the contender without events and without a way to notice them.
pub const PLAIN: usize = 0;

/// The columns of [`Cost::row`], with their decimals.
pub const COLUMNS: [(&str, usize); 4] = [
    ("server's work lost %", 1),
    ("in total, ns/event", 0),
    ("base, ns/event", 0),
    ("pollution, ns/event", 0),
];

/// The same contenders next to a saturated echo server, and next to a computation.
#[derive(Debug)]
pub struct Contests<const N: usize> {
    /// The contest where there is something in the caches to lose.
    pub server: Contest<N>,
    /// The contest where there is nothing to lose.
    pub compute: Contest<N>,
}

impl<const N: usize> Contests<N> {
    /// Runs both, each for about `time`; `None` if it was interrupted.
    ///
    /// # Errors
    /// As [`contest`].
    pub fn both(rate: Rate, contenders: [Contender; N], time: Duration) -> Done<Option<Self>> {
        let server = contest(rate, Work::Echo { batch: 4 }, contenders, TURN, time)?;
        let compute = contest(rate, Work::Compute, contenders, TURN, time)?;
        Ok((!server.interrupted && !compute.interrupted).then_some(Contests { server, compute }))
    }

    /// Returns an empty table for the findings: these columns, then [`COLUMNS`].
    pub fn table(&self, key: &str, columns: &[(&str, usize)]) -> Table {
        let mut table = self.server.table(key, &[columns, &COLUMNS].concat());
        table.inconclusive = table.inconclusive.or_else(|| self.compute.disturbed.clone());
        table
    }

    /// Returns the cost of the events of `who` against `without`, the same loop without events.
    pub fn cost(&self, who: usize, without: usize) -> Cost {
        Cost {
            lost: self.server.over(|round| Some(lost(round, who, PLAIN))),
            total: self.server.over(|round| cost(round, who, without)),
            base: self.compute.over(|round| cost(round, who, without)),
        }
    }
}

/// The cost of events.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The share of a plain server's throughput that is lost.
    pub lost: Option<Estimate>,
    /// Nanoseconds per event, next to the server and next to the computation.
    pub total: Option<Estimate>,
    base: Option<Estimate>,
}

impl Cost {
    /// Returns its cells behind `cells`.
    pub fn row<const N: usize>(&self, cells: [Cell; N]) -> Vec<Cell> {
        let pollution = self.total.zip(self.base).map(|(total, base)| total.median - base.median);
        let lost = self.lost.map(|lost| lost.times(100.0));
        let costs = [lost.into(), self.total.into(), self.base.into(), pollution.into()];
        cells.into_iter().chain(costs).collect()
    }
}

/// Returns the share of `without`'s throughput in a round that `who` loses.
fn lost<const N: usize>(round: &[Share; N], who: usize, without: usize) -> f64 {
    1.0 - round[who].work_rate / round[without].work_rate
}

/// Returns the same in nanoseconds of the loop per event; `None` without events.
fn cost<const N: usize>(round: &[Share; N], who: usize, without: usize) -> Option<f64> {
    let nanos = lost(round, who, without) * 1e9 / round[who].event_rate;
    nanos.is_finite().then_some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_costs_the_work_that_is_not_done() {
        let share = |work_rate, event_rate| Share { work_rate, event_rate, ..Share::default() };
        // A tenth of the throughput is lost to 20,000 events a second: 5 µs each.
        let round = [share(1_000.0, 0.0), share(900.0, 20_000.0)];
        assert!((lost(&round, 1, 0) - 0.1).abs() < 1e-9);
        assert!((cost(&round, 1, 0).unwrap() - 5_000.0).abs() < 1e-6);
        assert_eq!(cost(&round, 0, 0), None, "no events");
    }
}
