//! The virtual clock of `softtimers_tokio::test`: microseconds, in order, at once.
#![cfg(all(target_os = "linux", feature = "test-util"))]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use softtimers_tokio::{
    Driver, Instant, Pacer, Rate, SharedPacer, Slack, interval, sleep, sleep_until, test, timeout,
};
use tokio::time::MissedTickBehavior;

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Sleeps, ticks and departures are at their times, to the nanosecond.
#[tokio::test]
async fn every_timer_is_at_its_time() {
    test::pause();
    assert!(Driver::current().is_soft());
    let start = Instant::now();
    sleep(micros(100)).await;
    assert_eq!(start.elapsed(), micros(100));
    sleep(Duration::from_nanos(1)).await;
    assert_eq!(start.elapsed(), Duration::from_nanos(100_001));
    sleep_until(start + micros(3_777)).await;
    assert_eq!(start.elapsed(), micros(3_777));
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(start.elapsed(), micros(3_777) + Duration::from_secs(3_600));

    let begin = Instant::now();
    let mut ticks = interval(micros(300));
    for number in 0..100 {
        ticks.tick().await;
        assert_eq!(begin.elapsed(), micros(300) * number);
    }
    let begin = Instant::now();
    let mut pacer = Pacer::every(micros(40)).unwrap();
    for number in 0..100 {
        assert_eq!(pacer.tick().await - begin, micros(40) * number);
    }
    assert!(timeout(micros(250), std::future::pending::<()>()).await.is_err());
    assert_eq!(begin.elapsed(), micros(99 * 40 + 250));
}

/// The same in a runtime that begins paused.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_paused_already_keeps_microseconds() {
    test::pause();
    let start = Instant::now();
    for number in 1..50 {
        sleep(micros(70)).await;
        assert_eq!(start.elapsed(), micros(70) * number);
    }
}

/// Tasks that tick at different periods run in the order of their ticks, and tokio's own timers among them.
#[tokio::test]
async fn tasks_run_in_the_order_of_their_times() {
    test::pause();
    let (start, seen) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let tasks: Vec<_> = [170, 230, 1_000, 410]
        .map(|period| {
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut ticks = interval(micros(period));
                ticks.tick().await;
                for _ in 0..20_000 / period {
                    ticks.tick().await;
                    seen.lock().unwrap().push(start.elapsed());
                    // Work in several steps takes no time.
                    for _ in 0..5 {
                        tokio::task::yield_now().await;
                    }
                    tokio::spawn(async {}).await.unwrap();
                }
            })
        })
        .into_iter()
        .collect();
    let of_tokio = tokio::spawn(async move {
        for number in 1..=10 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let (now, due) = (start.elapsed(), Duration::from_millis(2) * number);
            assert!(now >= due && now < due + Duration::from_millis(20), "{now:?}");
        }
    });
    for task in tasks {
        task.await.unwrap();
    }
    of_tokio.await.unwrap();
    let seen = seen.lock().unwrap();
    let mut expected: Vec<_> = [170, 230, 1_000, 410]
        .iter()
        .flat_map(|period| (1..=20_000 / period).map(move |number| micros(period * number)))
        .collect();
    expected.sort();
    assert_eq!(*seen, expected);
}

/// `advance` lets everything on the way happen at its time, and what it sets off as well.
#[tokio::test]
async fn time_passes_step_by_step() {
    test::pause();
    let start = Instant::now();
    let ticking = tokio::spawn(async move {
        let mut ticks = interval(micros(300));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut seen = Vec::new();
        for _ in 0..11 {
            ticks.tick().await;
            seen.push(start.elapsed());
        }
        // Two more sleeps that end exactly when the advance does.
        sleep(micros(1)).await;
        tokio::spawn(sleep(micros(1_999))).await.unwrap();
        seen
    });
    test::advance(micros(2_999)).await;
    assert!(!ticking.is_finished());
    assert_eq!(start.elapsed(), micros(2_999));
    test::advance(micros(2_001)).await;
    assert!(ticking.is_finished());
    assert_eq!(start.elapsed(), micros(5_000));
    assert_eq!(ticking.await.unwrap(), (0..11).map(|number| micros(300) * number).collect::<Vec<_>>());
}

/// A cancelled time-out does not move the clock, nor do blocking tasks and real sockets lose time to it.
#[tokio::test]
async fn nothing_pending_nothing_moves() {
    test::pause();
    let start = Instant::now();
    assert_eq!(timeout(Duration::from_secs(60), async { 1 }).await, Ok(1));
    assert!(timeout(Duration::from_secs(60), tokio::task::yield_now()).await.is_ok());
    let blocking = tokio::task::spawn_blocking(|| {
        let real = std::time::Duration::from_millis(5);
        std::sync::mpsc::channel::<()>().1.recv_timeout(real).unwrap_err();
    });
    blocking.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// A slack matters only where wake-ups cost something.
#[tokio::test]
async fn a_slack_makes_nothing_late() {
    test::pause();
    let start = Instant::now();
    for slack in [Slack::DEFAULT, Slack::millis(5), Slack::rounded(Duration::from_millis(1))] {
        let begin = Instant::now();
        sleep(micros(333)).with_slack(slack).await;
        assert!(
            begin.elapsed() >= micros(333) && begin.elapsed() <= micros(333 + 500),
            "{:?}",
            begin.elapsed()
        );
    }
    assert!(start.elapsed() < Duration::from_millis(3));
}

/// The overload: twice as many come as may leave, each gives up after 200 intervals. In exact time.
#[tokio::test]
async fn an_overload_of_time_outs_keeps_the_rate() {
    test::pause();
    let pacer = SharedPacer::from(Rate::per_second(1_000).unwrap());
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..4_000 {
        let pacer = pacer.clone();
        tasks.push(tokio::spawn(async move {
            timeout(Duration::from_millis(200), pacer.ready()).await.is_ok().then(Instant::now)
        }));
        sleep(micros(500)).await;
    }
    assert!((1_999..=2_001).contains(&pacer.clock().departures()), "{}", pacer.clock().departures());
    let mut left = Vec::new();
    for task in tasks {
        left.extend(task.await.unwrap());
    }
    assert!(left.windows(2).all(|two| two[1] - two[0] == Duration::from_millis(1)));
    assert!(start.elapsed() < Duration::from_millis(2_202));
    // At once, after the load.
    sleep(Duration::from_millis(1)).await;
    assert!(pacer.try_ready().is_ok());
}

/// After `resume` timers still come, in milliseconds.
#[tokio::test]
async fn a_clock_that_goes_on_serves_in_milliseconds() {
    test::pause();
    sleep(Duration::from_secs(3_600)).await;
    tokio::time::resume();
    let start = Instant::now();
    sleep(micros(2_500)).await;
    assert!(start.elapsed() >= micros(2_500));
}

#[tokio::test]
async fn a_clock_is_paused_before_the_first_timer() {
    sleep(micros(300)).await;
    let paused = std::panic::catch_unwind(test::pause).unwrap_err();
    let text = paused.downcast_ref::<&str>().unwrap();
    assert!(text.contains("before the first one"), "{text}");
    tokio::spawn(test::advance(micros(1))).await.unwrap_err();
}
