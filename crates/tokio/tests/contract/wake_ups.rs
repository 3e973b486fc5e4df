//! The cost of timers in wake-ups, for a process that has nothing else to do.

use std::time::Duration;

use softtimers_tokio::{Driver, Instant, Slack, interval, interval_at, sleep};

use crate::{Count, HOUR, at_rest, bounded, current_thread, micros, poll};

/// The number of times that this thread has gone to sleep so far.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

/// Ten thousand that wait for an hour: the thread sleeps through.
#[test]
fn ten_thousand_idle_sleeps_cost_no_wake_up() {
    bounded(|| {
        current_thread().block_on(async {
            let (count, waker) = Count::new();
            let mut idle: Vec<_> = (0..10_000).map(|number| sleep(HOUR + micros(number))).collect();
            for sleep in &mut idle {
                assert!(poll(sleep, &waker).is_pending());
            }
            let driver = Driver::current();
            tokio::task::yield_now().await;
            let (before, stats) = (sleeps(), driver.stats());
            tokio::time::sleep(Duration::from_millis(300)).await;
            let (slept, after) = (sleeps() - before, driver.stats());
            assert_eq!((after.wake_ups, after.fired, count.get()), (0, 0, 0));
            assert!(after.set <= stats.set + 1, "{after:?}");
            // tokio's own sleep of 300 ms wakes up once or twice.
            assert!(slept <= 4, "{slept} sleeps");
        });
    });
}

/// After the last timer nothing is armed: the process sleeps for good.
#[test]
fn nothing_pending_nothing_armed() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::current();
            sleep(micros(200)).await;
            // What was armed for it may go off once, if its poll was first.
            let before = at_rest(&driver).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(driver.stats(), before);
        });
    });
}

/// Fifty timers of a millisecond, evenly staggered, that may be half a millisecond late: an expiry serves all that
/// are due by then, so no two of them are nearer than the slack.
#[test]
fn nearby_timers_share_a_wake_up_within_their_slack() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::current();
            let start = Instant::now();
            let ticking: Vec<_> = (0..50)
                .map(|number| {
                    let first = start + micros(20 * number);
                    let mut interval = interval_at(first, micros(1_000)).with_slack(Slack::micros(500));
                    tokio::spawn(async move {
                        for _ in 0..200 {
                            interval.tick().await;
                        }
                    })
                })
                .collect();
            for task in ticking {
                task.await.unwrap();
            }
            let (stats, took) = (driver.stats(), start.elapsed());
            let most = took.as_micros() / 500 + 2;
            assert!(u128::from(stats.wake_ups) <= most, "{stats:?} in {took:?}");
            // The alternative: each of ten thousand ticks for itself.
            assert!(stats.wake_ups < 10_000 / 5, "{stats:?}");
        });
    });
}

/// Slack is on unless it is switched off: timers a few microseconds apart share a wake-up.
#[test]
fn slack_is_on_by_default() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::current();
            let deadline = Instant::now() + micros(10_000);
            let sleepers: Vec<_> = (0..40)
                .map(|number| tokio::spawn(softtimers_tokio::sleep_until(deadline + micros(number))))
                .collect();
            for sleeper in sleepers {
                sleeper.await.unwrap();
            }
            assert!(driver.stats().wake_ups <= 2, "{:?}", driver.stats());
        });
    });
}

/// A long time-out that is never needed is set once, and taken back without the kernel.
#[test]
fn time_outs_that_are_not_needed_cost_no_system_call() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::current();
            let mut ticks = interval(micros(1));
            for _ in 0..1_000 {
                softtimers_tokio::timeout(HOUR, ticks.tick()).await.unwrap();
            }
            let _kept = ticks;
            for _ in 0..1_000 {
                let _ = softtimers_tokio::timeout(HOUR, tokio::task::yield_now()).await;
            }
            let set = driver.stats().set;
            assert!(set < 1_200, "{set}");
        });
    });
}
