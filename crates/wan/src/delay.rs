//! The delay of a packet behind the bottleneck: a fixed delay, its [`Jitter`], and reordering ([`Reorder`]).
//!
//! ```text
//!   sent        a  b  c  d
//!   kept        a    b   c    d           none overtakes: neighbours have similar delays
//!   free            b a    d c            each for itself: jitter alone reorders
//!   late        a     c  d        b       a share comes later, and the others pass it
//!   ahead       c a   b     d             some take no delay, and pass the others
//! ```

mod in_order;

use std::time::Duration;

use softtimers_core::{Random, Timestamp};

use self::in_order::InOrder;
use crate::{DelayTable, Probability};

/// The variation of the delay from packet to packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Jitter {
    /// The size of the variation; [`Spread`] defines its meaning.
    pub size: Duration,
    /// The distribution of the variation.
    pub spread: Spread,
    /// Draws each delay by itself, so that a packet may overtake another. Otherwise packets stay in order: their delays
    /// have the same distribution at every rate, and those of close packets are alike, since a delay falls at most as
    /// fast as time passes. See [`settles_within`](Self::settles_within).
    pub reorders: bool,
    /// The correlation of a packet's delay with that of the packet before. The distribution stays as it is; netem's
    /// becomes narrower. In order, close packets are more alike than that.
    pub correlation: Probability,
}

impl Jitter {
    /// Spreads delays evenly between delay − size and delay + size, in order.
    pub const fn uniform(size: Duration) -> Self {
        Jitter { size, spread: Spread::Uniform, reorders: false, correlation: Probability::NEVER }
    }

    /// Allows packets to overtake each other.
    #[must_use]
    pub const fn reordering(mut self) -> Self {
        self.reorders = true;
        self
    }

    /// Sets another distribution.
    #[must_use]
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }

    /// Sets the correlation of each delay with the one before.
    #[must_use]
    pub const fn correlated(mut self, correlation: Probability) -> Self {
        self.correlation = correlation;
        self
    }

    /// Returns how long a run has to be, about, until delays in order have shown the rarest hundredth of their
    /// distribution once; the distribution of a run is the one that was set if it is some ten times as long. Zero where
    /// packets may overtake each other.
    ///
    /// A delay that is in no neighbourhood of the others takes longest: the way back to them takes as long as they
    /// differ, and has to be rare.
    pub fn settles_within(&self) -> Duration {
        if self.reorders { Duration::ZERO } else { in_order::settles_within(&self.spread, self.size) }
    }

    /// Returns the share of packets whose delay would be below zero beside this delay, and is zero.
    pub fn share_cut(&self, delay: Duration) -> Probability {
        let (delay, size) = (nanos(delay), nanos(self.size));
        let below = |values: &[i32]| {
            let cut = values.partition_point(|&value| {
                value < 0 && scaled(size, u64::from(value.unsigned_abs()), TABLE_ONE) > delay
            });
            Probability::share(cut as u64, values.len() as u64)
        };
        match &self.spread {
            Spread::Uniform | Spread::Exponential => Probability::NEVER,
            Spread::Normal => below(DelayTable::normal_values()),
            Spread::Table(table) => below(table.values()),
        }
    }

    /// Returns the shortest delay that results.
    pub(crate) fn least(&self, delay: Duration) -> Duration {
        delay.saturating_sub(Duration::from_nanos(self.earliest()))
    }

    /// Returns the most by which a delay becomes shorter.
    fn earliest(&self) -> u64 {
        let size = nanos(self.size);
        match &self.spread {
            Spread::Uniform => size,
            Spread::Normal => size.saturating_mul(u64::from(NORMAL_REACH)),
            Spread::Exponential => 0,
            Spread::Table(table) => {
                let early = u64::from(table.least().min(0).unsigned_abs());
                scaled(size, early, TABLE_ONE).saturating_add(1)
            }
        }
    }

    /// Draws a delay. Without jitter it draws no number.
    fn apply(&self, delay: Duration, random: &mut Random, memory: &mut Memory) -> Duration {
        let (delay, size) = (nanos(delay), nanos(self.size));
        if size == 0 {
            return Duration::from_nanos(delay);
        }
        let nanos = if self.correlation == Probability::NEVER {
            self.drawn(delay, size, random)
        } else {
            self.at(delay, size, memory.next(self.correlation, random))
        };
        Duration::from_nanos(nanos)
    }

    /// Draws a delay independent of others.
    fn drawn(&self, delay: u64, size: u64, random: &mut Random) -> u64 {
        match &self.spread {
            Spread::Uniform => {
                let above = random.below(size.saturating_mul(2).saturating_add(1));
                delay.saturating_add(above).saturating_sub(size)
            }
            Spread::Normal => {
                let above = scaled(size, normal(random), 1 << 32);
                delay.saturating_add(above).saturating_sub(size.saturating_mul(u64::from(NORMAL_REACH)))
            }
            Spread::Exponential => delay.saturating_add(scaled(size, random.exponential(), Random::ONE)),
            Spread::Table(table) => deviating(delay, size, table.at((random.next_u64() >> 32) as u32)),
        }
    }

    /// Returns the delay at this quantile, in parts of 2³².
    fn at(&self, delay: u64, size: u64, part: u32) -> u64 {
        match &self.spread {
            Spread::Uniform => {
                let above = scaled(size, 2 * u64::from(part), 1 << 32);
                delay.saturating_add(above).saturating_sub(size)
            }
            Spread::Normal => deviating(delay, size, DelayTable::normal().at(part)),
            // −ln(1 − part), as an independent draw computes it.
            Spread::Exponential => {
                let above = minus_ln(u32::MAX - part);
                delay.saturating_add(scaled(size, above, 1 << 32))
            }
            Spread::Table(table) => deviating(delay, size, table.at(part)),
        }
    }
}

/// A distribution of delays.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Spread {
    /// Uniform from delay − size to delay + size.
    #[default]
    Uniform,
    /// Like a normal distribution with this standard deviation, within six of it; not below zero.
    Normal,
    /// The delay is the minimum, and the size is the mean of an exponentially distributed addition: a queue somewhere
    /// else.
    Exponential,
    /// The deviations of a table, such as [`DelayTable::pareto`], times the size; not below zero.
    Table(DelayTable),
}

/// Reordering of packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reorder {
    /// Some come later, and others overtake them.
    Late(Late),
    /// Some come at once, and overtake others.
    Ahead(Ahead),
}

/// Delays a share of the packets, so that others overtake them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Late {
    /// The share of packets that come late.
    pub share: Probability,
    /// The additional delay.
    pub by: Duration,
}

/// Packets that skip the delay, as netem's `reorder`: after `gap` − 1 others, the next with this probability.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ahead {
    /// The probability for a packet that is far enough from the last one.
    pub share: Probability,
    /// The minimum distance between them, in packets. 0 counts as 1.
    pub gap: u32,
}

/// Draws the delays of one direction, and keeps in order what must stay in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Propagation {
    jitter: Random,
    late: Random,
    memory: Memory,
    /// The delay of packets in order, once there was one.
    in_order: Option<InOrder>,
    /// When the latest packet that was not reordered arrives.
    last: Timestamp,
    /// Packets since one went ahead.
    since: u32,
}

impl Propagation {
    pub(crate) fn new(jitter: Random, late: Random) -> Self {
        let (memory, last) = (Memory::default(), Timestamp::ZERO);
        Propagation { jitter, late, memory, in_order: None, last, since: 0 }
    }

    /// Returns when a packet arrives that left the bottleneck at `sent`.
    pub(crate) fn arrival(
        &mut self,
        sent: Timestamp,
        delay: Duration,
        jitter: &Jitter,
        reorder: Option<Reorder>,
    ) -> Timestamp {
        if let Some(Reorder::Ahead(ahead)) = reorder {
            let is_turn = self.since.saturating_add(1) >= ahead.gap;
            if is_turn && ahead.share.happens(&mut self.late) {
                self.since = 0;
                return sent;
            }
            self.since = self.since.saturating_add(1);
        }
        let arrival = sent + self.delay(sent, delay, jitter);
        if let Some(Reorder::Late(late)) = reorder {
            if late.share.happens(&mut self.late) {
                return arrival + late.by;
            }
        }
        let arrival = if jitter.reorders { arrival } else { arrival.max(self.last) };
        self.last = self.last.max(arrival);
        arrival
    }

    fn delay(&mut self, sent: Timestamp, delay: Duration, jitter: &Jitter) -> Duration {
        if jitter.reorders || jitter.size.is_zero() {
            return jitter.apply(delay, &mut self.jitter, &mut self.memory);
        }
        let Propagation { in_order, jitter: random, memory, .. } = self;
        let process = in_order.get_or_insert_with(|| InOrder::new(jitter, sent, random));
        Duration::from_nanos(process.next(nanos(delay), jitter, sent, random, memory))
    }
}

/// The last draw of a correlated jitter: a normal deviation in parts of 1/8192, whose quantile is used. So each draw
/// has the same distribution as an uncorrelated one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Memory(Option<i32>);

impl Memory {
    /// Goes on from this quantile, in parts of 2³².
    fn stand_at(&mut self, part: u32) {
        self.0 = Some(DelayTable::normal().at(part));
    }

    /// Draws the next quantile, in parts of 2³².
    fn next(&mut self, correlation: Probability, random: &mut Random) -> u32 {
        const BILLION: i64 = 1_000_000_000;
        let normal = DelayTable::normal();
        let bits = random.next_u64();
        let fresh = i64::from(normal.at((bits >> 32) as u32));
        let like = i64::from(correlation.parts_per_billion());
        let unlike = ((BILLION * BILLION - like * like) as u64).isqrt() as i64;
        let next = self.0.map_or(fresh, |last| (i64::from(last) * like + fresh * unlike) / BILLION) as i32;
        self.0 = Some(next);
        let (below, width) = normal.below(next);
        let within = (u128::from(width) * u128::from(bits as u32)) >> 32;
        u32::try_from(u128::from(below) + within).unwrap_or(u32::MAX)
    }
}

/// Returns a delay that deviates by `deviation` / 8192 of `size`.
fn deviating(delay: u64, size: u64, deviation: i32) -> u64 {
    let by = scaled(size, u64::from(deviation.unsigned_abs()), TABLE_ONE);
    if deviation < 0 { delay.saturating_sub(by) } else { delay.saturating_add(by) }
}

/// Draws a number of mean 6 and standard deviation 1, in 32 fractional bits: the sum of twelve uniform ones.
fn normal(random: &mut Random) -> u64 {
    let two = |random: &mut Random| {
        let bits = random.next_u64();
        (bits >> 32) + (bits & u64::from(u32::MAX))
    };
    (0..NORMAL_REACH).map(|_| two(random)).sum()
}

/// Returns size · factor / one, saturating.
fn scaled(size: u64, factor: u64, one: u64) -> u64 {
    u64::try_from(u128::from(size) * u128::from(factor) / u128::from(one)).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns −ln(part / 2³²) with 32 fractional bits, at most 22: doubles the part until it is above a half, then uses a
/// series.
fn minus_ln(part: u32) -> u64 {
    const LN_2: u64 = 0xb172_17f7;
    let part = part.max(1);
    let shift = part.leading_zeros();
    // m = 1 − x with x up to a half; −ln m = x + x²/2 + x³/3 + …
    let x = (1u64 << 32) - (u64::from(part) << shift);
    let (mut power, mut sum) = (x, 0);
    for term in 1..=40 {
        sum += power / term;
        power = (power * x) >> 32;
    }
    u64::from(shift) * LN_2 + sum
}

/// One size in a [`DelayTable`].
const TABLE_ONE: u64 = DelayTable::ONE as u64;
/// The most standard deviations that a sum of twelve reaches on either side of the mean.
const NORMAL_REACH: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_can_be_counted() {
        let mut propagation = Propagation::new(Random::stream(1, 0), Random::stream(1, 1));
        propagation.since = u32::MAX;
        let ahead = Reorder::Ahead(Ahead { share: Probability::ALWAYS, gap: u32::MAX });
        let delay = Duration::from_millis(1);
        let arrival = propagation.arrival(Timestamp::ZERO, delay, &Jitter::default(), Some(ahead));
        assert_eq!((arrival, propagation.since), (Timestamp::ZERO, 0));
    }
}
