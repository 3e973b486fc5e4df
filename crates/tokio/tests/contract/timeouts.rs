//! Time-outs beside tokio's.

use std::future::{pending, poll_fn, ready};
use std::io;
use std::task::Poll;
use std::time::Duration;

use softtimers_tokio::{Instant, Sleep, timeout, timeout_at};

use crate::{HOUR, micros, on_each};

#[test]
fn a_future_that_is_ready_is_never_timed_out() {
    on_each(async || {
        assert_eq!(timeout(Duration::ZERO, ready(1)).await, Ok(1));
        assert_eq!(timeout_at(Instant::now() - micros(500), ready(2)).await, Ok(2));
        assert_eq!(timeout(Duration::MAX, ready(3)).await, Ok(3));
    });
}

#[test]
fn a_future_that_is_not_is_given_up_in_time_and_not_before() {
    on_each(async || {
        let start = Instant::now();
        let late = timeout(micros(700), pending::<()>()).await.unwrap_err();
        assert!(start.elapsed() >= micros(700));
        assert_eq!(late.to_string(), "deadline has elapsed");
        assert_eq!(io::Error::from(late).kind(), io::ErrorKind::TimedOut);
    });
}

/// A first poll that blocks for longer than the time-out: a long one is noticed at the second poll, by which the future may be
/// ready; with a deadline it is noticed at once.
#[test]
fn a_first_poll_that_blocks_is_noticed_at_the_second() {
    const LONG: Duration = Duration::from_millis(10);
    async fn blocks() -> u8 {
        let start = Instant::now();
        while start.elapsed() <= LONG {
            std::thread::yield_now();
        }
        tokio::task::yield_now().await;
        5
    }
    on_each(async || {
        assert_eq!(timeout(LONG, blocks()).await, Ok(5));
        assert!(timeout_at(Instant::now() + LONG, blocks()).await.is_err());
        assert!(timeout(micros(100), blocks()).await.is_err());
        let never = async { (blocks().await, pending::<()>().await) };
        assert!(timeout(LONG, never).await.is_err());
    });
}

/// A future that uses up its task's budget at each poll cannot keep the time-out from counting.
#[test]
fn a_greedy_future_is_timed_out_all_the_same() {
    on_each(async || {
        let greedy = poll_fn(|cx| {
            while tokio::task::coop::has_budget_remaining() {
                let mut consume = std::pin::pin!(tokio::task::coop::consume_budget());
                let _ = std::future::Future::poll(consume.as_mut(), cx);
            }
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(timeout(micros(2_000), greedy).await.is_err());
    });
}

/// Can be polled anywhere, moved, and inspected.
#[test]
fn the_future_inside_can_be_reached() {
    on_each(async || {
        let mut waiting = timeout(HOUR, ready(5));
        assert!(format!("{:?}", waiting.get_ref()).contains('5'));
        *waiting.get_mut() = ready(6);
        assert_eq!(waiting.into_inner().await, 6);
    });
}

#[test]
fn futures_are_send_sync_and_unpin() {
    fn all<T: Send + Sync + Unpin>() {}
    all::<Sleep>();
    all::<softtimers_tokio::Interval>();
    all::<softtimers_tokio::Timeout<Sleep>>();
    all::<softtimers_tokio::Wrapped<Sleep>>();
    all::<softtimers_tokio::Driver>();
}
