//! [`next_tick`]: the next tick of an interval after missed ticks.
//!
//! tokio's rule, as a function of times alone:
//!
//! ```text
//!   scheduled   |     1     |     2     |     3     |     4     |     5     |
//!   Burst             ●──── busy ──────────────●●●  |     ●     |     ●        all of them, at once
//!   Delay             ●──── busy ──────────────●           ●           ●       a period after this one
//!   Skip              ●──── busy ──────────────●          ●           ●        the next place of the schedule
//! ```
//!
//! A tick counts as missed when it is late by more than a tolerance. tokio's is 5 ms, because its timers are
//! normally late by more than one. Here it is the period if that is shorter: otherwise `Delay` and `Skip`
//! would make up for a short stall as `Burst` does. You can set
//! [another](crate::Interval::set_missed_tick_tolerance).

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

/// Returns when the tick after one that was scheduled for `scheduled` is due, if that one is handed out at `now`.
/// `None` if that is too far ahead for an `Instant`.
pub(crate) fn next_tick(
    behavior: MissedTickBehavior,
    scheduled: Instant,
    now: Instant,
    period: Duration,
    tolerance: Duration,
) -> Option<Instant> {
    let late = now.saturating_duration_since(scheduled);
    if late <= tolerance {
        return scheduled.checked_add(period);
    }
    match behavior {
        MissedTickBehavior::Burst => scheduled.checked_add(period),
        MissedTickBehavior::Delay => now.checked_add(period),
        MissedTickBehavior::Skip => now.checked_add(period - remainder(late, period)),
    }
}

/// Returns `late` modulo `period`, which is not zero. Takes whole durations, because an interval may in
/// theory be more than 584 years late.
fn remainder(late: Duration, period: Duration) -> Duration {
    let nanos = late.as_nanos() % period.as_nanos();
    // Less than the period, which is a `Duration`.
    Duration::new((nanos / NANOS_PER_SEC) as u64, (nanos % NANOS_PER_SEC) as u32)
}

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Returns how late a tick of this period may be and still count as on time.
pub(crate) fn tolerance_of(period: Duration) -> Duration {
    TOLERANCE.min(period)
}

/// The lateness that tokio counts as on time.
const TOLERANCE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// Periods, and how long a program works before each call of `tick`, in the milliseconds that tokio's clock has:
    /// longer and shorter than the period and the tolerance, alone and together, at the edges of both.
    const PERIODS: [u64; 4] = [40, 10, 5, 3];
    const STALLS: [&[u64]; 9] = [
        &[0; 12],
        &[0, 45, 0, 0, 0, 0, 0],
        &[0, 100, 0, 5, 0, 0, 0, 0],
        &[4, 5, 6, 15, 14, 16, 0],
        &[0, 1_000, 0, 0, 39, 40, 41, 0],
        &[0, 50, 50, 50, 50],
        &[30, 30, 45, 5, 80, 0, 0, 120, 0],
        &[0, 8, 8, 9, 7, 3, 4, 0, 0],
        &[7, 86_400_000, 0, 0, 11, 0, 0, 0],
    ];

    /// Returns when each tick was handed out and its scheduled time, by our rule and a clock that this
    /// function moves.
    fn ours(
        behavior: MissedTickBehavior,
        period: Duration,
        stalls: &[u64],
        start: Instant,
    ) -> Vec<[Duration; 2]> {
        let (mut now, mut scheduled) = (start, start);
        let tick = |&stall: &u64| {
            now = (now + Duration::from_millis(stall)).max(scheduled);
            let tick = scheduled;
            scheduled = next_tick(behavior, scheduled, now, period, TOLERANCE).unwrap();
            [now - start, tick - start]
        };
        stalls.iter().map(tick).collect()
    }

    /// Returns the ticks of tokio's interval, on its paused clock.
    async fn tokios(behavior: MissedTickBehavior, period: Duration, stalls: &[u64]) -> Vec<[Duration; 2]> {
        let start = Instant::now();
        let mut interval = tokio::time::interval_at(start, period);
        interval.set_missed_tick_behavior(behavior);
        let mut ticks = Vec::new();
        for &stall in stalls {
            tokio::time::advance(Duration::from_millis(stall)).await;
            let tick = interval.tick().await;
            ticks.push([Instant::now() - start, tick - start]);
        }
        ticks
    }

    /// The same table on both.
    #[tokio::test(start_paused = true)]
    async fn ticks_come_as_tokios_do() {
        for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
            for period in PERIODS.map(Duration::from_millis) {
                for stalls in STALLS {
                    let ours = ours(behavior, period, stalls, Instant::now());
                    let tokios = tokios(behavior, period, stalls).await;
                    assert_eq!(ours, tokios, "{behavior:?} {period:?} {stalls:?}");
                }
            }
        }
    }

    /// Each tick's successor by tokio's own rule, at every lateness near its edges, to the nanosecond: an
    /// interval whose tick is taken at an exact time shows when the next one is due.
    #[tokio::test(start_paused = true)]
    async fn the_next_tick_is_tokios_to_the_nanosecond() {
        let near = |nanos: u64| [nanos.saturating_sub(1), nanos, nanos + 1];
        for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
            for period in [1_000, 40_000, 999_983, 5_000_000, 70_000_001] {
                let edges = [0, 5_000_000, period, 3 * period, 5_000_000 + period, 1_000_000_007];
                for late in edges.into_iter().flat_map(near).map(Duration::from_nanos) {
                    let period = Duration::from_nanos(period);
                    let scheduled = Instant::now();
                    let mut interval = tokio::time::interval_at(scheduled, period);
                    interval.set_missed_tick_behavior(behavior);
                    tokio::time::advance(late).await;
                    assert_eq!(interval.tick().await, scheduled);
                    let now = Instant::now();
                    let expected = next_tick(behavior, scheduled, now, period, TOLERANCE).unwrap();
                    // Late enough that it is due in any case: the tick returns when that was.
                    tokio::time::advance(period * 2 + Duration::from_millis(2)).await;
                    assert_eq!(interval.tick().await, expected, "{behavior:?} {period:?} {late:?}");
                }
            }
        }
    }

    /// A stall of 4 ms, and a period of 250 µs: one tick comes at once, and then the next place of the schedule.
    #[test]
    fn a_short_period_does_not_burst_after_a_short_stall() {
        let (scheduled, period) = (Instant::now(), Duration::from_micros(250));
        let next = |late: u64| {
            let now = scheduled + Duration::from_micros(late);
            next_tick(MissedTickBehavior::Skip, scheduled, now, period, tolerance_of(period)).unwrap()
                - scheduled
        };
        assert_eq!(next(4_000 + 10), Duration::from_micros(4_250));
        assert_eq!(next(250), period);
        assert_eq!(tolerance_of(Duration::from_millis(40)), TOLERANCE);
    }

    /// A smaller tolerance than tokio's keeps what the behaviours promise for short periods.
    #[test]
    fn without_tolerance_short_stalls_count() {
        let scheduled = Instant::now();
        let micros = Duration::from_micros;
        let next = |behavior, late, tolerance| {
            next_tick(behavior, scheduled, scheduled + micros(late), micros(40), tolerance).unwrap()
                - scheduled
        };
        assert_eq!(next(MissedTickBehavior::Skip, 130, TOLERANCE), micros(40));
        assert_eq!(next(MissedTickBehavior::Skip, 130, Duration::ZERO), micros(160));
        assert_eq!(next(MissedTickBehavior::Delay, 130, Duration::ZERO), micros(170));
        assert_eq!(next(MissedTickBehavior::Burst, 130, Duration::ZERO), micros(40));
    }
}
