//! The queue in front of the slow link: how much may wait, and from which point on it is marked.
//!
//! First in, first out; a packet that finds it full is dropped (drop-tail). The packet on the link no longer waits, so
//! a burst of 30 that meets an idle link and a queue of 20 loses 9:
//!
//! ```text
//!   ↓ 30 at once      ┌ 20 wait ┐   ┌ 1 on the link
//!       9 dropped ◀── │▢▢▢▢ … ▢▢│──▶▐██▐──▶
//! ```

use std::time::Duration;

/// The most that may wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Limit {
    /// At most N packets, whatever their lengths.
    Packets(u32),
    /// At most N bytes. A packet that does not fit is dropped; a shorter one behind it may fit.
    Bytes(u64),
    /// At most this wait: a packet is dropped if it would wait longer for its turn on the link, at the current rate.
    Time(Duration),
}

impl Limit {
    /// Says whether a packet may join the queue.
    pub(crate) fn admits(self, bytes: u64, ahead: &Backlog) -> bool {
        match self {
            Limit::Packets(most) => ahead.packets < u64::from(most),
            Limit::Bytes(most) => ahead.bytes.saturating_add(bytes) <= most,
            Limit::Time(most) => ahead.wait <= most,
        }
    }
}

/// The packets waiting for the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// The number of packets.
    pub packets: u64,
    /// Their bytes, with the overhead of each.
    pub bytes: u64,
    /// The time until the link has sent them, at the current rate.
    pub wait: Duration,
}

/// A queue that drops the newest packet when it is full (drop-tail).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Queue {
    /// The limit beyond which packets are dropped.
    pub limit: Limit,
    /// The limit beyond which packets are marked: congestion experienced, with a threshold as in DCTCP. The model does
    /// not know which packets can carry a mark; the caller that takes them out writes it.
    pub mark: Option<Limit>,
}

impl Queue {
    /// Limits the queue to `packets`; marks nothing.
    pub const fn packets(packets: u32) -> Self {
        Queue { limit: Limit::Packets(packets), mark: None }
    }

    /// Limits the queue to `bytes`; marks nothing.
    pub const fn bytes(bytes: u64) -> Self {
        Queue { limit: Limit::Bytes(bytes), mark: None }
    }

    /// Limits a packet's wait to `wait`; marks nothing.
    pub const fn time(wait: Duration) -> Self {
        Queue { limit: Limit::Time(wait), mark: None }
    }

    /// Marks packets that find this much in the queue.
    #[must_use]
    pub const fn marking(mut self, mark: Limit) -> Self {
        self.mark = Some(mark);
        self
    }
}

impl Default for Queue {
    /// Limits it to a thousand packets, like Linux's `pfifo` on an interface and netem.
    fn default() -> Self {
        Queue::packets(1_000)
    }
}
