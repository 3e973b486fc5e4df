//! Where due timers are found.

use softtimers_tokio::{
    Driver, DriverStats, Instant, Slack, TriggerState, sleep, sleep_until, trigger_at_park, wrap,
};
use tokio::runtime::Builder;

use crate::{Count, HOUR, bounded, current_thread, micros, poll};

/// Tasks that are polled all the time, wrapped or not, and one that sleeps beside them.
fn beside_busy_tasks(wrapped: bool) -> DriverStats {
    bounded(move || {
        current_thread().block_on(async move {
            let busy: Vec<_> = (0..4)
                .map(|_| {
                    let task = async {
                        loop {
                            tokio::task::yield_now().await;
                        }
                    };
                    if wrapped { tokio::spawn(wrap(task)) } else { tokio::spawn(task) }
                })
                .collect();
            for _ in 0..100 {
                sleep(micros(300)).with_slack(Slack::millis(2)).await;
            }
            busy.iter().for_each(tokio::task::JoinHandle::abort);
            Driver::current().stats()
        })
    })
}

/// The polls of wrapped tasks find what is due long before its deadline; the kernel's timer is for the rest.
#[test]
fn polls_of_wrapped_tasks_are_trigger_states() {
    let (wrapped, plain) = (beside_busy_tasks(true), beside_busy_tasks(false));
    assert!(wrapped.fired_by_backup < wrapped.fired / 2, "{wrapped:?}");
    assert!(plain.fired_by_backup > plain.fired / 2, "{plain:?}");
}

/// Without the descriptor, which is far from due.
#[test]
fn a_poll_of_one_timer_finds_the_others() {
    bounded(|| {
        current_thread().block_on(async {
            let (count, waker) = Count::new();
            // Its first poll checks the clock.
            let mut far = sleep_until(Instant::now() + HOUR);
            let mut near = sleep(HOUR).with_slack(Slack::DEFERRABLE);
            assert!(poll(&mut near, &waker).is_pending());
            near.reset(Instant::now() + micros(1_000));
            while Instant::now() < near.deadline() + micros(5) {
                std::hint::spin_loop();
            }
            assert_eq!(count.get(), 0);
            let (_, another) = Count::new();
            assert!(poll(&mut far, &another).is_pending());
            assert_eq!(count.get(), 1);
        });
    });
}

/// A timer without a deadline waits until something else wakes the thread; then the hook finds it.
#[test]
fn parking_and_unparking_are_trigger_states() {
    bounded(|| {
        for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            let runtime = trigger_at_park(&mut builder).worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(async {
                let waits = tokio::spawn(sleep(micros(300)).with_slack(Slack::DEFERRABLE));
                // A worker that unparks only to park again has no hook: it is one with a task to run.
                tokio::spawn(tokio::time::sleep(micros(5_000))).await.unwrap();
                waits.await.unwrap();
                assert_eq!(Driver::current().stats().set, 0);
            });
        }
    });
}

/// In a computation of the program's own.
#[test]
fn a_program_may_trigger_where_it_likes() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::current();
            let (count, waker) = Count::new();
            let mut sleep = sleep(HOUR);
            assert!(poll(&mut sleep, &waker).is_pending());
            sleep.reset(Instant::now() + micros(1_000));
            while count.get() == 0 {
                driver.trigger(TriggerState::ProtocolTimer);
                softtimers_tokio::trigger(TriggerState::ProtocolTimer);
            }
            assert!(Instant::now() >= sleep.deadline());
            assert_eq!(driver.stats().fired_by_backup, 0);
        });
    });
}
