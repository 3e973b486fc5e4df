//! Timers for quinn: [`Timer`].

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::AsyncTimer;

/// A timer.
#[derive(Debug)]
pub(crate) struct Timer(Pin<Box<tokio::time::Sleep>>);

impl Timer {
    pub(crate) fn new(at: Instant) -> Self {
        Timer(Box::pin(tokio::time::sleep_until(at.into())))
    }

    pub(crate) fn set(&mut self, at: Instant) {
        self.0.as_mut().reset(at.into());
    }

    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        std::future::Future::poll(self.0.as_mut(), cx)
    }
}

impl AsyncTimer for Timer {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        self.get_mut().set(at);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().poll_expired(cx)
    }
}
