//! tokio's `Sleep` futures in the runtime's own wheel, moved by `reset`: milliseconds.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock;
use crate::contender::Contender;

pub(crate) struct Sleeps {
    runtime: Runtime,
    start: Instant,
    woken: Arc<Mutex<Vec<u32>>>,
    /// A waker for each number, made when it is first used, as a task has its own.
    wakers: Vec<Option<Waker>>,
}

struct Woken {
    number: u32,
    list: Arc<Mutex<Vec<u32>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

impl Sleeps {
    fn waker(&mut self, number: u32) -> &Waker {
        let at = number as usize;
        if self.wakers.len() <= at {
            self.wakers.resize(at + 1, None);
        }
        self.wakers[at].get_or_insert_with(|| Arc::new(Woken { number, list: self.woken.clone() }).into())
    }
}

impl Contender for Sleeps {
    type Handle = Pin<Box<Sleep>>;
    const TELLS_NEXT: bool = false;

    fn new(expected: usize) -> Self {
        clock::set(0);
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let start = Instant::now();
        Sleeps { runtime, start, woken: Arc::default(), wakers: Vec::with_capacity(expected) }
    }

    fn set(&mut self, due: u64, number: u32) -> Pin<Box<Sleep>> {
        let deadline = self.start + Duration::from_millis(due);
        self.waker(number);
        let _entered = self.runtime.enter();
        let mut sleep = Box::pin(sleep_until(deadline));
        if let Some(waker) = &self.wakers[number as usize] {
            // Not due yet: the first poll puts it into the wheel.
            let _ = sleep.as_mut().poll(&mut Context::from_waker(waker));
        }
        sleep
    }

    fn cancel(&mut self, handle: Pin<Box<Sleep>>) {
        drop(handle);
    }

    fn rearm(&mut self, mut handle: Pin<Box<Sleep>>, due: u64, _: u32) -> Pin<Box<Sleep>> {
        let _entered = self.runtime.enter();
        handle.as_mut().reset(self.start + Duration::from_millis(due));
        handle
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        clock::set(now * 1_000_000);
        // One more round: the runtime checks its wheel between two polls.
        let mut again = true;
        self.runtime.block_on(poll_fn(|context| {
            if std::mem::take(&mut again) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        }));
        fired.append(&mut self.woken.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
