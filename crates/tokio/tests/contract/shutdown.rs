//! Runtimes end while timers are pending.

use std::panic::{AssertUnwindSafe, catch_unwind};

use softtimers_tokio::{Driver, Instant, Sleep, interval, sleep};
use tokio::runtime::Runtime;

use crate::{Count, HOUR, bounded, current_thread, four_workers, micros, poll};

fn each_kind(test: impl Fn(Runtime) + Send + 'static) {
    bounded(move || {
        test(current_thread());
        test(four_workers());
    });
}

/// A sleep of that runtime, for which somebody waits.
fn pending(runtime: &Runtime) -> (std::sync::Arc<Count>, Sleep) {
    let (count, waker) = Count::new();
    let mut sleep = sleep(HOUR);
    let _inside = runtime.enter();
    assert!(poll(&mut sleep, &waker).is_pending());
    (count, sleep)
}

fn message_of(poll: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(poll)).expect_err("it panics");
    panic
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap().to_string())
}

#[test]
fn a_runtime_ends_with_ten_thousand_timers_pending() {
    each_kind(|runtime| {
        runtime.block_on(async {
            for number in 0..10_000 {
                tokio::spawn(sleep(HOUR + micros(number)));
            }
            tokio::spawn(async {
                let mut interval = interval(micros(50));
                loop {
                    interval.tick().await;
                }
            });
            while Driver::current().stats().pending < 10_000 {
                sleep(micros(300)).await;
            }
        });
        drop(runtime);
    });
}

/// A task that waits elsewhere is told, and told why.
#[test]
fn what_is_pending_at_shutdown_is_woken_and_panics_when_polled() {
    each_kind(|runtime| {
        let (count, mut sleep) = pending(&runtime);
        drop(runtime);
        assert_eq!(count.get(), 1);
        let (_, waker) = Count::new();
        let message = message_of(|| {
            let _ = poll(&mut sleep, &waker);
        });
        assert!(message.contains("shut down"), "{message}");
        sleep.reset(softtimers_tokio::Instant::now() + HOUR);
        drop(sleep);
    });
}

/// A timer that is first polled after the end of the runtime that it was made for.
#[test]
fn a_timer_cannot_be_set_after_shutdown() {
    each_kind(|runtime| {
        let driver = runtime.block_on(async { Driver::current() });
        let mut sleep = Sleep::on(&driver, Instant::now() + HOUR);
        runtime.shutdown_background();
        let (_, waker) = Count::new();
        // In the background: it may still be set, and is woken then.
        while catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, &waker))).is_ok() {
            std::thread::yield_now();
        }
    });
}

/// One whose time has come is ready, whatever became of its runtime.
#[test]
fn an_elapsed_timer_outlives_its_runtime() {
    each_kind(|runtime| {
        let (_, mut elapsed) = pending(&runtime);
        elapsed.reset(Instant::now() + micros(1));
        runtime.block_on(async { sleep(micros(200)).await });
        let (_, another) = pending(&runtime);
        drop(runtime);
        let (_, waker) = Count::new();
        assert!(poll(&mut elapsed, &waker).is_ready());
        drop(another);
    });
}

/// tokio may give a runtime the number of one that has ended: it gets timers of its own.
#[test]
fn each_runtime_has_timers_of_its_own() {
    bounded(|| {
        for _ in 0..50 {
            let runtime = current_thread();
            let (_, sleep) = pending(&runtime);
            runtime.block_on(async {
                assert_eq!(Driver::current().stats().pending, 1);
                softtimers_tokio::sleep(micros(10)).await;
            });
            drop(sleep);
        }
        let (one, other) = (current_thread(), current_thread());
        let (_, _of_one) = pending(&one);
        assert_eq!(other.block_on(async { Driver::current().stats().pending }), 0);
        assert_eq!(one.block_on(async { Driver::current().stats().pending }), 1);
    });
}

/// A value like any other until somebody waits for it.
#[test]
fn outside_of_a_runtime_nobody_can_wait_for_a_timer() {
    let (_, waker) = Count::new();
    assert!(poll(&mut sleep(micros(0)), &waker).is_ready());
    drop((sleep(HOUR), interval(HOUR)));
    let message = message_of(|| {
        let _ = poll(&mut sleep(HOUR), &waker);
    });
    assert!(message.contains("no reactor running") || message.contains("runtime"), "{message}");
    assert_eq!(softtimers_tokio::trigger(softtimers_tokio::TriggerState::Idle), 0);
}
