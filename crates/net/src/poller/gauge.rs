//! [`Gauge`]: the depth of a queue between two stages.

mod atomic;
#[cfg(all(test, loom))]
mod every_interleaving;
mod level;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use atomic::{AtomicU64, Ordering};
use level::Level;

/// Counts the packets in any queue between two stages, and wakes a poller that has shut its input because the
/// queue was full.
///
/// The first stage reports packets that it [`put`](Gauge::put) in, the second those that it
/// [`took`](Gauge::took), from any thread. Clones count the same queue.
///
/// ```
/// use softtimers_net::poller::Gauge;
///
/// let queue = Gauge::new()?;
/// let consumer = queue.clone();
/// queue.put(3);
/// consumer.took(2);
/// assert_eq!(queue.depth(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Cost
/// Two atomic operations; a system call if the poller waits for it.
#[derive(Clone, Debug)]
pub struct Gauge {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    level: Level,
    offered: AtomicU64,
    taken: AtomicU64,
    wake: OwnedFd,
}

impl Gauge {
    /// Creates the gauge of an empty queue.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor.
    pub fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared =
            Shared { level: Level::empty(), offered: AtomicU64::new(0), taken: AtomicU64::new(0), wake };
        Ok(Gauge { shared: Arc::new(shared) })
    }

    /// Counts `packets` that are put in. Call it before the consumer can take them: packets taken out of an
    /// empty queue are not counted.
    pub fn put(&self, packets: u32) {
        self.shared.level.put(packets);
        // A thread that sees the offered count also sees the depth.
        self.shared.offered.fetch_add(packets.into(), Ordering::Release);
    }

    /// One packet was dropped since the queue was full: it counts as offered.
    pub fn refused(&self) {
        self.shared.offered.fetch_add(1, Ordering::Release);
    }

    /// Counts `packets` that were taken out; at most those that were put in.
    pub fn took(&self, packets: u32) {
        let Shared { level, taken, wake, .. } = &*self.shared;
        taken.fetch_add(packets.into(), Ordering::Release);
        if level.took(packets) {
            // The count is never read: `epoll` reports each edge. It fails only if the count is full.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }

    /// Packets that are in the queue.
    pub fn depth(&self) -> u32 {
        self.shared.level.depth()
    }

    /// Packets that were put in or refused so far.
    pub fn offered(&self) -> u64 {
        self.shared.offered.load(Ordering::Acquire)
    }

    /// Packets that were taken out so far: the consumer's progress.
    pub fn taken(&self) -> u64 {
        self.shared.taken.load(Ordering::Acquire)
    }

    /// Makes the descriptor readable once the depth falls to `depth` or less. Returns the present depth: at
    /// or below `depth`, there is no need to wait.
    pub(super) fn wake_at(&self, depth: u32) -> u32 {
        self.shared.level.wake_at(depth)
    }
}

impl AsFd for Gauge {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use softtimers_linux::wait::wait_readable;

    use super::*;

    #[test]
    fn it_wakes_once_when_the_low_mark_is_met() {
        let gauge = Gauge::new().unwrap();
        let readable = || wait_readable(gauge.as_fd(), Some(Duration::ZERO)).unwrap();
        gauge.put(24);
        gauge.took(10);
        assert!(!readable(), "no wake-up was requested");
        assert_eq!(gauge.wake_at(8), 14);
        gauge.took(5);
        assert!(!readable(), "nine are left");
        gauge.took(1);
        assert!(readable());
        rustix::io::read(&gauge.shared.wake, &mut [0; 8]).unwrap();
        gauge.took(8);
        assert!(!readable(), "once");
        assert_eq!((gauge.depth(), gauge.offered(), gauge.taken()), (0, 24, 24));
        gauge.took(5);
        assert_eq!(gauge.depth(), 0);
    }
}
