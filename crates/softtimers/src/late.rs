//! Why was this late? [`LateLog`] answers by kind.
//!
//! Lateness alone does not tell what to change. A handler that ran too long wants a trigger state
//! inside it; a scheduler that gave the core to somebody else wants a shorter slice or a lower load;
//! a host that took the core away wants another machine. The kernel keeps the figures that tell them
//! apart, per thread:
//!
//! ```text
//!   wall time since the last sample = running + waiting for the core + neither
//!                                        │            │                  ├─ asleep: the wake-up was late
//!                                        │            │                  ├─ /proc/stat steal: the host
//!                                     Handler     Scheduler              └─ else: stopped by a signal or
//!                                                                           the host (not accounted)
//! ```
//!
//! Samples cost about 3 µs, so they are taken at most every 10 ms and when something was late.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers_core::{Timestamp, TriggerState};

/// What kept an event from running at its due time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LateCause {
    /// This thread was running: a handler took that long, or many were due at once.
    Handler,
    /// The thread was asleep and woke late.
    Wakeup,
    /// The thread was ready to run, and the scheduler ran another one.
    Scheduler,
    /// The host ran something else on this virtual core, and says so.
    Steal,
    /// Neither running nor ready nor asleep: stopped by a signal or a debugger, or taken off its core
    /// by a host that does not say so.
    Stopped,
}

impl LateCause {
    /// Every cause, in the order of [`LateCounts`].
    pub const ALL: [LateCause; 5] = {
        use LateCause::*;
        [Handler, Wakeup, Scheduler, Steal, Stopped]
    };

    /// A name for reports, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            LateCause::Handler => "handler",
            LateCause::Wakeup => "wakeup",
            LateCause::Scheduler => "scheduler",
            LateCause::Steal => "steal",
            LateCause::Stopped => "stopped",
        }
    }
}

/// How many events were late for one cause, and by how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LateCounts {
    /// Events later than the threshold.
    pub events: u64,
    /// The latest of them.
    pub longest: Duration,
}

/// Attributes late events to a cause. Belongs to the thread that made it.
#[derive(Debug)]
pub struct LateLog {
    threshold: Duration,
    schedstat: Option<File>,
    stat: Option<File>,
    last: Sample,
    /// The cause of the pause that ended at this sample; events late in one turn share it.
    cause: Option<(Timestamp, LateCause)>,
    counts: [LateCounts; LateCause::ALL.len()],
}

/// Cumulative times of this thread, and of the whole machine for steal.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    wall: Timestamp,
    running: Duration,
    waiting: Duration,
    stolen: Duration,
}

impl LateLog {
    /// Counts events that are later than `threshold`: a millisecond or more, since each pause that
    /// reaches it costs about 3 µs to attribute.
    ///
    /// Where the kernel does not account a figure (no `/proc`, no schedstats), that cause is never
    /// named.
    pub fn new(threshold: Duration, now: Timestamp) -> Self {
        let mut log = LateLog {
            threshold,
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            stat: File::open("/proc/stat").ok(),
            last: Sample::default(),
            cause: None,
            counts: Default::default(),
        };
        log.last = log.sample(now);
        log
    }

    /// An event ran at `now`, `lateness` after its due time, found by `source`.
    pub fn ran(&mut self, now: Timestamp, lateness: Duration, source: TriggerState) {
        if lateness <= self.threshold {
            if now.saturating_duration_since(self.last.wall) > SAMPLE_EVERY {
                self.last = self.sample(now);
            }
            return;
        }
        let cause = match self.cause {
            Some((at, cause)) if now.saturating_duration_since(at) < self.threshold => cause,
            _ => {
                let sample = self.sample(now);
                let cause = blame(&self.last, &sample, lateness, source);
                self.last = sample;
                self.cause = Some((now, cause));
                cause
            }
        };
        let counts = &mut self.counts[cause as usize];
        counts.events += 1;
        counts.longest = counts.longest.max(lateness);
    }

    /// Each cause with its counts.
    pub fn iter(&self) -> impl Iterator<Item = (LateCause, LateCounts)> + '_ {
        LateCause::ALL.into_iter().zip(self.counts)
    }

    fn sample(&self, wall: Timestamp) -> Sample {
        let running = clock_gettime(ClockId::ThreadCPUTime);
        Sample {
            wall,
            running: Duration::try_from(running).unwrap_or_default(),
            waiting: self.schedstat.as_ref().and_then(|file| run_delay(file).ok()).unwrap_or_default(),
            stolen: self.stat.as_ref().and_then(|file| steal(file).ok()).unwrap_or_default(),
        }
    }
}

fn blame(before: &Sample, after: &Sample, lateness: Duration, source: TriggerState) -> LateCause {
    let most = lateness / 2;
    let wall = after.wall.saturating_duration_since(before.wall);
    let running = after.running.saturating_sub(before.running);
    if after.waiting.saturating_sub(before.waiting) > most {
        LateCause::Scheduler
    } else if after.stolen.saturating_sub(before.stolen) > most {
        LateCause::Steal
    } else if wall.saturating_sub(running) <= most {
        LateCause::Handler
    } else if source == TriggerState::Backup && lateness < STOPPED_FROM {
        LateCause::Wakeup
    } else {
        LateCause::Stopped
    }
}

/// The second figure of `schedstat`: nanoseconds spent runnable but not running.
fn run_delay(file: &File) -> io::Result<Duration> {
    let mut text = [0; 96];
    let read = file.read_at(&mut text, 0)?;
    number(&text[..read], 1).map(Duration::from_nanos)
}

/// The eighth figure of the first line of `/proc/stat`, in hundredths of a second, over all cores.
fn steal(file: &File) -> io::Result<Duration> {
    let mut text = [0; 256];
    let read = file.read_at(&mut text, 0)?;
    number(&text[..read], 8).map(|ticks| Duration::from_millis(ticks.saturating_mul(10)))
}

fn number(text: &[u8], at: usize) -> io::Result<u64> {
    let text = std::str::from_utf8(text).map_err(io::Error::other)?;
    let word = text.split_ascii_whitespace().nth(at).ok_or(io::ErrorKind::UnexpectedEof)?;
    word.parse().map_err(io::Error::other)
}

/// Short enough that half of a millisecond's pause stands out among what accrued before it.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// No wake-up alone takes this long; a sleeper that is this late was stopped.
const STOPPED_FROM: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(wall: u64, running: u64, waiting: u64, stolen: u64) -> Sample {
        let ms = Duration::from_millis;
        let wall = Timestamp::ZERO + ms(wall);
        Sample { wall, running: ms(running), waiting: ms(waiting), stolen: ms(stolen) }
    }

    #[test]
    fn each_cause_is_told_by_its_figure() {
        let blamed =
            |after: Sample, source| blame(&sample(0, 0, 0, 0), &after, Duration::from_millis(10), source);
        assert_eq!(blamed(sample(15, 14, 0, 0), TriggerState::HandlerExit), LateCause::Handler);
        assert_eq!(blamed(sample(15, 4, 9, 0), TriggerState::HandlerExit), LateCause::Scheduler);
        assert_eq!(blamed(sample(15, 4, 9, 0), TriggerState::Backup), LateCause::Scheduler);
        assert_eq!(blamed(sample(15, 4, 0, 10), TriggerState::HandlerExit), LateCause::Steal);
        assert_eq!(blamed(sample(15, 4, 0, 0), TriggerState::HandlerExit), LateCause::Stopped);
        assert_eq!(blamed(sample(15, 4, 0, 0), TriggerState::Backup), LateCause::Wakeup);
    }

    #[test]
    fn the_kernels_figures_can_be_read_and_grow() {
        let mut log = LateLog::new(Duration::from_millis(1), Timestamp::ZERO);
        let before = log.last;
        let mut sum = 0u64;
        while log.last.running < before.running + Duration::from_millis(30) {
            sum = sum.wrapping_mul(31).wrapping_add(log.last.wall.as_nanos());
            log.last = log.sample(Timestamp::ZERO);
        }
        std::hint::black_box(sum);
        assert!(log.schedstat.as_ref().is_none_or(|file| run_delay(file).is_ok()));
        assert!(log.stat.as_ref().is_none_or(|file| steal(file).is_ok()));
        log.ran(Timestamp::from_micros(1), Duration::from_millis(20), TriggerState::HandlerExit);
        assert_eq!(log.iter().map(|(_, counts)| counts.events).sum::<u64>(), 1);
    }

    #[test]
    fn events_late_in_one_pause_share_its_cause() {
        let mut log = LateLog::new(Duration::from_millis(1), Timestamp::ZERO);
        for lateness in [50, 49, 48] {
            log.ran(Timestamp::from_micros(7), Duration::from_millis(lateness), TriggerState::HandlerExit);
        }
        let (_, counts) = log.iter().max_by_key(|(_, counts)| counts.events).unwrap();
        assert_eq!(counts, LateCounts { events: 3, longest: Duration::from_millis(50) });
    }
}
