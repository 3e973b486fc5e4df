//! Traffic to one host on a shared Ethernet: [`Lan`], for traces of which only the means are known.
//!
//! Packets come in trains, trains in sessions, and there is silence between sessions; a share of the sessions
//! is a single packet, as from name servers, ARP and file servers. Each level has its gaps:
//!
//! ```text
//!   ├── session ──────────────┤                        ├ session ┤      alone
//!   ││││   │││   ││           │                        │││  ││││          │
//!    ▲    ▲                   ▲                        geometrically distributed lengths
//!    gap  pause               idle: as long as it must be for the duration to come out
//! ```
//!
//! Count, duration and mean length are met exactly: the packets have two lengths, in the numbers that give
//! the mean, in random order. No packet ends sooner after another than the wire allows, which on 10 Mbit/s is
//! 67 µs for the shortest: a handler of 5 µs never sees two.

use std::fmt;
use std::time::Duration;

use softtimers_core::{Random, Timestamp, Trace, TraceBuilder};
use softtimers_poll::Factor;

use crate::engine::Streams;

/// Traffic to one host, by its statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lan {
    /// The number of packets, at least two.
    pub(crate) packets: u32,
    /// From the first packet to the last.
    pub(crate) duration: Duration,
    /// The lengths of packets.
    pub(crate) lengths: Lengths,
    /// The bursts in which they come.
    pub(crate) bursts: Bursts,
}

/// Two lengths, and the mean of all packets between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lengths {
    /// Bytes of a frame without its check sequence.
    pub(crate) short: u16,
    /// At least as long as `short`.
    pub(crate) long: u16,
    /// The mean packet length, between the two.
    pub(crate) mean: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bursts {
    /// Mean packets of a train: at least one.
    pub(crate) train: Factor,
    /// Mean time between two of them.
    pub(crate) gap: Duration,
    /// The constant share of that time; the rest is exponentially distributed. At most one.
    pub(crate) gap_even: Factor,
    /// Mean trains of a session that is not a single packet: at least one.
    pub(crate) trains: Factor,
    /// Mean time between two of them.
    pub(crate) pause: Duration,
    /// The constant share of pauses, as for gaps.
    pub(crate) pause_even: Factor,
    /// The share of sessions that are a single packet. At most one.
    pub(crate) alone: Factor,
}

impl Bursts {
    /// Packets in a train, gap in µs, its constant share; trains in a session, pause in µs, its constant
    /// share; share of single packets. All except the times are in thousandths.
    pub(crate) const fn new(
        train: u32,
        gap: u32,
        gap_even: u32,
        trains: u32,
        pause: u32,
        pause_even: u32,
        alone: u32,
    ) -> Self {
        Bursts {
            train: Factor::thousandths(train),
            gap: Duration::from_micros(gap as u64),
            gap_even: Factor::thousandths(gap_even),
            trains: Factor::thousandths(trains),
            pause: Duration::from_micros(pause as u64),
            pause_even: Factor::thousandths(pause_even),
            alone: Factor::thousandths(alone),
        }
    }
}

/// The reason why such traffic is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LanError {
    /// Gaps and pauses alone take this long, which exceeds the duration, or there is no silence at all.
    TooDense(Duration),
    /// A mean length that is not between the two lengths.
    Lengths,
}

impl fmt::Display for LanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LanError::TooDense(taken) => {
                write!(f, "gaps and pauses alone take {taken:?}, longer than the trace is to be")
            }
            LanError::Lengths => {
                f.write_str("the mean length must be between the short one and the long one")
            }
        }
    }
}

impl std::error::Error for LanError {}

impl Lan {
    /// The traffic of this seed, which is the same on every machine.
    ///
    /// # Errors
    /// [`LanError`].
    pub(crate) fn trace(&self, streams: Streams) -> Result<Trace, LanError> {
        let mut lengths = Deal::new(self, streams.of("lengths"))?;
        let mut walk = Walk { bursts: self.bursts, random: streams.of("gaps"), single: true };
        let lengths: Vec<u16> = (0..self.packets).map(|_| lengths.next()).collect();
        let gaps: Vec<Gap> = lengths.iter().skip(1).map(|&length| walk.gap(wire(length))).collect();
        let taken = gaps.iter().map(|gap| gap.least).fold(0, u64::saturating_add);
        let weights = gaps.iter().map(|gap| u128::from(gap.weight)).sum();
        let duration = u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX);
        let idle = duration.checked_sub(taken).filter(|_| weights > 0);
        let idle = idle.ok_or(LanError::TooDense(Duration::from_nanos(taken)))?;
        Ok(assemble(&lengths, &gaps, idle, weights))
    }
}

/// Distributes the silence among the idle gaps by their weights; rounds sums, not terms.
fn assemble(lengths: &[u16], gaps: &[Gap], idle: u64, weights: u128) -> Trace {
    let mut builder = TraceBuilder::default();
    let (mut least, mut weight) = (0u64, 0u128);
    builder.push(Timestamp::ZERO, lengths[0]);
    for (gap, &length) in gaps.iter().zip(&lengths[1..]) {
        least += gap.least;
        weight += u128::from(gap.weight);
        builder.push(Timestamp::from_nanos(least + mul_div(idle, weight, weights)), length);
    }
    builder.finish().expect("at least one packet")
}

/// `whole · part / all`, where a part is a sum of 64-bit weights: shifted until the product fits.
fn mul_div(whole: u64, part: u128, all: u128) -> u64 {
    let shift = (128 - all.leading_zeros()).saturating_sub(63);
    ((u128::from(whole) * (part >> shift)) / (all >> shift).max(1)) as u64
}

/// A gap before a packet: at least this many nanoseconds, and a share of the silence.
#[derive(Clone, Copy, Debug)]
struct Gap {
    least: u64,
    weight: u64,
}

struct Walk {
    bursts: Bursts,
    random: Random,
    /// The session is a single packet.
    single: bool,
}

impl Walk {
    /// Draws the next gap, at least the packet's time on the wire.
    fn gap(&mut self, wire: u64) -> Gap {
        let Bursts { train, gap, gap_even, trains, pause, pause_even, alone } = self.bursts;
        if !self.single && self.goes_on(train) {
            return Gap { least: self.draw(gap, gap_even).max(wire), weight: 0 };
        }
        if !self.single && self.goes_on(trains) {
            return Gap { least: self.draw(pause, pause_even).max(wire), weight: 0 };
        }
        self.single = self.random.below(1_000) < u64::from(alone.get());
        Gap { least: wire, weight: self.random.exponential() }
    }

    /// After each of a geometrically distributed number with this mean.
    fn goes_on(&mut self, mean: Factor) -> bool {
        let mean = u64::from(mean.get().max(1_000));
        self.random.below(mean) >= 1_000
    }

    fn draw(&mut self, mean: Duration, even: Factor) -> u64 {
        let mean = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX);
        let constant = even.times(mean).min(mean);
        let random =
            u128::from(mean - constant) * u128::from(self.random.exponential()) / u128::from(Random::ONE);
        constant.saturating_add(u64::try_from(random).unwrap_or(u64::MAX))
    }
}

/// Deals lengths like cards: only their order is random, not their numbers.
struct Deal {
    short: u16,
    long: u16,
    long_left: u64,
    left: u64,
    random: Random,
}

impl Deal {
    fn new(lan: &Lan, random: Random) -> Result<Self, LanError> {
        let Lengths { short, long, mean } = lan.lengths;
        if !(short..=long).contains(&mean) {
            return Err(LanError::Lengths);
        }
        let left = u64::from(lan.packets);
        let wanted = left * u64::from(mean - short);
        let step = u64::from(long - short).max(1);
        Ok(Deal { short, long, long_left: (wanted + step / 2) / step, left, random })
    }

    fn next(&mut self) -> u16 {
        let is_long = self.random.below(self.left) < self.long_left;
        self.left = self.left.saturating_sub(1);
        self.long_left -= u64::from(is_long);
        if is_long { self.long } else { self.short }
    }
}

/// Nanoseconds of a frame on 10 Mbit/s, with check sequence, preamble and gap; a short frame is padded.
fn wire(length: u16) -> u64 {
    (u64::from(length.max(60)) + 4 + 8 + 12) * 800
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: Lan = Lan {
        packets: 4_502,
        duration: Duration::from_millis(11_500),
        lengths: Lengths { short: 60, long: 1_514, mean: 904 },
        bursts: Bursts {
            train: Factor::thousandths(2_500),
            gap: Duration::from_micros(2_200),
            gap_even: Factor::thousandths(600),
            trains: Factor::thousandths(9_000),
            pause: Duration::from_micros(700),
            pause_even: Factor::thousandths(900),
            alone: Factor::thousandths(750),
        },
    };

    #[test]
    fn count_duration_and_mean_length_come_out_whatever_the_seed() {
        for seed in 0..50 {
            let trace = LAN.trace(Streams::new(seed)).unwrap();
            assert_eq!(trace.packets(), 4_502);
            let short = LAN.duration - trace.span();
            assert!(short < Duration::from_nanos(10), "{short:?}");
            let bytes: u64 = trace.iter().map(|(_, length)| u64::from(length)).sum();
            assert_eq!((bytes + 2_251) / 4_502, 904);
        }
    }

    #[test]
    fn the_wire_is_never_faster_than_it_is() {
        let trace = LAN.trace(Streams::new(7)).unwrap();
        for index in 1..trace.packets() {
            let gap = trace.time(index).unwrap() - trace.time(index - 1).unwrap();
            assert!(gap >= Duration::from_nanos(67_200), "{index}: {gap:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let dense = Lan { duration: Duration::from_secs(5), ..LAN };
        let error = dense.trace(Streams::new(1)).unwrap_err();
        assert!(matches!(error, LanError::TooDense(taken) if taken > dense.duration), "{error}");
        let long = Lan { lengths: Lengths { short: 60, long: 90, mean: 100 }, ..LAN };
        assert_eq!(long.trace(Streams::new(1)), Err(LanError::Lengths));
    }
}
