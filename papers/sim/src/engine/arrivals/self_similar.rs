//! Traffic that is bursty at every scale of time: [`SelfSimilar`].
//!
//! Many sources, each on and off in turn for times of a Pareto distribution whose variance is infinite, add up to
//! traffic whose bursts do not average out over longer intervals, as that of a LAN does not (Willinger, Taqqu, Sherman
//! and Wilson, *Self-similarity through high-variability*, SIGCOMM 1995; Taqqu, Willinger and Sherman, *Proof of a
//! fundamental result in self-similar traffic modeling*, CCR 27(2), 1997). With the exponent α the Hurst parameter is
//! (3 − α)/2: 0.9 for the 1.2 of busy Ethernets, 0.5 for Poisson.
//!
//! ```text
//!   source 1   ││││││││││                 │││         ││
//!   source 2       ││           │││││││││││││││││││││││││││││││││         on: evenly, N a second
//!   source 3   │││     │                     ││││                          off: nothing
//!   together   │││││││││││││    ││││││││││││││││││││││││││││││││││││
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use softtimers_core::Random;
use softtimers_core::Timestamp;
use softtimers_poll::Factor;

use super::Arrival;
use crate::engine::Streams;

/// The parameters of such traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SelfSimilarConfig {
    /// The mean time between packets of all sources together.
    pub(crate) mean_gap: Duration,
    /// The length of each packet.
    pub(crate) bytes: u32,
    /// The number of sources, at least one.
    pub(crate) sources: u32,
    /// α of on and off times: above one and at most two; other values are clamped.
    pub(crate) alpha: Factor,
    /// Mean packets of an on time: at least one.
    pub(crate) train: u32,
    /// The share of time that a source is on, above zero and below one.
    pub(crate) on: Factor,
}

impl SelfSimilarConfig {
    /// 32 sources, each on for a quarter of the time, with eight packets in each on time and α = 1.2.
    pub(crate) const fn new(mean_gap: Duration, bytes: u32) -> Self {
        let (alpha, on) = (Factor::thousandths(1_200), Factor::thousandths(250));
        SelfSimilarConfig { mean_gap, bytes, sources: 32, alpha, train: 8, on }
    }
}

/// The packets of all sources, without end.
///
/// # Cost
/// O(log n) for a packet among n sources; one or two exponentials for each on time.
#[derive(Debug)]
pub(crate) struct SelfSimilar {
    bytes: u32,
    /// Nanoseconds between two packets of a source that is on.
    gap: u64,
    /// The least packets of an on time, and the least nanoseconds of an off time, to which Pareto multiples apply.
    shortest_on: f64,
    shortest_off: f64,
    alpha: f64,
    random: Random,
    /// Sources by the time of their next packet, each with the number of packets that follow in its on time.
    sources: BinaryHeap<Reverse<(u64, u32, u64)>>,
}

impl SelfSimilar {
    /// The traffic of a seed.
    pub(crate) fn new(config: SelfSimilarConfig, streams: Streams) -> Self {
        let alpha = f64::from(config.alpha.get().clamp(1_050, 2_000)) / 1_000.0;
        let on = f64::from(config.on.get().clamp(1, 999)) / 1_000.0;
        let count = config.sources.max(1);
        // Each source sends every count · mean_gap on average, and on / that while it is on.
        let gap = config.mean_gap.as_nanos() as f64 * f64::from(count) * on;
        let train = f64::from(config.train.max(1));
        // The mean of a Pareto distribution is its least value times α / (α − 1).
        let least = |mean: f64| mean * (alpha - 1.0) / alpha;
        let mut traffic = SelfSimilar {
            bytes: config.bytes,
            gap: (gap as u64).max(1),
            shortest_on: least(train),
            shortest_off: least(train * gap * (1.0 - on) / on),
            alpha,
            random: streams.of("self-similar"),
            sources: BinaryHeap::with_capacity(count as usize),
        };
        // Each starts in the middle of an off time, at a random point.
        for source in 0..count {
            let off = traffic.off();
            let at = traffic.random.below(off.saturating_add(1));
            let left = traffic.on();
            traffic.sources.push(Reverse((at, source, left)));
        }
        traffic
    }

    /// Packets after the first of an on time.
    fn on(&mut self) -> u64 {
        ((self.shortest_on * self.pareto()) as u64).max(1) - 1
    }

    /// Nanoseconds of an off time.
    fn off(&mut self) -> u64 {
        (self.shortest_off * self.pareto()) as u64
    }

    /// At least one: u to the power −1/α, by e to the exponentially distributed −ln u, divided by α.
    fn pareto(&mut self) -> f64 {
        exp(self.random.exponential() as f64 / Random::ONE as f64 / self.alpha)
    }
}

impl Iterator for SelfSimilar {
    type Item = Arrival;

    /// Always returns an arrival.
    fn next(&mut self) -> Option<Arrival> {
        let Reverse((at, source, left)) = self.sources.pop()?;
        let (next, left) = match left.checked_sub(1) {
            Some(left) => (at.saturating_add(self.gap), left),
            None => (at.saturating_add(self.gap).saturating_add(self.off()), self.on()),
        };
        self.sources.push(Reverse((next, source, left)));
        Some(Arrival { at: Timestamp::from_nanos(at), bytes: self.bytes })
    }
}

/// e to the power `x`, for x from 0 to 44, by sums and products alone, which every machine rounds alike; libraries'
/// differ in the last bit.
fn exp(x: f64) -> f64 {
    let doublings = (x / std::f64::consts::LN_2) as u32;
    let rest = x - f64::from(doublings) * std::f64::consts::LN_2;
    let series = (1..=18).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * (1u64 << doublings.min(63)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::arrivals::of_pattern;
    use softtimers_core::Pattern;
    use softtimers_core::Rate;

    /// The Hurst parameter by how the variance of the mean falls with the length of intervals.
    fn hurst(arrivals: impl Iterator<Item = Arrival>, intervals: usize) -> f64 {
        let mut counts = vec![0u32; intervals];
        for packet in arrivals {
            let Some(count) = counts.get_mut((packet.at.as_nanos() / 10_000_000) as usize) else { break };
            *count += 1;
        }
        let variance = |merged: usize| {
            let means: Vec<f64> = counts
                .chunks_exact(merged)
                .map(|counts| f64::from(counts.iter().sum::<u32>()) / merged as f64)
                .collect();
            let mean = means.iter().sum::<f64>() / means.len() as f64;
            means.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / means.len() as f64
        };
        // Var of the mean of m intervals ~ m^(2H − 2).
        1.0 + (variance(256) / variance(16)).ln() / (256f64 / 16.0).ln() / 2.0
    }

    #[test]
    fn bursts_do_not_average_out() {
        let gap = Duration::from_millis(1);
        let poisson = of_pattern(Rate::every(gap).unwrap(), Pattern::Poisson { seed: 1 }, 500);
        let poisson = hurst(poisson, 1 << 15);
        let similar = hurst(SelfSimilar::new(SelfSimilarConfig::new(gap, 500), Streams::new(1)), 1 << 15);
        assert!((0.4..0.6).contains(&poisson), "Poisson: {poisson}");
        assert!(similar > 0.75, "self-similar: {similar}");
    }

    /// The mean converges as slowly as everything else here.
    #[test]
    fn the_mean_gap_is_the_one_that_is_asked_for() {
        let config = SelfSimilarConfig::new(Duration::from_millis(1), 500);
        let last = SelfSimilar::new(config, Streams::new(1)).take(200_000).last().unwrap();
        assert!((100_000..400_000).contains(&(last.at.as_nanos() / 1_000_000)), "{:?}", last.at);
    }

    #[test]
    fn they_come_in_order_and_by_the_seed() {
        let config = SelfSimilarConfig::new(Duration::from_micros(100), 60);
        let packets = |seed| SelfSimilar::new(config, Streams::new(seed)).take(10_000).collect::<Vec<_>>();
        let packets_of_one = packets(1);
        assert!(packets_of_one.is_sorted_by_key(|packet| packet.at));
        assert_eq!(packets(1), packets_of_one);
        assert_ne!(packets(2), packets_of_one);
    }

    #[test]
    fn the_exponential_is_that_of_the_library_to_fourteen_digits() {
        for tenth in 0..440 {
            let x = f64::from(tenth) / 10.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "{x}: {} {}", exp(x), x.exp());
        }
    }
}
