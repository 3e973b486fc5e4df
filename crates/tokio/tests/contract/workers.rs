//! Many threads at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use softtimers_tokio::{Driver, Instant, Slack, sleep, sleep_until, spawn, trigger_at_park};
use tokio::runtime::Builder;

use crate::{HOUR, bounded, four_workers, micros};

/// Tasks that sleep, reset, drop and are moved between workers: all of them finish, none early, and nothing is left.
#[test]
fn everything_that_sleeps_wakes() {
    bounded(|| {
        let mut builder = Builder::new_multi_thread();
        let runtime = trigger_at_park(&mut builder).worker_threads(4).enable_all().build().unwrap();
        runtime.block_on(async {
            let early = Arc::new(AtomicU64::new(0));
            let tasks: Vec<_> = (0..200u64)
                .map(|number| {
                    let early = early.clone();
                    spawn(async move {
                        for round in 0..50u64 {
                            let delay = micros((number * 37 + round * 101) % 500);
                            let mut waits = sleep(delay);
                            if round % 3 == 0 {
                                waits.reset(Instant::now() + delay / 2);
                            }
                            let dropped = sleep(HOUR);
                            tokio::select! {
                                () = &mut waits => {}
                                () = dropped => unreachable!(),
                            }
                            if Instant::now() < waits.deadline() {
                                early.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(early.load(Ordering::Relaxed), 0);
            assert_eq!(Driver::current().stats().pending, 0);
        });
    });
}

/// A thread that is no worker sets a timer; the sleeping runtime wakes for it.
#[test]
fn a_timer_set_from_another_thread_wakes_the_runtime() {
    bounded(|| {
        let runtime = four_workers();
        let handle = runtime.handle().clone();
        let setter = std::thread::spawn(move || {
            let guard = handle.enter();
            let sleep = sleep(micros(500)).with_slack(Slack::EXACT);
            drop(guard);
            handle.block_on(sleep);
        });
        setter.join().unwrap();
    });
}

/// The driver's task is on one worker, on another a computation that ends when others' timers have gone off: `bounded`
/// ends it if they don't.
#[test]
fn a_blocked_worker_holds_up_no_timer_of_others() {
    bounded(|| {
        four_workers().block_on(async {
            let (begun, enough) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (begins, ends) = (begun.clone(), enough.clone());
            let blocks = tokio::spawn(async move {
                begins.store(true, Ordering::Relaxed);
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let mut rounds = 0;
            while rounds < 20 {
                sleep_until(Instant::now() + micros(200)).await;
                rounds += u32::from(begun.load(Ordering::Relaxed));
            }
            enough.store(true, Ordering::Relaxed);
            blocks.await.unwrap();
        });
    });
}

/// A task that blocks in place gives its worker's other tasks away, the driver's among them; and it may wait for timers there.
#[test]
fn timers_go_on_while_tasks_block_in_place() {
    bounded(|| {
        four_workers().block_on(async {
            let tasks: Vec<_> = (0..8)
                .map(|number| {
                    tokio::spawn(async move {
                        sleep(micros(100 * number)).await;
                        tokio::task::block_in_place(|| {
                            let runtime = tokio::runtime::Handle::current();
                            for _ in 0..10 {
                                runtime.block_on(sleep(micros(300)));
                            }
                        });
                        sleep(micros(100)).await;
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(Driver::current().stats().pending, 0);
        });
    });
}

/// Threads that are no workers spawn tasks that sleep, and make, move and drop timers that others wait for.
#[test]
fn other_threads_spawn_and_move_timers() {
    bounded(|| {
        let runtime = four_workers();
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let handle = runtime.handle().clone();
                std::thread::spawn(move || {
                    let tasks: Vec<_> = (0..50)
                        .map(|number| {
                            let mut waits = sleep(HOUR);
                            waits.reset(Instant::now() + micros(thread * 100 + number));
                            handle.spawn(async move {
                                (&mut waits).await;
                                assert!(Instant::now() >= waits.deadline());
                            })
                        })
                        .collect();
                    for task in tasks {
                        handle.block_on(task).unwrap();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(runtime.block_on(async { Driver::current().stats().pending }), 0);
    });
}
