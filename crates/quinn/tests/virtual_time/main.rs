//! Connections of quinn-proto over a path of `softtimers-wan`, in virtual time: the controller for even senders and the gate, as
//! quinn drives them, beside quinn as it is and beside each other.
//!
//! A run is the same for each seed, and a second of it takes some tens of milliseconds. `SOFTTIMERS_FULL=1` has more seeds and
//! longer ones. With `--nocapture` the tables are printed.
#![forbid(unsafe_code)]

mod alone;
mod changes;
mod late;
mod network;
mod peer;
mod shared;
mod start;
mod upstream;

/// Returns the size of a test: `full` where `SOFTTIMERS_FULL` is set.
pub(crate) fn size(usual: u64, full: u64) -> u64 {
    if std::env::var_os("SOFTTIMERS_FULL").is_some() { full } else { usual }
}
