//! A second CoDel, as the reference in tests: in the form of the pseudocode of RFC 8289, section 5.

use std::collections::VecDeque;

/// A packet: its number, and its time of arrival in nanoseconds.
pub(crate) type Stamped = (u64, u64);

/// The state, under the names of the pseudocode. Zero is no time, and the square root is rounded down.
#[derive(Default)]
pub(crate) struct Pseudocode {
    first_above_time: u64,
    drop_next: u64,
    count: u64,
    lastcount: u64,
    dropping: bool,
}

const TARGET: u64 = 5_000_000;
const INTERVAL: u64 = 100_000_000;

impl Pseudocode {
    fn control_law(t: u64, count: u64) -> u64 {
        t + (u128::from(INTERVAL) * u128::from(INTERVAL) / u128::from(count)).isqrt() as u64
    }

    fn dodequeue(
        &mut self,
        now: u64,
        queue: &mut VecDeque<Stamped>,
        is_short: &impl Fn(&VecDeque<Stamped>) -> bool,
    ) -> (Option<Stamped>, bool) {
        let p = queue.pop_front();
        let mut ok_to_drop = false;
        match p {
            None => self.first_above_time = 0,
            Some((_, tstamp)) => {
                let sojourn_time = now - tstamp;
                if sojourn_time < TARGET || is_short(queue) {
                    self.first_above_time = 0;
                } else if self.first_above_time == 0 {
                    self.first_above_time = now + INTERVAL;
                } else if now >= self.first_above_time {
                    ok_to_drop = true;
                }
            }
        }
        (p, ok_to_drop)
    }

    /// Returns the number of the packet that leaves; `is_short` says whether the remaining packets fit into one of
    /// maximum length.
    pub(crate) fn dequeue(
        &mut self,
        now: u64,
        queue: &mut VecDeque<Stamped>,
        dropped: &mut Vec<u64>,
        is_short: impl Fn(&VecDeque<Stamped>) -> bool,
    ) -> Option<u64> {
        let mut r = self.dodequeue(now, queue, &is_short);
        if self.dropping {
            if !r.1 {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                dropped.extend(r.0.map(|p| p.0));
                self.count += 1;
                r = self.dodequeue(now, queue, &is_short);
                if r.1 {
                    self.drop_next = Self::control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if r.1 {
            dropped.extend(r.0.map(|p| p.0));
            r = self.dodequeue(now, queue, &is_short);
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && (now as i64 - self.drop_next as i64) < 16 * INTERVAL as i64 {
                self.count = delta;
            }
            self.drop_next = Self::control_law(now, self.count);
            self.lastcount = self.count;
        }
        r.0.map(|p| p.0)
    }
}
