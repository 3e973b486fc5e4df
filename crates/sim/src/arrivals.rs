//! Packets that come to a machine.

use softtimers_core::Timestamp;

/// One packet. A source of packets is an iterator of these, in order of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When its last bit is there.
    pub at: Timestamp,
    /// How long it is.
    pub bytes: u32,
}
