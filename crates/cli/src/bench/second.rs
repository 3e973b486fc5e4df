//! The second stage: the thread behind a [`Queue`], which filters and sends on.
//!
//! One datagram at a time and a system call for each, as `screend` had it (livelock §6.2): what it costs is what a
//! second stage costs whose packets do not come in batches.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::setpriority_process;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::udp::UdpSocket;

use super::filter::Filter;
use super::queue::Queue;
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
    pub(super) fn run(mut self, queue: &Queue<Item>, nice: u8) -> io::Result<Found> {
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
