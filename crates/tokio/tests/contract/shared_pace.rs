//! One pace for many tasks: those who go away take nothing from those who wait.

use std::time::Duration;

use softtimers_tokio::{Instant, KeyedPacer, PaceConfig, Rate, SharedPacer, sleep, timeout};
use tokio::runtime::Builder;

use crate::{Count, HOUR, bounded, current_thread, four_workers, micros, on_each, poll};

fn every(interval: Duration) -> SharedPacer {
    SharedPacer::from(Rate::every(interval).unwrap())
}

/// From many tasks: none sooner than its time, and all of them leave.
#[test]
fn turns_come_one_by_one() {
    on_each(async || {
        let pacer = every(micros(300));
        let start = Instant::now();
        let tasks: Vec<_> = (0..40)
            .map(|_| {
                let pacer = pacer.clone();
                tokio::spawn(async move { pacer.ready().await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(start.elapsed() >= 39 * micros(300) - micros(1));
        assert_eq!((pacer.clock().departures(), pacer.waiting()), (40, 0));
    });
}

/// In the order in which they came.
#[test]
fn first_come_first_served() {
    bounded(|| {
        current_thread().block_on(async {
            let pacer = every(micros(200));
            let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..30 {
                let (pacer, sender) = (pacer.clone(), sender.clone());
                tokio::spawn(async move {
                    pacer.ready().await;
                    sender.send(number).unwrap();
                });
            }
            for number in 0..30 {
                assert_eq!(order.recv().await, Some(number));
            }
            assert!(pacer.try_ready().is_err());
        });
    });
}

/// Twice as many come as may leave, and each gives up after a while: those who stay leave at the rate, and afterwards
/// nobody waits for those who are gone.
#[test]
fn time_outs_under_overload_do_not_stop_the_others() {
    on_each(async || {
        let pacer = every(Duration::from_millis(2));
        let begin = Instant::now();
        let mut tasks = Vec::new();
        for _ in 0..300 {
            let pacer = pacer.clone();
            tasks.push(tokio::spawn(async move { timeout(Duration::from_millis(40), pacer.ready()).await }));
            sleep(Duration::from_millis(1)).await;
        }
        let mut left = 0;
        for task in tasks {
            left += u64::from(task.await.unwrap().is_ok());
        }
        let (took, departures) = (begin.elapsed(), pacer.clock().departures());
        assert_eq!(left, departures);
        // A machine that stands still now and then lets fewer through; the rate is held to in virtual time.
        let most = took.as_micros() as u64 / 2_000 + 2;
        assert!((50..=most).contains(&departures), "{departures} of {most}");
        assert_eq!(pacer.waiting(), 0);
        sleep(Duration::from_millis(2)).await;
        assert!(pacer.try_ready().is_ok());
    });
}

/// Dropped in any state: waiting at the front or behind, woken and not polled.
#[test]
fn a_turn_that_is_dropped_goes_to_the_next() {
    bounded(|| {
        current_thread().block_on(async {
            let pacer = every(micros(400));
            pacer.ready().await;
            let wakers: Vec<_> = (0..3).map(|_| Count::new()).collect();
            let mut waits: Vec<_> = wakers.iter().map(|_| pacer.ready()).collect();
            for (future, (_, waker)) in waits.iter_mut().zip(&wakers) {
                assert!(poll(future, waker).is_pending());
            }
            drop(waits.remove(1));
            while wakers[0].0.get() == 0 {
                sleep(micros(50)).await;
            }
            // Woken, and dropped before it is polled.
            drop(waits.remove(0));
            assert_eq!((wakers[1].0.get(), wakers[2].0.get()), (0, 1));
            assert!(poll(&mut waits[0], &wakers[2].1).is_ready());
        });
    });
}

/// One whose task waits for something else holds the others up for a moment only.
#[test]
fn one_that_is_not_polled_lets_the_others_pass() {
    on_each(async || {
        let pacer = every(micros(200));
        pacer.ready().await;
        let (_, waker) = Count::new();
        let mut stuck = pacer.ready();
        assert!(poll(&mut stuck, &waker).is_pending());
        for _ in 0..20 {
            pacer.ready().await;
        }
        assert_eq!(pacer.waiting(), 1);
        stuck.await;
        assert_eq!(pacer.clock().departures(), 22);
    });
}

#[test]
fn a_faster_rate_wakes_those_who_wait() {
    on_each(async || {
        let pacer = every(HOUR);
        pacer.ready().await;
        let waits = tokio::spawn({
            let pacer = pacer.clone();
            async move { pacer.ready().await }
        });
        while pacer.waiting() == 0 {
            sleep(micros(100)).await;
        }
        pacer.set_rate(Rate::pps(10_000));
        waits.await.unwrap();
    });
}

/// The pacer outlives the runtime that its timer was of, and serves tasks of another.
#[test]
fn a_pace_goes_on_in_another_runtime() {
    bounded(|| {
        let pacer = every(micros(300));
        for runtime in [current_thread(), four_workers(), current_thread()] {
            runtime.block_on(async {
                for _ in 0..3 {
                    pacer.ready().await;
                }
                // Left waiting when the runtime ends.
                let waits = pacer.clone();
                tokio::spawn(async move {
                    waits.set_rate(Rate::every(HOUR).unwrap());
                    // The first may leave at once, on a machine that stood still.
                    waits.ready().await;
                    waits.ready().await;
                });
                while pacer.waiting() == 0 {
                    sleep(micros(100)).await;
                }
                pacer.set_rate(Rate::every(micros(300)).unwrap());
            });
            drop(runtime);
            assert_eq!(pacer.waiting(), 0);
        }
    });
}

/// Two runtimes at once: the one whose timers serve ends, and those who wait in the other have their turns.
#[test]
fn those_who_wait_in_another_runtime_outlive_the_first() {
    bounded(|| {
        let (first, second) = (current_thread(), four_workers());
        let pacer = every(Duration::from_millis(20));
        first.block_on(async {
            pacer.ready().await;
            assert!(timeout(micros(10), pacer.ready()).await.is_err());
        });
        let waits: Vec<_> = (0..3)
            .map(|_| {
                let pacer = pacer.clone();
                second.spawn(async move { pacer.ready().await })
            })
            .collect();
        drop(first);
        second.block_on(async {
            for task in waits {
                task.await.unwrap();
            }
        });
    });
}

/// A runtime that nobody runs at the moment wakes nobody; the one that polls does.
#[test]
fn a_runtime_that_stands_still_holds_up_no_other() {
    bounded(|| {
        let (still, runs) = (current_thread(), current_thread());
        let pacer = every(micros(500));
        still.block_on(async {
            pacer.ready().await;
            assert!(timeout(micros(10), pacer.ready()).await.is_err());
        });
        runs.block_on(async {
            for _ in 0..10 {
                pacer.ready().await;
            }
        });
        drop(still);
    });
}

/// Where tokio's clock is paused, its timers serve.
#[test]
fn a_paused_clock_serves_a_shared_pace() {
    bounded(|| {
        Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
            let pacer = every(Duration::from_millis(10));
            let start = Instant::now();
            let tasks: Vec<_> = (0..20)
                .map(|number| {
                    let pacer = pacer.clone();
                    tokio::spawn(async move {
                        let waits = Duration::from_millis(if number % 2 == 0 { 35 } else { 100_000 });
                        timeout(waits, pacer.ready()).await.is_ok()
                    })
                })
                .collect();
            let mut left = 0;
            for task in tasks {
                left += u32::from(task.await.unwrap());
            }
            // Half of them have gone after 35 ms; until then each leaves at its turn.
            assert_eq!(left, 12);
            assert_eq!(start.elapsed().as_millis() / 10, 11, "{:?}", start.elapsed());
        });
    });
}

/// Keys that have gone are forgotten, those that wait are not.
#[test]
fn the_pace_of_a_key_is_kept_as_long_as_it_matters() {
    on_each(async || {
        let clients = KeyedPacer::new(PaceConfig::new(Rate::every(micros(100)).unwrap())).unwrap();
        for client in 0..10_000 {
            assert!(clients.pacer(client).try_ready().is_ok());
            if client % 100 == 0 {
                sleep(micros(200)).await;
            }
        }
        assert!(clients.len() < 1_000, "{}", clients.len());
        let held = clients.pacer(0);
        held.set_rate(Rate::every(HOUR).unwrap());
        held.ready().await;
        for client in 1..1_000 {
            let _ = clients.pacer(client).try_ready();
        }
        assert!(clients.pacer(0).try_ready().is_err());
    });
}
