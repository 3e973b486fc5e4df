//! A path with ends for tasks, and the task that keeps its time: [`Path`].

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use ::tokio::sync::Notify;
use ::tokio::time::{Instant, timeout_at};
use softtimers_core::Timestamp;

use super::{Datagrams, Stream};
use crate::endpoints::Endpoints;
use crate::{Counters, Measured, PathConfig, PathError, WanBuilder, Way};

/// A network path between tasks of tokio. Streams and datagrams share its link in each direction. See the
/// [module documentation](super).
///
/// A handle: clones share the path.
#[derive(Clone, Debug)]
pub struct Path {
    shared: Arc<Shared>,
}

impl Path {
    /// Creates an empty path. Its task runs on the current runtime.
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`].
    ///
    /// # Panics
    /// Outside of a runtime of tokio, or in one without time.
    pub fn new(path: WanBuilder) -> Result<Self, PathError> {
        let shared = Arc::new(Shared {
            start: Instant::now(),
            inner: Mutex::new(Inner { endpoints: Endpoints::new(path)?, looks_at: None }),
            sooner: Arc::default(),
        });
        ::tokio::spawn(keep_time(Arc::downgrade(&shared), Arc::clone(&shared.sooner), shared.start));
        Ok(Path { shared })
    }

    /// Creates a stream, and returns the client's end, which writes up, and the server's.
    pub fn stream(&self) -> (Stream, Stream) {
        let id = self.shared.with(|endpoints, _| endpoints.connect());
        let end = |way| Stream::new(Arc::clone(&self.shared), id, way);
        (end(Way::Up), end(Way::Down))
    }

    /// Creates a pair of datagram sockets, and returns the client's, which sends up, and the server's.
    pub fn datagrams(&self) -> (Datagrams, Datagrams) {
        let id = self.shared.with(|endpoints, _| endpoints.pair());
        let end = |way| Datagrams::new(Arc::clone(&self.shared), id, way);
        (end(Way::Up), end(Way::Down))
    }

    /// Changes the path in one direction from now on: see [`Direction::set`](crate::Direction::set).
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`]; then nothing changes.
    pub fn set(&self, way: Way, path: PathConfig) -> Result<(), PathError> {
        self.shared.with(|endpoints, now| endpoints.set(now, way, path))
    }

    /// Returns the parameters of one direction.
    pub fn config(&self, way: Way) -> PathConfig {
        self.seen(way).0
    }

    /// Returns the packet counts of one direction: segments and ends of streams, and datagrams.
    pub fn counters(&self, way: Way) -> Counters {
        self.seen(way).1
    }

    /// Returns the measurements of packets that came out, by the path's own times.
    pub fn measured(&self, way: Way) -> Measured {
        self.seen(way).2
    }

    /// Returns how many stream segments were sent again.
    pub fn resent(&self, way: Way) -> u64 {
        self.shared.with(|endpoints, now| {
            endpoints.advance(now);
            endpoints.resent(way)
        })
    }

    fn seen(&self, way: Way) -> (PathConfig, Counters, Measured) {
        self.shared.with(|endpoints, now| {
            endpoints.advance(now);
            endpoints.seen(way)
        })
    }
}

/// The path, its ends, and the time of its task's next turn.
pub(super) struct Shared {
    start: Instant,
    inner: Mutex<Inner>,
    /// Makes the task's next turn come sooner.
    sooner: Arc<Notify>,
}

struct Inner {
    endpoints: Endpoints,
    looks_at: Option<Timestamp>,
}

impl Shared {
    /// Runs `act` at the current time, and wakes the tasks concerned.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Endpoints, Timestamp) -> R) -> R {
        let (result, is_sooner, woken) = self.locked(|inner, now| {
            let result = act(&mut inner.endpoints, now);
            let is_sooner = match (inner.endpoints.poll_at(), inner.looks_at) {
                (Some(next), Some(looks_at)) => next < looks_at,
                (next, None) => next.is_some(),
                (None, Some(_)) => false,
            };
            (result, is_sooner, inner.endpoints.woken())
        });
        if is_sooner {
            self.sooner.notify_one();
        }
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Processes what is due, and returns when to call next.
    fn turn(&self) -> Option<Timestamp> {
        let (next, woken) = self.locked(|inner, now| {
            inner.endpoints.advance(now);
            inner.looks_at = inner.endpoints.poll_at();
            (inner.looks_at, inner.endpoints.woken())
        });
        woken.into_iter().for_each(Waker::wake);
        next
    }

    fn locked<R>(&self, act: impl FnOnce(&mut Inner, Timestamp) -> R) -> R {
        // A task that panicked while it held the lock has left it whole: the panic is a test's assertion.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        act(&mut inner, Timestamp::from_nanos(now))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path").field("start", &self.start).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

/// Turns the path whenever something is due, until its last handle is dropped.
async fn keep_time(path: Weak<Shared>, sooner: Arc<Notify>, start: Instant) {
    loop {
        let next = match path.upgrade() {
            Some(path) => path.turn(),
            None => return,
        };
        match next {
            Some(at) => {
                let wait = Duration::from_nanos(at.as_nanos()).min(start.elapsed() + LONGEST_SLEEP);
                let _ = timeout_at(start + wait, sooner.notified()).await;
            }
            None => sooner.notified().await,
        }
    }
}

/// Soon enough that no clock overflows.
const LONGEST_SLEEP: Duration = Duration::from_secs(86_400);
