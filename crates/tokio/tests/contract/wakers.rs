//! Who is woken, and what wakers may do.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};

use softtimers_tokio::{Driver, DriverStats, Instant, Slack, Sleep, sleep};
use tokio::sync::oneshot;

use crate::{Count, HOUR, bounded, current_thread, four_workers, micros, on_each, poll};

/// The waker that polled last is the one that counts.
#[test]
fn the_latest_waker_is_woken_and_no_other() {
    on_each(async || {
        let ((first, first_waker), (second, second_waker)) = (Count::new(), Count::new());
        let mut sleep = sleep(HOUR).with_slack(Slack::EXACT);
        assert!(poll(&mut sleep, &first_waker).is_pending());
        assert!(poll(&mut sleep, &second_waker).is_pending());
        sleep.reset(Instant::now() + micros(1_000));
        while second.get() == 0 {
            softtimers_tokio::sleep(micros(300)).await;
        }
        assert_eq!((first.get(), second.get()), (0, 1));
        assert_eq!(poll(&mut sleep, &first_waker), Poll::Ready(()));
    });
}

/// Polling again without a reason changes nothing in the timers.
#[test]
fn the_same_waker_is_registered_once() {
    on_each(async || {
        let (_, waker) = Count::new();
        let mut sleep = sleep(HOUR);
        for _ in 0..100 {
            assert!(poll(&mut sleep, &waker).is_pending());
        }
        let stats = Driver::current().stats();
        assert_eq!((stats.pending, stats.cancelled), (1, 0));
    });
}

/// A timer that one task has waited for goes to another one.
#[test]
fn a_timer_moves_between_tasks() {
    bounded(|| {
        four_workers().block_on(async {
            for _ in 0..100 {
                let (sender, receiver) = oneshot::channel::<Sleep>();
                let first = tokio::spawn(async move {
                    let mut sleep = sleep(micros(300));
                    let (_, waker) = Count::new();
                    let _ = poll(&mut sleep, &waker);
                    sender.send(sleep).unwrap();
                });
                let second = tokio::spawn(async move {
                    let mut sleep = receiver.await.unwrap();
                    (&mut sleep).await;
                    assert!(Instant::now() >= sleep.deadline());
                });
                first.await.unwrap();
                second.await.unwrap();
            }
        });
    });
}

/// A timer is of the runtime in which somebody first waits for it. It may be awaited in another then, as long as the first one
/// runs.
#[test]
fn a_timer_moves_between_runtimes() {
    bounded(|| {
        let (here, there) = (four_workers(), four_workers());
        let (_, waker) = Count::new();
        let mut sleep = sleep(micros(5_000));
        let waits = here.block_on(async { poll(&mut sleep, &waker).is_pending() });
        there.block_on(async { (&mut sleep).await });
        assert!(sleep.is_elapsed());
        let stats = |runtime: &tokio::runtime::Runtime| runtime.block_on(async { Driver::current().stats() });
        let set = |stats: DriverStats| stats.fired + stats.cancelled + stats.pending > 0;
        // Else the machine stood still until its time had come.
        assert!(!waits || set(stats(&here)) && !set(stats(&there)));
    });
}

/// A task that goes on in another runtime takes along what it has made and not waited for, also if the first runtime has ended.
#[test]
fn a_task_moves_between_runtimes() {
    bounded(|| {
        let mut task = Box::pin(async {
            let (soon, later) = (sleep(micros(200)), sleep(micros(5_000)));
            tokio::task::yield_now().await;
            soon.await;
            later.await;
        });
        let first = current_thread();
        let (_, waker) = Count::new();
        first.block_on(async { assert!(poll(&mut task, &waker).is_pending()) });
        drop(first);
        four_workers().block_on(task);
    });
}

/// Local tasks have timers of the runtime that polls them, whichever that is.
#[test]
fn local_tasks_wait_in_each_runtime() {
    bounded(|| {
        let local = tokio::task::LocalSet::new();
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        for runtime in [current_thread(), four_workers(), current_thread()] {
            let tasks: Vec<_> = (0..20)
                .map(|number| {
                    let done = done.clone();
                    local.spawn_local(async move {
                        sleep(micros(100 + number)).await;
                        let never = softtimers_tokio::timeout(micros(50), std::future::pending::<()>());
                        assert!(never.await.is_err());
                        done.set(done.get() + 1);
                    })
                })
                .collect();
            local.block_on(&runtime, async {
                for task in tasks {
                    task.await.unwrap();
                }
                assert_eq!(Driver::current().stats().pending, 0);
            });
        }
        assert_eq!(done.get(), 60);
    });
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker's own");
    }
}

/// The others are woken, and the driver goes on.
#[test]
fn a_waker_that_panics_loses_nothing_else() {
    on_each(async || {
        let driver = Driver::current();
        let (count, counting) = Count::new();
        let panics = Waker::from(Arc::new(Panics));
        let mut sleeps: Vec<_> = (0..30).map(|_| sleep(HOUR)).collect();
        for (number, sleep) in sleeps.iter_mut().enumerate() {
            let waker = if number % 3 == 1 { &panics } else { &counting };
            assert!(poll(sleep, waker).is_pending());
        }
        let deadline = Instant::now() + micros(1_000);
        sleeps.iter_mut().for_each(|sleep| sleep.reset(deadline));
        while count.get() + (driver.stats().waker_panics as usize) < 30 {
            sleep(micros(300)).await;
        }
        assert_eq!((count.get(), driver.stats().waker_panics), (20, 10));
        assert_eq!(driver.stats().pending, 0);
    });
}

/// A waker that sets and drops timers and triggers itself.
struct Busy(Mutex<Vec<Sleep>>, Arc<Count>);

impl Wake for Busy {
    fn wake(self: Arc<Self>) {
        let mut sleeps = self.0.lock().unwrap();
        let mut another = sleeps.pop().unwrap();
        another.reset(Instant::now() + HOUR);
        assert!(poll(&mut another, &self.1.clone().into()).is_pending());
        drop(another);
        sleeps.clear();
        softtimers_tokio::trigger(softtimers_tokio::TriggerState::HandlerExit);
        self.1.clone().wake();
    }
}

/// No lock is held while a waker runs: it may do with timers whatever it likes.
#[test]
fn a_waker_may_set_and_drop_timers() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::current();
            let (count, _) = Count::new();
            let mut others: Vec<_> = (0..10).map(|_| sleep(HOUR)).collect();
            for other in &mut others {
                assert!(poll(other, &count.clone().into()).is_pending());
            }
            let busy = Waker::from(Arc::new(Busy(Mutex::new(others), count.clone())));
            let mut first = sleep(HOUR);
            assert!(poll(&mut first, &busy).is_pending());
            first.reset(Instant::now() + micros(1_000));
            while count.get() == 0 {
                sleep(micros(300)).await;
            }
            assert_eq!(count.get(), 1);
            assert_eq!(driver.stats().pending, 0);
        });
    });
}

/// A task that waits is woken for the new deadline without polling again: earlier, and later.
#[test]
fn a_reset_reaches_a_task_that_waits() {
    on_each(async || {
        let (count, waker) = Count::new();
        let mut sleep = sleep(HOUR);
        assert!(poll(&mut sleep, &waker).is_pending());
        sleep.reset(Instant::now() + micros(5_000));
        while count.get() == 0 {
            softtimers_tokio::sleep(micros(300)).await;
        }
        assert_eq!(count.get(), 1);
        assert!(Instant::now() >= sleep.deadline());
        assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));

        // Again if it was late: then the first reset's time may have come before the second.
        let mut delay = micros(300);
        loop {
            let (woken, first) = (count.get(), Instant::now() + delay);
            sleep.reset(first);
            let _ = poll(&mut sleep, &waker);
            sleep.reset(Instant::now() + HOUR);
            if Instant::now() < first {
                softtimers_tokio::sleep_until(first + micros(700)).await;
                assert_eq!(count.get(), woken);
                return;
            }
            delay *= 2;
        }
    });
}
