//! The thread that wakes: application timers, served by a periodic tick or at their deadlines.
//!
//! ```text
//!   timers    ·      · ·             ·                          due at random
//!   tick      │  │  │  │  │  │  │  │  │  │  │  │  │  │  │  │    wakes for each, whether or not one is due
//!   smart            │  │             │                         at due + half a tick, and runs all timers due by then
//! ```

use std::io;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use softtimers::{
    Backup, Clock, Config, Monotonic, Random, Slack, Slice, SoftTimers, Timestamp, TriggerState,
};
use softtimers_measure::distribution::Recorder;
use softtimers_measure::usage::Usage;

/// How the thread is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wakes {
    /// Nothing: it has no timers.
    Never,
    /// By a periodic tick at this rate.
    Tick(NonZeroU32),
    /// By the earliest deadline, with the median lateness of a tick at this rate as slack.
    Deadline(NonZeroU32),
}

/// The timers of a program, each with its own period.
#[derive(Debug)]
pub(super) struct Application {
    /// Each timer's period and initial phase.
    timers: Vec<(Duration, Duration)>,
}

/// The work of the thread in a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) usage: Usage,
    /// Timers of the application that ran.
    pub(super) events: u64,
}

impl Application {
    /// Creates `count` timers with periods of 0.1 to 1 s.
    pub(super) fn new(count: u32, seed: u64) -> Self {
        let mut random = Random::stream(seed, 0);
        let mut timer = || {
            let period =
                SHORTEST + Duration::from_nanos(random.below((LONGEST_SLEEP - SHORTEST).as_nanos() as u64));
            (period, Duration::from_nanos(random.below(period.as_nanos() as u64)))
        };
        Application { timers: (0..count).map(|_| timer()).collect() }
    }

    fn start(&self, now: Timestamp, slack: Slack) -> SoftTimers<usize> {
        let mut timers = SoftTimers::new(Config::default());
        for (number, &(period, passed)) in self.timers.iter().enumerate() {
            timers.schedule(now, period - passed, slack, number);
        }
        timers
    }
}

/// Serves the timers from when both threads have reached `begin` until the other end of `stop` is closed.
///
/// # Errors
/// If the system has no timers left.
pub(super) fn serve(
    wakes: Wakes,
    application: &Application,
    begin: &Barrier,
    stop: &UnixStream,
    lateness: &mut Recorder,
) -> io::Result<Served> {
    // Otherwise the computation would go on until its own slice is over.
    let _slice = Slice::hold(*Slice::ALLOWED.start());
    begin.wait();
    let before = Usage::now();
    let events = match wakes {
        Wakes::Never => ready(stop, stop).map(|_| 0),
        Wakes::Tick(hz) => run(Backup::tick(hz, Monotonic.now())?, hz, application, stop, lateness),
        Wakes::Deadline(hz) => run(Backup::deadline()?, hz, application, stop, lateness),
    }?;
    let mut usage = Usage::now().since(&before);
    // Without the wake-up that ended it.
    usage.wakeups = usage.wakeups.saturating_sub(1);
    Ok(Served { usage, events })
}

fn run(
    mut backup: Backup,
    hz: NonZeroU32,
    application: &Application,
    stop: &UnixStream,
    lateness: &mut Recorder,
) -> io::Result<u64> {
    // Irrelevant for a tick, which finds due timers itself.
    let slack = Slack::within(slack(hz));
    let mut timers = application.start(Monotonic.now(), slack);
    let mut events = 0;
    backup.arm(Monotonic.now(), timers.poll_at())?;
    while ready(stop, &backup)? {
        backup.expired()?;
        let now = Monotonic.now();
        let turn = timers.trigger(TriggerState::Backup, now);
        while let Some(fired) = timers.next(&turn) {
            lateness.record_duration(fired.lateness);
            events += 1;
            let (period, _) = application.timers[fired.event];
            timers.schedule_at(now, fired.due + period, slack, fired.event);
        }
        backup.arm(now, timers.poll_at())?;
    }
    Ok(events)
}

/// Waits for either; returns whether it was not the first.
fn ready(stop: &UnixStream, backup: &impl AsFd) -> io::Result<bool> {
    let mut waited = [PollFd::new(stop, PollFlags::IN), PollFd::new(backup, PollFlags::IN)];
    loop {
        match poll(&mut waited, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(waited[0].revents().is_empty()),
        }
    }
}

/// Returns the time between two ticks.
pub(super) fn period(hz: NonZeroU32) -> Duration {
    Duration::from_secs(1) / hz.get()
}

/// Returns the median wait for a tick of a timer due at a random time.
pub(super) fn slack(hz: NonZeroU32) -> Duration {
    period(hz) / 2
}

/// Longer than the tick of any measured rate except the slowest, and short enough for several timers in each turn.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
