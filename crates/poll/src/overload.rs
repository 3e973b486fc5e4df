//! Behaviour under overload: [`LossFree`] finds where that begins, [`Confirmation`] checks it again,
//! [`Curve`] classifies the behaviour beyond.
//!
//! ```text
//!   delivered │   ideal ╱
//!             │       ╱
//!             │     ╱▔▔▔▔▔▔▔▔  realisable
//!             │   ╱│ ╲
//!             │ ╱  │   ╲______ livelock
//!             └────┴──────────▶ offered
//!                  MLFRR, the maximum loss-free receive rate
//! ```
//!
//! Livelock paper §4.2. The caller does the trials and counts the packets, on a wire or in a simulation.

use softtimers_core::Percent;

/// A search for the maximum loss-free receive rate: doubling until packets are lost, then halving the interval.
///
/// A trial may lose packets for unrelated reasons, so a rate counts as too high after two such trials.
///
/// ```
/// use softtimers_poll::LossFree;
///
/// let mut search = LossFree::new(1_000, 1_000_000);
/// while let Some(rate) = search.rate() {
///     search.tried(rate <= 175_000); // run a trial; was it lossless?
/// }
/// assert!(search.found().abs_diff(175_000) <= 1_750);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossFree {
    /// The highest rate without loss so far.
    low: u64,
    /// The lowest rate with loss, if there was one.
    high: Option<u64>,
    first: u64,
    most: u64,
    failed: bool,
}

impl LossFree {
    /// Begins a search at `first` packets a second, up to `most`; both at least one.
    pub const fn new(first: u64, most: u64) -> Self {
        let first = if first == 0 { 1 } else { first };
        let most = if most < first { first } else { most };
        LossFree { low: 0, high: None, first, most, failed: false }
    }

    /// Returns the rate to try next, in packets a second; `None` when it is known to 1%.
    pub fn rate(&self) -> Option<u64> {
        match self.high {
            None if self.low == 0 => Some(self.first),
            None if self.low >= self.most => None,
            None => Some(self.low.saturating_mul(2).min(self.most)),
            Some(high) if high - self.low <= (self.low / 100).max(1) => None,
            Some(high) => Some(self.low + (high - self.low) / 2),
        }
    }

    /// Records the trial at [`rate`](Self::rate), and whether it was lossless.
    pub fn tried(&mut self, lossless: bool) {
        let Some(rate) = self.rate() else { return };
        if lossless {
            (self.low, self.failed) = (rate, false);
        } else if self.failed {
            (self.high, self.failed) = (Some(rate), false);
        } else {
            self.failed = true;
        }
    }

    /// Returns the highest rate without loss so far; zero if there was none.
    pub fn found(&self) -> u64 {
        self.low
    }
}

/// Tries the rate found by a search again, for longer, and steps down until one holds.
///
/// A search with short trials can be lucky: near the capacity a queue needs time to fill. So its result is
/// only a candidate. Each candidate that loses packets is replaced by a lower one: by 1% of the first, then
/// 2%, 4%, 8%, 16% and 32% more.
///
/// ```
/// use softtimers_poll::Confirmation;
///
/// let mut confirmation = Confirmation::new(100_000);
/// while let Some(rate) = confirmation.rate() {
///     confirmation.tried(rate <= 98_000); // run a longer trial; was it lossless?
/// }
/// assert_eq!(confirmation.confirmed(), Some(97_000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirmation {
    candidate: u64,
    /// The step by which the next failure lowers the rate, in packets a second.
    step: u64,
    state: Confirmed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Confirmed {
    /// The number of candidates that may still be tried.
    Open(u8),
    Yes,
    No,
}

impl Confirmation {
    /// Begins a confirmation with `found` packets a second.
    pub const fn new(found: u64) -> Self {
        let state = if found == 0 { Confirmed::No } else { Confirmed::Open(CANDIDATES) };
        let step = if found < 100 { 1 } else { found / 100 };
        Confirmation { candidate: found, step, state }
    }

    /// Returns the rate to try next, in packets a second; `None` when one has held or all have failed.
    pub fn rate(&self) -> Option<u64> {
        matches!(self.state, Confirmed::Open(_)).then_some(self.candidate)
    }

    /// Records the trial at [`rate`](Self::rate), and whether it was lossless.
    pub fn tried(&mut self, lossless: bool) {
        let Confirmed::Open(left) = self.state else { return };
        if lossless {
            self.state = Confirmed::Yes;
            return;
        }
        self.state = match self.candidate.checked_sub(self.step) {
            Some(lower) if lower > 0 && left > 1 => {
                (self.candidate, self.step) = (lower, self.step.saturating_mul(2));
                Confirmed::Open(left - 1)
            }
            _ => Confirmed::No,
        };
    }

    /// Returns the rate that held; `None` if none has yet.
    pub fn confirmed(&self) -> Option<u64> {
        (self.state == Confirmed::Yes).then_some(self.candidate)
    }
}

/// One point of a curve, in packets a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// Packets sent to the receiver.
    pub offered: u64,
    /// Packets that left it.
    pub delivered: u64,
}

/// The behaviour of a receiver beyond its capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Behaviour {
    /// It delivers everything, at every rate that was tried.
    #[default]
    Ideal,
    /// Stable: it keeps delivering about its peak.
    Realisable,
    /// It delivers less as the offered rate rises.
    Livelock,
}

impl Behaviour {
    /// Returns the paper's word.
    pub const fn name(self) -> &'static str {
        match self {
            Behaviour::Ideal => "ideal",
            Behaviour::Realisable => "realisable",
            Behaviour::Livelock => "livelock",
        }
    }
}

/// The result of a sweep of rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Curve {
    /// The highest offered rate up to which almost no packet is lost.
    pub loss_free: u64,
    /// The highest delivered rate.
    pub peak: u64,
    /// Packets a second that are delivered at the highest rates, on average.
    pub asymptote: u64,
    /// The receiver's behaviour beyond its peak.
    pub behaviour: Behaviour,
}

impl Curve {
    /// Classifies points in order of the offered rate; `None` if there are none. The highest rates are those
    /// from nine tenths of the maximum. Up to half a percent of loss counts as none.
    ///
    /// ```
    /// use softtimers_poll::{Behaviour, Curve, Point};
    ///
    /// let point = |(offered, delivered)| Point { offered, delivered };
    /// let unmodified = [(2_000, 2_000), (4_940, 4_696), (6_000, 3_578), (10_677, 1_374)].map(point);
    /// assert_eq!(Curve::from_points(&unmodified).unwrap().behaviour, Behaviour::Livelock);
    /// let polled = [(2_000, 2_000), (5_187, 5_187), (6_000, 5_150), (11_000, 5_091)].map(point);
    /// assert_eq!(Curve::from_points(&polled).unwrap().behaviour, Behaviour::Realisable);
    /// ```
    pub fn from_points(points: &[Point]) -> Option<Curve> {
        let highest = points.iter().map(|point| point.offered).max()?;
        let peak = points.iter().map(|point| point.delivered).max()?;
        let (mut sum, mut count) = (0u128, 0u128);
        for point in points.iter().filter(|point| u128::from(point.offered) * 10 >= u128::from(highest) * 9) {
            (sum, count) = (sum + u128::from(point.delivered), count + 1);
        }
        let asymptote = (sum / count.max(1)) as u64;
        let is_lossless =
            |point: &&Point| u128::from(point.delivered) * 1_000 >= u128::from(point.offered) * LOSSLESS;
        let loss_free = points.iter().take_while(is_lossless).map(|point| point.offered).max().unwrap_or(0);
        let behaviour = if points.iter().all(|point| is_lossless(&point)) {
            Behaviour::Ideal
        } else if asymptote >= PLATEAU.of_units(peak) {
            Behaviour::Realisable
        } else {
            Behaviour::Livelock
        };
        Some(Curve { loss_free, peak, asymptote, behaviour })
    }
}

/// Down to 37% of the rate found: a receiver that loses packets there has another problem.
const CANDIDATES: u8 = 7;
/// In thousandths of the offered rate.
const LOSSLESS: u128 = 995;
/// The share of the peak that counts as a plateau. The paper's kernels deliver 96% and more with their remedies, and at
/// most 56% without.
const PLATEAU: Percent = match Percent::new(90) {
    Ok(share) => share,
    Err(_) => Percent::ALL,
};

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn a_confirmation_goes_down_in_doubled_steps_seven_times_at_the_most_and_never_to_zero() {
        let rates = |found| {
            let mut confirmation = Confirmation::new(found);
            let mut tried = std::vec![];
            while let Some(rate) = confirmation.rate().filter(|_| tried.len() < 20) {
                tried.push(rate);
                confirmation.tried(false);
            }
            assert_eq!(confirmation.confirmed(), None);
            tried
        };
        assert_eq!(rates(10_000), [10_000, 9_900, 9_700, 9_300, 8_500, 6_900, 3_700]);
        assert_eq!(rates(150), [150, 149, 147, 143, 135, 119, 87], "23 would be the eighth");
        assert_eq!(rates(4), [4, 3, 1]);
        assert_eq!(rates(3), [3, 2]);
        assert_eq!(rates(0), []);
    }

    #[test]
    fn the_asymptote_is_the_mean_from_nine_tenths_of_the_highest_rate() {
        let points = [(5_000, 5_000), (8_999, 1_000), (9_000, 4_000), (10_000, 5_000)];
        let curve =
            Curve::from_points(&points.map(|(offered, delivered)| Point { offered, delivered })).unwrap();
        assert_eq!((curve.asymptote, curve.peak, curve.loss_free), (4_500, 5_000, 5_000));
    }

    #[test]
    fn the_rate_is_found_to_a_percent() {
        for capacity in [1, 7, 999, 5_187, 175_000, 999_999, 5_000_000] {
            let mut search = LossFree::new(100, 1_000_000);
            let mut trials = 0;
            while let Some(rate) = search.rate() {
                search.tried(rate <= capacity);
                trials += 1;
                assert!(trials < 80, "{search:?}");
            }
            let capacity = u64::min(capacity, 1_000_000);
            assert!(search.found().abs_diff(capacity) <= capacity / 100 + 1, "{search:?}, not {capacity}");
        }
    }

    /// One trial in five loses packets for no reason.
    #[test]
    fn one_bad_trial_does_not_end_it() {
        let (mut search, mut trials) = (LossFree::new(1_000, 1_000_000), 0);
        while let Some(rate) = search.rate() {
            trials += 1;
            search.tried(rate <= 175_000 && trials % 5 != 0);
        }
        assert!(search.found().abs_diff(175_000) <= 1_750, "{search:?}");
    }

    #[test]
    fn a_rate_that_loses_is_not_confirmed() {
        let tried = |found: u64, holds: u64| {
            let (mut confirmation, mut rates) = (Confirmation::new(found), alloc::vec::Vec::new());
            while let Some(rate) = confirmation.rate() {
                rates.push(rate);
                confirmation.tried(rate <= holds);
            }
            (rates, confirmation.confirmed())
        };
        assert_eq!(tried(1_000, 1_000), (alloc::vec![1_000], Some(1_000)));
        assert_eq!(tried(1_000, 950), (alloc::vec![1_000, 990, 970, 930], Some(930)));
        let all = alloc::vec![1_000, 990, 970, 930, 850, 690, 370];
        assert_eq!(tried(1_000, 0), (all, None));
        assert_eq!(tried(2, 0), (alloc::vec![2, 1], None), "never zero");
        assert_eq!(tried(0, 5), (alloc::vec![], None));
        assert_eq!(tried(u64::MAX, u64::MAX).1, Some(u64::MAX));
        let mut done = Confirmation::new(7);
        done.tried(true);
        done.tried(false);
        assert_eq!(done.confirmed(), Some(7), "nothing changes afterwards");
    }

    /// Figures of the paper at three rates each, and one without loss.
    #[test]
    fn the_three_behaviours_are_told_apart() {
        use Behaviour::{Ideal, Livelock, Realisable};
        let series: [(&[(u64, u64)], Behaviour); 7] = [
            (&[(1_000, 1_000), (6_500, 6_480)], Ideal),
            (&[(1_000, 1_000), (4_940, 4_696), (8_000, 2_624), (10_677, 1_374)], Livelock),
            (&[(1_000, 1_000), (3_009, 1_984), (6_000, 401), (10_000, 43)], Livelock), // with screend
            (&[(1_000, 1_000), (5_063, 5_063), (6_500, 585), (10_000, 137)], Livelock), // polling, no quota
            (&[(1_000, 1_000), (5_187, 5_187), (8_000, 5_137), (10_000, 5_091)], Realisable), // quota 5
            (&[(1_000, 1_000), (5_100, 5_043), (8_000, 4_500), (10_000, 4_280)], Livelock), // quota 10
            (&[(1_000, 1_000), (2_940, 2_934), (6_000, 2_850), (10_000, 2_708)], Realisable), // feedback
        ];
        for (points, behaviour) in series {
            let points: alloc::vec::Vec<_> =
                points.iter().map(|&(offered, delivered)| Point { offered, delivered }).collect();
            assert_eq!(Curve::from_points(&points).unwrap().behaviour, behaviour, "{points:?}");
        }
        assert_eq!(Curve::from_points(&[]), None);
        let nothing = Curve::from_points(&[Point { offered: 0, delivered: 0 }]).unwrap();
        assert_eq!((nothing.loss_free, nothing.behaviour), (0, Ideal));
    }
}
