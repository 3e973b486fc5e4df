//! Connections between real sockets, over a path of `softtimers-wan` where it matters: what quinn promises must
//! hold with the gate as without.
//!
//! `SOFTTIMERS_FULL=1` makes them as large as they are meant to be; else they take seconds.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod close;
mod even;
mod harness;
mod intact;
mod many;
mod public;
mod shutdown;
