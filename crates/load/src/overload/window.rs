//! State that the threads of a trial share: [`Window`], and a thread's CPU time: [`Busy`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use softtimers::Timestamp;
use softtimers::late::cpu_time;

/// The measured time of a trial, from the first datagram on, and the counts so far.
///
/// Datagrams that come out later waited in a buffer, and would make an overloaded receiver seem better, the more so the
/// shorter the trial is.
#[derive(Debug)]
pub struct Window {
    /// Nanoseconds; zero before the first datagram.
    began: AtomicU64,
    length: u64,
    /// Datagrams taken from the socket.
    pub received: AtomicU64,
    /// Datagrams sent on.
    pub delivered: AtomicU64,
    /// Those of `delivered` that left within the window.
    pub in_time: AtomicU64,
    /// Whether the sender has gone.
    pub over: AtomicBool,
}

impl Window {
    /// Returns a window of this length that has not begun.
    pub fn new(length: Duration) -> Self {
        Window {
            began: AtomicU64::new(0),
            length: length.as_nanos() as u64,
            received: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            in_time: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Returns its length.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.length)
    }

    /// Begins, unless it has begun.
    pub fn begin(&self, now: Timestamp) {
        if self.began.load(Ordering::Relaxed) == 0 {
            let _ = self.began.compare_exchange(0, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns whether the window is open at `now`; `None` before it.
    pub fn is_on(&self, now: Timestamp) -> Option<bool> {
        let began = self.began.load(Ordering::Relaxed);
        (began != 0).then(|| now.as_nanos() < began + self.length)
    }

    /// Counts datagrams that have left at `now`, and returns whether that is within the window.
    pub fn deliver(&self, now: Timestamp, datagrams: u64) -> bool {
        self.delivered.fetch_add(datagrams, Ordering::Relaxed);
        let in_time = self.is_on(now) == Some(true);
        if in_time {
            self.in_time.fetch_add(datagrams, Ordering::Relaxed);
        }
        in_time
    }
}

/// The CPU time of the calling thread within a window, sampled at its edges.
#[derive(Debug, Default)]
pub struct Busy {
    began: Option<Duration>,
    used: Option<Duration>,
}

impl Busy {
    /// Reads the CPU time where the window begins and ends; to be called again and again.
    pub fn look(&mut self, window: &Window, now: Timestamp) {
        match (self.began, self.used, window.is_on(now)) {
            (None, _, Some(true)) => self.began = Some(cpu_time()),
            (Some(began), None, Some(false)) => self.used = Some(cpu_time().saturating_sub(began)),
            _ => {}
        }
    }

    /// Returns the CPU time within the window; so far, if it has not ended yet.
    pub fn used(&self) -> Duration {
        let so_far = self.began.map(|began| cpu_time().saturating_sub(began));
        self.used.or(so_far).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_after_it_is_not_in_time() {
        let at = Timestamp::from_micros;
        let window = Window::new(Duration::from_micros(100));
        assert_eq!(window.is_on(at(5)), None);
        window.begin(at(10));
        window.begin(at(50));
        assert!(window.deliver(at(10), 2) && window.deliver(at(109), 3) && !window.deliver(at(110), 4));
        assert_eq!((window.delivered.into_inner(), window.in_time.into_inner()), (9, 5));
    }
}
