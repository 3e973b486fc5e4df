//! Waking a poller up from another thread: a [`Waker`] there, a [`Woken`] here, which the poller watches.
//!
//! A poller may sleep in the kernel for as long as no packet comes, so a flag alone would go unseen. A byte in a socket
//! pair is a flag that also wakes, and one byte is as good as many.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Wakes the other end. It never blocks.
#[derive(Debug)]
pub(crate) struct Waker(UnixStream);

/// Readable from when it is woken until it [settles](Self::settle).
#[derive(Debug)]
pub(crate) struct Woken(UnixStream);

/// Creates a connected pair.
///
/// # Errors
/// If the system has no descriptors left.
pub(crate) fn pair() -> io::Result<(Waker, Woken)> {
    let (written, readable) = UnixStream::pair()?;
    written.set_nonblocking(true)?;
    readable.set_nonblocking(true)?;
    Ok((Waker(written), Woken(readable)))
}

impl Waker {
    /// Wakes the other end, if it is still there.
    pub(crate) fn wake(&self) {
        // If there is no room, it is readable already.
        let _ = (&self.0).write(&[0]);
    }
}

impl Woken {
    /// Clears the signal. Check the reason for it afterwards, so that none is missed.
    pub(crate) fn settle(&self) {
        // More bytes than these are read the next time.
        let _ = (&self.0).read(&mut [0; 64]);
    }
}

impl AsFd for Woken {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
