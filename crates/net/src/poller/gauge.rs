//! How full the queue behind is, for both of its ends: [`Gauge`].

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

/// Counts what is in a queue between two stages, whatever the queue is, and wakes a poller that has shut its input
/// because the queue was full.
///
/// The first stage says what it [`put`](Gauge::put) in, the second what it [`took`](Gauge::took), from any
/// thread. Clones count the same queue.
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
/// Two atomic operations; a system call where the poller waits for it.
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

    /// Counts `packets` that are put in. Call it before the consumer can take them: what it takes out of an empty
    /// queue is not counted.
    pub fn put(&self, packets: u32) {
        self.shared.level.put(packets);
        // Who sees that something was offered sees it in the depth.
        self.shared.offered.fetch_add(packets.into(), Ordering::Release);
    }

    /// One packet was dropped since the queue was full: it counts as offered.
    pub fn refused(&self) {
        self.shared.offered.fetch_add(1, Ordering::Release);
    }

    /// Counts `packets` that were taken out. Taking out more than were put in leaves it empty.
    pub fn took(&self, packets: u32) {
        let Shared { level, taken, wake, .. } = &*self.shared;
        taken.fetch_add(packets.into(), Ordering::Release);
        if level.took(packets) {
            // Nobody reads the count: `epoll` reports each edge. It fails only if the count is full.
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

    /// Makes the descriptor readable when the depth comes to `depth` or less, once. Returns what it is: at or below
    /// `depth`, nobody need wait.
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
        assert!(!readable(), "nobody wanted to know");
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
