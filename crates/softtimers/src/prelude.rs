//! The names that a program with [`Timers`] needs, in one import.
//!
//! ```
//! use std::time::Duration;
//! use softtimers::prelude::*;
//!
//! let mut timers = Timers::new()?;
//! timers.every(Rate::pps(25_000), "packet");
//! timers.at_within(Monotonic.now() + Duration::from_millis(1), Slack::EXACT, "stop");
//! while timers.wait()?.is_some_and(|due| due.event != "stop") {}
//! # Ok::<(), std::io::Error>(())
//! ```

pub use crate::{Clock, Due, IntoTimestamp, Monotonic, Rate, Slack, TimerHandle, Timers, Timestamp};
