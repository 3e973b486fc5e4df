//! A timer of 20 ms in the receiver's loop, which shows whether a flood leaves the loop any time: [`Beat`].

use std::time::Duration;

use softtimers::{Config, Slack, SoftTimers, Timestamp, TriggerState};

use super::window::Window;

/// Fires every 20 ms if it is checked. A period that passes without a check is lost.
#[derive(Debug)]
pub(crate) struct Beat {
    timers: SoftTimers<()>,
    fired: u64,
}

impl Beat {
    pub(crate) fn new(now: Timestamp) -> Self {
        let mut timers = SoftTimers::new(Config::default());
        timers.schedule(now, PERIOD, Slack::EXACT, ());
        Beat { timers, fired: 0 }
    }

    /// Fires if it is due, and returns the next due time.
    pub(crate) fn fire(&mut self, window: &Window, now: Timestamp) -> Option<Timestamp> {
        let turn = self.timers.trigger(TriggerState::HandlerExit, now);
        while let Some(fired) = self.timers.next(&turn) {
            let lost = (fired.lateness.as_nanos() / PERIOD.as_nanos()) as u32;
            self.timers.schedule_at(now, fired.due + PERIOD * (lost + 1), Slack::EXACT, ());
            self.fired += u64::from(window.is_on(now) == Some(true));
        }
        self.timers.poll_at()
    }

    /// Returns the share of its periods within the window that fired; `None` if no whole period lies in it.
    pub(crate) fn share(&self, window: &Window) -> Option<f64> {
        let times = (window.length().as_nanos() / PERIOD.as_nanos()) as u64;
        (times > 0).then(|| self.fired.min(times) as f64 / times as f64)
    }
}

const PERIOD: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_nobody_looked_at_are_lost() {
        let at = |millis: u64| Timestamp::from_micros(1_000 * millis);
        let (mut beat, window) = (Beat::new(at(1)), Window::new(Duration::from_millis(200)));
        window.begin(at(10));
        for now in [20, 21, 45, 90, 141, 142] {
            beat.fire(&window, at(now));
        }
        // For 21, 41, 61 and 101; 81, 121 and 141 had passed when it was checked.
        assert_eq!(beat.share(&window), Some(0.4));
        assert_eq!(beat.share(&Window::new(Duration::from_millis(19))), None);
    }
}
