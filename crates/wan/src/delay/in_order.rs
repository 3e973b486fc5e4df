//! Delays that keep packets in order and still have the distribution that was asked for: [`InOrder`].
//!
//! Independent delays and order exclude each other where packets are closer together than their delays differ. A packet
//! that waits for the one before it gets the longest delay of many, so the mean rises with the rate. Here the delay is a
//! process in time instead. A packet sent `gap` after another may have a delay shorter by at most `gap`; each of two
//! moves uses at most half of that, and neither changes the distribution:
//!
//! 1. **It draws.** A fresh draw replaces the delay if the two differ by no more than half the gap. That rule is
//!    symmetric, so it is a Metropolis step. Packets far apart have independent delays.
//! 2. **It moves**, up or down, at half the speed of time:
//!
//! ```text
//!   delay │  ╱╲              ╱╲
//!         │ ╱  ╲     ╱╲     ╱  ╲         from a range of delays it moves on to the next with the ratio of their
//!         │╱    ╲   ╱  ╲   ╱    ╲        densities, or turns round where the next one is thinner
//!         │      ╲_╱    ╲_╱      ╲_
//!         └─────────────────────────▶ time
//! ```
//!
//! The second is a Markov chain over the ranges between neighbouring quantiles, with a direction (a lifted Metropolis
//! chain, in discrete space what is known as the zig-zag process). All ranges have the same flow up and down, so the
//! time spent in each is its share of the distribution, whatever the packets do.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use softtimers_core::{Random, Timestamp};

use super::{Jitter, Memory, Spread, minus_ln, nanos};
use crate::{DelayTable, Probability};

/// The delay of one direction, as a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InOrder {
    /// The settings for which the ranges and the position are valid.
    size: u64,
    spread: Spread,
    ranges: Arc<[Range]>,
    /// The current range, and the time spent in it, from its lower end.
    range: usize,
    within: u128,
    rises: bool,
    /// When the packet before was sent.
    sent: Timestamp,
}

/// A range of delays between two neighbouring quantiles, or a single delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    /// Its ends, in parts of 1/8192 of the size.
    from: i32,
    to: i32,
    /// The part of 2³² of all delays that is below it, and that is in it.
    below: u64,
    share: u64,
    /// The time that crossing it takes, in the same parts.
    takes: u64,
    /// The chance to move on at either end, in parts of 2³²; otherwise it turns.
    onwards_up: u64,
    onwards_down: u64,
}

impl InOrder {
    pub(super) fn new(jitter: &Jitter, sent: Timestamp, random: &mut Random) -> Self {
        let (size, spread, ranges) = (size_of(jitter), jitter.spread.clone(), ranges(&jitter.spread));
        let mut drawn = InOrder { size, spread, ranges, range: 0, within: 0, rises: false, sent };
        let bits = random.next_u64();
        drawn.rises = bits & 1 == 0;
        drawn.place((bits >> 32) as u32);
        drawn
    }

    /// Returns the delay of the next packet.
    pub(super) fn next(
        &mut self,
        delay: u64,
        jitter: &Jitter,
        sent: Timestamp,
        random: &mut Random,
        memory: &mut Memory,
    ) -> u64 {
        if self.size != size_of(jitter) || self.spread != jitter.spread {
            let part = self.part();
            (self.size, self.spread) = (size_of(jitter), jitter.spread.clone());
            self.ranges = ranges(&self.spread);
            self.place(part);
        }
        let gap = u128::from(nanos(sent.saturating_duration_since(self.sent))) * UNITS;
        self.sent = self.sent.max(sent);
        if gap > 0 {
            self.draw(gap, jitter.correlation, random, memory);
            // After a longer pause the draw was accepted, and moving would only take time.
            if gap < 2 * self.reach() {
                self.advance(gap, random);
            }
        }
        let deviation = self.deviation();
        let by = u64::try_from(deviation.unsigned_abs() / UNITS).unwrap_or(u64::MAX);
        if deviation < 0 { delay.saturating_sub(by) } else { delay.saturating_add(by) }
    }

    /// Takes a fresh draw if it is no further than half the gap.
    fn draw(&mut self, gap: u128, correlation: Probability, random: &mut Random, memory: &mut Memory) {
        let part = if correlation == Probability::NEVER {
            (random.next_u64() >> 32) as u32
        } else {
            memory.stand_at(self.part());
            memory.next(correlation, random)
        };
        let before = (self.range, self.within, self.deviation());
        self.place(part);
        if self.deviation().abs_diff(before.2) > gap / 2 {
            (self.range, self.within) = (before.0, before.1);
        }
    }

    /// Moves for a time.
    fn advance(&mut self, mut time: u128, random: &mut Random) {
        loop {
            let whole = self.takes();
            let left = if self.rises { whole - self.within } else { self.within };
            if time < left {
                self.within = if self.rises { self.within + time } else { self.within - time };
                return;
            }
            time -= left;
            let Range { onwards_up, onwards_down, .. } = self.ranges[self.range];
            let chance = if self.rises { onwards_up } else { onwards_down };
            let goes_on = chance >= ALL || (chance > 0 && random.next_u64() >> 32 < chance);
            match (goes_on, self.rises) {
                (true, true) => (self.range, self.within) = (self.range + 1, 0),
                (true, false) => {
                    self.range -= 1;
                    self.within = self.takes();
                }
                (false, rises) => {
                    self.within = if rises { whole } else { 0 };
                    self.rises = !rises;
                }
            }
        }
    }

    /// Goes to this quantile, in parts of 2³².
    fn place(&mut self, part: u32) {
        let part = u64::from(part);
        self.range = self.ranges.partition_point(|range| range.below <= part).saturating_sub(1);
        let Range { below, share, .. } = self.ranges[self.range];
        self.within = u128::from(part - below) * self.takes() / u128::from(share.max(1));
    }

    /// Returns the quantile at which it is, in parts of 2³².
    fn part(&self) -> u32 {
        let Range { below, share, .. } = self.ranges[self.range];
        let within = u128::from(share) * self.within / self.takes().max(1);
        u32::try_from(u128::from(below) + within).unwrap_or(u32::MAX)
    }

    /// Returns by how much it is later than the delay that was set, in [`UNITS`] of a nanosecond.
    fn deviation(&self) -> i128 {
        let Range { from, to, takes, .. } = self.ranges[self.range];
        let wide = i128::from(to) - i128::from(from);
        let climbed = if wide == 0 { 0 } else { wide * self.within as i128 / i128::from(takes) };
        i128::from(from) * i128::from(self.size) * PER_PART as i128 + climbed
    }

    /// Returns the time that crossing the current range takes.
    fn takes(&self) -> u128 {
        u128::from(self.ranges[self.range].takes) * u128::from(self.size) * PER_PART
    }

    /// Returns the difference between the longest and the shortest delay.
    fn reach(&self) -> u128 {
        reach(&self.ranges) * u128::from(self.size) * PER_PART
    }
}

/// Returns about how long it takes until one more of the rarest hundredth of delays is visited, for a jitter of size
/// `size` in order. A run that is not many times as long does not show the distribution.
pub(super) fn settles_within(spread: &Spread, size: Duration) -> Duration {
    let ranges = ranges(spread);
    let (tail, body) = (ALL / 200, ALL - ALL / 200);
    let middle = ranges.iter().filter(|range| range.below < body && range.below + range.share > tail);
    let slowest =
        middle.map(|range| u128::from(range.takes) * 2 * u128::from(ALL) / u128::from(range.share.max(1)));
    let parts = slowest.max().unwrap_or(0);
    let nanos = parts.saturating_mul(size.as_nanos()) / DelayTable::ONE as u128;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the size, at most 13 days, so that products fit.
fn size_of(jitter: &Jitter) -> u64 {
    nanos(jitter.size).min(1 << 50)
}

fn reach(ranges: &[Range]) -> u128 {
    let (first, last) = (ranges[0].from, ranges[ranges.len() - 1].to);
    (i128::from(last) - i128::from(first)).unsigned_abs()
}

/// Returns the ranges of a distribution; those of a named one are computed once.
fn ranges(spread: &Spread) -> Arc<[Range]> {
    static UNIFORM: LazyLock<Arc<[Range]>> = LazyLock::new(|| {
        // The middles of equal parts; their reach is 1/256 short of the size.
        let part = DelayTable::ONE / 128;
        between(&(0..256).map(|quantile| -DelayTable::ONE + part / 2 + part * quantile).collect::<Vec<_>>())
    });
    static NORMAL: LazyLock<Arc<[Range]>> = LazyLock::new(|| between(DelayTable::normal_values()));
    static EXPONENTIAL: LazyLock<Arc<[Range]>> = LazyLock::new(|| {
        let middle = |quantile: u32| minus_ln(((2 * quantile + 1) << 19).wrapping_neg());
        between(&(0..4_096).map(|quantile| (middle(quantile) >> 19) as i32).collect::<Vec<_>>())
    });
    match spread {
        Spread::Uniform => Arc::clone(&UNIFORM),
        Spread::Normal => Arc::clone(&NORMAL),
        Spread::Exponential => Arc::clone(&EXPONENTIAL),
        Spread::Table(table) => between(table.values()),
    }
}

/// Divides sorted quantiles into ranges.
///
/// A value that comes often is a delay at which the process stays. The way to the next value takes time, so it has a
/// share of its own: that of one quantile, or a quarter of the rarer neighbour's, at most 1/128. Half of it comes from
/// either neighbour, which leaves the mean as it is.
fn between(values: &[i32]) -> Arc<[Range]> {
    let quantiles = values.len() as u64;
    let runs: Vec<(i32, u64)> =
        values.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect();
    // Shares in parts of 512 for each quantile.
    let ways: Vec<u64> =
        runs.windows(2).map(|pair| (4 * quantiles).min((128 * pair[0].1.min(pair[1].1)).max(512))).collect();
    let reach = (i64::from(runs[runs.len() - 1].0) - i64::from(runs[0].0)).unsigned_abs();
    let briefest = (reach / 4_096).max(1);
    let crossing = |at: usize| {
        let wide = (i64::from(runs[at + 1].0) - i64::from(runs[at].0)).unsigned_abs();
        (2 * wide).max(briefest)
    };
    let mut parts: Vec<Part> = Vec::with_capacity(2 * runs.len());
    for (at, &(value, count)) in runs.iter().enumerate() {
        let sides = [at.checked_sub(1), (at < ways.len()).then_some(at)].into_iter().flatten();
        let stays = 512 * count - sides.clone().map(|side| ways[side] / 2).sum::<u64>();
        if stays > 0 {
            // An eighth of the time after which it should leave by its faster side, so that stays vary.
            let leaves = sides.map(|side| stays * crossing(side) / ways[side]).min().unwrap_or(1);
            parts.push(Part { from: value, to: value, share: stays, takes: (leaves / 8).max(briefest) });
        }
        if at < ways.len() {
            parts.push(Part { from: value, to: runs[at + 1].0, share: ways[at], takes: crossing(at) });
        }
    }
    joined(&parts, 512 * quantiles, 2 * reach)
}

/// A range before its chances are known.
#[derive(Clone, Copy)]
struct Part {
    from: i32,
    to: i32,
    share: u64,
    takes: u64,
}

/// Computes the chances to move on. Besides where the density falls, it turns once in `turns` on average, so that it is
/// no regular wave.
fn joined(parts: &[Part], total: u64, turns: u64) -> Arc<[Range]> {
    let turning = |part: &Part| if part.takes < turns / 16 { part.takes } else { 0 };
    // How often a part is left for the next one, if it does not turn by chance.
    let flow = |part: &Part| {
        let goes_on = u128::from(part.share) * u128::from(turns - turning(part));
        (goes_on, u128::from(part.takes) * u128::from(turns))
    };
    let onwards = |own: &Part, next: Option<&Part>| {
        let Some(next) = next else { return 0 };
        let least = [own, next].map(|part| {
            let (share, takes) = flow(part);
            // Of this many visits to the own one.
            u128::from(ALL) * share * u128::from(own.takes) / (takes * u128::from(own.share))
        });
        u64::try_from(least[0].min(least[1])).unwrap_or(ALL)
    };
    let mut sum = 0u64;
    let ranges = parts.iter().enumerate().map(|(at, part)| {
        let below = (u128::from(sum) << 32) / u128::from(total);
        sum += part.share;
        let until = (u128::from(sum) << 32) / u128::from(total);
        Range {
            from: part.from,
            to: part.to,
            below: below as u64,
            share: (until - below) as u64,
            takes: part.takes,
            onwards_up: onwards(part, parts.get(at + 1)),
            onwards_down: onwards(part, at.checked_sub(1).map(|before| &parts[before])),
        }
    });
    ranges.collect()
}

/// Units of time in a nanosecond, and in a part of one.
const UNITS: u128 = 1 << 16;
const PER_PART: u128 = UNITS / DelayTable::ONE as u128;
/// All of a distribution.
const ALL: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::super::Propagation;
    use super::*;

    /// The sorted delays in milliseconds of packets at a rate for a time, in order.
    fn delays(delay_ms: u64, jitter: &Jitter, packets_per_second: u64, seconds: u64) -> Vec<f64> {
        let mut propagation = Propagation::new(Random::stream(7, 0), Random::stream(7, 1));
        let (delay, mut last) = (Duration::from_millis(delay_ms), Timestamp::ZERO);
        let gap = 1_000_000_000 / packets_per_second;
        let mut delays: Vec<f64> = (0..seconds * packets_per_second)
            .map(|number| {
                let sent = Timestamp::from_nanos(number * gap);
                let due = propagation.arrival(sent, delay, jitter, None);
                assert!(due >= last, "{number}");
                last = due;
                due.saturating_duration_since(sent).as_nanos() as f64 / 1e6
            })
            .collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    fn mean(sorted: &[f64]) -> f64 {
        sorted.iter().sum::<f64>() / sorted.len() as f64
    }

    fn quantile(sorted: &[f64], part: f64) -> f64 {
        sorted[((sorted.len() as f64 * part) as usize).min(sorted.len() - 1)]
    }

    /// Mean within 1% and quantiles within 2% of independent delays, from 50 packets a second to 10,000.
    #[test]
    fn the_distribution_is_the_one_that_was_set_at_every_rate() {
        let spreads = [
            ("uniform", Spread::Uniform),
            ("normal", Spread::Normal),
            ("exponential", Spread::Exponential),
            ("pareto", Spread::Table(DelayTable::pareto())),
            ("paretonormal", Spread::Table(DelayTable::pareto_normal())),
        ];
        for (name, spread) in spreads {
            let jitter = Jitter::uniform(Duration::from_millis(1)).spread(spread);
            let set = delays(5, &jitter, 1, 200_000);
            for (rate, seconds) in [(50, 4_000), (1_000, 600), (10_000, 250)] {
                let found = delays(5, &jitter, rate, seconds);
                let means = (mean(&found), mean(&set));
                assert!((means.0 / means.1 - 1.0).abs() < 0.01, "{name} at {rate}/s: means {means:?}");
                for part in [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99] {
                    let (found, set) = (quantile(&found, part), quantile(&set, part));
                    assert!((found / set - 1.0).abs() < 0.02, "{name} at {rate}/s, {part}: {found} {set}");
                }
            }
        }
    }

    /// 70% of 5 ms, 20% of 5.25, 9% of 5.625 and 1% of 15: a value far from the others comes rarely and then stays.
    #[test]
    fn a_histogram_with_a_far_value_keeps_its_shares() {
        let table = DelayTable::histogram(b"ms,packets\n0,7000\n1,2000\n2.5,900\n40,100\n").unwrap();
        let jitter = Jitter::uniform(Duration::from_micros(250)).spread(Spread::Table(table));
        let expected = 5.0 + 0.25 * (0.2 * 1.0 + 0.09 * 2.5 + 0.01 * 40.0);
        for (rate, seconds) in [(50, 8_000), (1_000, 2_000), (10_000, 500)] {
            let found = delays(5, &jitter, rate, seconds);
            assert!((mean(&found) / expected - 1.0).abs() < 0.01, "{rate}/s: mean {}", mean(&found));
            for (above, share) in [(5.125, 0.3), (5.44, 0.1), (6.0, 0.01)] {
                let bound = if share > 0.05 { 0.015 } else { 0.004 };
                let beyond = found.len() - found.partition_point(|&delay| delay <= above);
                let found = beyond as f64 / found.len() as f64;
                assert!((found - share).abs() < bound, "{rate}/s: {found} above {above}");
            }
        }
    }
}
