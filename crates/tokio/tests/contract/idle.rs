//! What the driver does while it waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
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
                    let driver = Driver::start(idle).unwrap();
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
            let driver = Driver::start(Idle::spin().within(PollBudget::UNLIMITED)).unwrap();
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
                let driver = Driver::start(Idle::spin().within(PollBudget::UNLIMITED)).unwrap();
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
            sleep(micros(10)).await;
            let error = Driver::start(Idle::spin()).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        });
    });
}
