//! [`Progress`]: detects input without useful progress.
//!
//! Livelock is a state in which input persists without useful progress (livelock §4.2). A program that counts
//! both can detect it, without marks on queues: when input has continued for a while and the layers above
//! have finished nothing, input is shut until they have, or for a pause (§5.1).
//!
//! ```text
//!   taken   ││││││││││││││││││ shut · · · ││││
//!   done    │ │              ◀─ window ─▶ │ │      opened by progress, or by the end of the pause
//! ```

use core::time::Duration;

use super::{Input, Preset};
use softtimers_core::Timestamp;

/// The window of input without progress that counts as livelock, and the pause that follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgressConfig {
    /// Input without progress for this long counts as livelock.
    pub window: Duration,
    /// How long input is shut, unless there is progress before; zero: livelock is only detected.
    pub pause: Duration,
}

impl ProgressConfig {
    /// The paper names no times; its preset uses one tick of its clock for both. The default waits for more
    /// than two slices of the scheduler, in which a consumer may simply not have run.
    pub const fn preset(preset: Preset) -> Self {
        let time = match preset {
            Preset::Paper => Duration::from_millis(1),
            Preset::Measured => Duration::from_millis(10),
        };
        ProgressConfig { window: time, pause: time }
    }

    /// Only detects missing progress, and never shuts input.
    pub const fn detector(window: Duration) -> Self {
        ProgressConfig { window, pause: Duration::ZERO }
    }
}

impl Default for ProgressConfig {
    fn default() -> Self {
        ProgressConfig::preset(Preset::Measured)
    }
}

/// Input and progress of one consumer.
///
/// ```
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{Input, Preset, Progress, ProgressConfig};
///
/// let at = Timestamp::from_micros;
/// let mut progress = Progress::new(ProgressConfig::preset(Preset::Paper));
/// assert_eq!(progress.observe(at(0), 10, 10), Input::Open);
/// assert_eq!(progress.observe(at(500), 20, 10), Input::Open);
/// assert_eq!(progress.observe(at(1_500), 40, 10), Input::Shut(at(2_500)));
/// assert!(progress.is_stalled());
/// assert_eq!(progress.observe(at(1_700), 40, 11), Input::Open);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    config: ProgressConfig,
    taken: u64,
    done: u64,
    /// The time since which input came without progress.
    fruitless: Option<Timestamp>,
    last_input: Timestamp,
    stalled: bool,
    shut: Option<Timestamp>,
    episodes: u64,
}

impl Progress {
    /// Makes a watch without history.
    pub const fn new(config: ProgressConfig) -> Self {
        Progress {
            config,
            taken: 0,
            done: 0,
            fruitless: None,
            last_input: Timestamp::ZERO,
            stalled: false,
            shut: None,
            episodes: 0,
        }
    }

    /// Records the totals so far: packets taken in, including those dropped because the next queue was full;
    /// and packets finished.
    pub fn observe(&mut self, now: Timestamp, taken: u64, done: u64) -> Input {
        let (came, went) = (taken > self.taken, done > self.done);
        (self.taken, self.done) = (taken, done);
        if came {
            self.last_input = now;
        }
        let input_ended = now.saturating_duration_since(self.last_input) >= self.config.window;
        if went || (input_ended && !came) {
            (self.fruitless, self.shut, self.stalled) = (None, None, false);
            return Input::Open;
        }
        if came && self.fruitless.is_none() {
            self.fruitless = Some(now);
        }
        if self.fruitless.is_some_and(|since| now.saturating_duration_since(since) >= self.config.window) {
            self.episodes += u64::from(!self.stalled);
            self.stalled = true;
            // The pause lets the layers above run; after it they have a window again.
            self.fruitless = Some(now + self.config.pause);
            self.shut = (!self.config.pause.is_zero()).then(|| now + self.config.pause);
        }
        self.input(now)
    }

    /// Returns whether input may go on.
    pub fn input(&mut self, now: Timestamp) -> Input {
        self.shut = self.shut.filter(|&until| until > now);
        self.shut.map_or(Input::Open, Input::Shut)
    }

    /// Returns whether there is livelock now.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Returns how often input went on without progress.
    pub fn episodes(&self) -> u64 {
        self.episodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1_000 * millis)
    }

    #[test]
    fn livelock_is_noticed_and_over_when_the_load_drops() {
        let mut detector = Progress::new(ProgressConfig::detector(Duration::from_millis(10)));
        for time in 0..100 {
            assert_eq!(detector.observe(at(time), 14 * (time + 1), 0), Input::Open);
        }
        assert!(detector.is_stalled());
        assert_eq!(detector.episodes(), 1);
        // The same totals: no more input.
        for time in 100..110 {
            detector.observe(at(time), 1_400, 0);
        }
        assert!(!detector.is_stalled());
    }

    #[test]
    fn progress_or_the_pause_opens_input() {
        let mut progress = Progress::new(ProgressConfig::default());
        progress.observe(at(0), 1, 0);
        assert_eq!(progress.observe(at(10), 2, 0), Input::Shut(at(20)));
        assert_eq!(progress.input(at(19)), Input::Shut(at(20)));
        assert_eq!(progress.input(at(20)), Input::Open);
        // Still no progress: again after a window.
        assert_eq!(progress.observe(at(21), 3, 0), Input::Open);
        assert_eq!(progress.observe(at(30), 4, 0), Input::Shut(at(40)));
        assert_eq!(progress.observe(at(31), 4, 1), Input::Open);
        assert_eq!(progress.episodes(), 1, "one livelock, until there was progress");
    }

    #[test]
    fn input_that_rests_for_less_than_the_window_goes_on() {
        let mut progress = Progress::new(ProgressConfig::default());
        assert_eq!(progress.episodes(), 0);
        progress.observe(at(0), 1, 0);
        progress.observe(at(5), 1, 0);
        progress.observe(at(9), 2, 0);
        assert_eq!(progress.observe(at(10), 3, 0), Input::Shut(at(20)));
        assert_eq!(progress.observe(at(11), 3, 1), Input::Open);
        progress.observe(at(12), 4, 1);
        assert_eq!(progress.observe(at(22), 4, 1), Input::Open, "nothing has come for a whole window");
        assert_eq!(progress.observe(at(23), 5, 1), Input::Open);
        assert_eq!(progress.observe(at(33), 6, 1), Input::Shut(at(43)));
        assert_eq!(progress.episodes(), 2);
    }

    #[test]
    fn a_consumer_that_finishes_now_and_then_is_no_livelock() {
        let mut progress = Progress::new(ProgressConfig::default());
        for time in 0..1_000 {
            assert_eq!(progress.observe(at(time), 50 * time, time / 9), Input::Open);
        }
    }
}
