//! A computation that takes a given time if nothing delays it.
//!
//! It works in registers: an interruption cannot evict its data from a cache, so it becomes longer only by the time
//! taken from its CPU.

use std::hint::black_box;
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_measure::units::show_duration;

/// A number of rounds of a random number generator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    rounds: u64,
}

impl Work {
    /// Returns one that takes this long at its best, and that time in nanoseconds: the minimum of many runs, since
    /// interference can only add time.
    pub(super) fn calibrated(target: Duration) -> (Work, u64) {
        let target = target.as_nanos() as u64;
        let mut work = Work { rounds: 10_000 };
        let mut least = work.least_of(MANY);
        for correction in 0..MOST_CORRECTIONS {
            if correction >= CORRECTIONS && off(target, least).abs() <= PRECISION {
                break;
            }
            let rounds = u128::from(work.rounds) * u128::from(target) / u128::from(least.max(1));
            work.rounds = u64::try_from(rounds).unwrap_or(u64::MAX).max(1);
            least = work.least_of(MANY);
        }
        (work, least)
    }

    /// Runs it, and returns how long it took in nanoseconds.
    #[inline]
    pub(super) fn time(self) -> u64 {
        let begin = Monotonic.now();
        self.run();
        Monotonic.now().saturating_duration_since(begin).as_nanos() as u64
    }

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

/// Returns the error of the calibrated time as a share of the target.
fn off(target: u64, calibrated: u64) -> f64 {
    calibrated as f64 / target.max(1) as f64 - 1.0
}

/// Returns a caveat if the computation differs from the requested one; `None` within a hundredth, the paper's
/// criterion.
pub(super) fn caveat(target: u64, calibrated: u64) -> Option<String> {
    let off = off(target, calibrated);
    let [target, calibrated] = [target, calibrated].map(|nanos| show_duration(Duration::from_nanos(nanos)));
    (off.abs() > PRECISION).then(|| {
        format!(
            "calibrated to {calibrated} where {target} were asked for, {:+.1}%: this machine's speed changes",
            off * 100.0
        )
    })
}

const MANY: u32 = 40;
const CORRECTIONS: u32 = 2;
/// The number of attempts, so that a machine whose speed changes all the time does not prevent a run.
const MOST_CORRECTIONS: u32 = 8;
const PRECISION: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    /// The minimum of many removes stolen time, and alternating removes changes of speed; if both are too large, the
    /// test is repeated.
    #[test]
    fn twice_the_work_takes_twice_the_time() {
        let (once, twice) = (Work { rounds: 20_000 }, Work { rounds: 40_000 });
        let ratio = || {
            let (mut short, mut long) = (u64::MAX, u64::MAX);
            for _ in 0..200 {
                (short, long) = (short.min(once.time()), long.min(twice.time()));
            }
            long as f64 / short as f64
        };
        let mut tried = Vec::new();
        let found = (0..20).any(|_| {
            tried.push(ratio());
            tried.last().is_some_and(|ratio| (1.9..2.1).contains(ratio))
        });
        assert!(found, "{tried:?}");
    }

    #[test]
    fn a_calibration_is_within_a_hundredth_or_says_so() {
        let target = Duration::from_micros(200);
        let (work, calibrated) = Work::calibrated(target);
        assert!(work.rounds > 0 && calibrated > 0);
        let near = (198_000..=202_000).contains(&calibrated);
        assert!(near || caveat(200_000, calibrated).is_some(), "{calibrated} ns");
        assert_eq!((caveat(1_000_000, 1_009_000), caveat(1_000_000, 991_000)), (None, None));
        let said = caveat(1_000_000, 1_031_980).unwrap();
        assert!(
            said.starts_with("calibrated to 1.031") && said.contains("1ms were asked for, +3.2%"),
            "{said}"
        );
    }
}
