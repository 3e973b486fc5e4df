//! The second stage: a bounded [`Queue`], and the thread behind it, which filters and sends on.
//!
//! One datagram at a time and a system call for each, as `screend` had it (livelock §6.2): what it costs is what a
//! second stage costs whose packets do not come in batches.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::setpriority_process;
use softtimers::poller::Gauge;
use softtimers::udp::UdpSocket;
use softtimers::{Clock, Monotonic, Timestamp};

use super::filter::Filter;
use super::window::{Busy, Window};
use crate::distribution::Recorder;

/// A datagram on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    bytes: [u8; SIZE],
    length: usize,
    from: SocketAddr,
    arrived: Option<Timestamp>,
}

impl Item {
    /// A copy, of no more than [`SIZE`] bytes: as long as the sender makes them.
    pub(super) fn new(bytes: &[u8], from: SocketAddr, arrived: Option<Timestamp>) -> Self {
        let length = bytes.len().min(SIZE);
        let mut item = Item { bytes: [0; SIZE], length, from, arrived };
        item.bytes[..length].copy_from_slice(&bytes[..length]);
        item
    }

    #[inline]
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn from(&self) -> SocketAddr {
        self.from
    }

    pub(super) fn arrived(&self) -> Option<Timestamp> {
        self.arrived
    }
}

/// Between the two stages.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    some: Condvar,
    /// Counts it for the first stage's feedback.
    pub(super) gauge: Gauge,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    /// The second stage sleeps.
    waits: bool,
    closed: bool,
}

impl Queue {
    pub(super) fn new() -> io::Result<Self> {
        let items = VecDeque::with_capacity(ROOM as usize);
        let state = Mutex::new(State { items, ..State::default() });
        Ok(Queue { state, some: Condvar::new(), gauge: Gauge::new()? })
    }

    /// Whether one more has room. If so, put it.
    pub(super) fn admits(&self) -> bool {
        let admits = self.gauge.depth() < ROOM;
        if admits {
            self.gauge.put(1);
        } else {
            self.gauge.refused();
        }
        admits
    }

    /// Puts what was admitted.
    pub(super) fn put(&self, items: impl IntoIterator<Item = Item>) {
        let mut state = self.lock();
        state.items.extend(items);
        if !state.items.is_empty() && std::mem::take(&mut state.waits) {
            drop(state);
            self.some.notify_one();
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.some.notify_all();
    }

    /// The next one; `None` after the last. Sleeps meanwhile.
    fn take(&self) -> Option<Item> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                drop(state);
                self.gauge.took(1);
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state.waits = true;
            let woken = self.some.wait_timeout(state, LOOK_AGAIN);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A stage that panicked ends the trial; what is in the queue is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Filters datagrams and sends them on.
#[derive(Debug)]
pub(super) struct Second<'a> {
    pub(super) filter: &'a Filter,
    pub(super) socket: UdpSocket,
    pub(super) window: &'a Window,
    pub(super) found: Found,
}

/// What a second stage has done.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) rejected: u64,
    pub(super) failed: u64,
    pub(super) latency: Recorder,
    /// Its processor time within the window; of a second stage that has a thread of its own.
    pub(super) used: Duration,
}

impl Found {
    pub(super) fn new() -> Self {
        Found { rejected: 0, failed: 0, latency: Recorder::new(), used: Duration::ZERO }
    }
}

impl<'a> Second<'a> {
    /// To `sink`.
    pub(super) fn new(filter: &'a Filter, sink: SocketAddr, window: &'a Window) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(sink)?;
        socket.set_nonblocking(true)?;
        Ok(Second { filter, socket, window, found: Found::new() })
    }

    /// One datagram, to completion. When that was.
    pub(super) fn process(&mut self, item: &Item) -> Timestamp {
        let payload = item.payload();
        let accepted = self.filter.accepts(item.from, payload);
        let sent = accepted && self.socket.send(payload).is_ok();
        let now = Monotonic.now();
        if !accepted {
            self.found.rejected += 1;
        } else if !sent {
            self.found.failed += 1;
        } else if self.window.deliver(now, 1)
            && let Some(arrived) = item.arrived
        {
            self.found.latency.record_duration(now.saturating_duration_since(arrived));
        }
        now
    }

    /// As a thread: until the queue is closed and empty.
    pub(super) fn run(mut self, queue: &Queue, nice: u8) -> io::Result<Found> {
        // For this thread only: on Linux each has its own. An error can wait, the queue cannot.
        let niced = if nice > 0 { setpriority_process(None, nice.into()) } else { Ok(()) };
        let mut busy = Busy::default();
        while let Some(item) = queue.take() {
            let now = self.process(&item);
            busy.look(self.window, now);
        }
        self.found.used = busy.used();
        niced?;
        Ok(self.found)
    }
}

/// What one datagram carries: with its headers a small packet of 106 bytes.
pub(super) const SIZE: usize = 64;
/// Datagrams that the queue has room for.
pub(super) const ROOM: u32 = 1_024;
/// Nothing depends on it: the queue says when something is there.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
