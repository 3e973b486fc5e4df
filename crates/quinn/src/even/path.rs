//! [`PathView`]: the shortest round trip, the rounds and the delivered rate of a path, from its ACKs.

use std::time::Duration;

use softtimers_core::Timestamp;

use super::delivery::Delivery;

/// A view of the path from its sender's side.
#[derive(Clone, Debug)]
pub(super) struct PathView {
    pub(super) least: Least,
    /// A round trip ends with the first ACK of a packet that left after it began.
    round_began: Timestamp,
    /// The shortest round trip of this round and the number of samples; and the shortest of the round before.
    shortest: Duration,
    samples: u32,
    shortest_before: Duration,
    /// The same of the latest part of the round.
    part: Part,
    delivery: Delivery,
}

/// The shortest round trip of a part of a round, the number of its samples, and the shortest of the part before.
#[derive(Clone, Copy, Debug)]
struct Part {
    shortest: Duration,
    samples: u32,
    before: Option<Duration>,
}

impl Part {
    const NONE: Part = Part { shortest: Duration::MAX, samples: 0, before: None };
}

/// The shortest time of the last five to ten seconds. Older ones expire: the route may have become longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least {
    began: Timestamp,
    half: Duration,
    before: Duration,
}

impl PathView {
    pub(super) fn new(now: Timestamp) -> Self {
        PathView {
            least: Least::NONE,
            round_began: now,
            shortest: Duration::MAX,
            samples: 0,
            shortest_before: Duration::MAX,
            part: Part::NONE,
            delivery: Delivery::new(now),
        }
    }

    /// Records the ACK of a packet that left at `sent`; returns whether that begins another round.
    pub(super) fn acked(&mut self, now: Timestamp, sent: Timestamp, bytes: u64) -> bool {
        let took = now.saturating_duration_since(sent);
        self.least.note(now, took);
        self.delivery.acked(now, bytes, self.least.get());
        let ended = sent >= self.round_began;
        if ended {
            self.round_began = now;
            (self.shortest_before, self.shortest, self.samples) = (self.shortest, Duration::MAX, 0);
            self.part = Part::NONE;
        }
        self.shortest = self.shortest.min(took);
        self.samples += 1;
        self.part.shortest = self.part.shortest.min(took);
        self.part.samples += 1;
        ended
    }

    /// The most bytes that the path has recently delivered in its shortest round trip: those it holds without a queue.
    pub(super) fn delivered(&self) -> f64 {
        self.delivery.most(self.least.get())
    }

    /// Returns the excess of the shortest round trip among the latest `samples` over the shortest of all: the standing
    /// queue. `None` before this round has so many: with few, even the shortest may come from a late wake-up.
    pub(super) fn standing(&mut self, samples: u32) -> Option<Duration> {
        let Part { shortest, samples: seen, before } = self.part;
        if seen >= samples.max(ENOUGH) {
            self.part = Part { before: Some(shortest), ..Part::NONE };
            return self.standing(u32::MAX);
        }
        before.map(|shortest| shortest.saturating_sub(self.least.get()))
    }

    /// The same of the whole round before this one.
    pub(super) fn queued_before(&self) -> Duration {
        self.shortest_before.saturating_sub(self.least.get())
    }

    /// Returns HyStart++'s sign that a queue builds (RFC 9406): this round is slower than the one before.
    pub(super) fn rises(&self) -> bool {
        let before = self.shortest_before;
        if self.samples < ENOUGH || before == Duration::MAX {
            return false;
        }
        let rise = (before / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
        self.shortest >= before + rise
    }

    /// The shortest round trip of this round and the one before.
    pub(super) fn shortest(&self) -> Duration {
        self.shortest.min(self.shortest_before)
    }
}

impl Least {
    pub(crate) const NONE: Least =
        Least { began: Timestamp::ZERO, half: Duration::MAX, before: Duration::MAX };

    pub(crate) fn get(&self) -> Duration {
        self.half.min(self.before)
    }

    pub(crate) fn note(&mut self, now: Timestamp, took: Duration) {
        let passed = now.saturating_duration_since(self.began);
        if passed >= HALF {
            // After a pause even the last half is too old.
            let before = if passed < 2 * HALF { self.half } else { Duration::MAX };
            (self.began, self.before, self.half) = (now, before, Duration::MAX);
        }
        self.half = self.half.min(took);
    }
}

/// The number of samples needed to judge a round (RFC 9406).
const ENOUGH: u32 = 8;
const HALF: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet each millisecond for `rounds` round trips of `took`.
    fn feed(path: &mut PathView, from: u64, rounds: u64, took: u64) {
        for packet in 0..rounds * took {
            let sent = Timestamp::from_micros((from + packet) * 1_000);
            path.acked(sent + Duration::from_millis(took), sent, 1_200);
        }
    }

    #[test]
    fn the_path_holds_what_it_delivers_in_its_shortest_round_trip() {
        let mut path = PathView::new(Timestamp::ZERO);
        feed(&mut path, 0, 8, 20);
        let delivered = path.delivered();
        assert!((22_000.0..26_000.0).contains(&delivered), "{delivered}");
        assert_eq!(path.standing(0), Some(Duration::ZERO));
    }

    #[test]
    fn the_shortest_round_trip_expires() {
        let mut path = PathView::new(Timestamp::ZERO);
        feed(&mut path, 0, 5, 20);
        feed(&mut path, 1_000, 200, 60);
        assert_eq!(path.least.get(), Duration::from_millis(60));
        feed(&mut path, 20_000, 2, 30);
        assert_eq!(path.least.get(), Duration::from_millis(30), "a shorter one counts at once");
    }

    #[test]
    fn a_pause_expires_the_shortest_round_trip_at_once() {
        let mut path = PathView::new(Timestamp::ZERO);
        feed(&mut path, 0, 5, 20);
        feed(&mut path, 60_000, 1, 60);
        assert_eq!(path.least.get(), Duration::from_millis(60));
    }

    #[test]
    fn a_round_that_is_slower_by_four_milliseconds_rises() {
        let mut path = PathView::new(Timestamp::ZERO);
        let mut rose = false;
        feed(&mut path, 0, 3, 20);
        assert!(!path.rises());
        for packet in 0..60 {
            let sent = Timestamp::from_micros((60 + packet) * 1_000);
            path.acked(sent + Duration::from_millis(25), sent, 1_200);
            rose |= path.rises();
        }
        assert!(rose && path.standing(0) >= Some(Duration::from_millis(5)));
    }
}
