//! Why two interfaces cannot be joined: [`Problem`].

use std::fmt;
use std::io::{self, ErrorKind};

use softtimers_net::packet::ClaimError;

use crate::PathError;

/// Why nothing can pass between two interfaces, or not any longer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// An interface does not exist, is not Ethernet, or both are the same; or this machine uses it itself, which
    /// [`BridgeConfig::take`](super::BridgeConfig::take) allows.
    Interface(ClaimError),
    /// A frame sent by one interface comes back to the other, or to itself.
    Loop,
    /// The privilege is missing.
    Privilege(io::Error),
    /// The path is invalid.
    Path(PathError),
    /// Another error of the system.
    System(io::Error),
}

impl From<ClaimError> for Problem {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::System(error) => error.into(),
            other => Problem::Interface(other),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.downcast() {
            Ok(problem) => problem,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Problem::Privilege(error),
            Err(error) => Problem::System(error),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Interface(error) => error.fmt(f),
            Problem::Loop => f.write_str("a frame came back: the two interfaces are joined elsewhere, too"),
            Problem::Privilege(error) => write!(f, "a packet socket needs CAP_NET_RAW: {error}"),
            Problem::Path(error) => error.fmt(f),
            Problem::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Problem {}
