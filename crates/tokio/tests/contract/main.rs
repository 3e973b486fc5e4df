//! The promises to programs, whoever looks for due timers and whichever runtime runs the tasks.
//!
//! Times are asserted from below only, or as an order: how late a timer is depends on what else the machine does.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod delay_queue;
mod drops;
mod fairness;
mod idle;
mod intervals;
mod own_network;
mod pacing;
mod paused;
mod sender;
mod shared_pace;
mod shutdown;
mod timeouts;
mod triggers;
mod wake_ups;
mod wakers;
mod workers;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use softtimers_tokio::{Driver, DriverStats};
use tokio::runtime::{Builder, Runtime};

/// Far more than any of this takes.
const LONGEST_TEST: Duration = Duration::from_secs(60);

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn four_workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

/// Runs the test on a thread of its own, for a runtime that hangs cannot time itself out.
fn bounded<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let thread = std::thread::Builder::new().name(name);
    let thread = thread.spawn(move || sender.send(test())).unwrap();
    match receiver.recv_timeout(LONGEST_TEST) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still not done after {LONGEST_TEST:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// The same on a runtime of each kind.
fn on_each<F: Future<Output = ()> + Send>(test: impl Fn() -> F + Send + 'static) {
    bounded(move || {
        current_thread().block_on(test());
        four_workers().block_on(test());
    });
}

/// The driver's counts once nothing more of it is under way, however long that takes on a machine that stands still now
/// and then; `bounded` ends it if it never comes to rest.
async fn at_rest(driver: &Driver) -> DriverStats {
    loop {
        let before = driver.stats();
        tokio::time::sleep(Duration::from_millis(2)).await;
        // Who is woken together with this task has its turn.
        tokio::task::yield_now().await;
        if driver.stats() == before {
            return before;
        }
    }
}

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::<Count>::default();
        (count.clone(), count.into())
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(waker))
}

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const HOUR: Duration = Duration::from_secs(3_600);
