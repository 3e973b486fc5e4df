//! [`Ahead`]: how far ahead of their release times packets are handed to a queue that keeps them.
//!
//! A kernel that keeps release times (`SO_TXTIME` and the queue `fq`, or a device that paces) sends each
//! packet when it is due while the program sleeps. So the program may wake rarely and late, as long as it has
//! handed over the next packets before. How far ahead it does so has two bounds, in time and in packets:
//!
//! ```text
//!   release times      │  ●  ●  ●  ●  ●  ●  ●  ●  ●  ○  ○  ○
//!                     now          └─ half ─┘        └ beyond the lead: not yet
//!                      ├────────── lead ──────────┤
//!                      └ handed over until here ──┘   and woken up when half of that has left
//! ```
//!
//! - Too far ahead, and packets wait in the kernel that cannot be recalled, in a queue that drops what it has
//!   no room for: `fq` takes 100 packets of a flow.
//! - Too short, and a program that is late by a scheduler's slice leaves the queue empty: its next packets
//!   are late.
//!
//! Between two wake-ups half of the held packets leave, so a wake-up may be late by the other half.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::Timestamp;

/// Decides what may be handed over now, with which release time, and when to wake up for more.
///
/// A pure state machine beside the clock of a flow, or of several: call it with the time at which the next
/// packet is due, hand over what it allows, and report that.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{Ahead, PaceConfig, Rate, RateClock, Timestamp};
///
/// let mut ahead = Ahead::new(Duration::from_millis(4), 64);
/// let mut clock = RateClock::new(PaceConfig::new(Rate::every(Duration::from_millis(1))?))?;
/// let now = Timestamp::from_micros(1_000);
/// let mut due = clock.start(now);
///
/// let mut handed_over = 0;
/// while let Some(release) = ahead.release(now, due) {
///     // Send it with this release time.
///     ahead.handed(release, 1);
///     due = clock.departed(release);
///     handed_over += 1;
/// }
/// assert_eq!(handed_over, 5); // now, and each millisecond up to 4 ms ahead
/// assert_eq!(ahead.wake_at(due), now + Duration::from_millis(3)); // 5 ms ahead is next, less 2
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Cost
/// O(1) for each packet, in the mean. Allocates up to the bound in packets and not again.
#[derive(Clone, Debug)]
pub struct Ahead {
    /// The longest time before its release at which a packet is handed over.
    lead: Duration,
    /// The maximum number of packets held at once, at least one.
    most: u32,
    /// The packets that have been handed over and not left, the earliest first: the time, and how many leave then.
    held: VecDeque<(Timestamp, u32)>,
    packets: u32,
    /// No packet is handed over before this time.
    closed_until: Timestamp,
}

impl Ahead {
    /// The lead of the default: 10 ms, so that a wake-up may be late by a scheduler's slice of 4 ms.
    pub const LEAD: Duration = Duration::from_millis(10);
    /// The packets of the default: 64, of the 100 that `fq` takes of a flow and the 90 or so of 1,200 bytes that the
    /// usual send buffer holds.
    pub const PACKETS: u32 = 64;

    /// Makes an empty one that allows packets to be handed over at most `lead` before their release times,
    /// and at most `packets` to be held at once.
    pub fn new(lead: Duration, packets: u32) -> Self {
        let room = usize::try_from(packets).unwrap_or(usize::MAX).min(MOST_ROOM);
        let held = VecDeque::with_capacity(room);
        Ahead { lead, most: packets.max(1), held, packets: 0, closed_until: Timestamp::ZERO }
    }

    /// Returns the release time of the packet due at `due`, if it may be handed over `now`: the due time, or
    /// `now` if that has passed. `None` while it is too far ahead, or too many packets are held.
    ///
    /// `now` must not go backwards.
    pub fn release(&mut self, now: Timestamp, due: Timestamp) -> Option<Timestamp> {
        self.forget_left(now);
        let release = due.max(now);
        let open = now >= self.closed_until && self.packets < self.most;
        (open && release <= now + self.lead).then_some(release)
    }

    /// Counts `packets` that have been handed over, to leave at `release`, which [`release`](Self::release) gave. The
    /// bound in packets may be passed by this once.
    pub fn handed(&mut self, release: Timestamp, packets: u32) {
        self.packets = self.packets.saturating_add(packets);
        match self.held.back_mut() {
            Some((last, together)) if *last >= release => *together = together.saturating_add(packets),
            _ => self.held.push_back((release, packets)),
        }
    }

    /// Notes that the kernel had no room `now`: no packet is handed over until half of those still held have
    /// left, or, if none is held, until half of the lead has passed; and never within 100 µs, however often
    /// it refuses.
    ///
    /// `now` must not go backwards.
    pub fn refused(&mut self, now: Timestamp) {
        self.forget_left(now);
        let half = self.half_left().unwrap_or(now + self.lead / 2);
        self.closed_until = half.max(now + RETRY);
    }

    /// Returns when to wake up again, if the next packet is due at `due`: as soon as half of what may be held
    /// has left, in time or in packets.
    pub fn wake_at(&self, due: Timestamp) -> Timestamp {
        let in_time = due.saturating_sub(self.lead / 2);
        let full = self.packets >= self.most;
        let in_packets = self.half_left().filter(|_| full).unwrap_or(Timestamp::ZERO);
        in_time.max(in_packets).max(self.closed_until)
    }

    /// Returns the number of packets held at the last call of [`release`](Self::release) or
    /// [`refused`](Self::refused).
    pub fn held(&self) -> u32 {
        self.packets
    }

    /// Forgets the packets that have left by `now`.
    fn forget_left(&mut self, now: Timestamp) {
        while let Some(&(_, packets)) = self.held.front().filter(|&&(release, _)| release <= now) {
            self.held.pop_front();
            self.packets = self.packets.saturating_sub(packets);
        }
    }

    /// Returns when half of the held packets will have left.
    fn half_left(&self) -> Option<Timestamp> {
        let mut left = 0u32;
        let half = self.held.iter().find(|&&(_, packets)| {
            left = left.saturating_add(packets);
            left >= self.packets.div_ceil(2)
        });
        half.map(|&(release, _)| release)
    }
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead::new(Ahead::LEAD, Ahead::PACKETS)
    }
}

/// A full kernel queue that is tried again sooner refuses again, and constant retries take a whole CPU.
const RETRY: Duration = Duration::from_micros(100);

/// More would be more than any queue holds; it grows if it must.
const MOST_ROOM: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PaceConfig, Rate, RateClock};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// A program that wakes up late by `late`, in turn, and whose kernel never refuses: for each packet, the time when
    /// it was handed over, when it was due, and when it is to leave.
    fn run(
        (lead, packets): (Duration, u32),
        interval: Duration,
        together: u32,
        late: &[u64],
    ) -> (Vec<(Timestamp, Timestamp, Timestamp)>, u32) {
        let mut ahead = Ahead::new(lead, packets);
        let mut clock = RateClock::new(PaceConfig::new(Rate::every(interval).unwrap())).unwrap();
        let (mut now, mut most_held) = (Timestamp::from_micros(1_000_000), 0);
        let mut due = clock.start(now);
        let mut handed = Vec::new();
        for &late in late {
            while let Some(release) = ahead.release(now, due) {
                handed.push((now, due, release));
                ahead.handed(release, together);
                most_held = most_held.max(ahead.held());
                due = clock.departed_together(release, together, 100 * together);
            }
            now = ahead.wake_at(due).max(now) + micros(late);
        }
        (handed, most_held)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the rate and however late the program: in order, never before it is due, never further
        /// ahead nor more at once than allowed, and each wake-up has something to do.
        #[test]
        fn bounds_hold(
            lead in (1u64..20_000, 1u32..100),
            interval in 1u64..5_000,
            together in 1u32..9,
            late in prop::collection::vec(prop_oneof![Just(0u64), 0u64..30_000], 1..60),
        ) {
            let (lead, packets) = (micros(lead.0), lead.1);
            let (handed, most_held) = run((lead, packets), micros(interval), together, &late);
            prop_assert!(handed.len() >= late.len(), "{} for {} wake-ups", handed.len(), late.len());
            prop_assert!(most_held < packets + together);
            for (index, &(at, due, release)) in handed.iter().enumerate() {
                prop_assert!(release >= due && release <= at + lead);
                prop_assert!(release == due || at >= due, "only what comes late is put off");
                prop_assert!(index == 0 || release >= handed[index - 1].2);
            }
        }

        /// A program that is late by no more than half of the lead is never late with a packet.
        #[test]
        fn half_of_the_lead_may_be_overslept(
            lead in 100u64..20_000,
            interval in 1u64..5_000,
            late in prop::collection::vec(0u64..10_000, 1..60),
        ) {
            let late: Vec<u64> = late.into_iter().map(|late| late % (lead / 2)).collect();
            let (handed, _) = run((micros(lead), u32::MAX), micros(interval), 1, &late);
            prop_assert!(handed.iter().all(|&(_, due, release)| release == due));
        }
    }

    /// 25,000 packets/s: 64 packets reach 2.56 ms ahead, and each wake-up is for half of them.
    #[test]
    fn a_fast_flow_is_bounded_by_packets() {
        let (handed, most_held) = run((Ahead::LEAD, Ahead::PACKETS), micros(40), 1, &[0; 100]);
        assert_eq!(most_held, 64);
        // The first one leaves at once, and so makes room for one more.
        assert_eq!(handed.len(), 65 + 99 * 32);
        let ahead_of = |index: usize| handed[index].2.saturating_duration_since(handed[index].0);
        // From then on 32 are held when a wake-up is due, so it may be late by 1.28 ms.
        assert_eq!((ahead_of(64), ahead_of(65)), (micros(64 * 40), micros(33 * 40)));
    }

    #[test]
    fn a_kernel_without_room_is_left_alone_until_half_has_left() {
        let at = Timestamp::from_micros;
        let mut ahead = Ahead::new(micros(1_000), 64);
        for release in [100, 200, 300, 400] {
            assert_eq!(ahead.release(at(50), at(release)), Some(at(release)));
            ahead.handed(at(release), 1);
        }
        ahead.refused(at(50));
        assert_eq!(ahead.release(at(50), at(500)), None);
        assert_eq!(ahead.wake_at(at(500)), at(200));
        assert_eq!(ahead.release(at(199), at(500)), None);
        assert_eq!((ahead.release(at(200), at(500)), ahead.held()), (Some(at(500)), 2));
        // With nothing held it is others that filled the kernel.
        let mut empty = Ahead::new(micros(1_000), 64);
        empty.refused(at(50));
        assert_eq!((empty.release(at(549), at(50)), empty.wake_at(at(50))), (None, at(550)));
        assert_eq!(empty.release(at(550), at(50)), Some(at(550)));
    }

    /// A packet that was to have left is no reason to check again: a kernel that goes on refusing is asked less often
    /// than the clock is read.
    #[test]
    fn each_refusal_puts_the_next_look_off() {
        let at = Timestamp::from_micros;
        let mut ahead = Ahead::default();
        for place in 0..64 {
            let due = at(3_000 + 40 * place);
            assert_eq!(ahead.release(at(2_990), due), Some(due));
            ahead.handed(due, 1);
        }
        ahead.refused(at(2_990));
        assert_eq!(ahead.wake_at(at(2_990)), at(3_000 + 40 * 31));
        // The second finds 32 of them held, and another one nothing: then half of the lead passes.
        ahead.refused(at(4_241));
        assert_eq!((ahead.wake_at(at(2_990)), ahead.held()), (at(3_000 + 40 * 47), 32));
        ahead.refused(at(6_000));
        assert_eq!((ahead.wake_at(at(2_990)), ahead.held()), (at(11_000), 0));
        // A backlog that is refused is due at once, and so is no longer held.
        for _ in 0..64 {
            assert_eq!(ahead.release(at(11_000), at(5_000)), Some(at(11_000)));
            ahead.handed(at(11_000), 1);
        }
        ahead.refused(at(11_000));
        assert_eq!(ahead.wake_at(at(5_000)), at(16_000));
        // However short the lead, or near the half.
        let mut short = Ahead::new(Duration::ZERO, 8);
        short.refused(at(50));
        assert_eq!(short.wake_at(at(50)), at(50) + RETRY);
        let mut near = Ahead::default();
        near.handed(at(51), 1);
        near.refused(at(50));
        assert_eq!(near.wake_at(at(50)), at(50) + RETRY);
    }

    #[test]
    fn no_room_at_all_is_room_for_one() {
        let (handed, most_held) = run((Duration::ZERO, 0), micros(10), 1, &[0, 3, 0]);
        assert_eq!((handed.len(), most_held), (3, 1));
    }
}
