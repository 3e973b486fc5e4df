//! Handing datagrams over ahead of their release times, which a queue of the kernel keeps.
//!
//! ```text
//!   loop     wakes ─▶ hands over what is due within 10 ms ─▶ sleeps      every few milliseconds
//!   kernel            fq  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●             each at its release time
//! ```
//!
//! A departure here is the requested time: only the other end sees when the datagram really left.

use std::io;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use softtimers::{Clock, Monotonic};
use softtimers_core::Ahead;
use softtimers_core::Timestamp;

/// The hand-over of datagrams ahead of their times.
#[derive(Debug)]
pub(super) struct HandOver {
    ahead: Ahead,
    /// No datagram is released from here on.
    end: Timestamp,
    /// The release time of the last datagram handed over.
    last: Timestamp,
    wake: Timestamp,
}

impl HandOver {
    /// Creates it with nothing handed over; datagrams due before `end` will be.
    pub(super) fn new(start: Timestamp, end: Timestamp) -> Self {
        HandOver { ahead: Ahead::default(), end, last: start, wake: start }
    }

    /// Returns when to check again.
    pub(super) fn wake(&self) -> Timestamp {
        self.wake
    }

    /// Stages the datagrams that may be handed over at `now`. `due` is when the next datagram is due, `None` if there
    /// is none; `stage` stages those due with a release time, and returns their number and when the next one is due. It
    /// stages none if it has no room: then more can be handed over at once.
    pub(super) fn fill(
        &mut self,
        now: Timestamp,
        mut due: Option<Timestamp>,
        mut stage: impl FnMut(Timestamp) -> io::Result<(u32, Option<Timestamp>)>,
    ) -> io::Result<()> {
        self.wake = Timestamp::MAX;
        while let Some(next) = due.filter(|&due| due < self.end) {
            let Some(release) = self.ahead.release(now, next) else {
                self.wake = self.ahead.wake_at(next);
                break;
            };
            let (taken, following) = stage(release)?;
            if taken == 0 {
                self.wake = now;
                break;
            }
            self.ahead.handed(release, taken);
            self.last = release;
            due = following;
        }
        Ok(())
    }

    /// Makes the next check immediate.
    pub(super) fn again(&mut self, now: Timestamp) {
        self.wake = now;
    }

    /// Called when the kernel had no room: the remaining ones are offered again when half of those handed over have
    /// left.
    pub(super) fn refused(&mut self, now: Timestamp) {
        self.ahead.refused(now);
        self.wake = self.ahead.wake_at(now);
    }

    /// Sleeps until everything handed over has left: datagrams without a release time would overtake it.
    pub(super) fn settle(&self) {
        // The queue may be late, in addition; the lead bounds the sleep.
        let left = (self.last + QUEUES_LATENESS).saturating_duration_since(Monotonic.now());
        let left = left.min(Ahead::LEAD + QUEUES_LATENESS);
        let time = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        // A signal that interrupts it ends the run anyway.
        let _ = poll(&mut [], Some(&time));
    }
}

const QUEUES_LATENESS: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn it_is_filled_up_to_the_lead_and_not_beyond_the_end() {
        let interval = Duration::from_millis(1);
        let mut hand_over = HandOver::new(at(0), at(25_500));
        let (mut released, mut due) = (Vec::new(), at(0));
        let mut wakes = Vec::new();
        while hand_over.wake() < Timestamp::MAX {
            let now = hand_over.wake();
            wakes.push(now);
            hand_over
                .fill(now, Some(due), |release| {
                    assert!(release <= now + Ahead::LEAD);
                    released.push(release);
                    due = release + interval;
                    Ok((1, Some(due)))
                })
                .unwrap();
        }
        assert_eq!(released, (0..26).map(|place| at(place * 1_000)).collect::<Vec<_>>());
        assert_eq!(wakes, [0, 6_000, 12_000, 18_000].map(at));
    }

    #[test]
    fn a_full_batch_is_continued_at_once_and_a_full_kernel_later() {
        let mut hand_over = HandOver::new(at(0), Timestamp::MAX);
        let fill = |hand_over: &mut HandOver, now, due| {
            let mut room = 3;
            let staged = hand_over.fill(now, Some(due), |release| {
                let taken = u32::from(room > 0);
                room -= taken;
                Ok((taken, Some(release + Duration::from_micros(100))))
            });
            staged.unwrap();
        };
        fill(&mut hand_over, at(100), at(100));
        assert_eq!(hand_over.wake(), at(100));
        // Those for 100, 200 and 300 are there: at the second one, half have left.
        hand_over.refused(at(100));
        assert_eq!(hand_over.wake(), at(200));
        let broken = hand_over.fill(at(200), Some(at(400)), |_| Err(io::ErrorKind::Other.into()));
        assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::Other);
    }
}
