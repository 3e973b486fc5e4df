//! Shared by the readers of all formats: packets as they stand in a file, and what is wrong with one.

use std::fmt;
use std::io::{self, Read};

use softtimers_core::{Timestamp, TraceBuilder};

use super::fit::{Changed, Fit};

/// The readers of all formats hand their packets to this.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) fit: Fit,
    pub(super) trace: TraceBuilder,
    pub(super) changed: Changed,
}

/// A packet as it stands in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    pub(super) time: Timestamp,
    /// As long as it was, not as much of it as was kept.
    pub(super) length: u64,
    /// The headers that a length includes before the IP packet; `None` if it is a datagram's payload.
    pub(super) link: Option<u16>,
}

impl Collector {
    /// Refuses what cannot be a datagram.
    pub(super) fn take(&mut self, packet: Packet) -> Result<(), String> {
        let Packet { time, length, link } = packet;
        let length = self.fit.datagram(length, link, &mut self.changed)?;
        self.trace.push(time, length);
        Ok(())
    }
}

/// A fault in a recording, and its place.
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

    /// Leaves out the numbers of a capture's headers where nothing may be quoted.
    pub(super) fn quoting(self, fit: &Fit) -> Self {
        let problem = "not as in a capture, or cut off, or not to be read";
        if fit.quotes { self } else { RecordingError { problem: problem.to_owned(), ..self } }
    }

    /// Returns the offset of the record that is wrong, in bytes from the beginning of the file.
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

/// Again when a signal came in between.
pub(super) fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Bytes that are read before a reader is chosen; its first buffer has room for them.
pub(super) const HEAD: usize = 64 << 10;
