//! The number of timers that a tick would look through in a wheel such as the paper's, of one level.
//!
//! A timer lies there in the bucket of its time modulo the size, and every tick looks through one. Which timers those are
//! does not matter here, so nothing but their number is kept.

/// The number of timers by bucket.
#[derive(Debug)]
pub(super) struct Occupancy {
    buckets: Vec<u32>,
    /// The tick of each timer that ever was.
    due: Vec<u64>,
    outstanding: u64,
    looks: u64,
    longest: u64,
}

impl Occupancy {
    /// A wheel of a power of two of buckets.
    pub(super) fn new(buckets: u64) -> Self {
        let buckets = vec![0; buckets as usize];
        Occupancy { buckets, due: vec![], outstanding: 0, looks: 0, longest: 0 }
    }

    /// A timer is set for a tick. Its number.
    pub(super) fn set(&mut self, due: u64) -> usize {
        *self.bucket(due) += 1;
        self.outstanding += 1;
        self.due.push(due);
        self.due.len() - 1
    }

    /// A timer that was set is cancelled, or has expired.
    pub(super) fn leave(&mut self, number: usize) {
        *self.bucket(self.due[number]) -= 1;
        self.outstanding -= 1;
    }

    /// Looks through the bucket of a tick. How many are outstanding in all.
    pub(super) fn tick(&mut self, tick: u64) -> u64 {
        let found = u64::from(*self.bucket(tick));
        self.looks += found;
        self.longest = self.longest.max(found);
        self.outstanding
    }

    /// Timers found in all looks.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// The most found in one.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    fn bucket(&mut self, due: u64) -> &mut u32 {
        let mask = self.buckets.len() - 1;
        &mut self.buckets[due as usize & mask]
    }
}
