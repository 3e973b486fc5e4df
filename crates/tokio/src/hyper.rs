//! [`HyperTimer`]: hyper's time-outs with these timers.
//!
//! hyper has no timers of its own. It takes a [`hyper::rt::Timer`] for two things: an HTTP/1 server gives up
//! on a request head that does not arrive in time, by default 30 s, and HTTP/2 pings a silent connection.
//! This one puts both into the runtime's soft timers. Requests do not wait for them, so it makes none faster.
//! hyper 1.12 makes a sleep for each head that it has to wait for, and drops it when the head arrives; for
//! the pings it moves one sleep a connection, which is one write ([`Sleep::reset`]).

use std::pin::Pin;
use std::time::{Duration, Instant};

use softtimers_core::Slack;

use crate::clock;
use crate::sleep::{Sleep, sleep, sleep_until};

/// A [`hyper::rt::Timer`] that replaces hyper-util's `TokioTimer`.
///
/// ```
/// use softtimers_tokio::HyperTimer;
/// use std::time::Duration;
///
/// let mut server = hyper::server::conn::http1::Builder::new();
/// server.timer(HyperTimer::new()).header_read_timeout(Duration::from_millis(500));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HyperTimer {
    slack: Slack,
}

impl HyperTimer {
    /// Makes a timer whose sleeps have [`Slack::DEFAULT`].
    pub const fn new() -> Self {
        HyperTimer { slack: Slack::DEFAULT }
    }

    /// Sets another slack: time-outs that need no precision share their wake-ups with other timers.
    #[must_use]
    pub const fn with_slack(mut self, slack: Slack) -> Self {
        self.slack = slack;
        self
    }
}

impl hyper::rt::Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(sleep(duration).with_slack(self.slack))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(sleep_until(deadline.into()).with_slack(self.slack))
    }

    fn now(&self) -> Instant {
        clock::now().into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.get_mut().reset(deadline.into()),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// It may be polled by one task and then by another, and moved.
impl hyper::rt::Sleep for Sleep {}

#[cfg(test)]
mod tests {
    use hyper::rt::Timer;

    use super::*;

    /// For HTTP/2's pings hyper moves one sleep again and again; it does not make another.
    #[tokio::test]
    async fn a_sleep_is_moved_in_its_place() {
        let timer = HyperTimer::new().with_slack(Slack::millis(1));
        let mut sleep = timer.sleep(Duration::from_secs(3_600));
        let place = std::ptr::from_ref(&*sleep).cast::<()>();
        let deadline = timer.now() + Duration::from_millis(2);
        timer.reset(&mut sleep, deadline);
        assert_eq!(std::ptr::from_ref(&*sleep).cast::<()>(), place);
        sleep.await;
        assert!(timer.now() >= deadline);
    }

    /// A sleep of another timer is replaced.
    #[tokio::test]
    async fn a_sleep_of_another_timer_is_replaced() {
        struct Never;
        impl std::future::Future for Never {
            type Output = ();

            fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
                std::task::Poll::Pending
            }
        }
        impl hyper::rt::Sleep for Never {}

        let timer = HyperTimer::new();
        let mut sleep: Pin<Box<dyn hyper::rt::Sleep>> = Box::pin(Never);
        timer.reset(&mut sleep, timer.now());
        sleep.await;
    }
}
