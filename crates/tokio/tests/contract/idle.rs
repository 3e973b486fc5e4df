//! The driver's wait, by idle policy.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::time::Duration;

use softtimers_tokio::{Driver, Idle, Instant, PollBudget, Slack, sleep, sleep_until};

use crate::{at_rest, bounded, current_thread, four_workers, micros};

/// No policy makes a timer early, or lose one.
#[test]
fn every_policy_keeps_the_contract() {
    bounded(|| {
        for idle in [Idle::park(), Idle::hybrid(), Idle::spin(), Idle::spin().within(PollBudget::UNLIMITED)] {
            for runtime in [current_thread(), four_workers()] {
                runtime.block_on(async {
                    let driver = Driver::builder().idle(idle).start().unwrap();
                    for round in 0..100u64 {
                        let mut wait = sleep(micros(20 + round * 7 % 300)).with_slack(Slack::EXACT);
                        (&mut wait).await;
                        assert!(Instant::now() >= wait.deadline());
                    }
                    assert_eq!(driver.stats().pending, 0);
                });
            }
        }
    });
}

/// With nothing pending every policy sleeps for good.
#[test]
fn nobody_polls_for_nothing() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::builder().idle(Idle::spin().within(PollBudget::UNLIMITED)).start().unwrap();
            // Until it has, unless another test's driver spins: what is due before anybody waits needs no polling.
            while driver.stats().polled.is_zero() && driver.held_back().is_none() {
                sleep(micros(500)).await;
                tokio::task::yield_now().await;
            }
            let before = at_rest(&driver).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(driver.stats(), before);
        });
    });
}

/// Two runtimes ask to spin, with timers pending at the same time: they take turns.
#[test]
fn one_driver_of_a_process_spins() {
    bounded(|| {
        let barrier = Arc::new(Barrier::new(2));
        let held_back = Arc::new(AtomicBool::new(false));
        let run = |barrier: Arc<Barrier>, held_back: Arc<AtomicBool>| {
            current_thread().block_on(async move {
                let driver =
                    Driver::builder().idle(Idle::spin().within(PollBudget::UNLIMITED)).start().unwrap();
                barrier.wait();
                // `bounded` ends it if neither ever is.
                while !held_back.load(Ordering::SeqCst) {
                    sleep_until(Instant::now() + micros(500)).await;
                    if driver.held_back() == Some(softtimers::HeldBack::AnotherSpins) {
                        held_back.store(true, Ordering::SeqCst);
                    }
                }
            });
        };
        let (others, other_flag) = (barrier.clone(), held_back.clone());
        let other = std::thread::spawn(move || run(others, other_flag));
        run(barrier, held_back);
        other.join().unwrap();
    });
}

/// A driver that has begun is not begun again.
#[test]
fn a_policy_is_chosen_before_the_first_timer() {
    bounded(|| {
        current_thread().block_on(async {
            // One that has to wait: without such a poll the runtime has no timers yet.
            let waits = softtimers_tokio::timeout(micros(500), sleep(Duration::from_secs(3_600)));
            assert!(waits.await.is_err());
            let error = Driver::builder().idle(Idle::spin()).start().unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        });
    });
}

/// Dense timers whose wake-ups are kept apart: fewer of them than events, and none is early.
#[test]
fn wake_ups_are_kept_apart() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::builder().coalesce(Duration::from_millis(2)).start().unwrap();
            let start = Instant::now();
            let at = move |number: u32| start + micros(1_000) + micros(100) * number;
            let tasks: Vec<_> = (0..200)
                .map(|number| {
                    tokio::spawn(async move {
                        let mut sleep = sleep_until(at(number)).with_slack(Slack::EXACT);
                        // A task whose first poll comes late finds its time over, and has no timer.
                        let waits =
                            poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx).is_pending())).await;
                        if waits {
                            sleep.await;
                        }
                        assert!(Instant::now() >= at(number));
                        u64::from(waits)
                    })
                })
                .collect();
            let mut waited = 0;
            for task in tasks {
                waited += task.await.unwrap();
            }
            let took = start.elapsed();
            let stats = driver.stats();
            assert_eq!((stats.fired + stats.cancelled, stats.pending), (waited, 0), "{stats:?}");
            // A wake-up that was on its way when the timer was moved is one more: where others hold the task up, a few are.
            assert!(stats.wake_ups <= took.as_millis() as u64 / 2 + 10, "{stats:?} in {took:?}");
        });
    });
}
