//! Interleavings by loom: `RUSTFLAGS="--cfg loom"`.
//!
//! The level is built here again, from loom's atomics: the program's [`Gauge`](super::Gauge) keeps the
//! system's, since loom's exist only within its models.

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
}
#[path = "level.rs"]
mod level;

use level::Level;
use loom::sync::Arc;
use loom::thread;

const LOW: u32 = 1;

/// A poller that goes to sleep while the consumer drains the queue: either it has seen the low mark, or it is woken,
/// and not by more than one of the packets taken.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let level = Arc::new(Level::empty());
        level.put(3);
        let consumer = thread::spawn({
            let level = Arc::clone(&level);
            move || (0..3).filter(|_| level.took(1)).count()
        });
        let seen = level.wake_at(LOW);
        let woken = consumer.join().unwrap();
        // Reaching the low mark before a request causes no wake-up, but the next packet does.
        assert!(seen <= LOW || woken == 1, "{seen} seen, {woken} wake-ups");
        assert!(woken <= 1);
        assert_eq!(level.depth(), 0);
    });
}

/// Two consumers cross the mark: one of them wakes the poller.
#[test]
fn of_two_consumers_one_wakes() {
    loom::model(|| {
        let level = Arc::new(Level::empty());
        level.put(3);
        let depth = level.wake_at(LOW);
        let consumers = [(); 2].map(|()| {
            let level = Arc::clone(&level);
            thread::spawn(move || level.took(1))
        });
        let woken = consumers.map(|consumer| u32::from(consumer.join().unwrap()));
        assert_eq!((depth, level.depth(), woken.iter().sum::<u32>()), (3, 1, 1));
    });
}

/// One thread puts in while another takes out: no packet is counted twice or lost.
#[test]
fn what_goes_in_comes_out() {
    loom::model(|| {
        let level = Arc::new(Level::empty());
        level.put(2);
        let consumer = thread::spawn({
            let level = Arc::clone(&level);
            move || (0..2).for_each(|_| _ = level.took(1))
        });
        level.put(1);
        level.wake_at(LOW);
        level.put(1);
        consumer.join().unwrap();
        assert_eq!(level.depth(), 2);
    });
}
