//! A virtual clock for tests, which keeps microseconds.
//!
//! tokio's paused clock goes in whole milliseconds: a `sleep` of 100 µs takes one, and an `interval` of 300 µs ticks at
//! 0, 1, 1, 1 and 2 ms. So code that works in microseconds runs in bursts in its tests. Here the paused clock moves to
//! each timer of this crate exactly, in order, as soon as the runtime has nothing to do:
//!
//! ```text
//!   interval of 300 µs      │0        │1 ms      │2 ms
//!   tokio, paused           ●         ●●●        ●●●
//!   softtimers, test        ●  ●  ●  ●  ●  ●  ●  ●
//! ```
//!
//! ```
//! use std::time::Duration;
//! use softtimers_tokio::{Instant, interval, sleep, test};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async { // #[tokio::test]
//! test::pause();
//! let start = Instant::now();
//! sleep(Duration::from_micros(100)).await;
//! assert_eq!(start.elapsed(), Duration::from_micros(100)); // exactly, and at once
//!
//! let ticking = tokio::spawn(async {
//!     let mut ticks = interval(Duration::from_micros(300));
//!     for _ in 0..1_000 {
//!         ticks.tick().await;
//!     }
//! });
//! test::advance(Duration::from_millis(300)).await;
//! assert!(ticking.is_finished());
//! # });
//! ```
//!
//! `tokio::time::Instant` shows this time, and tokio's own timers obey it in their milliseconds. Real I/O takes no
//! virtual time: while the runtime waits for a socket it has nothing to do, so the clock goes on to the next timer, as
//! tokio's does. `tokio::time::resume` ends it; from then on these timers keep milliseconds.

use std::time::Duration;

use softtimers_core::Slack;

use crate::clock;
use crate::driver::Driver;

/// Pauses the clock of this `current_thread` runtime, and has it move to each timer of this crate exactly. Call it before
/// the runtime's first timer; the clock may be paused already (`start_paused = true`).
///
/// # Panics
/// If the runtime has had a timer of this crate, is not `current_thread`, or has no I/O or time enabled.
#[track_caller]
pub fn pause() {
    Driver::start_virtual();
}

/// Lets `duration` of virtual time pass: all timers on the way fire, each at its time, and what they wake runs. Returns
/// when nothing is left to do at the new time.
///
/// `tokio::time::advance` jumps instead, and leaves the tasks to be run later.
///
/// # Panics
/// Without [`pause`].
pub async fn advance(duration: Duration) {
    let driver = Driver::current();
    assert!(driver.is_virtual(), "advance without `softtimers_tokio::test::pause`");
    let until = clock::now() + duration;
    crate::sleep_until(until).with_slack(Slack::EXACT).await;
    driver.settled().await;
}
