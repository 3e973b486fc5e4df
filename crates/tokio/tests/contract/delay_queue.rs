//! Values come out in order, at their time, once; what is removed does not, and a key names one value.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use softtimers_tokio::delay_queue::DelayQueue;
use softtimers_tokio::{Driver, Instant, timeout};

use crate::{Count, HOUR, bounded, current_thread, micros, on_each};

/// Random operations, beside a map that is sorted by deadline and insertion.
#[test]
fn the_queue_agrees_with_a_sorted_map() {
    on_each(async || {
        let (mut queue, mut model) = (DelayQueue::new(), BTreeMap::new());
        let (mut keys, mut number, mut seed) = (Vec::new(), 0_u64, 7_u64);
        let mut random = move |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        // Later than the last operation: what is due when it is inserted goes behind all that is due.
        let base = Instant::now() + Duration::from_millis(500);
        for _ in 0..3_000 {
            number += 1;
            let due = base + Duration::from_nanos(random(20_000_000));
            match random(4) {
                0..=1 => {
                    keys.push((queue.insert_at(number, due), number));
                    model.insert(number, (due, number));
                }
                2 if !keys.is_empty() => {
                    let (key, value) = keys[random(keys.len() as u64) as usize];
                    assert_eq!(queue.reset_at(&key, due), model.contains_key(&value));
                    model.entry(value).and_modify(|entry| *entry = (due, number));
                }
                _ if !keys.is_empty() => {
                    let (key, value) = keys[random(keys.len() as u64) as usize];
                    assert_eq!(queue.remove(&key), model.remove(&value).map(|_| value));
                }
                _ => {}
            }
            assert_eq!(queue.len(), model.len());
        }
        let mut expected: Vec<_> = model.iter().map(|(value, (due, order))| (*due, *order, *value)).collect();
        expected.sort();
        for (due, _, value) in expected {
            let expired = queue.expired().await.unwrap();
            assert!(Instant::now() >= due);
            assert_eq!((*expired.get_ref(), expired.deadline()), (value, due));
            assert!(!queue.reset(&expired.key(), HOUR) && queue.remove(&expired.key()).is_none());
        }
        assert!(queue.expired().await.is_none() && queue.is_empty());
    });
}

/// A thousand that fall due together are one wake-up; each of them costs none.
#[test]
fn what_is_due_together_comes_by_one_wake_up() {
    bounded(|| {
        current_thread().block_on(async {
            let (driver, mut queue) = (Driver::current(), DelayQueue::new());
            let due = Instant::now() + Duration::from_millis(20);
            for number in 0..1_000 {
                queue.insert_at(number, due);
            }
            let mut polls = 0;
            for number in 0..1_000 {
                let expired = poll_fn(|cx| {
                    polls += 1;
                    queue.poll_expired(cx)
                });
                assert_eq!(expired.await.unwrap().into_inner(), number);
            }
            assert!(driver.stats().wake_ups <= 2, "{:?}", driver.stats());
            // But for the times at which the task's budget was used up.
            assert!(polls < 1_000 + 100, "{polls}");
        });
    });
}

/// While a task waits, an earlier value or a move makes it wait for that, and an empty queue's task is woken.
#[test]
fn a_waiting_task_waits_for_the_earliest() {
    bounded(|| {
        current_thread().block_on(async {
            let mut queue = DelayQueue::new();
            let (count, waker) = Count::new();
            let mut cx = Context::from_waker(&waker);
            assert!(matches!(queue.poll_expired(&mut cx), Poll::Ready(None)));
            let key = queue.insert("late", HOUR);
            assert_eq!(count.get(), 1);
            assert!(queue.poll_expired(&mut cx).is_pending());
            queue.insert("early", micros(300));
            while count.get() == 1 {
                softtimers_tokio::sleep(micros(100)).await;
            }
            assert_eq!(queue.expired().await.unwrap().into_inner(), "early");
            assert!(timeout(micros(100), queue.expired()).await.is_err());
            assert!(queue.reset(&key, micros(200)));
            assert_eq!(queue.expired().await.unwrap().into_inner(), "late");
        });
    });
}
