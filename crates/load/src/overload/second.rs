//! The second stage: the thread behind a [`Queue`], which filters and sends on.
//!
//! It takes one datagram at a time, with a system call for each, as `screend` did (livelock §6.2): the cost of a second
//! stage whose packets do not come in batches.

use std::io;
use std::net::SocketAddr;

use rustix::process::setpriority_process;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::udp::UdpSocket;

use super::filter::Filter;
use super::queue::Queue;
use super::stats::Stats;
use super::window::{Busy, Window};

/// A datagram between the stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    bytes: [u8; SIZE],
    length: usize,
    from: SocketAddr,
    arrived: Option<Timestamp>,
}

impl Item {
    /// Copies at most [`SIZE`] bytes, the length that the sender uses.
    pub(crate) fn new(bytes: &[u8], from: SocketAddr, arrived: Option<Timestamp>) -> Self {
        let length = bytes.len().min(SIZE);
        let mut item = Item { bytes: [0; SIZE], length, from, arrived };
        item.bytes[..length].copy_from_slice(&bytes[..length]);
        item
    }

    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(crate) fn from(&self) -> SocketAddr {
        self.from
    }

    pub(crate) fn arrived(&self) -> Option<Timestamp> {
        self.arrived
    }
}

/// Filters datagrams and sends them on.
#[derive(Debug)]
pub(crate) struct SecondStage<'a> {
    pub(crate) filter: &'a Filter,
    pub(crate) socket: UdpSocket,
    pub(crate) window: &'a Window,
    pub(crate) stats: Stats,
}

impl<'a> SecondStage<'a> {
    /// Creates a stage that sends to `sink`.
    pub(crate) fn new(filter: &'a Filter, sink: SocketAddr, window: &'a Window) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(sink)?;
        socket.set_nonblocking(true)?;
        Ok(SecondStage { filter, socket, window, stats: Stats::default() })
    }

    /// Processes one datagram to completion, and returns the time.
    pub(crate) fn process(&mut self, item: &Item) -> Timestamp {
        let payload = item.payload();
        let accepted = self.filter.accepts(item.from, payload);
        let sent = accepted && self.socket.send(payload).is_ok();
        let now = Monotonic.now();
        if !accepted {
            self.stats.dropped.rule += 1;
        } else if !sent {
            self.stats.dropped.output += 1;
        } else if self.window.deliver(now, 1)
            && let Some(arrived) = item.arrived
        {
            self.stats.latency.record_duration(now.saturating_duration_since(arrived));
        }
        now
    }

    /// Runs as a thread until the queue is closed and empty.
    pub(crate) fn run(mut self, queue: &Queue<Item>, nice: u8) -> io::Result<Stats> {
        // For this thread only: on Linux each has its own. An error can be reported later, but the queue must be
        // served.
        let niced = if nice > 0 { setpriority_process(None, nice.into()) } else { Ok(()) };
        let mut busy = Busy::default();
        while let Some(item) = queue.take() {
            let now = self.process(&item);
            busy.look(self.window, now);
        }
        self.stats.cpu = busy.used();
        niced?;
        Ok(self.stats)
    }
}

/// The payload of one datagram: with its headers a small packet of 106 bytes.
pub(crate) const SIZE: usize = 64;
