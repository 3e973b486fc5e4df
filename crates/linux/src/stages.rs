//! Long waits that end on time.
//!
//! Timer slack is not the only delay of a wait: `ppoll` and `epoll_pwait2` also grant themselves a
//! thousandth of the time-out (a two-hundredth in a thread with a positive nice value), at most
//! 100 ms. At 100 µs that is negligible, but a wait of one second ends a millisecond late with the slack set
//! to 1 ns. So a long wait sleeps in stages, each of which ends early by more than that:
//!
//! ```text
//!   ├──────────────────── first: all but 1/128 ────────────────────┤··├─ rest ─┤
//!                                                     late by at most 1/200
//! ```
//!
//! The cost is one more wake-up for a wait of up to 1.3 s, and two for one of up to 164 s.

use std::io;
use std::time::Duration;

use softtimers_core::Clock;

/// The end of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The stage timed out.
    RanOut,
    /// By the awaited event, or by a signal.
    Otherwise,
}

/// Sleeps for `timeout` by calls of `sleep`, each for the time of its argument (`None`: for ever); stops when
/// one does not time out.
pub(crate) fn in_stages(
    clock: impl Clock,
    timeout: Option<Duration>,
    mut sleep: impl FnMut(Option<Duration>) -> io::Result<Ended>,
) -> io::Result<()> {
    let Some(mut left) = timeout.filter(|timeout| *timeout > LONG) else {
        return sleep(timeout).map(drop);
    };
    let end = clock.now() + left;
    while left > LONG {
        if sleep(Some(left - left / MARGIN))? == Ended::Otherwise {
            return Ok(());
        }
        left = end.saturating_duration_since(clock.now());
    }
    sleep(Some(left)).map(drop)
}

/// Up to here the kernel adds at most 10 µs, less than a wake-up takes.
const LONG: Duration = Duration::from_millis(10);

/// The margin by which a stage ends early: more than the two-hundredth by which it may be late.
const MARGIN: u32 = 128;

#[cfg(test)]
mod tests {
    use softtimers_core::{ManualClock, Timestamp};

    use super::*;

    /// Waits as the kernel does for a thread with a positive nice value; returns how late it ended
    /// and how many sleeps it took.
    fn wait_niced(timeout: Duration) -> (Duration, u32) {
        let clock = ManualClock::new(Timestamp::from_nanos(77));
        let mut sleeps = 0;
        in_stages(&clock, Some(timeout), |stage| {
            let stage = stage.unwrap();
            clock.advance(stage + (stage / 200).min(Duration::from_millis(100)));
            sleeps += 1;
            Ok(Ended::RanOut)
        })
        .unwrap();
        let end = Timestamp::from_nanos(77) + timeout;
        (clock.now().checked_duration_since(end).expect("not early"), sleeps)
    }

    #[test]
    fn a_wait_of_any_length_is_late_by_no_more_than_a_short_one() {
        for (millis, most_sleeps) in
            [(0, 1), (1, 1), (10, 1), (11, 2), (1_000, 2), (60_000, 3), (86_400_000, 5)]
        {
            let (late, sleeps) = wait_niced(Duration::from_millis(millis));
            assert!(late <= LONG / 200, "{millis} ms late by {late:?}");
            assert!(sleeps <= most_sleeps, "{millis} ms took {sleeps} sleeps");
        }
    }

    #[test]
    fn what_is_waited_for_ends_every_stage() {
        for ending in 1..=3 {
            let clock = ManualClock::new(Timestamp::ZERO);
            let mut sleeps = 0;
            in_stages(&clock, Some(Duration::from_secs(60)), |stage| {
                clock.advance(stage.unwrap());
                sleeps += 1;
                Ok(if sleeps == ending { Ended::Otherwise } else { Ended::RanOut })
            })
            .unwrap();
            assert_eq!(sleeps, ending);
        }
    }

    #[test]
    fn no_end_and_the_longest_time_out_are_one_call() {
        for timeout in [None, Some(Duration::MAX)] {
            let mut sleeps = 0;
            in_stages(ManualClock::new(Timestamp::ZERO), timeout, |stage| {
                assert_eq!(stage.is_none(), timeout.is_none());
                sleeps += 1;
                Ok(Ended::Otherwise)
            })
            .unwrap();
            assert_eq!(sleeps, 1);
        }
    }

    #[test]
    fn an_error_ends_it() {
        let fail = |_| Err(io::ErrorKind::InvalidInput.into());
        let clock = ManualClock::new(Timestamp::ZERO);
        assert!(in_stages(&clock, Some(Duration::from_secs(1)), fail).is_err());
        assert!(in_stages(&clock, None, fail).is_err());
    }
}
