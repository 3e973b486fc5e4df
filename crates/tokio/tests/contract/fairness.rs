//! Nobody waits for ever because somebody's timers are always due.

use std::task::Wake;

use softtimers_tokio::{Driver, Instant, interval, sleep, sleep_until};
use tokio::net::UdpSocket;

use crate::{Count, HOUR, bounded, current_thread, micros, poll};

/// An interval that is hopelessly behind is always ready. tokio's budget makes its task yield all the same.
#[test]
fn a_task_that_is_always_due_lets_others_run() {
    bounded(|| {
        current_thread().block_on(async {
            let greedy = tokio::spawn(async {
                let mut interval = interval(std::time::Duration::from_nanos(1));
                loop {
                    interval.tick().await;
                }
            });
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(micros(1)).await; // the runtime's own drivers have their turn too
            greedy.abort();
        });
    });
}

/// Timers of which a crowd is due at any time: the driver's task wakes portion after portion, and the runtime's I/O and
/// tokio's own timers have their turn in between.
#[test]
fn a_crowd_that_is_always_due_lets_others_run() {
    bounded(|| {
        current_thread().block_on(async {
            let crowd: Vec<_> = (0..500)
                .map(|_| {
                    tokio::spawn(async {
                        loop {
                            sleep(micros(50)).await;
                        }
                    })
                })
                .collect();
            let (near, far) = (
                UdpSocket::bind("127.0.0.1:0").await.unwrap(),
                UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            );
            for number in 0..100 {
                near.send_to(&[number], far.local_addr().unwrap()).await.unwrap();
                let mut packet = [0; 1];
                far.recv(&mut packet).await.unwrap();
                assert_eq!(packet, [number]);
                tokio::time::sleep(micros(1)).await;
            }
            crowd.iter().for_each(tokio::task::JoinHandle::abort);
        });
    });
}

/// However many timers fall due at once, a trigger state wakes some of them and lets the task go on.
#[test]
fn a_trigger_state_wakes_a_bounded_number() {
    bounded(|| {
        current_thread().block_on(async {
            let driver = Driver::current();
            let (count, waker) = Count::new();
            let mut sleeps: Vec<_> = (0..1_000).map(|_| sleep(HOUR)).collect();
            for sleep in &mut sleeps {
                assert!(poll(sleep, &waker).is_pending());
            }
            let deadline = Instant::now() + micros(1_000);
            sleeps.iter_mut().for_each(|sleep| sleep.reset(deadline));
            while Instant::now() < deadline + micros(10) {
                std::hint::spin_loop();
            }
            let mut woken = 0;
            while woken < 1_000 {
                let now = driver.trigger(softtimers_tokio::TriggerState::HandlerExit);
                assert!((1..=32).contains(&now));
                woken += now;
                assert_eq!(count.get(), woken);
            }
            assert_eq!(driver.trigger(softtimers_tokio::TriggerState::HandlerExit), 0);
        });
    });
}

/// The driver's task serves a crowd in portions: tasks in between get their turn, and all of the crowd is served.
#[test]
fn a_crowd_is_served_in_portions() {
    bounded(|| {
        current_thread().block_on(async {
            let (served, _) = Count::new();
            let deadline = Instant::now() + micros(200_000);
            for _ in 0..5_000 {
                let served = served.clone();
                tokio::spawn(async move {
                    sleep_until(deadline).await;
                    served.wake();
                });
            }
            // While nobody is due this task sleeps too; then it watches.
            sleep_until(deadline).await;
            let mut portions = 0;
            let mut before = served.get();
            while before < 5_000 {
                tokio::task::yield_now().await;
                portions += usize::from(served.get() > before);
                before = served.get();
            }
            assert!(portions > 10, "{portions}");
            assert_eq!(Driver::current().stats().pending, 0);
        });
    });
}
