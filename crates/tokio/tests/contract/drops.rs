//! A timer that is dropped is gone.

use std::task::Poll;

use softtimers_tokio::{Driver, Instant, Slack, interval, interval_at, sleep, sleep_until, timeout};

use crate::{Count, HOUR, micros, on_each, poll};

/// Neither in the timers, nor as a wake-up later, nor as a reference to the task.
#[test]
fn a_dropped_timer_leaves_nothing() {
    on_each(async || {
        let driver = Driver::current();
        let mut delay = micros(200_000);
        let (count, waker, deadline) = loop {
            let (count, waker) = Count::new();
            let mut sleeps: Vec<_> = (0..1_000).map(|_| sleep(delay).with_slack(Slack::EXACT)).collect();
            let waiting =
                sleeps.iter_mut().filter_map(|sleep| poll(sleep, &waker).is_pending().then_some(()));
            let (waiting, pending) = (waiting.count(), driver.stats().pending);
            let [first, last] = [0, 999].map(|number: usize| sleeps[number].deadline());
            drop(sleeps);
            // Else the machine stood still until the time of some of them had come.
            if Instant::now() < first {
                assert_eq!((waiting, pending), (1_000, 1_000));
                break (count, waker, last);
            }
            delay *= 2;
        };
        assert_eq!(driver.stats().pending, 0);
        sleep_until(deadline + micros(2_000)).await;
        assert_eq!(count.get(), 0);
        drop(waker);
        assert_eq!(std::sync::Arc::strong_count(&count), 1);
    });
}

/// One that nobody polled was never set.
#[test]
fn a_timer_that_is_not_polled_costs_nothing() {
    on_each(async || {
        let driver = Driver::current();
        let sleeps: Vec<_> = (0..100).map(|_| sleep(HOUR)).collect();
        assert_eq!(driver.stats().pending, 0);
        drop(sleeps);
        assert_eq!(driver.stats().cancelled, 0);
    });
}

/// A time-out whose future is first takes its timer with it.
#[test]
fn a_time_out_that_is_not_needed_is_taken_back() {
    on_each(async || {
        let driver = Driver::current();
        for _ in 0..100 {
            timeout(HOUR, tokio::task::yield_now()).await.unwrap();
        }
        assert_eq!(driver.stats().pending, 0);
        assert_eq!(driver.stats().cancelled, 100);
    });
}

/// A `tick` that is dropped before it is ready has taken no tick.
#[test]
fn a_tick_is_safe_to_cancel() {
    on_each(async || {
        let start = Instant::now() + micros(500);
        let mut interval = interval_at(start, micros(300));
        let mut tick = 0;
        while tick < 20 {
            if let Ok(time) = timeout(micros(20), interval.tick()).await {
                assert_eq!(time, start + micros(300) * tick);
                tick += 1;
            }
        }
    });
}

/// `select!` drops what loses, a thousand times.
#[test]
fn the_losers_of_a_select_are_taken_back() {
    on_each(async || {
        let driver = Driver::current();
        let mut ticks = interval(micros(1));
        for _ in 0..1_000 {
            tokio::select! {
                _ = ticks.tick() => {}
                () = sleep(HOUR) => unreachable!(),
            }
        }
        drop(ticks);
        assert_eq!(driver.stats().pending, 0);
    });
}

/// Elapsed once, elapsed until it is reset.
#[test]
fn an_elapsed_sleep_stays_elapsed_until_it_is_reset() {
    on_each(async || {
        let (_, waker) = Count::new();
        let mut sleep = sleep(micros(50));
        (&mut sleep).await;
        assert!(sleep.is_elapsed());
        assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
        sleep.reset(Instant::now() + HOUR);
        assert!(!sleep.is_elapsed());
        assert!(poll(&mut sleep, &waker).is_pending());
        sleep.reset(Instant::now());
        assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
    });
}
