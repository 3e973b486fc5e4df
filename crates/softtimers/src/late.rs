//! [`LateLog`]: counts late events by cause.
//!
//! Lateness alone does not say what to change. A handler that ran too long needs a trigger state inside it; a
//! scheduler that gave the CPU to another thread calls for a shorter slice or a lower load; a host that took
//! the CPU away calls for another machine. The kernel's figures distinguish them, and each is sampled over a
//! span that is short compared with the lateness it explains:
//!
//! ```text
//!   figure                          sampled      costs     more than half of the lateness means
//!   waiting for a core (schedstat)  every 10 ms  3 µs      Scheduler
//!   stolen, all cores (/proc/stat)  every 100 ms 6 µs      Steal, if the thread was off its core
//!   running (thread CPU time)       every 200 µs 0.2 µs    Handler, if it had not slept
//!   none of them                                           Wakeup if it slept, else Stopped
//! ```
//!
//! If running and waiting only together exceed half, a handler lost its CPU in the middle, and the larger of
//! the two is named.
//!
//! The kernel counts steal in hundredths of a second, so a shorter one shows as `Stopped`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use softtimers_core::{Timestamp, TriggerState};

pub use softtimers_linux::clock::cpu_time;

/// The cause that kept an event from running at its due time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LateCause {
    /// This thread was running: a handler took that long, or many events were due at once.
    Handler,
    /// The thread was asleep and woke late.
    Wakeup,
    /// The thread was ready to run, and the scheduler ran another one.
    Scheduler,
    /// The host ran something else on this virtual CPU, and reports it as steal.
    Steal,
    /// Neither running nor ready nor asleep: stopped by a signal or a debugger, or taken off its CPU by a
    /// host that does not report it.
    Stopped,
    /// A consequence of an earlier pause: it left as soon as it might, behind others that the pause had
    /// delayed.
    CatchUp,
}

impl LateCause {
    /// Every cause, in the order of [`LateLog::iter`].
    pub const ALL: [LateCause; 6] = {
        use LateCause::*;
        [Handler, Wakeup, Scheduler, Steal, Stopped, CatchUp]
    };

    /// A name for reports, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            LateCause::Handler => "handler",
            LateCause::Wakeup => "wakeup",
            LateCause::Scheduler => "scheduler",
            LateCause::Steal => "steal",
            LateCause::Stopped => "stopped",
            LateCause::CatchUp => "catch_up",
        }
    }
}

/// The number of events that were late for one cause, and their lateness.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LateCounts {
    /// Events later than the threshold.
    pub events: u64,
    /// The latest of them.
    pub longest: Duration,
}

impl LateCounts {
    /// Counts an event of this lateness.
    pub fn count(&mut self, lateness: Duration) {
        self.events += 1;
        self.longest = self.longest.max(lateness);
    }

    /// Adds other counts.
    pub fn add(&mut self, other: LateCounts) {
        self.events += other.events;
        self.longest = self.longest.max(other.longest);
    }
}

/// Attributes late events to a cause. For use by the thread that made it.
///
/// ```
/// use std::time::Duration;
/// use softtimers::late::LateLog;
/// use softtimers::{Clock, Monotonic, TriggerState};
///
/// let mut log = LateLog::new(Duration::from_millis(1), Monotonic.now());
/// let due = Monotonic.now();
/// while Monotonic.now() < due + Duration::from_millis(5) {} // a handler that takes too long
/// let now = Monotonic.now();
/// log.ran(now, now.saturating_duration_since(due), TriggerState::HandlerExit);
/// assert_eq!(log.iter().map(|(_, late)| late.events).sum::<u64>(), 1);
/// ```
#[derive(Debug)]
pub struct LateLog {
    threshold: Duration,
    schedstat: Option<File>,
    stat: Option<File>,
    running: Sample,
    waiting: Sample,
    stolen: Sample,
    /// The cause of the pause that ended at this time; events late in one turn share it.
    cause: Option<(Timestamp, LateCause)>,
    counts: [LateCounts; LateCause::ALL.len()],
}

/// A cumulative time of this thread, or of the machine for steal, and when it was read.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Timestamp,
    total: Duration,
}

/// The time since the samples, up to a late event.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Wall time of `running`.
    wall: Duration,
    running: Duration,
    waiting: Duration,
    stolen: Duration,
}

impl LateLog {
    /// Makes a log that counts events later than `threshold`: use a millisecond or more, since the samples
    /// are fractions of that apart.
    ///
    /// Without a figure from the kernel (no `/proc`, no schedstats), its cause is never named.
    pub fn new(threshold: Duration, now: Timestamp) -> Self {
        let mut log = LateLog {
            threshold,
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            stat: File::open("/proc/stat").ok(),
            running: Sample::default(),
            waiting: Sample::default(),
            stolen: Sample::default(),
            cause: None,
            counts: Default::default(),
        };
        log.sample(now, Duration::ZERO);
        log
    }

    /// Records an event that ran at `now`, `lateness` after its due time, fired by `source`. Returns its
    /// cause; `None` if it was not late.
    ///
    /// # Cost
    /// One comparison; and the samples of the table above, at most as often as listed there.
    pub fn ran(&mut self, now: Timestamp, lateness: Duration, source: TriggerState) -> Option<LateCause> {
        if lateness <= self.threshold {
            if now.saturating_duration_since(self.running.at) > SAMPLE_RUNNING {
                self.sample(now, SAMPLE_WAITING);
            }
            return None;
        }
        let cause = match self.cause {
            Some((at, cause)) if now.saturating_duration_since(at) < self.threshold => cause,
            _ => {
                let cause = blame(&self.sample(now, Duration::ZERO), lateness, source);
                self.cause = Some((now, cause));
                cause
            }
        };
        self.counts[cause as usize].count(lateness);
        Some(cause)
    }

    /// Records an event that ran on time, but `lateness` after its scheduled time, because events before it
    /// were late. Counted under [`LateCause::CatchUp`] from the threshold on.
    pub fn caught_up(&mut self, lateness: Duration) -> Option<LateCause> {
        let late = lateness > self.threshold;
        late.then(|| self.counts[LateCause::CatchUp as usize].count(lateness));
        late.then_some(LateCause::CatchUp)
    }

    /// Iterates over the causes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (LateCause, LateCounts)> + '_ {
        LateCause::ALL.into_iter().zip(self.counts)
    }

    /// Reads the thread's CPU time, and the figures in files that are older than `age` (steal: ten
    /// times that); returns the differences.
    fn sample(&mut self, now: Timestamp, age: Duration) -> Span {
        let running = cpu_time();
        let old = |sample: &Sample, age| now.saturating_duration_since(sample.at) >= age;
        let mut span = Span { wall: now.saturating_duration_since(self.running.at), ..Span::default() };
        span.running = self.running.replace(now, Some(running));
        if old(&self.waiting, age) {
            span.waiting =
                self.waiting.replace(now, self.schedstat.as_ref().and_then(|file| run_delay(file).ok()));
        }
        if old(&self.stolen, age * 10) {
            span.stolen = self.stolen.replace(now, self.stat.as_ref().and_then(|file| steal(file).ok()));
        }
        span
    }
}

impl Sample {
    /// Takes a new reading and returns the difference.
    fn replace(&mut self, at: Timestamp, total: Option<Duration>) -> Duration {
        let total = total.unwrap_or(self.total);
        let before = std::mem::replace(self, Sample { at, total });
        total.saturating_sub(before.total)
    }
}

fn blame(span: &Span, lateness: Duration, source: TriggerState) -> LateCause {
    let most = lateness / 2;
    let off_core = span.wall.saturating_sub(span.running) > most;
    let slept = source == TriggerState::Backup;
    if span.waiting > most {
        LateCause::Scheduler
    } else if off_core && span.stolen > most {
        LateCause::Steal
    } else if slept && lateness < STOPPED_FROM {
        LateCause::Wakeup
    } else if !slept && span.running + span.waiting > most {
        // A handler that lost the CPU in its middle: the larger part counts.
        if span.waiting > span.running { LateCause::Scheduler } else { LateCause::Handler }
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

/// The eighth figure of the first line of `/proc/stat`, over all cores. Its unit is a hundredth of a second
/// by the kernel's interface to programs, whatever the rate of the kernel's own tick.
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

/// Short compared with half a millisecond, the least that has to be explained; it costs a thousandth of the
/// time.
const SAMPLE_RUNNING: Duration = Duration::from_micros(200);
/// Waits for a CPU are negligible in this time, unless there is contention.
const SAMPLE_WAITING: Duration = Duration::from_millis(10);
/// No wake-up takes this long; a sleeper that is this late was stopped.
const STOPPED_FROM: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use softtimers_core::Clock;

    use super::*;
    use crate::clock::Monotonic;
    use crate::skipped::skipped;

    fn span(wall: u64, running: u64, waiting: u64, stolen: u64) -> Span {
        let ms = Duration::from_millis;
        Span { wall: ms(wall), running: ms(running), waiting: ms(waiting), stolen: ms(stolen) }
    }

    #[test]
    fn each_cause_is_told_by_its_figure() {
        let blamed = |span: Span, source| blame(&span, Duration::from_millis(10), source);
        assert_eq!(blamed(span(11, 10, 0, 0), TriggerState::HandlerExit), LateCause::Handler);
        assert_eq!(blamed(span(500, 10, 0, 0), TriggerState::Idle), LateCause::Handler);
        assert_eq!(blamed(span(11, 1, 9, 0), TriggerState::HandlerExit), LateCause::Scheduler);
        assert_eq!(blamed(span(11, 1, 9, 0), TriggerState::Backup), LateCause::Scheduler);
        assert_eq!(blamed(span(11, 1, 0, 10), TriggerState::HandlerExit), LateCause::Steal);
        assert_eq!(blamed(span(11, 11, 0, 10), TriggerState::HandlerExit), LateCause::Handler);
        assert_eq!(blamed(span(11, 1, 0, 0), TriggerState::HandlerExit), LateCause::Stopped);
        assert_eq!(blamed(span(11, 1, 0, 0), TriggerState::Backup), LateCause::Wakeup);
        assert_eq!(
            blame(&span(90, 1, 0, 0), Duration::from_millis(50), TriggerState::Backup),
            LateCause::Stopped
        );
    }

    /// In a mostly idle loop, the time before the pause does not count. Only rounds in which this thread had
    /// its CPU, by the kernel's account, are checked.
    #[test]
    fn a_long_handler_in_an_idle_loop_is_a_handler() {
        let of = |log: &LateLog, wanted| log.iter().find(|&(cause, _)| cause == wanted).unwrap().1.events;
        let waited = |log: &LateLog| {
            log.schedstat.as_ref().map_or(Duration::ZERO, |file| run_delay(file).unwrap_or_default())
        };
        let mut log = LateLog::new(Duration::from_millis(1), Monotonic.now());
        let mut judged = 0;
        // A second and a half, if others take the CPU in nearly every round.
        for _ in 0..400 {
            if judged == 10 {
                break;
            }
            // Use the log's sample: this thread may wait for a CPU between that and here.
            let waited_before = log.waiting.total;
            let _ =
                rustix::event::poll(&mut [], Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 500_000 }));
            let due = Monotonic.now();
            log.ran(due, Duration::ZERO, TriggerState::Backup);
            let (ran_before, handlers) = (cpu_time(), of(&log, LateCause::Handler));
            while Monotonic.now() < due + Duration::from_millis(3) {}
            let now = Monotonic.now();
            let lateness = now.saturating_duration_since(due);
            let ran = cpu_time() - ran_before;
            log.ran(now, lateness, TriggerState::HandlerExit);
            if ran > lateness * 3 / 4 && waited(&log) - waited_before < lateness / 4 {
                assert_eq!(of(&log, LateCause::Handler), handlers + 1, "{ran:?} of {lateness:?}: {log:?}");
                judged += 1;
            }
        }
        if judged == 0 {
            skipped(&"the machine stood still whenever it was judged");
        }
    }

    #[test]
    fn the_kernels_figures_can_be_read() {
        let log = LateLog::new(Duration::from_millis(1), Timestamp::ZERO);
        assert!(log.schedstat.as_ref().is_none_or(|file| run_delay(file).is_ok()));
        assert!(log.stat.as_ref().is_none_or(|file| steal(file).is_ok()));
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
