//! How closely the packets of all flows together may follow each other: [`TrainLimit`].
//!
//! Each flow of a [`DepartureQueue`](softtimers_core::queue::DepartureQueue) keeps its own packets a burst interval apart. But
//! a stall makes *all* flows due, and a shared path sees one burst of as many packets as there are flows. A train limit
//! breaks it up: after N back to back there is a pause, as long as their share of the path at the flows' common burst
//! interval:
//!
//! ```text
//!   due          1 2 3 4 5 6 7 8 9 …        all at once, after a stall
//!   without      ●●●●●●●●●●●●●●●●●●●●●●     one train, as long as there are flows
//!   at most 4    ●●●●      ●●●●      ●●●●   4 · burst interval from train to train
//! ```
//!
//! Any number of flows that catch up at their burst intervals need no more than that, so making up for a stall takes no
//! longer. Traffic on schedule never meets the limit: an even sum has such pauses by itself.

use std::num::NonZeroU32;
use std::time::Duration;

use softtimers_core::Timestamp;

/// Allows at most `most` packets back to back, of any number of flows. Ask how many may leave now, and report how many
/// did.
///
/// The contract: among any `most + 1` successive packets, two neighbours are at least a burst interval apart, and any
/// time `t` has at most `most + t / burst interval` packets.
///
/// # Cost
/// 24 bytes; each operation is a few integer operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrainLimit {
    most: u32,
    in_train: u32,
    /// The burst interval in nanoseconds.
    burst_interval: u64,
    /// A packet that leaves before this time belongs to the train.
    ends: Timestamp,
}

impl TrainLimit {
    /// No limit: there is always room.
    pub const NONE: TrainLimit =
        TrainLimit { most: u32::MAX, in_train: 0, burst_interval: 0, ends: Timestamp::ZERO };

    /// Creates a limit of `most` packets back to back. `burst_interval` is the flows' common one: for equal flows, that
    /// of one flow divided by their number. It must be shorter than the mean time between packets, or the backlog only
    /// grows.
    pub fn new(most: NonZeroU32, burst_interval: Duration) -> Self {
        let burst_interval = u64::try_from(burst_interval.as_nanos()).unwrap_or(u64::MAX);
        TrainLimit { most: most.get(), burst_interval, ..TrainLimit::NONE }
    }

    /// Returns the number of packets that may leave at `now`.
    #[inline]
    pub fn room(&self, now: Timestamp) -> u32 {
        if now < self.ends { self.most - self.in_train } else { self.most }
    }

    /// Returns the earliest time at which there is room.
    #[inline]
    pub fn earliest(&self) -> Timestamp {
        if self.in_train < self.most { Timestamp::ZERO } else { self.ends }
    }

    /// Counts `packets` that have left, the first at `from` and the last at `to`. More than the [`room`](Self::room)
    /// count as a full train, with a pause long enough for all of them.
    ///
    /// Sending takes time, and a sender that loses its CPU meanwhile sends the remaining packets later than it thinks:
    /// so there is a burst interval behind `to`, whatever `from` was. Times must not go backwards.
    #[inline]
    pub fn departed(&mut self, from: Timestamp, to: Timestamp, packets: u32) {
        if packets == 0 {
            return;
        }
        if from >= self.ends {
            (self.in_train, self.ends) = (0, from);
        }
        self.in_train = self.in_train.saturating_add(packets).min(self.most);
        let pause = |packets| Duration::from_nanos(self.burst_interval.saturating_mul(packets));
        self.ends = (self.ends + pause(u64::from(packets))).max(to + pause(1));
    }
}

impl Default for TrainLimit {
    fn default() -> Self {
        TrainLimit::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BURST: u64 = 5;

    fn limit(most: u32) -> TrainLimit {
        TrainLimit::new(NonZeroU32::new(most).unwrap(), Duration::from_micros(BURST))
    }

    #[test]
    fn six_that_a_stall_has_left_leave_as_four_and_two() {
        let (mut limit, mut now, mut due) = (limit(4), Timestamp::from_micros(100), 6);
        let mut sent = Vec::new();
        while due > 0 {
            let leaving = limit.room(now).min(due);
            limit.departed(now, now, leaving);
            sent.push((now.as_nanos() / 1_000, leaving));
            due -= leaving;
            now = limit.earliest().max(now);
        }
        assert_eq!(sent, [(100, 4), (120, 2)]);
    }

    /// Arrivals after these pauses, polled as soon as one may leave; returns when each one left.
    fn departures(most: u32, pauses: &[u64]) -> Vec<u64> {
        let mut limit = limit(most);
        let (mut now, mut arrival, mut left) = (0u64, 0, Vec::new());
        let mut arrivals = pauses.iter().map(|pause| {
            arrival += pause;
            arrival
        });
        let mut next = arrivals.next();
        while let Some(first) = next {
            now = now.max(first).max(limit.earliest().as_nanos() / 1_000);
            let mut leaving = 0;
            while next.is_some_and(|due| due <= now) && leaving < limit.room(Timestamp::from_micros(now)) {
                left.push(now);
                leaving += 1;
                next = arrivals.next();
            }
            limit.departed(Timestamp::from_micros(now), Timestamp::from_micros(now), leaving);
        }
        left
    }

    #[test]
    fn what_is_even_leaves_when_it_is_due() {
        let pauses = [9; 50];
        let due: Vec<u64> = (1..=50).map(|packet| packet * 9).collect();
        assert_eq!(departures(1, &pauses), due);
        // Three at once, within the limit, are fine.
        assert_eq!(departures(4, &[27, 0, 0, 27, 0, 0]), [27, 27, 27, 54, 54, 54]);
    }

    #[test]
    fn a_stall_is_made_up_train_by_train() {
        assert_eq!(departures(3, &[0; 7]), [0, 0, 0, 15, 15, 15, 30]);
        // A packet that comes during the train joins it; the one behind the train waits.
        assert_eq!(departures(3, &[0, 0, 4, 1, 1]), [0, 0, 4, 15, 15]);
    }

    #[test]
    fn without_a_limit_there_is_always_room() {
        let mut none = TrainLimit::NONE;
        for packets in [1, 64, u32::MAX, 5] {
            assert_eq!((none.room(Timestamp::ZERO), none.earliest()), (u32::MAX, Timestamp::ZERO));
            none.departed(Timestamp::ZERO, Timestamp::ZERO, packets);
        }
    }

    #[test]
    fn more_than_there_was_room_for_is_paid_for() {
        let mut limit = limit(2);
        limit.departed(Timestamp::ZERO, Timestamp::ZERO, 10);
        assert_eq!((limit.room(Timestamp::from_micros(49)), limit.room(Timestamp::from_micros(50))), (0, 2));
        limit.departed(Timestamp::MAX, Timestamp::MAX, u32::MAX);
        assert_eq!(limit.earliest(), Timestamp::MAX);
    }

    /// The second of two packets was sent late because the sender lost its CPU: the next one keeps its distance all the
    /// same.
    #[test]
    fn there_is_a_pause_behind_what_was_held_up() {
        let at = Timestamp::from_micros;
        let mut limit = limit(2);
        limit.departed(at(0), at(1_000), 2);
        assert_eq!((limit.room(at(1_004)), limit.earliest()), (0, at(1_005)));
        let mut limit = super::tests::limit(3);
        limit.departed(at(0), at(1_000), 2);
        assert_eq!((limit.room(at(1_004)), limit.room(at(1_005))), (1, 3));
    }

    #[test]
    fn nothing_that_leaves_changes_nothing() {
        let mut limit = limit(2);
        limit.departed(Timestamp::from_micros(7), Timestamp::from_micros(7), 0);
        assert_eq!((limit.room(Timestamp::from_micros(7)), limit.earliest()), (2, Timestamp::ZERO));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The contract, for any due times: no packet is lost, no train is too long, and in any time the path has no
        /// more packets than the burst interval allows.
        #[test]
        fn trains_are_short(most in 1u32..6, pauses in prop::collection::vec(0u64..20, 1..60)) {
            let left = departures(most, &pauses);
            prop_assert_eq!(left.len(), pauses.len());
            for row in left.windows(most as usize + 1) {
                prop_assert!(row.windows(2).any(|pair| pair[1] - pair[0] >= BURST), "{row:?}");
            }
            for (at, &from) in left.iter().enumerate() {
                for (packets, &to) in left[at..].iter().enumerate() {
                    prop_assert!(packets as u64 <= u64::from(most) + (to - from) / BURST, "{left:?}");
                }
            }
        }
    }
}
