//! Datagrams that have arrived and wait to be read: [`Inbox`].

use std::collections::VecDeque;
use std::task::Waker;

/// One side's received datagrams.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    datagrams: VecDeque<Box<[u8]>>,
    bytes: usize,
    missed: u64,
    is_closed: bool,
    readers: Vec<Waker>,
}

impl Inbox {
    /// Stores a datagram that has come, and returns the wakers that wait for one.
    pub(crate) fn take(&mut self, bytes: Box<[u8]>) -> Vec<Waker> {
        if self.is_closed || self.bytes + bytes.len() > ROOM || self.datagrams.len() == MOST_DATAGRAMS {
            self.missed += 1;
            return Vec::new();
        }
        self.bytes += bytes.len();
        self.datagrams.push_back(bytes);
        std::mem::take(&mut self.readers)
    }

    pub(crate) fn next(&mut self) -> Option<Box<[u8]>> {
        let next = self.datagrams.pop_front()?;
        self.bytes -= next.len();
        Some(next)
    }

    /// Wakes this waker when the next datagram comes.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.readers.iter().any(|reader| reader.will_wake(waker)) {
            self.readers.push(waker.clone());
        }
    }

    /// Returns how many datagrams found no room here.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    pub(crate) fn close(&mut self) {
        self.missed += self.datagrams.len() as u64;
        self.datagrams.clear();
        self.is_closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

/// The most bytes waiting to be read.
const ROOM: usize = 4 << 20;
/// The most datagrams waiting to be read.
const MOST_DATAGRAMS: usize = 1 << 16;
