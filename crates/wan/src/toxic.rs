//! Faults of a stream under Toxiproxy's names: a [`Toxic`], and the [`Chain`] of those in one direction of a
//! connection. A state machine: time is an argument, and there is no socket.
//!
//! ```text
//!   offer ─▶ [ latency ]─[ bandwidth ]─[ slicer ]─[ limit_data ] ─▶ pop_due
//!            each piece gets its time as it comes in; none overtakes another
//! ```
//!
//! The effects are those of Toxiproxy 2, as observed; the table of `tests/wan/toxics.rs` of softtimers-cli has both. Here
//! the end of one direction leaves the other open; when a toxic is changed or removed, everything held in the chain is
//! released at once, where Toxiproxy releases only that toxic's; and a [`Timeout`](Toxic::Timeout) counts from when it met
//! the connection, not from the last data.

mod chain;

use std::time::Duration;

use crate::Probability;

pub use chain::Chain;

/// A fault of one direction of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toxic {
    /// Delays bytes by `latency`, plus or minus up to `jitter`.
    Latency {
        /// The delay of each piece.
        latency: Duration,
        /// The most by which it varies.
        jitter: Duration,
    },
    /// Limits the rate of a connection. With zero nothing passes until the toxic changes or goes, and then all that was
    /// held.
    Bandwidth {
        /// Bytes a second.
        rate: u64,
    },
    /// Delays the end of the stream.
    SlowClose {
        /// The delay of the end.
        delay: Duration,
    },
    /// Passes nothing, and closes the connection after a time, or when the toxic is removed.
    Timeout {
        /// The time from when the toxic met the connection; zero for never.
        timeout: Duration,
    },
    /// Resets the connection a time after its first data.
    ResetPeer {
        /// The time until the reset.
        timeout: Duration,
    },
    /// Passes bytes in slices.
    Slicer {
        /// Their mean length.
        average_size: u32,
        /// The most bytes by which the length varies.
        size_variation: u32,
        /// The time between two of them.
        delay: Duration,
    },
    /// Closes the connection once `bytes` have passed.
    LimitData {
        /// The number of bytes.
        bytes: u64,
    },
}

/// A toxic, and the share of the connections that meet it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dose {
    /// Identifies it: setting the same number again means the same toxic, perhaps changed.
    pub id: u64,
    /// Counts its changes: another number is a change, which releases what is held, even if all else is the same.
    pub revision: u64,
    /// The fault.
    pub toxic: Toxic,
    /// The share of connections that meet it, drawn when a connection and a toxic first meet.
    pub toxicity: Probability,
}

/// An item that leaves a [`Chain`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Passed {
    /// Bytes of the stream.
    Bytes(Box<[u8]>),
    /// The end of this direction.
    End,
    /// The whole connection is to be closed, once what came before is written.
    Close,
    /// The whole connection is to be reset.
    Reset,
}
