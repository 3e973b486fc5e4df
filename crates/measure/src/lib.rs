//! Measurements on a machine that other programs use as well, for the command `softtimers` and its laboratory, with
//! **no promise of a stable API**.
//!
//! ```text
//!   units, assertion ──▶ a run ──▶ distribution ──▶ failure
//!   typed                │                          exit code
//!                        ├ machine, ticks, usage    who used the CPUs meanwhile
//!                        ├ processor, class         where it ran
//!                        ├ child, interrupt         with whom, and until when
//!                        └ estimate                 medians and their intervals
//! ```
//!
//! A figure that was measured while another program had the CPU proves nothing, so every run watches the
//! [background load](machine::BackgroundLoad), and says that it is inconclusive where there was too much.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub mod assertion;
pub mod child;
pub mod class;
pub mod distribution;
pub mod estimate;
pub mod failure;
pub mod interrupt;
pub mod machine;
pub mod processor;
#[doc(hidden)]
#[cfg(any(test, feature = "checks"))]
pub mod properties;
pub mod stats;
pub mod ticks;
pub mod units;
pub mod usage;
