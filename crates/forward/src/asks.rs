//! Asking a forwarder that runs to count what it has done until now: [`Asker`] in any thread, [`Asks`] in its own.
//!
//! A poller counts cheap things each round, and four times a second those that take system calls. Who asks in between, as a
//! scraper of metrics does, wants both.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender};

use crate::wake::{Waker, Woken, pair};

type Reply = Box<dyn FnOnce() + Send>;

/// Asks, from any thread.
pub struct Asker {
    ask: Sender<Reply>,
    waker: Waker,
}

/// Is asked. A forwarder answers between two rounds.
pub struct Asks {
    asked: Receiver<Reply>,
    woken: Woken,
}

/// Creates a connected pair: one end asks, the other answers.
///
/// # Errors
/// If the system has no descriptors left.
pub fn asks() -> io::Result<(Asker, Asks)> {
    let (waker, woken) = pair()?;
    let (ask, asked) = mpsc::channel();
    Ok((Asker { ask, waker }, Asks { asked, woken }))
}

impl Asker {
    /// Has `reply` called by the forwarder's thread once everything is counted; never, if that has ended.
    pub fn ask(&self, reply: impl FnOnce() + Send + 'static) {
        let _ = self.ask.send(Box::new(reply));
        self.waker.wake();
    }
}

impl Asks {
    /// Answers all who have asked.
    pub(crate) fn answer(&self) {
        self.woken.settle();
        self.asked.try_iter().for_each(|reply| reply());
    }
}

/// Readable once somebody has asked.
impl AsFd for Asks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asker(…)")
    }
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asks(…)")
    }
}
