//! The arithmetic of phases: how many are delayed in a job of n nodes, and how long the longest takes.

use std::collections::BTreeMap;

use softtimers_core::{Histogram, Random, Trace};

use crate::Steps;

/// The lengths of phases on one node, as a distribution.
///
/// ```
/// use softtimers_sim::noise::{Phases, undelayed};
///
/// // One in a hundred takes 1.6 times as long.
/// let phases = Phases::new([(1_000_000, 99), (1_600_000, 1)]).expect("some phases");
/// assert_eq!(phases.share_above(1_300_000), 0.01);
/// assert!((undelayed(0.01, 100) - 0.366).abs() < 0.0005);
/// assert!((undelayed(0.001, 100) - 0.905).abs() < 0.0005);
/// assert!((phases.expected_longest(100) / 1e6 - (0.366 + 0.634 * 1.6)).abs() < 0.001);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phases {
    /// Lengths in nanoseconds, ascending, each with the number of phases that are at most that long.
    lengths: Vec<(u64, u64)>,
}

impl Phases {
    /// Creates the distribution from lengths in nanoseconds and how often each was seen; `None` if there are none.
    pub fn new(seen: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let mut counts = BTreeMap::<u64, u64>::new();
        for (length, times) in seen.into_iter().filter(|&(_, times)| times > 0) {
            let count = counts.entry(length).or_default();
            *count = count.saturating_add(times);
        }
        let mut total = 0u64;
        let lengths = counts.into_iter().map(|(length, count)| {
            total = total.saturating_add(count);
            (length, total)
        });
        let lengths: Vec<_> = lengths.collect();
        (!lengths.is_empty()).then_some(Phases { lengths })
    }

    /// Creates it from a histogram of nanoseconds.
    pub fn of_histogram(histogram: &Histogram) -> Option<Self> {
        Phases::new(histogram.iter())
    }

    /// Creates it from the times at which each phase ended.
    pub fn of_stamps(stamps: &Trace) -> Option<Self> {
        let ends = || stamps.iter().map(|(end, _)| end.as_nanos() as u64);
        Phases::new(ends().skip(1).zip(ends()).map(|(end, begin)| (end - begin, 1)))
    }

    /// Returns the share of phases that take longer than `nanos`.
    pub fn share_above(&self, nanos: u64) -> f64 {
        let at_most = self.lengths.partition_point(|&(length, _)| length <= nanos);
        let below = at_most.checked_sub(1).map_or(0, |last| self.lengths[last].1);
        (self.total() - below) as f64 / self.total() as f64
    }

    /// Returns the median, in nanoseconds.
    pub fn median(&self) -> u64 {
        self.at(self.total().div_ceil(2) - 1)
    }

    /// Draws one length at random, in nanoseconds.
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.at(random.below(self.total()))
    }

    /// Draws the longest phase of `nodes` nodes `count` times; a phase longer than `threshold` nanoseconds is
    /// delayed.
    ///
    /// # Cost
    /// `nodes` times `count` draws of about 20 ns each.
    pub fn draw_longest(&self, nodes: u64, count: u64, threshold: u64, random: &mut Random) -> Longest {
        self.draw_watched(nodes, count, threshold, random, &Steps::unwatched())
    }

    pub(super) fn draw_watched(
        &self,
        nodes: u64,
        count: u64,
        threshold: u64,
        random: &mut Random,
        steps: &Steps,
    ) -> Longest {
        let (mut sum, mut none) = (0u128, 0u64);
        for number in 0..count {
            if !steps.go_on(number, count) {
                break;
            }
            let longest = (0..nodes).map(|_| self.draw(random)).max().unwrap_or(0);
            sum += u128::from(longest);
            none += u64::from(longest <= threshold);
        }
        let drawn = count.max(1) as f64;
        Longest { mean: sum as f64 / drawn, undelayed: none as f64 / drawn }
    }

    /// Returns the mean of the longest phase of `nodes` nodes, in nanoseconds: each length, by how likely it is that none
    /// is longer and not all are shorter.
    pub fn expected_longest(&self, nodes: u64) -> f64 {
        let mut before = 0.0;
        let mut sum = 0.0;
        for &(length, count) in &self.lengths {
            let none_longer = power(count as f64 / self.total() as f64, nodes);
            sum += (none_longer - before) * length as f64;
            before = none_longer;
        }
        sum
    }

    fn at(&self, number: u64) -> u64 {
        let index = self.lengths.partition_point(|&(_, count)| count <= number);
        self.lengths[index.min(self.lengths.len() - 1)].0
    }

    fn total(&self) -> u64 {
        self.lengths[self.lengths.len() - 1].1
    }
}

/// The result of [`Phases::draw_longest`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Longest {
    /// The mean of each phase's longest node, in nanoseconds.
    pub mean: f64,
    /// The share of phases that are delayed on no node.
    pub undelayed: f64,
}

/// Returns (1 − p)ⁿ: the share of phases that are delayed on none of n nodes.
pub fn undelayed(p: f64, nodes: u64) -> f64 {
    power(1.0 - p, nodes)
}

/// Returns the largest p that barely affects a job of n nodes: an order of magnitude below 1/n (§2.2).
///
/// ```
/// assert_eq!(softtimers_sim::noise::wanted(100), 0.001);
/// ```
pub fn wanted(nodes: u64) -> f64 {
    0.1 / nodes.max(1) as f64
}

/// By squaring: only products, which every machine rounds alike.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}
