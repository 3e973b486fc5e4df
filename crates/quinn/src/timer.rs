//! Timers for quinn, of the one driver that serves the whole runtime: [`Timer`].

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::AsyncTimer;
use softtimers_tokio::{Sleep, sleep_until};

/// A soft timer that quinn can use: for its own time-outs, and for transmits that wait at the gate.
#[derive(Debug)]
pub(crate) struct Timer(Sleep);

impl Timer {
    pub(crate) fn new(at: Instant) -> Self {
        Timer(sleep_until(at.into()))
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
