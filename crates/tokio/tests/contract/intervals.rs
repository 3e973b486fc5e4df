//! The schedule of an interval, on the real clock.

use softtimers_tokio::{Instant, MissedTickBehavior, interval, interval_at};

use crate::{micros, on_each};

/// No tick before its time, and each says the time it was scheduled for.
#[test]
fn ticks_keep_their_schedule_and_are_never_early() {
    on_each(async || {
        let start = Instant::now() + micros(400);
        let mut interval = interval_at(start, micros(100));
        for tick in 0..200 {
            let time = interval.tick().await;
            assert!(Instant::now() >= time);
            assert_eq!(time, start + micros(100) * tick);
        }
    });
}

/// A stall of 50 periods leaves all ticks, the next place of the schedule, or a period from now.
#[test]
fn a_stall_is_treated_as_asked() {
    on_each(async || {
        for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Skip, MissedTickBehavior::Delay] {
            let mut interval = interval(micros(200));
            // A first tick that is late bursts.
            let start = interval.tick().await;
            interval.set_missed_tick_behavior(behavior);
            assert_eq!(interval.missed_tick_behavior(), behavior);
            while Instant::now() < start + micros(10_000) {
                std::hint::spin_loop();
            }
            assert_eq!(interval.tick().await - start, micros(200));
            let third = interval.tick().await - start;
            match behavior {
                MissedTickBehavior::Burst => assert_eq!(third, micros(400)),
                MissedTickBehavior::Skip => {
                    assert!(third > micros(10_000) && third.as_nanos() % 200_000 == 0, "{third:?}");
                }
                MissedTickBehavior::Delay => assert!(third >= micros(10_200), "{third:?}"),
            }
        }
    });
}

/// The other ways to move it.
#[test]
fn an_interval_can_be_reset() {
    on_each(async || {
        let mut interval = interval(micros(300));
        interval.tick().await;
        let before = Instant::now();
        interval.reset();
        assert!(interval.tick().await >= before + micros(300));
        interval.reset_immediately();
        assert!(interval.tick().await <= Instant::now());
        let before = Instant::now();
        interval.reset_after(micros(700));
        assert!(interval.tick().await >= before + micros(700));
        let at = Instant::now() + micros(500);
        interval.reset_at(at);
        assert_eq!(interval.tick().await, at);
        assert_eq!(interval.tick().await, at + interval.period());
    });
}

#[test]
#[should_panic(expected = "`period` must be non-zero.")]
fn a_period_of_zero_is_refused() {
    crate::current_thread().block_on(async {
        let _ = interval(std::time::Duration::ZERO);
    });
}
