//! [`Trains`]: the bottleneck's rate, measured from the spacing of a train.
//!
//! quinn's pacer sends ten packets or more at once. They reach the slow link back to back and leave it at its rate, and so do
//! the ACKs for them, long before the window is large enough to fill the path:
//!
//! ```text
//!   sent      ●●●●●●●●●●                                 all with the same time of sending
//!   the link     ●   ●   ●   ●   ●   ●   ●   ●   ●   ●
//!   ACKs             ▼       ▼       ▼       ▼       ▼
//!                    └──────── counted ──────┘       └ may have waited for the next train: ignored
//! ```
//!
//! ACKs that were held up and come together (a radio link, an interrupt) make a train look faster than the
//! link. Such trains agree neither with each other nor with the delivered rate, so there is no
//! [`rate`](Trains::rate) then.

use softtimers_core::Timestamp;

/// The trains measured recently, and the one whose ACKs are coming.
#[derive(Clone, Debug, Default)]
pub(super) struct Trains {
    /// When the train left whose ACKs are coming; and its ACKs.
    current: Option<(Timestamp, Spaced)>,
    /// The bytes of each and its seconds, the latest last.
    measured: Vec<(f64, f64)>,
    /// The rate of all, if most agree on it; cached, because each packet reads it.
    agreed: Option<f64>,
    /// The [`lowest`](Trains::lowest) of the trains before the current one.
    lowest: Option<(f64, u32)>,
}

/// ACKs of one train.
#[derive(Clone, Copy, Debug)]
struct Spaced {
    first: Timestamp,
    all: Batch,
    but_last: Batch,
}

/// Packets after the first ACK, and when the last of them was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Batch {
    packets: u32,
    bytes: u64,
    until: Timestamp,
}

impl Trains {
    /// Records the ACK of a packet that left at `sent`.
    pub(super) fn acked(&mut self, now: Timestamp, sent: Timestamp, bytes: u64) {
        match &mut self.current {
            Some((left, spaced)) if *left == sent => spaced.acked(now, bytes),
            // A reordered packet of an earlier train, which has been measured.
            Some((left, _)) if sent < *left => {}
            _ => {
                self.lowest = self.lowest();
                if let Some(measured) = self.current.take().and_then(|(_, train)| train.span(train.but_last))
                {
                    self.measured.push(measured);
                    if self.measured.len() > KEPT {
                        self.measured.remove(0);
                    }
                    self.agreed = agreed(&self.measured);
                }
                let none = Batch { packets: 0, bytes: 0, until: now };
                self.current = Some((sent, Spaced { first: now, all: none, but_last: none }));
            }
        }
    }

    /// The rate of the link in bytes a second, if most of the last trains agree on it.
    pub(super) fn rate(&self) -> Option<f64> {
        self.agreed
    }

    /// The lowest rate of all trains and of the one whose ACKs are coming, and their number: a bound until most of them
    /// agree.
    pub(super) fn lowest(&self) -> Option<(f64, u32)> {
        let current = self.current.as_ref().and_then(|(_, spaced)| spaced.bound());
        match (self.lowest, current) {
            (Some((lowest, trains)), Some(rate)) => Some((lowest.min(rate), trains + 1)),
            (lowest, None) => lowest,
            (None, Some(rate)) => Some((rate, 1)),
        }
    }

    /// Discards the rates: they no longer hold.
    pub(super) fn forget(&mut self) {
        *self = Trains::default();
    }
}

/// Returns the rate of all trains together, if most of them are near it. One of ten packets lasts a third of a millisecond at
/// 300 Mbit/s, and wake-ups at both ends are late by a part of that: the mean of many is not.
fn agreed(trains: &[(f64, f64)]) -> Option<f64> {
    let (bytes, took) = trains.iter().fold((0.0, 0.0), |sum, train| (sum.0 + train.0, sum.1 + train.1));
    let rate = bytes / took;
    let near = |(sent, took): &&(f64, f64)| (sent / rate - took).abs() <= LATE.clamp(took / 5.0, took / 2.0);
    let near = trains.iter().filter(near).count();
    (near >= AGREE && 2 * near >= trains.len()).then_some(rate)
}

impl Spaced {
    fn acked(&mut self, now: Timestamp, bytes: u64) {
        // The first ACK may cover packets whose spacing is unknown.
        if now <= self.first {
            return;
        }
        if now > self.all.until {
            self.but_last = self.all;
        }
        let Batch { packets, bytes: before, .. } = self.all;
        self.all = Batch { packets: packets + 1, bytes: before + bytes, until: now };
    }

    /// Returns the rate with the last ACK as well, which may have waited: it is lower then, and a short first train has no
    /// other.
    fn bound(&self) -> Option<f64> {
        let rate = |batch| self.span(batch).map(|(bytes, took)| bytes / took);
        [self.all, self.but_last].into_iter().filter_map(rate).reduce(f64::max)
    }

    /// Returns the bytes of a batch and its seconds.
    fn span(&self, Batch { packets, bytes, until }: Batch) -> Option<(f64, f64)> {
        let took = until.saturating_duration_since(self.first).as_secs_f64();
        (packets >= LEAST_PACKETS && took > 0.0).then_some((bytes as f64, took))
    }
}

/// Packets between the first and the last ACK that counts, at least.
const LEAST_PACKETS: u32 = 4;
/// Trains that have to agree, and how many are remembered.
const AGREE: usize = 3;
const KEPT: usize = 16;
/// The seconds by which wake-ups make a train longer or shorter; of one below twice that, half of it.
const LATE: f64 = 60e-6;

#[cfg(test)]
mod tests {
    use softtimers_core::Random;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// A train of ten, an ACK for each two; `gaps` before each ACK after the first.
    fn train(trains: &mut Trains, sent: u64, gaps: [u64; 4]) {
        let mut now = sent + 20_000;
        for gap in [0].into_iter().chain(gaps) {
            now += gap;
            (0..2).for_each(|_| trains.acked(at(now), at(sent), 1_200));
        }
    }

    #[test]
    fn three_trains_that_agree_give_the_rate() {
        let mut trains = Trains::default();
        for round in 0..4 {
            // 12 bytes/µs; the last ACK has waited for the next train, and doesn't count.
            train(&mut trains, round * 3_000, [200, 200, 200, 2_000]);
            // The last train is measured when the next begins.
            assert_eq!(trains.rate().is_some(), round == 3, "after {round}");
        }
        let rate = trains.rate().unwrap_or_default();
        assert!((11.9e6..12.1e6).contains(&rate), "{rate}");
        trains.forget();
        assert_eq!(trains.rate(), None);
    }

    /// Seven packets, as beside those of the handshake: the last has no second one to be acknowledged with.
    #[test]
    fn a_short_first_train_gives_a_bound() {
        let mut trains = Trains::default();
        for (now, packets) in [(20_000, 2), (20_200, 2), (20_400, 2)] {
            (0..packets).for_each(|_| trains.acked(at(now), at(0), 1_200));
        }
        assert_eq!((trains.rate(), trains.lowest()), (None, Some((12e6, 1))));
        trains.acked(at(45_000), at(0), 1_200);
        assert_eq!(trains.lowest(), Some((12e6, 1)), "it has waited");
    }

    /// 300 Mbit/s, where wake-ups at both ends are late by some tens of microseconds: the median of five trains was 15% off.
    #[test]
    fn late_wake_ups_average_out() {
        let (mut trains, mut random) = (Trains::default(), Random::stream(53, 0));
        let mut late = || 25 * random.exponential() / Random::ONE;
        for round in 0..30 {
            let mut now = late();
            let gaps = [1u64, 2, 3, 4].map(|pair| {
                let (before, due) = (now, 64 * pair + late());
                now = due.max(before);
                now - before
            });
            train(&mut trains, round * 3_000, gaps);
            if round >= 16 {
                let rate = trains.rate().unwrap_or_default();
                assert!((32e6..43e6).contains(&rate), "{round}: {rate}");
            }
        }
    }

    #[test]
    fn acks_that_come_together_say_nothing() {
        let mut trains = Trains::default();
        (0..9).for_each(|round| train(&mut trains, round * 3_000, [0; 4]));
        assert_eq!(trains.rate(), None);
        // Or trains that differ each time.
        for (round, gap) in [1, 40, 3, 500, 9, 200, 70, 2].into_iter().enumerate() {
            train(&mut trains, 50_000 + round as u64 * 3_000, [gap; 4]);
        }
        assert_eq!(trains.rate(), None);
    }

    /// At 1 Gbit/s, where a train is shorter than wake-ups are late.
    #[test]
    fn short_trains_that_differ_do_not_agree() {
        let trains = |took: [f64; 3]| agreed(&took.map(|micros| (4_800.0, micros * 1e-6)));
        assert_eq!(trains([10.0, 15.0, 70.0]), None);
        assert!(trains([30.0, 38.0, 46.0]).is_some_and(|rate| (126e6..127e6).contains(&rate)));
    }

    #[test]
    fn packets_one_by_one_are_no_train() {
        let mut trains = Trains::default();
        (0..100).for_each(|packet| trains.acked(at(20_000 + packet * 100), at(packet * 100), 1_200));
        assert_eq!(trains.rate(), None);
    }
}
