//! A computation that takes a given time if nothing holds it up.
//!
//! It lives in registers: no cache is lost to whoever interrupts it, so that it is longer by what was taken from its
//! processor and by nothing else.

use std::hint::black_box;
use std::time::Duration;

use softtimers::{Clock, Monotonic};

/// So many rounds of a generator of random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    rounds: u64,
}

impl Work {
    /// One that takes so long at its best, and how long that is in nanoseconds: the least of many, for whatever else
    /// there is on the machine only adds to it.
    pub(super) fn calibrated(target: Duration) -> (Work, u64) {
        let target = target.as_nanos() as u64;
        let mut work = Work { rounds: 10_000 };
        let mut least = work.least_of(MANY);
        for _ in 0..CORRECTIONS {
            let rounds = u128::from(work.rounds) * u128::from(target) / u128::from(least.max(1));
            work.rounds = u64::try_from(rounds).unwrap_or(u64::MAX).max(1);
            least = work.least_of(MANY);
        }
        (work, least)
    }

    /// Does it, and says how long it took, in nanoseconds.
    #[inline]
    pub(super) fn time(self) -> u64 {
        let begin = Monotonic.now();
        self.run();
        Monotonic.now().saturating_duration_since(begin).as_nanos() as u64
    }

    /// Does it.
    #[inline]
    pub(super) fn run(self) {
        let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..self.rounds {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }

    fn least_of(self, many: u32) -> u64 {
        (0..many).map(|_| self.time()).min().unwrap_or(0)
    }
}

const MANY: u32 = 40;
const CORRECTIONS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_time_is_twice_the_work() {
        let (short, _) = Work::calibrated(Duration::from_micros(200));
        let (long, _) = Work::calibrated(Duration::from_micros(400));
        // The machine's speed may change in between, not so much.
        assert!((1.0..4.0).contains(&(long.rounds as f64 / short.rounds as f64)), "{short:?} {long:?}");
    }
}
