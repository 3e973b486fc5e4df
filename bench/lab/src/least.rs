//! The longest of many calls, on a machine that interrupts some of them.
//!
//! A repeated run makes the same calls in the same order. An interruption by the host or the kernel does not recur at
//! the same call, while the structure's own cost does: so each call counts with its shortest time of all runs.

use softtimers_measure::estimate::quantile;

/// Element-wise minima over runs, in nanoseconds.
#[derive(Debug, Default)]
pub struct Least {
    nanos: Vec<u32>,
    at: usize,
}

impl Least {
    /// Begins a run, with the same calls as those before it.
    pub fn begin(&mut self) {
        self.at = 0;
    }

    /// Records the time of the run's next call.
    pub fn add(&mut self, nanos: u64) {
        let nanos = u32::try_from(nanos).unwrap_or(u32::MAX);
        match self.nanos.get_mut(self.at) {
            Some(least) => *least = nanos.min(*least),
            None => self.nanos.push(nanos),
        }
        self.at += 1;
    }

    /// Returns the longest of all calls; zero if there was none.
    pub fn longest(&self) -> u32 {
        self.nanos.iter().copied().max().unwrap_or(0)
    }

    /// Returns the time that `share` of all calls do not exceed; zero if there was none.
    pub fn quantile(&self, share: f64) -> u32 {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        quantile(&sorted, share).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_once_does_not_count() {
        let mut calls = Least::default();
        for run in [[10, 900, 30, 5_000_000_000], [800, 20, 30, 40], [10, 20, 700, 40]] {
            calls.begin();
            run.into_iter().for_each(|nanos| calls.add(nanos));
        }
        assert_eq!((calls.longest(), calls.quantile(0.5), calls.quantile(0.75)), (40, 20, 30));
        assert_eq!((Least::default().longest(), Least::default().quantile(0.999)), (0, 0));
    }
}
