//! The source host: packets of one rate, more or less evenly spaced.
//!
//! It "does not generate a precisely paced stream"; "the short-term rates varied somewhat from the mean"
//! (§6.1). The paper does not say how, but figure 10 (7-1) shows it: up to 2,500 packets/s the user process
//! loses the full cost of a single packet for each one, so two packets almost never arrived within that
//! packet's 330 µs. With random arrivals they often would.

use std::time::Duration;

use softtimers_core::{Random, Timestamp, Trace};

use crate::choice::choices;
use crate::constants::Livelock;

choices! {
    /// The spacing of packets.
    pub(crate) enum Spacing {
        /// Each gap is up to a quarter longer or shorter than their mean, all equally likely: a loop that sends.
        Varied = "varied",
        /// All gaps are the same.
        Even = "even",
        /// Random, as from many sources: the part of a gap beyond the wire time is exponential.
        Random = "random",
    }
}

/// The arrivals of packets.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    spacing: Spacing,
    random: Random,
    at: u64,
    /// In nanoseconds, as all gaps.
    wire: u64,
    /// A gap differs from its mean by at most one part in this many, either way.
    spread: u128,
    /// In units of 2⁻³² ns.
    mean: u128,
    /// The part of the last gap that was below a nanosecond.
    rest: u128,
    /// The times of a recording, used instead.
    recorded: Option<std::vec::IntoIter<u64>>,
    /// Packets still to come.
    left: u64,
}

impl Generator {
    /// `rate` packets a second, at most one each time that the wire needs for one. No packets come at rate
    /// zero.
    pub(crate) fn new(rate: u64, spacing: Spacing, machine: &Livelock, random: Random) -> Self {
        let wire = u64::try_from(machine.wire.as_nanos()).unwrap_or(u64::MAX);
        let spread = machine.spread.max(1).into();
        let mut generator = Generator {
            spacing,
            random,
            at: 0,
            wire,
            spread,
            mean: 0,
            rest: 0,
            recorded: None,
            left: u64::MAX,
        };
        generator.set_rate(rate);
        generator
    }

    /// The packets of a recording at their times, but none before the wire has carried the previous one.
    pub(crate) fn of_recording(recording: &Trace, machine: &Livelock) -> Self {
        let generator = Generator::new(0, Spacing::Even, machine, Random::stream(0, 0));
        let mut free = 0;
        let time = |(since, _): (Duration, u16)| {
            let at = free.max(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
            free = at.saturating_add(generator.wire);
            at
        };
        let times: Vec<u64> = recording.iter().map(time).collect();
        Generator { recorded: Some(times.into_iter()), ..generator }
    }

    /// Stops after `packets` packets.
    pub(crate) fn limited(self, packets: u64) -> Self {
        Generator { left: packets, ..self }
    }

    /// Returns when the last packet of a recording comes.
    pub(crate) fn recorded(&self) -> Duration {
        let last = self.recorded.as_ref().and_then(|times| times.as_slice().last());
        Duration::from_nanos(last.copied().unwrap_or(0))
    }

    /// Takes effect from the next gap on.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        let gap = (1_000_000_000u128 << FRACTION).checked_div(u128::from(rate));
        self.mean = gap.map_or(u128::MAX, |gap| gap.max(u128::from(self.wire) << FRACTION));
    }
}

impl Iterator for Generator {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        if let Some(recorded) = &mut self.recorded {
            return recorded.next().map(Timestamp::from_nanos);
        }
        if self.mean == u128::MAX {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let wire = u128::from(self.wire) << FRACTION;
        let beyond = self.mean - wire;
        self.rest += match self.spacing {
            Spacing::Even => self.mean,
            Spacing::Varied => {
                // Never below the wire time, and as much above the mean.
                let most = beyond.min(self.mean / self.spread);
                self.mean - most + ((2 * most * u128::from(self.random.next_u64() >> 32)) >> 32)
            }
            // 48 bits of fraction in the one and 32 in the other, and at most 2⁶⁷ together.
            Spacing::Random => wire + (((beyond >> 16) * u128::from(self.random.exponential())) >> 32),
        };
        self.at = self.at.saturating_add((self.rest >> FRACTION) as u64);
        self.rest &= (1 << FRACTION) - 1;
        Some(Timestamp::from_nanos(self.at))
    }
}

const FRACTION: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::Machine;

    fn generator(rate: u64, spacing: Spacing) -> Generator {
        Generator::new(rate, spacing, &Machine::PAPERS.livelock, Random::stream(3, 1))
    }

    #[test]
    fn rates_are_kept_and_gaps_never_below_the_wire() {
        for rate in [1, 3, 1_000, 5_137, 14_880] {
            for (spacing, allowed) in
                [(Spacing::Even, 1e-9), (Spacing::Varied, 1e-3), (Spacing::Random, 0.01)]
            {
                let mut generator = generator(rate, spacing);
                let (mut last, packets) = (0, 100_000);
                for _ in 0..packets {
                    let at = generator.next().unwrap().as_nanos();
                    assert!(at - last >= 67_200 - 1, "{rate} {spacing:?}: {}", at - last);
                    last = at;
                }
                let mean = last as f64 / f64::from(packets);
                let error = mean * rate as f64 / 1e9 - 1.0;
                assert!(error.abs() < allowed, "{rate} {spacing:?}: {error}");
            }
        }
    }

    #[test]
    fn a_recording_is_as_it_was_and_no_closer_than_the_wire_carries_it() {
        let mut packets = softtimers_core::TraceBuilder::default();
        for micros in [5, 10, 105, 305] {
            packets.push(Timestamp::from_micros(micros), 1_500);
        }
        let generator = Generator::of_recording(&packets.finish().unwrap(), &Machine::PAPERS.livelock);
        assert_eq!(generator.recorded(), Duration::from_micros(300));
        let times: Vec<u64> = generator.map(Timestamp::as_nanos).collect();
        assert_eq!(times, [0, 67_200, 134_400, 300_000]);
    }

    #[test]
    fn no_rate_is_no_packets() {
        for spacing in [Spacing::Even, Spacing::Varied, Spacing::Random] {
            assert_eq!(generator(0, spacing).next(), None);
        }
    }
}
