//! Loops that notice a due time when a wait returns, or after a handler: programs without a timer library.

use std::io;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_measure::class::Class;
use softtimers_measure::failure::Failure;

use super::engine::Engine;
use super::plain_loop::{self, Wait};
use super::work_loop::{self, Descriptors};
use crate::session::Session;

/// Keeps due times in a heap and reads the clock after every handler: the five-line loop.
pub(super) const LOOP: Engine = Engine::new(
    "loop",
    "The loop checks a heap of due times after each handler: what five lines do without softtimers",
    five_lines,
);

/// The same loop, with a clock check in the middle of answering more than 8 requests, as in softtimers' loop.
pub(super) const LOOP_INSIDE: Engine = Engine::new(
    "loop-inside",
    "As loop, and it checks in the middle of answering more than 8 requests, too",
    |session| plain_loop::run(session, |_| Ok(TimeOut::<true, true>(|left| left))),
);

/// A time-out in nanoseconds.
pub(super) const PWAIT2: Engine =
    Engine::new("pwait2", "The wait's own time-out, in nanoseconds (epoll_pwait2)", |session| {
        plain_loop::run(session, |_| Ok(TimeOut::<false, false>(|left| left)))
    });

/// A time-out in milliseconds.
pub(super) const MS: Engine = Engine::new(
    "ms",
    "The wait's own time-out, rounded up to whole milliseconds, as most event loops have it",
    |session| {
        let whole = |left: Duration| Duration::from_millis(left.as_nanos().div_ceil(1_000_000) as u64);
        plain_loop::run(session, |_| Ok(TimeOut::<false, false>(whole)))
    },
);

/// A busy loop that reads the clock until a datagram is due.
pub(super) const SPIN: Engine = Engine {
    check: |_| {
        let class = Class::current();
        if class.may_spin() {
            return Ok(());
        }
        Err(Failure::not_possible(format_args!("--timer spin: {class}, so it must not spin")))
    },
    ..Engine::new("spin", "The loop of --timer loop, which never sleeps", |session| {
        plain_loop::run(session, |_| Ok(TimeOut::<true, false>(|_| Duration::ZERO)))
    })
};

/// Sends nothing: only works, the baseline for the throughput that the others retain.
pub(super) const OFF: Engine = Engine {
    sends: false,
    drives_several: false,
    ..Engine::new(
        "off",
        "No timer: a plain epoll loop does only the work, as a baseline for the other timers",
        |session| work_loop::run(session, Descriptors::Unseen),
    )
};

/// Drives a session by the five-line loop.
pub(super) fn five_lines(session: &mut Session) -> io::Result<()> {
    plain_loop::run(session, |_| Ok(TimeOut::<true, false>(|left| left)))
}

/// The time-out of a wait by the time that is left, and whether the clock is read after handlers and inside them.
struct TimeOut<const AFTER: bool, const INSIDE: bool>(fn(Duration) -> Duration);

impl<const AFTER: bool, const INSIDE: bool> Wait for TimeOut<AFTER, INSIDE> {
    const CHECKS_AFTER_HANDLERS: bool = AFTER;
    const CHECKS_INSIDE: bool = INSIDE;

    fn timeout(&mut self, left: Duration, _: Timestamp) -> io::Result<Option<Duration>> {
        Ok(Some((self.0)(left)))
    }
}
