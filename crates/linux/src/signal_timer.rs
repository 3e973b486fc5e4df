//! A timer that interrupts its thread with a signal, and datagrams sent from there.
//!
//! It is the only timer of a process that does not wait for the program to look: a handler that runs
//! for milliseconds is interrupted in its middle, and [`SignalPacer`] sends all the same. Each
//! interruption costs as much as hundreds of trigger states, and almost nothing may be done in one, so
//! this is what softtimers exists to avoid. It is here to be measured against (it is the
//! hardware timer of soft timers §5.6, in user space), and for the one flow of a program that has no
//! trigger states.

pub use crate::posix_timer::SignalTimer;
pub use crate::signal_pacer::{Course, Departure, SignalCounts, SignalPacer, Stamps, Ticks};
