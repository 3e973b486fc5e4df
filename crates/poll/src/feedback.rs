//! [`Feedback`]: stops input while the next queue is full.
//!
//! A packet that the next stage cannot take is wasted work. So input stops when a queue is three quarters
//! full and resumes when a quarter is left; packets that arrive meanwhile wait in the device, and are dropped
//! there before any work is done on them (livelock §6.6.1):
//!
//! ```text
//!   depth  high ─ ─ ─ ─╱╲─ ─ ─ ─ ─ ─ ─ ─       shut here
//!                     ╱  ╲      ╱
//!          low  ─ ─ ╱─ ─ ─╲─ ─╱─ ─ ─ ─ ─       open here, or when the time-out has passed:
//!                ╱          ╲╱                 the consumer may hang, and others need packets too
//! ```
//!
//! The time-out must exceed the time to drain the queue from the high to the low mark, or it reopens input while
//! the consumer is merely busy: at the paper's 1 ms it did so 973 times of 973 in a pipeline on Linux, at 10 ms
//! hardly ever. The default learns the drain time.
//!
//! If the queue is not the only consumer, shutting input keeps packets from the others too; the time-out
//! bounds that, and each queue has its own `Feedback`.

use core::time::Duration;

use super::{Input, PolicyError, Preset};
use softtimers_core::{Percent, Timestamp};

/// The marks of a queue and its time-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedbackConfig {
    /// Input is shut when this many packets wait, or more.
    pub high: u32,
    /// Input opens when this many are left, or fewer; `None`: only by the time-out.
    pub low: Option<u32>,
    /// Input opens after this time.
    pub time_out: TimeOut,
}

/// The longest that input stays shut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeOut {
    /// Input opens this long after it was shut.
    After(Duration),
    /// Four times the recent drain time of the queue, within these bounds.
    Drain {
        /// The lower bound; also used before anything was learnt.
        least: Duration,
        /// The upper bound: how long other consumers can lose packets because one hangs.
        most: Duration,
    },
}

impl FeedbackConfig {
    /// For a queue with room for `capacity` packets: marks at 75% and 25%. The paper reopens after 1 ms, a tick
    /// of its clock; the default after four times the time to drain, 10 to 100 ms.
    ///
    /// # Errors
    /// [`PolicyError`] if the queue is too short for two marks: fewer than two packets.
    ///
    /// ```
    /// use softtimers_poll::{FeedbackConfig, Preset};
    ///
    /// let paper = FeedbackConfig::preset(Preset::Paper, 32)?;
    /// assert_eq!((paper.high, paper.low), (24, Some(8)));
    /// # Ok::<(), softtimers_poll::PolicyError>(())
    /// ```
    pub fn preset(preset: Preset, capacity: u32) -> Result<Self, PolicyError> {
        let time_out = match preset {
            Preset::Paper => TimeOut::After(PAPER_TIME_OUT),
            Preset::Measured => TimeOut::Drain { least: LEAST_TIME_OUT, most: MOST_TIME_OUT },
        };
        let share = |percent| Percent::new(percent).map_or(capacity, |share| share_of(share, capacity));
        let marks = FeedbackConfig { high: share(75).max(1), low: Some(share(25)), time_out };
        marks.checked(capacity)
    }

    /// The paper's network monitor (§9): shut when the queue has room for fewer than `room` packets, opened by
    /// a time-out of 1 ms alone.
    ///
    /// # Errors
    /// [`PolicyError`] if the queue never has that much room.
    ///
    /// ```
    /// use softtimers_poll::FeedbackConfig;
    ///
    /// let monitor = FeedbackConfig::monitor(32, 8)?;
    /// assert_eq!((monitor.high, monitor.low), (25, None));
    /// # Ok::<(), softtimers_poll::PolicyError>(())
    /// ```
    pub fn monitor(capacity: u32, room: u32) -> Result<Self, PolicyError> {
        let high = capacity.checked_sub(room).map_or(0, |most| most + 1);
        FeedbackConfig { high, low: None, time_out: TimeOut::After(PAPER_TIME_OUT) }.checked(capacity)
    }

    /// Returns these marks, if they are valid for a queue of `capacity` packets.
    ///
    /// # Errors
    /// [`PolicyError`] unless low < high ≤ capacity.
    pub fn checked(self, capacity: u32) -> Result<Self, PolicyError> {
        let FeedbackConfig { high, low, .. } = self;
        if high == 0 || high > capacity || low.is_some_and(|low| low >= high) {
            return Err(PolicyError::Marks { capacity, high, low });
        }
        Ok(self)
    }
}

/// The state of one queue's feedback.
///
/// Tell it the depth after packets were [`offered`](Feedback::offered) to the queue, and after some were
/// [`drained`](Feedback::drained); ask for the [`input`](Feedback::input) when its time-out has come. Only
/// offered packets shut input, so that a time-out always lets some through, also to a queue that is still
/// full.
///
/// ```
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{Feedback, FeedbackConfig, Input, Preset};
///
/// let at = Timestamp::from_micros;
/// let mut screend = Feedback::new(FeedbackConfig::preset(Preset::Paper, 32)?);
/// assert_eq!(screend.offered(at(0), 23), Input::Open);
/// assert_eq!(screend.offered(at(10), 24), Input::Shut(at(1_010)));
/// assert_eq!(screend.drained(at(400), 9), Input::Shut(at(1_010)));
/// assert_eq!(screend.drained(at(430), 8), Input::Open);
/// # Ok::<(), softtimers_poll::PolicyError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    config: FeedbackConfig,
    shut: Option<Shut>,
    /// The learnt time to drain from the high to the low mark.
    drain: Duration,
    stats: FeedbackStats,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shut {
    since: Timestamp,
    until: Timestamp,
    depth: u32,
    drained: bool,
}

/// Counts of how often input was shut, and why it opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FeedbackStats {
    /// Times that input was shut.
    pub shut: u64,
    /// Times that the low mark opened it.
    pub resumed: u64,
    /// Times that the time-out did.
    pub timed_out: u64,
    /// Time that it was shut.
    pub shut_time: Duration,
}

impl Feedback {
    /// Makes a feedback whose input is open.
    pub const fn new(config: FeedbackConfig) -> Self {
        let stats = FeedbackStats { shut: 0, resumed: 0, timed_out: 0, shut_time: Duration::ZERO };
        Feedback { config, shut: None, drain: Duration::ZERO, stats }
    }

    /// Records that packets were put into the queue, or dropped because it was full; `depth` wait now.
    pub fn offered(&mut self, now: Timestamp, depth: u32) -> Input {
        if self.input(now) == Input::Open && depth >= self.config.high {
            let until = now + self.time_out();
            self.shut = Some(Shut { since: now, until, depth, drained: false });
            self.stats.shut += 1;
        }
        self.input(now)
    }

    /// Records that the consumer took some; `depth` wait now.
    pub fn drained(&mut self, now: Timestamp, depth: u32) -> Input {
        if let Some(shut) = &mut self.shut {
            shut.drained |= depth < shut.depth;
            if self.config.low.is_some_and(|low| depth <= low) {
                let took = now.saturating_duration_since(shut.since);
                self.learn(took);
                self.stats.resumed += 1;
                self.open(now);
            }
        }
        self.input(now)
    }

    /// Returns whether input may go on; a time-out that has passed opens it.
    pub fn input(&mut self, now: Timestamp) -> Input {
        match self.shut {
            None => Input::Open,
            Some(shut) if shut.until > now => Input::Shut(shut.until),
            Some(shut) => {
                // A consumer that has taken some is slow and does not hang: it gets more time next time.
                if shut.drained && self.config.low.is_some() {
                    self.drain = self.drain.max(shut.until.saturating_duration_since(shut.since));
                }
                self.stats.timed_out += 1;
                self.open(now);
                Input::Open
            }
        }
    }

    /// Returns the longest that input would be shut, if it were shut now.
    pub fn time_out(&self) -> Duration {
        match self.config.time_out {
            TimeOut::After(time) => time,
            TimeOut::Drain { least, most } => self.drain.saturating_mul(DRAINS).max(least).min(most),
        }
    }

    /// Returns the counters since the beginning.
    pub fn stats(&self) -> FeedbackStats {
        self.stats
    }

    fn open(&mut self, now: Timestamp) {
        if let Some(shut) = self.shut.take() {
            self.stats.shut_time += now.saturating_duration_since(shut.since);
        }
    }

    /// Learns a drain time: a longer one at once, a shorter one by an eighth at a time.
    fn learn(&mut self, took: Duration) {
        self.drain = if took > self.drain { took } else { self.drain - (self.drain - took) / 8 };
    }
}

fn share_of(share: Percent, capacity: u32) -> u32 {
    u32::try_from(share.of_units(capacity.into())).unwrap_or(capacity)
}

/// A tick of the paper's clock.
const PAPER_TIME_OUT: Duration = Duration::from_millis(1);
/// More than two slices of the scheduler, for which a consumer on its own thread may wait.
const LEAST_TIME_OUT: Duration = Duration::from_millis(10);
const MOST_TIME_OUT: Duration = Duration::from_millis(100);
/// A consumer that is this many times slower than recently counts as hanging.
const DRAINS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn paper() -> Feedback {
        Feedback::new(FeedbackConfig::preset(Preset::Paper, 32).unwrap())
    }

    #[test]
    fn hysteresis_is_at_24_and_8_of_32() {
        let mut feedback = paper();
        let mut time = 0;
        // Up to the high mark it is open, down to the low one shut, twice.
        for _ in 0..2 {
            for depth in 0..24 {
                assert_eq!(feedback.offered(at(time), depth), Input::Open, "{depth}");
            }
            let until = at(time + 1_000);
            assert_eq!(feedback.offered(at(time), 24), Input::Shut(until));
            for depth in (9..32).rev() {
                assert_eq!(feedback.drained(at(time + 1), depth), Input::Shut(until), "{depth}");
            }
            assert_eq!(feedback.drained(at(time + 2), 8), Input::Open);
            time += 10;
        }
        let FeedbackStats { shut, resumed, timed_out, shut_time } = feedback.stats();
        assert_eq!((shut, resumed, timed_out, shut_time), (2, 2, 0, Duration::from_micros(4)));
    }

    #[test]
    fn a_hung_consumer_shuts_input_for_a_time_out_at_once() {
        let mut feedback = paper();
        let mut opened = 0;
        for micros in 0..10_000 {
            if feedback.input(at(micros)).is_open(at(micros)) {
                opened += 1;
                // The queue is full and stays full; the packets of one turn are dropped there.
                assert_eq!(feedback.offered(at(micros), 32), Input::Shut(at(micros + 1_000)));
            }
        }
        assert_eq!(opened, 10, "once each millisecond");
        assert_eq!(feedback.stats().timed_out, 9);
    }

    #[test]
    fn the_monitor_leaves_room_for_eight_and_knows_no_low_mark() {
        let mut monitor = Feedback::new(FeedbackConfig::monitor(32, 8).unwrap());
        assert_eq!(monitor.offered(at(0), 24), Input::Open, "room for eight");
        assert_eq!(monitor.offered(at(1), 25), Input::Shut(at(1_001)));
        assert_eq!(monitor.drained(at(2), 0), Input::Shut(at(1_001)), "an empty queue does not open it");
        assert_eq!(monitor.input(at(1_001)), Input::Open);
    }

    #[test]
    fn the_time_to_drain_is_learnt() {
        let mut feedback = Feedback::new(FeedbackConfig::preset(Preset::Measured, 1_024).unwrap());
        assert_eq!(feedback.time_out(), Duration::from_millis(10));
        feedback.offered(at(0), 768);
        feedback.drained(at(6_000), 256);
        assert_eq!(feedback.time_out(), Duration::from_millis(24));
        feedback.offered(at(6_000), 768);
        feedback.drained(at(8_000), 256);
        assert_eq!(feedback.time_out(), Duration::from_millis(22), "an eighth of the 4 ms less");
        // A slower consumer that makes progress gets more time; one that makes none does not.
        feedback.offered(at(10_000), 768);
        feedback.drained(at(30_000), 400);
        assert_eq!(feedback.input(at(32_000)), Input::Open);
        assert_eq!(feedback.time_out(), Duration::from_millis(88));
        feedback.offered(at(40_000), 768);
        feedback.drained(at(50_000), 768);
        assert_eq!(feedback.input(at(128_000)), Input::Open);
        assert_eq!(feedback.time_out(), Duration::from_millis(88));
    }

    #[test]
    fn marks_that_make_no_sense_are_refused() {
        let message = |high, low| {
            let config = FeedbackConfig { high, low, time_out: TimeOut::After(Duration::ZERO) };
            config.checked(32).unwrap_err()
        };
        use alloc::string::ToString;
        assert_eq!(message(8, Some(8)).to_string(), "marks 8 and 8 of a queue of 32: low < high ≤ capacity");
        assert_eq!(message(33, None).to_string(), "a mark of 33 of a queue of 32: 1 ≤ high ≤ capacity");
        let whole = FeedbackConfig { high: 32, low: None, time_out: TimeOut::After(Duration::ZERO) };
        assert_eq!(whole.checked(32), Ok(whole));
        assert!(FeedbackConfig::preset(Preset::Paper, 0).is_err());
        assert!(FeedbackConfig::preset(Preset::Paper, 2).is_ok());
        assert!(FeedbackConfig::monitor(4, 8).is_err());
    }
}
