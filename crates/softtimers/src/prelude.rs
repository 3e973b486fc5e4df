//! What a program with [`Timers`] needs, in one import: `use softtimers::prelude::*;`.

pub use crate::{Clock, Due, IntoTimestamp, Monotonic, Rate, Slack, TimerHandle, Timers, Timestamp};
