//! The number of timers that a tick would scan in a one-level wheel such as the paper's.
//!
//! A timer is in the bucket of its time modulo the size, and every tick scans one bucket. Only the number of
//! timers matters here, so only that is kept.

/// The number of timers by bucket.
#[derive(Debug)]
pub(super) struct Occupancy {
    buckets: Vec<u32>,
    /// The tick of each timer ever set.
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

    /// Adds a timer for a tick; returns its number.
    pub(super) fn set(&mut self, due: u64) -> usize {
        *self.bucket(due) += 1;
        self.outstanding += 1;
        self.due.push(due);
        self.due.len() - 1
    }

    /// Removes a timer that was cancelled or has expired.
    pub(super) fn leave(&mut self, number: usize) {
        *self.bucket(self.due[number]) -= 1;
        self.outstanding -= 1;
    }

    /// Scans the bucket of a tick, given the number outstanding in total.
    pub(super) fn tick(&mut self, tick: u64) -> u64 {
        let found = u64::from(*self.bucket(tick));
        self.looks += found;
        self.longest = self.longest.max(found);
        self.outstanding
    }

    /// Timers found in all scans.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// The most found in one scan.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    fn bucket(&mut self, due: u64) -> &mut u32 {
        let mask = self.buckets.len() - 1;
        &mut self.buckets[due as usize & mask]
    }
}
