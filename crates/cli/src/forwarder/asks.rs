//! Asking a forwarder that runs to count what it has done until now: [`CountsRequester`] in any thread, [`CountsRequests`] in its own.
//!
//! A poller reads cheap counters each round, and those that take system calls four times a second. A scraper of metrics
//! wants current values of both in between.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender};

use crate::forwarder::wake::{Waker, Woken, pair};

type Reply = Box<dyn FnOnce() + Send>;

/// CountsRequests a forwarder for its counts, from any thread.
pub(crate) struct CountsRequester {
    ask: Sender<Reply>,
    waker: Waker,
}

/// The forwarder's end: it answers between two rounds.
pub(crate) struct CountsRequests {
    asked: Receiver<Reply>,
    woken: Woken,
}

/// Creates a connected pair: one end asks, the other answers.
///
/// # Errors
/// If the system has no descriptors left.
pub(crate) fn asks() -> io::Result<(CountsRequester, CountsRequests)> {
    let (waker, woken) = pair()?;
    let (ask, asked) = mpsc::channel();
    Ok((CountsRequester { ask, waker }, CountsRequests { asked, woken }))
}

impl CountsRequester {
    /// CountsRequests for the counts; the forwarder's thread calls `reply` once all are up to date, or never if it has ended.
    pub(crate) fn ask(&self, reply: impl FnOnce() + Send + 'static) {
        let _ = self.ask.send(Box::new(reply));
        self.waker.wake();
    }
}

impl CountsRequests {
    /// Answers all pending questions.
    pub(crate) fn answer(&self) {
        self.woken.settle();
        self.asked.try_iter().for_each(|reply| reply());
    }
}

/// Readable when a question is pending.
impl AsFd for CountsRequests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

impl fmt::Debug for CountsRequester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountsRequester(…)")
    }
}

impl fmt::Debug for CountsRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountsRequests(…)")
    }
}
