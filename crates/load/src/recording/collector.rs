//! Shared by the readers of all formats: packets as in the file, and errors about one.

use std::fmt;
use std::io::{self, Read};

use softtimers_core::{Timestamp, TraceBuilder};

use super::fit::{Changed, Fit};

/// Collects the packets that the readers pass to it.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) fit: Fit,
    pub(super) trace: TraceBuilder,
    pub(super) changed: Changed,
}

/// A packet as in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    pub(super) time: Timestamp,
    /// The original length, not the captured one.
    pub(super) length: u64,
    /// The headers that a length includes before the IP packet; `None` if it is a datagram's payload.
    pub(super) link: Option<u16>,
}

impl Collector {
    /// Adds a packet, or refuses one that cannot be a datagram.
    pub(super) fn take(&mut self, packet: Packet) -> Result<(), String> {
        let Packet { time, length, link } = packet;
        for length in self.fit.datagrams(length, link, &mut self.changed)? {
            self.trace.push(time, length);
        }
        Ok(())
    }
}

/// An error in a recording, and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordingError {
    byte: u64,
    line: Option<u64>,
    problem: String,
}

impl RecordingError {
    pub(super) fn at(byte: u64, problem: impl fmt::Display) -> Self {
        RecordingError { byte, line: None, problem: problem.to_string() }
    }

    pub(super) fn in_line(line: u64, byte: u64, problem: impl fmt::Display) -> Self {
        RecordingError { line: Some(line), ..RecordingError::at(byte, problem) }
    }

    /// Leaves out the numbers of a capture's headers where quoting is not allowed.
    pub(super) fn quoting(self, fit: &Fit) -> Self {
        let problem = "not as in a capture, or cut off, or not to be read";
        if fit.quotes { self } else { RecordingError { problem: problem.to_owned(), ..self } }
    }

    /// Returns the offset of the wrong record, in bytes from the beginning of the file.
    pub fn byte(&self) -> u64 {
        self.byte
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.byte)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for RecordingError {}

/// Reads, and repeats the read after a signal.
pub(super) fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Bytes read before a format is chosen; the reader's first buffer has room for them.
pub(super) const HEAD: usize = 64 << 10;
