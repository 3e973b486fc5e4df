//! [`SendError`]: why a datagram did not leave.

use std::error::Error;
use std::{fmt, io};

use softtimers_core::queue::Reject;

/// Why a datagram of a [`PacedSender`](super::PacedSender) did not leave.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The queue refused it: the flow was removed or is full.
    Refused(Reject),
    /// It has waited longer than its flow allows.
    Expired,
    /// Its flow was removed while it waited.
    Removed,
    /// The sender was closed, or its runtime has ended.
    Closed,
    /// The kernel refused it.
    Io(io::Error),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Refused(reason) => reason.fmt(f),
            SendError::Expired => f.write_str("the datagram waited longer than its flow allows"),
            SendError::Removed => f.write_str("the flow was removed before the datagram's time"),
            SendError::Closed => f.write_str("the sender was closed before the datagram's time"),
            SendError::Io(error) => error.fmt(f),
        }
    }
}

impl Error for SendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SendError::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<SendError> for io::Error {
    fn from(error: SendError) -> io::Error {
        match error {
            SendError::Io(error) => error,
            SendError::Expired => io::Error::new(io::ErrorKind::TimedOut, error),
            error => io::Error::other(error),
        }
    }
}
