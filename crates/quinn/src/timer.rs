//! [`Timer`]: timers for quinn, served by the runtime's one driver.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quinn::AsyncTimer;
use softtimers_tokio::{Slack, Sleep, sleep_until};

/// A soft timer that quinn can use: for its own time-outs, and for transmits that wait at the gate.
#[derive(Debug)]
pub(crate) struct Timer(Sleep);

impl Timer {
    /// Makes a timer for time-outs, which may be a little late to share a wake-up with others.
    pub(crate) fn new(at: Instant) -> Self {
        Timer(sleep_until(at.into()))
    }

    /// Moves it to a release: from then on any poll of the runtime's connections serves it, and the kernel at the end of
    /// the slack.
    pub(crate) fn wake_within(&mut self, from: Instant, slack: Duration) {
        self.0.reset_within(from.into(), Slack::within(slack));
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.0.reset(at.into());
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(Pin::new(&mut self.0), cx)
    }
}
