//! Timers for tokio that keep microseconds.
#![forbid(unsafe_code)]

mod clock;
pub mod driver;
mod hooks;
pub mod interval;
mod missed_tick;
pub mod pacer;
pub mod sleep;
pub mod timeout;
mod timer;
pub mod udp;
pub mod wrap;

pub use softtimers_core::{CatchUp, Idle, PaceConfig, PollBudget, Rate, RateClock, Slack, TriggerState};

pub use driver::{Driver, DriverStats, trigger};
pub use hooks::trigger_at_park;
#[cfg(tokio_unstable)]
pub use hooks::trigger_at_polls;
pub use interval::{Interval, interval, interval_at};
pub use pacer::Pacer;
pub use sleep::{Sleep, sleep, sleep_until};
pub use tokio::time::{Instant, MissedTickBehavior};

pub use timeout::{Timeout, timeout, timeout_at};
pub use udp::PacedUdpSocket;
pub use wrap::{Wrapped, spawn, wrap};
