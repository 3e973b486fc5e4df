//! What events cost, from turns of the same work with them and without (soft timers §5.1, §5.5).
//!
//! Two things are lost: what a loop pays to notice events at all, whether there are any or not, and what
//! each event costs. So the work lost is that against a plain loop, and the cost of an event is
//! that against the same loop without events.
//!
//! ```text
//!   server   │ plain │ soft, none │ soft │ signal │   in total ┐ pollution =
//!   compute  │ plain │ soft, none │ soft │ signal │   base     ┘ total − base
//! ```
//!
//! Beside a loop that only computes, with nothing in the caches to lose, the cost is that of the event
//! itself, the *base*; what a server loses beyond it is *pollution*.

use softtimers_load::turns::Share;

/// The share of `without`'s work in a round that `who` does not do.
pub fn lost<const N: usize>(round: &[Share; N], who: usize, without: usize) -> f64 {
    1.0 - round[who].work_rate / round[without].work_rate
}

/// The same in nanoseconds of the loop for each event that came; `None` where none came.
pub fn cost<const N: usize>(round: &[Share; N], who: usize, without: usize) -> Option<f64> {
    let nanos = lost(round, who, without) * 1e9 / round[who].event_rate;
    nanos.is_finite().then_some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_costs_the_work_that_is_not_done() {
        let share = |work_rate, event_rate| Share { work_rate, event_rate, ..Share::default() };
        // A tenth of the work is lost to 20,000 events a second: 5 µs each.
        let round = [share(1_000.0, 0.0), share(900.0, 20_000.0)];
        assert!((lost(&round, 1, 0) - 0.1).abs() < 1e-9);
        assert!((cost(&round, 1, 0).unwrap() - 5_000.0).abs() < 1e-6);
        assert_eq!(cost(&round, 0, 0), None, "no events");
    }
}
