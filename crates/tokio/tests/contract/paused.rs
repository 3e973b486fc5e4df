//! tokio's paused clock: respected from the beginning, refused later.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use softtimers_tokio::{Driver, Instant, interval, sleep, timeout};

use crate::{HOUR, bounded, current_thread, micros};

/// Hours pass as soon as nobody has anything to do.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_paused_from_the_start_is_tokios() {
    let start = Instant::now();
    sleep(HOUR).await;
    assert_eq!(start.elapsed(), HOUR);
    assert!(timeout(HOUR, std::future::pending::<()>()).await.is_err());
    assert_eq!(start.elapsed(), 2 * HOUR);
    let mut interval = interval(HOUR);
    for _ in 0..4 {
        interval.tick().await;
    }
    assert_eq!(start.elapsed(), 5 * HOUR);
    assert!(!Driver::current().is_soft());
    assert_eq!(Driver::current().stats().set, 0);
}

/// The same if a test pauses it by hand before its first timer, also after it has gone on.
#[tokio::test]
async fn a_clock_that_is_paused_before_the_first_timer_is_tokios() {
    tokio::time::pause();
    let start = Instant::now();
    let mut waits = tokio::spawn(sleep(HOUR));
    tokio::time::advance(HOUR - Duration::from_millis(1)).await;
    assert!(futures_pending(&mut waits).await);
    tokio::time::advance(Duration::from_millis(2)).await;
    waits.await.unwrap();
    assert!(start.elapsed() >= HOUR);
    tokio::time::resume();
    sleep(Duration::from_millis(2)).await;
    assert!(!Driver::current().is_soft());
}

/// Says whether it is still pending after everybody had a turn.
async fn futures_pending<T>(task: &mut tokio::task::JoinHandle<T>) -> bool {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    !task.is_finished()
}

/// A clock that stops under timers that sleep in the kernel cannot be obeyed: it is said.
#[test]
fn a_clock_that_is_paused_later_is_refused() {
    let message = bounded(|| {
        current_thread().block_on(async {
            sleep(micros(100)).await;
            assert!(Driver::current().is_soft());
            tokio::time::pause();
            // Far longer than the test: it is refused when it is set, not when it is due.
            let task = tokio::spawn(AssertUnwindSafe(sleep(micros(3_600_000_000))).0);
            let panic = task.await.unwrap_err().into_panic();
            panic.downcast_ref::<&str>().unwrap().to_string()
        })
    });
    assert!(message.contains("start_paused = true"), "{message}");
}
