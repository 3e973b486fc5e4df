//! The time stamp counter as a clock, on the real one: it agrees with the kernel's clock, on every
//! CPU and in an event loop, and is refused where it must not be read.

#[path = "../src/skipped.rs"]
mod skipped;

use std::thread;
use std::time::Duration;

use rustix::process::{TimeStampCounterReadability, set_time_stamp_counter_readability};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use softtimers::TscError;
use softtimers::{
    Clock, Config, EventLoop, Happening, LoopClock, LoopConfig, Monotonic, Slack, SoftTimers, Timestamp, Tsc,
};

use skipped::skipped;

/// Several times what is promised: another machine's kernel may be slewing its clock by more.
const ERROR: Duration = Duration::from_micros(10);

fn tsc() -> Option<Tsc> {
    Tsc::new().inspect_err(|refusal| skipped(refusal)).ok()
}

/// Reads the clock for a while and holds each reading between two of the kernel's; returns how many.
fn agrees(clock: &Tsc, time: Duration, mut read: impl FnMut(&Tsc) -> Timestamp) -> u64 {
    let mut readings = 0;
    let (end, mut last) = (Monotonic.now() + time, Timestamp::ZERO);
    let mut before = Monotonic.now();
    while before < end {
        let now = read(clock);
        let after = Monotonic.now();
        assert!(now + ERROR >= before, "{now:?} is before {before:?}; {:?}", clock.stats());
        assert!(now <= after + ERROR, "{now:?} is after {after:?}; {:?}", clock.stats());
        assert!(now >= last, "{now:?} after {last:?}");
        (last, before) = (now, Monotonic.now());
        readings += 1;
    }
    assert_eq!(clock.disagreement(), None, "{:?}", clock.stats());
    readings
}

#[test]
fn it_agrees_with_the_kernels_clock() {
    let Some(clock) = tsc() else { return };
    let readings = agrees(&clock, Duration::from_millis(500), Clock::now);
    let busy = clock.stats().checks;
    assert!((1..=readings).contains(&busy), "every 100 µs, but for pauses: {busy} of {readings}");
    let looks = agrees(&clock, Duration::from_millis(500), LoopClock::woke);
    assert_eq!(clock.stats().checks, busy + looks, "each look is one");
    assert!(clock.counter_hz() > 500_000_000);
    assert_eq!(clock.resolution_hz(), Monotonic.resolution_hz().min(clock.counter_hz()));
}

#[test]
fn it_agrees_on_every_processor() {
    let Some(clock) = tsc() else { return };
    let all = sched_getaffinity(None).unwrap();
    for processor in (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor)).take(8).cycle().take(64)
    {
        let mut one = CpuSet::new();
        one.set(processor);
        sched_setaffinity(None, &one).unwrap();
        agrees(&clock, Duration::from_millis(2), Clock::now);
    }
    sched_setaffinity(None, &all).unwrap();
}

#[test]
fn it_may_be_calibrated_again() {
    let Some(clock) = tsc() else { return };
    let before = clock.now();
    match clock.recalibrate() {
        Ok(()) => assert!(clock.now() > before),
        Err(TscError::Unsteady) => assert!(clock.now() > before, "it is left as it was"),
        Err(error) => panic!("{error}"),
    }
    agrees(&clock, Duration::from_millis(5), Clock::now);
}

/// In a loop no event is early by more than the clock's error, and each sleep is a comparison.
#[test]
fn an_event_loop_runs_on_it() {
    let Some(clock) = tsc() else { return };
    let mut events = EventLoop::with_clock(LoopConfig::default(), clock).unwrap();
    let mut timers = SoftTimers::new(Config::default());
    // More where the machine stood still until an event was due without a sleep.
    let (mut delays, patience) = (
        [0, 1, 30, 400, 5_000, 40_000].into_iter().chain(std::iter::repeat(5_000)),
        Monotonic.now() + Duration::from_secs(30),
    );
    for (nth, delay) in delays.by_ref().enumerate() {
        if nth >= 6 && events.stats().waits >= 3 {
            break;
        }
        assert!(Monotonic.now() < patience, "{:?}", events.stats());
        let due = Monotonic.now() + Duration::from_micros(delay);
        timers.schedule_at(events.now(), due, Slack::EXACT, due);
        match events.next(&mut timers).unwrap() {
            Happening::Due(fired) => assert!(Monotonic.now() + ERROR >= fired.event, "{fired:?}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(events.clock().disagreement(), None);
    assert!(events.clock().stats().checks >= events.stats().waits);
}

/// The kernel's own clock reads the counter as well: nothing here may ask for the time.
#[test]
fn a_thread_that_may_not_read_it_is_told_so() {
    let refused = thread::spawn(|| {
        let forbidden = set_time_stamp_counter_readability(TimeStampCounterReadability::RaiseSIGSEGV);
        let found = forbidden.map(|()| Tsc::new().map(drop));
        set_time_stamp_counter_readability(TimeStampCounterReadability::Readable)?;
        found
    });
    match refused.join().unwrap() {
        Ok(Err(TscError::Forbidden)) => {
            let error = std::io::Error::from(TscError::Forbidden);
            assert_eq!(error.to_string(), "PR_SET_TSC forbids this thread the time stamp counter");
        }
        Ok(Err(TscError::Architecture)) if !cfg!(target_arch = "x86_64") => {}
        Err(error) => skipped(&format_args!("PR_SET_TSC: {error}")),
        other => panic!("{other:?}"),
    }
}
