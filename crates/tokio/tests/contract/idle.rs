//! What the driver does while it waits.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use softtimers_tokio::{Driver, Idle, Instant, PollBudget, Slack, sleep, sleep_until};

use crate::{bounded, current_thread, four_workers, micros};

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
            sleep(micros(500)).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
            let before = driver.stats();
            assert!(before.polled > Duration::ZERO);
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
        let run = |barrier: Arc<Barrier>| {
            current_thread().block_on(async move {
                let driver = Driver::start(Idle::spin().within(PollBudget::UNLIMITED)).unwrap();
                barrier.wait();
                let deadline = Instant::now() + Duration::from_secs(30);
                // Another test's driver may spin too; all the same each is to find that it is not alone.
                while driver.held_back().is_none() && Instant::now() < deadline {
                    sleep_until(Instant::now() + micros(500)).await;
                }
                barrier.wait();
                driver.held_back()
            })
        };
        let others = barrier.clone();
        let other = std::thread::spawn(move || run(others));
        let held_back = [run(barrier), other.join().unwrap()];
        assert!(
            held_back.iter().any(|reason| *reason == Some(softtimers::HeldBack::AnotherSpins)),
            "{held_back:?}"
        );
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
