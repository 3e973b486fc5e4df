//! A timer that interrupts its thread with a signal, and datagrams sent from there.
//!
//! It is the only timer of a process that does not wait for the program to check: a handler that runs for
//! milliseconds is interrupted, and [`SignalPacer`] still sends on time. Each interruption costs as much as
//! hundreds of trigger states, and almost nothing may be done in one, so softtimers exists to avoid this. It
//! is here as a baseline for measurements (it is the hardware timer of soft timers §5.6, in user space), and
//! for a single flow of a program without trigger states.

pub use crate::posix_timer::SignalTimer;
pub use crate::signal_pacer::{Course, Departure, SignalCounts, SignalPacer, Ticks};
