//! The memory of a peak of timers is given back, in a program that counts its allocations.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use softtimers_tokio::{Driver, Sleep, sleep};
use tokio::runtime::Builder;

const MANY: usize = 50_000;
const LONG: Duration = Duration::from_secs(3_600);

/// Many time-outs that nobody needed: the driver gives their memory back before it sleeps again.
#[test]
fn what_a_peak_took_is_given_back() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    // Long enough to wait in any case: the first poll of such a sleep does not check the clock.
    let awhile = || runtime.block_on(sleep(Duration::from_millis(20)));
    awhile();
    let mut kept = None;
    let info: AllocationInfo = measure(|| {
        let _inside = runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        let mut sleeps: Vec<Sleep> = (0..MANY).map(|_| sleep(LONG)).collect();
        for sleep in &mut sleeps {
            assert!(matches!(std::future::Future::poll(Pin::new(sleep), &mut cx), Poll::Pending));
        }
        // The driver sees how many there are, and sleeps.
        awhile();
        // One of the first: what was set before the last one that is left stays reserved.
        kept = Some(sleeps.swap_remove(0));
        drop(sleeps);
        awhile();
    });
    let pending = runtime.block_on(async { Driver::current().stats().pending });
    assert_eq!((pending, kept.is_some()), (1, true));
    let peak = MANY as u64 * size_of::<u64>() as u64;
    assert!(info.bytes_max > peak && info.bytes_current.unsigned_abs() < peak / 8, "{info:?}");
}
