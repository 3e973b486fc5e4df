//! A timer that interrupts its thread with a signal.
//!
//! It is the only timer of a process that does not wait for the program to look: a handler that runs
//! for milliseconds is interrupted in its middle. Each interruption costs tens of trigger states, and
//! almost nothing may be done in one, so this is what the rest of the crate exists to avoid. It is here to be
//! measured against, and for the program that has no trigger states.

pub use crate::sys::posix_timer::SignalTimer;
