//! [`Sandwich`]: compares two clocks, although no call reads both at one moment.
//!
//! ```text
//!   before ──┐
//!   foreign  ├─▶ it was read between the two: true however long that took,
//!   after ───┘   and the shorter, the more precise
//! ```

use softtimers_core::{Clock, Timestamp};

/// A reading of a foreign clock, and of ours on both sides of it.
#[derive(Clone, Copy, Debug)]
pub struct Sandwich<T> {
    /// Our clock just before.
    pub before: Timestamp,
    /// The foreign clock's reading, taken between the two of this one.
    pub foreign: T,
    /// Our clock just after; not less than `before`.
    pub after: Timestamp,
}

impl<T> Sandwich<T> {
    /// Reads ours, the foreign one, and ours again.
    #[inline]
    pub fn take(ours: &impl Clock, mut foreign: impl FnMut() -> T) -> Self {
        let before = ours.now();
        let foreign = foreign();
        Self { before, foreign, after: ours.now().max(before) }
    }

    /// Returns the tightest of `samples`; takes at least one. The others were held up between two reads.
    pub fn tightest_of(samples: u32, ours: &impl Clock, mut foreign: impl FnMut() -> T) -> Self {
        let mut tightest = Self::take(ours, &mut foreign);
        for _ in 1..samples {
            let sandwich = Self::take(ours, &mut foreign);
            if sandwich.width() < tightest.width() {
                tightest = sandwich;
            }
        }
        tightest
    }

    /// Nanoseconds between the outer readings.
    pub fn width(&self) -> u64 {
        self.after.as_nanos() - self.before.as_nanos()
    }

    /// The best guess at the time of the foreign reading.
    pub fn middle(&self) -> Timestamp {
        Timestamp::from_nanos(self.before.as_nanos() + self.width() / 2)
    }

    /// Returns the maximum error of [`middle`](Self::middle), in nanoseconds.
    pub fn error(&self) -> u64 {
        self.width().div_ceil(2)
    }
}

/// Sandwiches per measurement. The first ones run on cold caches; more than some ten rarely help.
pub const SAMPLES: u32 = 32;
