//! Timers for tokio that keep microseconds: [`sleep`](fn@sleep), [`timeout`](fn@timeout), [`interval`](fn@interval), a [`Pacer`] and a
//! [`PacedUdpSocket`].
//!
//! `tokio::time::sleep(100 µs)` takes one to two milliseconds, because tokio's timers count in milliseconds. These
//! take 100 µs and a wake-up, and less than a wake-up more where the runtime is busy:
//!
//! ```text
//!   tokio           due ───────────── next millisecond ───────────── epoll_wait ends ● 1–2 ms
//!   here, idle      due ── slack ── timerfd ─ wake-up ●                               20–50 µs
//!   here, busy      due ─ next poll of a wrapped task ●                               a few µs
//! ```
//!
//! ```
//! use std::time::Duration;
//! use softtimers_tokio::{interval, sleep, timeout};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! sleep(Duration::from_micros(150)).await;
//!
//! let mut tick = interval(Duration::from_micros(100)); // 10 kHz
//! for _ in 0..5 {
//!     tick.tick().await;
//! }
//! let answer = timeout(Duration::from_millis(2), async { 42 }).await;
//! assert_eq!(answer, Ok(42));
//! # });
//! ```
//!
//! The names, arguments and rules are tokio's, so `use softtimers_tokio::sleep` in the place of `use tokio::time::sleep` is
//! all that a program needs. On top of that:
//!
//! - **Slack is on.** A timer may be late by a tenth of its delay, at most 50 µs, so that neighbours share a wake-up.
//!   [`Slack::EXACT`] is there for those that mind ([`Sleep::with_slack`]).
//! - **Trigger states.** A poll of one of these timers or sockets wakes what else is due. So does a poll of a task that was
//!   [`wrap`](fn@wrap)ped, a park or unpark of a thread with [`trigger_at_park`], and a call of [`trigger`](fn@trigger). Each wakes up to
//!   32 tasks; on several workers, none for a while if too many tasks are ready to run already ([`Driver::trigger`]).
//! - **One timerfd** for a runtime, however many timers; one task waits for it ([`driver`]). What is pending costs
//!   nothing. [`Driver::builder`] makes that task poll for a while before a deadline, or spin, or wake up less often.
//! - **Others' programs**: with the feature `hyper` there is a `HyperTimer` for hyper's time-outs, with `tower` a `PaceLayer`
//!   that spaces the calls of a service and its clones evenly.
//! - **Departures at a rate** that does not burst after a stall: [`Pacer`]; of thousands of flows on one socket: `PacedSender`.
//!
//! Off Linux, and where tokio's clock is paused, tokio's own timers serve; the API is the same.
//!
//! # When not to use this
//!
//! For time-outs of seconds: tokio's are as good. For one timer in a program that does nothing else: an `AsyncFd` on a
//! timerfd does the same. `docs/choose.md` in the repository has the table, and the command that makes it for
//! your machine.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

mod clock;
pub mod driver;
mod hooks;
#[cfg(feature = "hyper")]
pub mod hyper;
pub mod interval;
mod missed_tick;
#[cfg(target_os = "linux")]
pub mod paced_sender;
pub mod pacer;
pub mod sleep;
pub mod timeout;
mod timer;
#[cfg(feature = "tower")]
pub mod tower;
pub mod udp;
pub mod wrap;

#[cfg(target_os = "linux")]
pub use softtimers::idle::HeldBack;
pub use softtimers_core::{
    CatchUp, Counts, Idle, PaceConfig, PaceError, Pattern, Percent, PollBudget, Rate, RateClock, RateError,
    Slack, Strategy, Timestamp, TriggerState,
};
pub use tokio::time::{Instant, MissedTickBehavior};

pub use clock::{instant_of, timestamp_of};
pub use driver::{Driver, DriverBuilder, DriverStats, trigger};
pub use hooks::trigger_at_park;
#[cfg(tokio_unstable)]
pub use hooks::trigger_at_polls;
#[cfg(feature = "hyper")]
pub use hyper::HyperTimer;
pub use interval::{Interval, interval, interval_at};
#[cfg(target_os = "linux")]
pub use paced_sender::PacedSender;
pub use pacer::Pacer;
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};
#[cfg(feature = "tower")]
pub use tower::{PaceLayer, Paced};
pub use udp::PacedUdpSocket;
pub use wrap::{Wrapped, spawn, wrap};

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
