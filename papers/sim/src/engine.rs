//! The simulated world, independent of any experiment: time passes, packets arrive, CPUs and devices do their
//! work, and the policies of `softtimers_core` decide.
//!
//! ```text
//!   events      pending events, in order of time          streams    random numbers, by seed and name
//!   processor   who runs: interrupts, threads, what a        device     receive rings, transmitters, wires
//!               switch costs
//!   receiver    one device and one CPU, which take           host       a program with soft timers, its trigger
//!               packets by interrupts or polls                          states and the hardware behind them
//!   path        a sender, a slow link, and a client that     arrivals   packets: recordings, patterns, a LAN,
//!               acknowledges                                            self-similar traffic
//!   watch       progress of a run, and whether it was stopped
//! ```

pub(crate) mod arrivals;
pub(crate) mod device;
mod events;
pub(crate) mod host;
pub(crate) mod path;
pub(crate) mod processor;
pub(crate) mod receiver;
mod streams;
mod watch;

pub use events::Engine;
pub use streams::Streams;
pub use watch::{Steps, Watch};
