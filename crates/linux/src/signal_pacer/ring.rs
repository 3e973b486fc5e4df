//! Messages from a signal's handler to the program that it interrupts: a ring with one writer and one reader.
//!
//! Each index has one writer. The handler publishes a slot with `written` and the program returns it with
//! `read`, so neither waits for the other, nor could: the handler interrupts the program.
//!
//! ```text
//!   read ──▼           ▼── written
//!   │ free │ told told │ free … │      full: written - read = 4,096
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use softtimers_core::Timestamp;

/// A datagram that has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// When the handler ran, just before the system call.
    pub sent: Timestamp,
    /// When it might have left.
    pub due: Timestamp,
    /// Its scheduled time.
    pub place: Timestamp,
}

/// Departures from one writer to one reader, without a lock.
#[derive(Debug)]
pub(super) struct Ring {
    /// `sent`, `due` and `place` of each.
    slots: Box<[[AtomicU64; 3]]>,
    written: AtomicU64,
    read: AtomicU64,
}

impl Ring {
    pub(super) fn new() -> Self {
        let slots = (0..CAPACITY).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        Ring { slots, written: AtomicU64::new(0), read: AtomicU64::new(0) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.written.load(Ordering::Relaxed) - self.read.load(Ordering::Acquire) >= CAPACITY
    }

    pub(super) fn put(&self, departure: Departure) {
        let at = self.written.load(Ordering::Relaxed);
        let Departure { sent, due, place } = departure;
        for (slot, time) in self.slot(at).iter().zip([sent, due, place]) {
            slot.store(time.as_nanos(), Ordering::Relaxed);
        }
        self.written.store(at + 1, Ordering::Release);
    }

    pub(super) fn take(&self) -> Option<Departure> {
        let at = self.read.load(Ordering::Relaxed);
        if at == self.written.load(Ordering::Acquire) {
            return None;
        }
        let [sent, due, place] =
            std::array::from_fn(|part| Timestamp::from_nanos(self.slot(at)[part].load(Ordering::Relaxed)));
        self.read.store(at + 1, Ordering::Release);
        Some(Departure { sent, due, place })
    }

    fn slot(&self, at: u64) -> &[AtomicU64; 3] {
        &self.slots[(at % CAPACITY) as usize]
    }
}

/// A tenth of a second at 40,000 a second: longer than a handler should ever run.
const CAPACITY: u64 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_says_so_and_loses_nothing() {
        let ring = Ring::new();
        let departure = |nanos| {
            let time = Timestamp::from_nanos(nanos);
            Departure { sent: time, due: time, place: time }
        };
        (0..CAPACITY).for_each(|nanos| ring.put(departure(nanos)));
        assert!(ring.is_full());
        assert_eq!(ring.take(), Some(departure(0)));
        assert!(!ring.is_full());
        ring.put(departure(CAPACITY));
        assert!((1..=CAPACITY).all(|nanos| ring.take() == Some(departure(nanos))));
        assert_eq!(ring.take(), None);
    }
}
