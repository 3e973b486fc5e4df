//! Streams with timers, in virtual time: where each item comes, to the microsecond.
#![cfg(all(target_os = "linux", feature = "stream", feature = "test-util"))]

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use softtimers_tokio::stream::{IntervalStream, StreamExt};
use softtimers_tokio::{Instant, Slack, delay_queue::DelayQueue, interval, sleep, test};

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A stream of items that come after these pauses.
fn after(pauses: &[u64]) -> impl stream::Stream<Item = u64> + Unpin + use<> {
    let pauses = pauses.to_vec();
    Box::pin(stream::iter(pauses).then(|pause| async move {
        sleep(micros(pause)).await;
        pause
    }))
}

/// A time-out says once that it is over, and runs again with the next item.
#[tokio::test]
async fn a_stream_that_is_silent_says_so_once() {
    test::pause();
    let start = Instant::now();
    let mut items = after(&[100, 900, 200, 301]).timeout(micros(300)).with_slack(Slack::EXACT);
    let mut seen = Vec::new();
    while let Some(item) = items.next().await {
        seen.push((start.elapsed().as_micros(), item.ok()));
    }
    let expected = [
        (100, Some(100)),
        (400, None),
        (1_000, Some(900)),
        (1_200, Some(200)),
        (1_500, None),
        (1_501, Some(301)),
    ];
    assert_eq!(seen, expected);
}

/// Items are apart by the time that was asked for, and those that come later are not delayed.
#[tokio::test]
async fn a_throttled_stream_keeps_its_items_apart() {
    test::pause();
    let start = Instant::now();
    let items = after(&[0, 0, 700, 100, 100]).throttle(micros(300)).with_slack(Slack::EXACT);
    let seen: Vec<_> = items.map(|_| start.elapsed().as_micros()).collect().await;
    assert_eq!(seen, [0, 300, 1_300, 1_700, 2_100]);
}

#[tokio::test]
async fn intervals_and_queues_are_streams() {
    test::pause();
    let start = Instant::now();
    let ticks = IntervalStream::new(interval(micros(250)));
    let seen: Vec<_> = ticks.take(4).map(|tick| (tick - start).as_micros()).collect().await;
    assert_eq!(seen, [0, 250, 500, 750]);

    let (start, mut queue) = (Instant::now(), DelayQueue::new().with_slack(Slack::EXACT));
    for delay in [500, 100, 300, 100] {
        queue.insert(delay, micros(delay));
    }
    let seen: Vec<_> =
        queue.map(|expired| (start.elapsed().as_micros() as u64, expired.into_inner())).collect().await;
    assert_eq!(seen, [(100, 100), (100, 100), (300, 300), (500, 500)]);
}
