//! How long a packet is under way behind the bottleneck: a delay, its [`Jitter`], and who comes [`Late`].
//!
//! ```text
//!   sent        a  b  c  d
//!   kept        a     b  c      d         nobody overtakes: c waits for b
//!   free            b a    d c            each for itself: jitter alone reorders
//!   late        a     c  d        b       a share comes later by so much, the others pass it
//! ```

use std::time::Duration;

use softtimers_core::{Random, Timestamp};

use crate::Probability;

/// The variation of the delay from packet to packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Jitter {
    /// The size of the variation, as [`Spread`] has it.
    pub size: Duration,
    /// The distribution of the variation.
    pub spread: Spread,
    /// Allows a packet to overtake another because of it. If not, one waits for the packet before it, so at gaps below
    /// the size the mean delay is longer than what was asked for.
    pub reorders: bool,
}

impl Jitter {
    /// Between delay − size and delay + size, in order.
    pub const fn uniform(size: Duration) -> Self {
        Jitter { size, spread: Spread::Uniform, reorders: false }
    }

    /// The same, and packets may overtake each other.
    #[must_use]
    pub const fn reordering(mut self) -> Self {
        self.reorders = true;
        self
    }

    /// The same, after another distribution.
    #[must_use]
    pub const fn spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }

    /// The shortest that it makes of a delay.
    pub(crate) fn least(&self, delay: Duration) -> Duration {
        delay.saturating_sub(Duration::from_nanos(self.earliest()))
    }

    /// The most by which a delay is shorter.
    fn earliest(&self) -> u64 {
        let size = nanos(self.size);
        match self.spread {
            Spread::Uniform => size,
            Spread::Normal => size.saturating_mul(u64::from(NORMAL_REACH)),
            Spread::Exponential => 0,
        }
    }

    /// A delay. Draws nothing where there is no jitter.
    fn apply(&self, delay: Duration, random: &mut Random) -> Duration {
        let (delay, size) = (nanos(delay), nanos(self.size));
        if size == 0 {
            return Duration::from_nanos(delay);
        }
        Duration::from_nanos(match self.spread {
            Spread::Uniform => {
                let above = random.below(size.saturating_mul(2).saturating_add(1));
                delay.saturating_add(above).saturating_sub(size)
            }
            Spread::Normal => {
                let above = scaled(size, normal(random), 1 << 32);
                delay.saturating_add(above).saturating_sub(size.saturating_mul(u64::from(NORMAL_REACH)))
            }
            Spread::Exponential => delay.saturating_add(scaled(size, random.exponential(), Random::ONE)),
        })
    }
}

/// A distribution of delays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Spread {
    /// Everything from delay − size to delay + size is as likely.
    #[default]
    Uniform,
    /// Like a normal distribution with this standard deviation, within six of it; not below zero.
    Normal,
    /// The delay is the least, and the size what comes on top in the mean, exponentially distributed: a
    /// queue somewhere else.
    Exponential,
}

/// A share of the packets comes later, and the others overtake it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Late {
    /// The share of packets that come late.
    pub share: Probability,
    /// The time by which they come later.
    pub by: Duration,
}

/// Draws the delays of one direction and keeps what must stay in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Propagation {
    jitter: Random,
    late: Random,
    /// When the latest packet that was not late arrives.
    last: Timestamp,
}

impl Propagation {
    pub(crate) fn new(jitter: Random, late: Random) -> Self {
        Propagation { jitter, late, last: Timestamp::ZERO }
    }

    /// When a packet arrives that the bottleneck has let go at `sent`.
    pub(crate) fn arrival(
        &mut self,
        sent: Timestamp,
        delay: Duration,
        jitter: &Jitter,
        late: Option<Late>,
    ) -> Timestamp {
        let arrival = sent + jitter.apply(delay, &mut self.jitter);
        if let Some(late) = late {
            if late.share.happens(&mut self.late) {
                return arrival + late.by;
            }
        }
        let arrival = if jitter.reorders { arrival } else { arrival.max(self.last) };
        self.last = self.last.max(arrival);
        arrival
    }
}

/// A number of mean 6 and standard deviation 1, in 32 fractional bits: the sum of twelve uniform ones.
fn normal(random: &mut Random) -> u64 {
    let two = |random: &mut Random| {
        let bits = random.next_u64();
        (bits >> 32) + (bits & u64::from(u32::MAX))
    };
    (0..NORMAL_REACH).map(|_| two(random)).sum()
}

/// size · factor / one; saturates.
fn scaled(size: u64, factor: u64, one: u64) -> u64 {
    u64::try_from(u128::from(size) * u128::from(factor) / u128::from(one)).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Standard deviations on either side of the mean that a sum of twelve reaches.
const NORMAL_REACH: u32 = 6;
