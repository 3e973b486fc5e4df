//! Timers for tokio with microsecond precision: [`sleep`](fn@sleep), [`timeout`](fn@timeout),
//! [`interval`](fn@interval), a [`Pacer`] and a [`PacedUdpSocket`].
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
//! The names, arguments and rules are tokio's, so a program only has to replace `use tokio::time::sleep` by
//! `use softtimers_tokio::sleep`. On top of that:
//!
//! - **Slack is on.** A timer may be late by a tenth of its delay, at most 50 µs, so that neighbours share a wake-up.
//!   Use [`Slack::EXACT`] for timers that must not be ([`Sleep::with_slack`]).
//! - **Trigger states.** A poll of one of these timers or sockets wakes other due tasks. So does a poll of a
//!   [`wrap`](fn@wrap)ped task, a park or unpark of a thread with [`trigger_at_park`], and a call of
//!   [`trigger`](fn@trigger). Each wakes up to 32 tasks; with several workers, none for a while if too many
//!   tasks are ready to run already ([`Driver::trigger`]).
//! - **One timerfd** for a runtime, however many timers; one task waits for it ([`Driver`]). Pending timers
//!   cost no CPU. With [`Driver::builder`] that task polls for a while before a deadline, or spins, or wakes
//!   up less often.
//! - **Departures at a rate** without a burst after a stall: [`Pacer`]; shared by the handlers of a server:
//!   [`SharedPacer`], and [`KeyedPacer`] for one a client; for thousands of flows on one socket:
//!   `paced_sender`.
//! - **Beside tokio's family**: [`DelayQueue`](delay_queue::DelayQueue); with the feature `stream` it is a stream, and there are `IntervalStream` and
//!   `StreamExt` with `timeout` and `throttle`.
//! - **A virtual clock for tests** that keeps microseconds, with the feature `test-util`: `softtimers_tokio::test`.
//! - **Integrations**: with the feature `hyper` there is a `HyperTimer` for hyper's time-outs, with `tower` a
//!   `PaceLayer` that spaces the calls of a service and its clones evenly.
//!
//! Off Linux, without a descriptor for the timerfd, and if tokio's clock is paused, these use tokio's own timers; the API is
//! the same.
//!
//! # When not to use this
//!
//! For time-outs of seconds: tokio's are as good. For one timer in a program that does nothing else: an `AsyncFd` on a
//! timerfd does the same. `docs/choose.md` in the repository has a comparison, and the command that measures
//! it on your machine.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

mod clock;
pub mod delay_queue;
mod driver;
mod hooks;
#[cfg(feature = "hyper")]
mod hyper;
mod interval;
mod missed_tick;
#[cfg(target_os = "linux")]
pub mod paced_sender;
mod pacer;
mod shared_pacer;
mod sleep;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(all(feature = "test-util", target_os = "linux"))]
pub mod test;
mod timeout;
mod timer;
#[cfg(feature = "tower")]
mod tower;
mod udp;
mod wrap;

#[cfg(target_os = "linux")]
pub use softtimers::HeldBack;
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
pub use pacer::Pacer;
pub use shared_pacer::{KeyedPacer, SharedPacer};
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
