//! [`AutoQuota`]: finds the quota that delivers the most, while running.
//!
//! Too small a quota spends its time on turns, too large a one starves the output: throughput has one peak,
//! steep on the far side (livelock figures 7 and 8; the paper suggests such a control). This is a hill climb
//! whose step doubles while throughput rises and halves when it does not:
//!
//! ```text
//!   delivered │        ╭─╮
//!             │     ╭──╯ │          64 ─▶ 32 ─▶ … ─▶ 8 and both neighbours worse: rest
//!             │  ╭──╯    ╰╮_______
//!             └──────────────────────▶ quota
//! ```
//!
//! At rest it tries the neighbours again from time to time, since loads change. Only windows in which the
//! input was never exhausted count: below saturation every quota delivers everything.

use super::Preset;

/// The first and the largest quota, and the rest between trials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AutoQuotaConfig {
    /// The quota to begin with.
    pub first: u32,
    /// The largest to try; the smallest is one.
    pub largest: u32,
    /// Saturated windows at rest before the neighbours are tried again.
    pub rest: u32,
}

impl AutoQuotaConfig {
    /// From 10, the quota of most of the paper's figures, up to 100, their largest finite one; or from 64 up
    /// to 1,024, where a turn is a system call. A hundred windows of rest.
    pub const fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Paper => AutoQuotaConfig { first: 10, largest: 100, rest: 100 },
            Preset::Measured => AutoQuotaConfig { first: 64, largest: 1_024, rest: 100 },
        }
    }
}

impl Default for AutoQuotaConfig {
    fn default() -> Self {
        AutoQuotaConfig::preset(Preset::Measured)
    }
}

/// A hill climb towards the best quota.
///
/// ```
/// use softtimers_poll::{AutoQuota, AutoQuotaConfig};
///
/// // Throughput of the livelock paper's router by quota, from a model; 8 is best.
/// let delivered = |quota: u32| match quota {
///     1 => 4_600,
///     2..=10 => [4_928, 5_056, 5_120, 5_164, 5_188, 5_212, 5_232, 4_930, 4_844][quota as usize - 2],
///     more => 4_844u64.saturating_sub(u64::from(more) * 40),
/// };
/// let mut quota = AutoQuota::new(AutoQuotaConfig::default());
/// for _ in 0..40 {
///     quota.window(delivered(quota.quota()), true);
/// }
/// assert!(quota.is_at_rest());
/// assert_eq!(quota.quota(), 8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AutoQuota {
    config: AutoQuotaConfig,
    /// The best quota so far and its deliveries in a window.
    best: (u32, u64),
    /// The quota that is being tried.
    trying: u32,
    up: bool,
    step: u32,
    /// Neighbours that were no better since the best was found.
    failed: u32,
    resting: u32,
}

impl AutoQuota {
    /// Begins at its first quota and tries smaller ones first.
    pub fn new(config: AutoQuotaConfig) -> Self {
        let largest = config.largest.max(1);
        let first = config.first.clamp(1, largest);
        let config = AutoQuotaConfig { first, largest, rest: config.rest.max(1) };
        let step = (first / 2).max(1);
        AutoQuota { config, best: (first, 0), trying: first, up: false, step, failed: 0, resting: 0 }
    }

    /// Returns the quota to use in the next window.
    pub fn quota(&self) -> u32 {
        self.trying
    }

    /// Returns whether both neighbours were worse when they were tried last.
    pub fn is_at_rest(&self) -> bool {
        self.resting > 0
    }

    /// Records a window: the packets delivered, and whether the input was saturated (never exhausted).
    /// Windows are equally long, some 10 ms or more; returns the quota for the next.
    pub fn window(&mut self, delivered: u64, saturated: bool) -> u32 {
        if !saturated {
            return self.trying;
        }
        if self.resting > 0 {
            self.resting -= 1;
            // Compares with a recent figure.
            self.best.1 = delivered;
            if self.resting == 0 {
                self.failed = 0;
                self.try_next();
            }
        } else if self.trying == self.best.0 {
            self.best.1 = delivered;
            self.try_next();
        } else if delivered > self.best.1 {
            self.best = (self.trying, delivered);
            self.failed = 0;
            self.step = self.step.saturating_mul(2).min(self.config.largest);
            self.try_next();
        } else {
            self.turn_round();
        }
        self.trying
    }

    /// Turns to the other direction, with half the step, after a candidate that was no better.
    fn turn_round(&mut self) {
        self.up = !self.up;
        self.failed = if self.step == 1 { self.failed + 1 } else { 0 };
        self.step = (self.step / 2).max(1);
        if self.failed >= 2 {
            self.trying = self.best.0;
            self.resting = self.config.rest;
        } else {
            self.try_next();
        }
    }

    /// Tries one step from the best, within the bounds; reaching a bound counts as a failed candidate.
    fn try_next(&mut self) {
        let (best, step) = (self.best.0, self.step);
        let candidate = if self.up {
            best.saturating_add(step).min(self.config.largest)
        } else {
            best.saturating_sub(step).max(1)
        };
        if candidate != best {
            self.trying = candidate;
        } else if self.config.largest == 1 {
            self.trying = best;
        } else {
            self.turn_round();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_core::Random;

    fn settle(mut quota: AutoQuota, windows: u32, delivered: impl Fn(u32) -> u64) -> AutoQuota {
        for _ in 0..windows {
            let now = delivered(quota.quota());
            quota.window(now, true);
        }
        quota
    }

    /// A function with one peak, which rises by turns saved and falls steeply.
    fn peaked(peak: u32) -> impl Fn(u32) -> u64 {
        move |quota| match quota {
            low if low <= peak => 100_000 - 60_000 / (u64::from(low) + 1) - 10 * u64::from(peak - low),
            high => 90_000u64.saturating_sub(100 * u64::from(high - peak)),
        }
    }

    #[test]
    fn it_comes_to_rest_within_one_of_the_peak() {
        for peak in [1, 2, 3, 8, 9, 31, 64, 65, 300, 1_000] {
            for first in [1, 5, 64, 1_024] {
                let config = AutoQuotaConfig { first, ..AutoQuotaConfig::default() };
                let quota = settle(AutoQuota::new(config), 90, peaked(peak));
                assert!(quota.quota().abs_diff(peak) <= 1, "from {first} to {}, not {peak}", quota.quota());
            }
        }
    }

    #[test]
    fn it_follows_a_peak_that_moves() {
        let settled = settle(AutoQuota::new(AutoQuotaConfig::default()), 60, peaked(8));
        assert_eq!(settled.quota(), 8);
        let moved = settle(settled, 400, peaked(40));
        assert!(moved.quota().abs_diff(40) <= 1, "{}", moved.quota());
    }

    #[test]
    fn windows_below_saturation_say_nothing() {
        let mut quota = AutoQuota::new(AutoQuotaConfig::default());
        for delivered in [5, 900, 1, 0] {
            assert_eq!(quota.window(delivered, false), 64);
        }
    }

    #[test]
    fn it_stays_within_its_bounds_whatever_it_is_told() {
        let mut random = Random::stream(1, 0);
        for (first, largest) in [(0, 0), (7, 1), (3, 2), (u32::MAX, u32::MAX)] {
            let mut quota = AutoQuota::new(AutoQuotaConfig { first, largest, rest: 0 });
            for _ in 0..2_000 {
                let quota = quota.window(random.below(100), random.below(4) > 0);
                assert!((1..=largest.max(1)).contains(&quota));
            }
        }
    }

    /// From 8 by steps of 4, each window given what the quota delivers: the course of the search, written down.
    #[test]
    fn the_search_turns_round_halves_its_step_and_rests() {
        let config = AutoQuotaConfig { first: 8, rest: 3, ..AutoQuotaConfig::default() };
        let mut quota = AutoQuota::new(config);
        assert!(!quota.is_at_rest());
        // Only 8 is good, and what equals it is no better.
        let delivered = |quota| if matches!(quota, 8 | 9) { 100 } else { 10 };
        let course: [u32; 7] = core::array::from_fn(|_| quota.window(delivered(quota.quota()), true));
        // 8 − 4, then 8 + 2, 8 − 1, 8 + 1: both neighbours fail.
        assert_eq!(course, [4, 10, 7, 9, 8, 8, 8]);
        assert!(quota.is_at_rest());
        // After three windows of rest it looks below, and above, again.
        let next = quota.window(100, true);
        assert!(!quota.is_at_rest());
        assert!(next == 7 || next == 9, "{next}");
    }
}
