//! [`Line`]: converts a free-running counter to the kernel's clock, and bounds how long that is valid.
//!
//! A counter's rate is not guaranteed: the kernel slews its clock against it, a machine may be stopped,
//! copied or moved, and some firmware writes to it. So a reading is converted from the last moment at which
//! both clocks were seen together, the *anchor*, and only up to a *horizon* from there. Then, and whenever
//! the program has slept, a sandwich is compared with the line:
//!
//! ```text
//!   kernel's              ·  ╷ after
//!   clock              ·   ──┤ sandwich   the line meets it: the anchor moves along the line;
//!      ▲            ·        ╵ before     it misses by what clocks drift: the anchor is the nearer end;
//!      │      ╱·                          by more: a disagreement, and the counter is not believed again
//!      │   ╱
//!      │╱ anchor ├─ horizon
//!      └───────────────────────▶ counter
//! ```
//!
//! A sandwich that was interrupted in the middle is wide, so it constrains little, but correctly; it needs no
//! averaging or filtering.
//!
//! The clock may deviate by a thousandth of the elapsed time, plus a credit of a microsecond that has to be
//! earned again: so many small steps are detected as one large step is. All of this is integer arithmetic,
//! and reads no clock.

use std::fmt;
use std::time::Duration;

use softtimers_core::Timestamp;

use softtimers_linux::clock::{NANOS_PER_SEC, Sandwich};

/// A rate, the anchor it counts from, and the remaining credit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// The anchor: the counter, and the kernel's clock in nanoseconds and 2³²ths of one. Anchors half a
    /// microsecond apart that each dropped their fraction would be a drift of a thousandth.
    counter: u64,
    nanos: u64,
    fraction: u64,
    /// Nanoseconds per tick times 2³².
    rate: u64,
    /// Ticks from the anchor from which on the line must be checked before it is read. At most
    /// [`HORIZON`], so that `ticks * rate` stays below 2⁵³.
    horizon: u64,
    /// Picoseconds by which the line may miss the next sandwich.
    forgiven: u64,
}

impl Line {
    /// A line that is never used: every reading needs a check.
    pub(super) const CLOSED: Line =
        Line { counter: 0, nanos: 0, fraction: 0, rate: 0, horizon: 0, forgiven: 0 };

    /// Makes the line through two sandwiches, or `None` if its rate would be too inaccurate: they lie too
    /// close together for their width, or the counter has fewer than a thousand ticks to the horizon.
    pub(super) fn through(first: &Sandwich<u64>, second: &Sandwich<u64>) -> Option<Line> {
        let ticks = second.foreign.checked_sub(first.foreign).filter(|&ticks| ticks > 0)?;
        let nanos = second.middle().checked_duration_since(first.middle())?.as_nanos();
        if u128::from(first.error() + second.error()) * CALIBRATED_TO > nanos {
            return None;
        }
        let rate = u64::try_from((nanos << 32) / u128::from(ticks)).ok().filter(|&rate| rate > 0)?;
        let horizon = (HORIZON.as_nanos() as u64) << 32;
        Some(Line {
            counter: second.foreign,
            nanos: second.middle().as_nanos(),
            fraction: 0,
            rate,
            horizon: Some(horizon / rate).filter(|&ticks| ticks >= FEWEST_TICKS)?,
            forgiven: FORGIVEN,
        })
    }

    /// Returns the time at which the counter shows `counter`; `None` beyond the horizon and before the
    /// anchor, where it must be [`checked`](Self::checked) first.
    #[inline]
    pub(super) fn at(&self, counter: u64) -> Option<Timestamp> {
        let ticks = counter.wrapping_sub(self.counter);
        if ticks < self.horizon {
            Some(Timestamp::from_nanos(self.nanos.saturating_add((ticks * self.rate + self.fraction) >> 32)))
        } else {
            None
        }
    }

    /// Returns the line with its anchor at `sandwich`, and by how many nanoseconds it had to be moved.
    pub(super) fn checked(&self, sandwich: &Sandwich<u64>) -> Result<(Line, u64), Disagreement> {
        let (least, most) = (sandwich.before.as_nanos(), sandwich.after.as_nanos());
        let (expected, fraction) = self.extrapolate(sandwich.foreign);
        let nanos = expected.clamp(least, most);
        let missed = nanos.abs_diff(expected);
        let elapsed = nanos.saturating_sub(self.nanos);
        let forgiven = self.forgiven.saturating_add(elapsed.saturating_mul(EARNED));
        let left = forgiven.checked_sub(missed.saturating_mul(1_000));
        let Some(left) = left else {
            return Err(Disagreement {
                by: Duration::from_nanos(missed),
                ahead: expected > most,
                within: Duration::from_nanos(elapsed),
            });
        };
        // A deviation that a wide sandwich hides may show later.
        let forgiven = left.min(FORGIVEN.saturating_add(sandwich.width().saturating_mul(1_000)));
        let fraction = if missed == 0 { fraction } else { 0 };
        Ok((Line { counter: sandwich.foreign, nanos, fraction, forgiven, ..*self }, missed))
    }

    /// Returns the counter's ticks per second.
    pub(super) fn counter_hz(&self) -> u64 {
        let nanos = u128::from(NANOS_PER_SEC) << 32;
        nanos.checked_div(u128::from(self.rate)).map_or(0, |hz| u64::try_from(hz).unwrap_or(u64::MAX))
    }

    /// As [`at`](Self::at), however far, and with the fraction; saturates at both ends of the range.
    fn extrapolate(&self, counter: u64) -> (u64, u64) {
        let anchor = u128::from(self.nanos) << 32 | u128::from(self.fraction);
        let way = u128::from(counter.abs_diff(self.counter)).saturating_mul(u128::from(self.rate));
        let time =
            if counter >= self.counter { anchor.saturating_add(way) } else { anchor.saturating_sub(way) };
        (u64::try_from(time >> 32).unwrap_or(u64::MAX), u64::from(time as u32))
    }
}

/// A disagreement between a counter and the kernel's clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Disagreement {
    /// The least difference that is certain.
    pub by: Duration,
    /// Whether the counter was ahead of the kernel's clock.
    pub ahead: bool,
    /// The time in which it arose, by the kernel's clock.
    pub within: Duration,
}

/// `the counter came out 20ms behind the kernel's clock after 3µs`
impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disagreement { by, ahead, within } = self;
        let side = if *ahead { "ahead of" } else { "behind" };
        write!(f, "the counter came out {by:?} {side} the kernel's clock after {within:?}")
    }
}

/// How long a line is read without a check, and so the worst error of a reading. A check takes 75 ns, as much
/// as five or six readings save; every 100 µs that is less than a thousandth of the time.
pub(super) const HORIZON: Duration = Duration::from_micros(100);

/// Picoseconds of disagreement that are allowed per nanosecond: up to a thousandth counts as drift, twice the
/// slew that the kernel allows NTP (500 ppm each way).
const EARNED: u64 = 1;

/// Picoseconds of disagreement beyond drift that are allowed: CPUs that differ by some ten nanoseconds, the
/// start of a slew.
const FORGIVEN: u64 = 1_000_000;

/// The rate is known to one part in 20,000: 50 ppm, a twentieth of the allowed drift.
const CALIBRATED_TO: u128 = 20_000;

/// 10 MHz. A coarser counter has no advantage over the kernel's clock.
const FEWEST_TICKS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn sandwich(before: u64, foreign: u64, after: u64) -> Sandwich<u64> {
        Sandwich { before: Timestamp::from_nanos(before), foreign, after: Timestamp::from_nanos(after) }
    }

    /// 4 GHz. The anchor: 1 s and 20 ns, when the counter shows this.
    const ANCHOR: u64 = 40_007_000;

    fn line() -> Line {
        let (first, second) =
            (sandwich(990_000_000, 7_000, 990_000_040), sandwich(1_000_000_000, ANCHOR, 1_000_000_040));
        let line = Line::through(&first, &second).unwrap();
        assert_eq!(line.at(ANCHOR), Some(Timestamp::from_nanos(1_000_000_020)));
        line
    }

    #[test]
    fn it_is_read_up_to_the_horizon_and_not_before_the_anchor() {
        let at = |ticks: i64| line().at(ANCHOR.wrapping_add_signed(ticks)).map(Timestamp::as_nanos);
        assert_eq!([at(4), at(4_000), at(399_999)], [1_000_000_021, 1_000_001_020, 1_000_100_019].map(Some));
        assert_eq!([at(400_000), at(i64::MAX), at(-1)], [None; 3]);
        assert_eq!(line().counter_hz(), 4_000_000_000);
        assert_eq!((Line::CLOSED.at(0), Line::CLOSED.counter_hz()), (None, 0));
    }

    #[test]
    fn a_sandwich_on_the_line_leaves_it_where_it_is() {
        let later = ANCHOR + 400_000;
        // Held up for 5 ms, on either side of the reading.
        for (before, after) in [(995_000_020, 1_000_100_030), (1_000_100_010, 1_005_000_000)] {
            let (moved, missed) = line().checked(&sandwich(before, later, after)).unwrap();
            assert_eq!(missed, 0);
            assert_eq!(moved.at(later), Some(Timestamp::from_nanos(1_000_100_020)));
        }
    }

    #[test]
    fn drift_moves_it_to_the_nearer_end() {
        let later = ANCHOR + 400_000;
        // 100 µs later by the counter, 100.2 µs and 99.8 µs by the kernel.
        for (before, after, nearer) in
            [(1_000_100_220, 1_000_100_260, 1_000_100_220), (1_000_099_780, 1_000_099_820, 1_000_099_820)]
        {
            let (moved, missed) = line().checked(&sandwich(before, later, after)).unwrap();
            assert_eq!((missed, moved.at(later)), (200, Some(Timestamp::from_nanos(nearer))));
            let earned = moved.forgiven + 200_000 - FORGIVEN;
            assert!((99_000..=101_000).contains(&earned), "{earned}");
        }
    }

    #[test]
    fn steps_of_either_clock_are_disagreements() {
        let later = ANCHOR + 400_000;
        for (counter, elapsed, ahead) in [
            (later - 12_000, 100_000, false),
            (later + 12_000, 100_000, true),
            (0, 100_000, false),
            (u64::MAX, 100_000, true),
            (later, 1_000_000_000, false),
        ] {
            let at = 1_000_000_000 + elapsed;
            let found = line().checked(&sandwich(at, counter, at + 40)).unwrap_err();
            assert_eq!(found.ahead, ahead, "{counter} at {at}: {found}");
            assert!(found.by > Duration::from_nanos(2_900), "{found}");
        }
        let found = line().checked(&sandwich(1_000_100_020, later - 8_000, 1_000_100_020)).unwrap_err();
        assert_eq!(found.to_string(), "the counter came out 2µs behind the kernel's clock after 100µs");
    }

    /// Checked every 5 µs, each single step of a counter that runs 1% fast is small.
    #[test]
    fn small_steps_add_up() {
        let mut line = line();
        let found = (1..1_000).find(|nth| {
            let (counter, at) = (ANCHOR + nth * 20_200, 1_000_000_000 + nth * 5_000);
            line.checked(&sandwich(at, counter, at + 40)).map(|(moved, _)| line = moved).is_err()
        });
        // Each check misses by 50 ns and earns 5; there is 1 µs of credit, and half a sandwich.
        assert!(found.is_some_and(|nth| (22..=24).contains(&nth)), "{found:?}");
    }

    /// A tick is a third of a nanosecond, and the anchors are two thirds of one apart.
    #[test]
    fn anchors_drop_no_fractions() {
        let (first, second) = (sandwich(1_000, 0, 1_000), sandwich(10_001_000, 30_000_000, 10_001_000));
        let mut line = Line::through(&first, &second).unwrap();
        for nth in 1..=30_000u64 {
            let (least, most) = (10_001_000, 10_001_000 + nth);
            line = line.checked(&sandwich(least, 30_000_000 + 2 * nth, most)).unwrap().0;
        }
        let time = line.at(30_000_000 + 60_000).unwrap().as_nanos();
        assert_eq!(time.abs_diff(10_001_000 + 20_000), 1, "the rate itself is rounded down");
    }

    #[test]
    fn a_long_sleep_may_drift_far() {
        let hour = 3_600_000_000_000u64;
        let at = 1_000_000_020 + hour;
        let (drifted, wrong) = (hour * 4 + hour * 4 / 1_250, hour * 4 + hour * 4 / 800);
        assert!(line().checked(&sandwich(at, ANCHOR + drifted, at + 40)).is_ok(), "800 ppm");
        assert!(line().checked(&sandwich(at, ANCHOR + wrong, at + 40)).is_err(), "1,250 ppm");
    }

    /// A second of drift by 500 ppm, first seen through a sandwich that was held up for as long.
    #[test]
    fn what_a_wide_sandwich_hides_is_forgiven_when_it_shows() {
        let (second, drift) = (1_000_000_000, 500_000);
        let (counter, at) = (ANCHOR + 4 * (second + drift), 1_000_000_020 + second);
        let (line, missed) = line().checked(&sandwich(at, counter, at + drift)).unwrap();
        assert_eq!(missed, 0);
        let (line, missed) = line.checked(&sandwich(at + 1_000, counter + 4_000, at + 1_040)).unwrap();
        assert_eq!(missed, drift - 40);
        assert!(line.forgiven <= FORGIVEN + 40_000, "no more than a tight one can hide");
    }

    #[test]
    fn sandwiches_that_say_too_little_make_no_line() {
        let first = sandwich(1_000, 1_000, 1_040);
        for (second, why) in [
            (sandwich(501_000, 2_001_000, 501_040), "40 ns in 500 µs are 80 ppm"),
            (sandwich(10_001_000, 1_000, 10_001_040), "the counter stands"),
            (sandwich(10_001_000, 999, 10_001_040), "it goes back"),
            (sandwich(10_001_000, 100_000, 10_001_040), "it ticks every 101 ns"),
            (sandwich(10_001_000, 40_001_000, 10_003_000), "the second was held up"),
            (sandwich(500, 40_001_000, 500), "the kernel's clock goes back"),
            (sandwich(10_001_000, u64::MAX, 10_001_040), "no CPU counts that fast"),
        ] {
            assert!(Line::through(&first, &second).is_none(), "{why}");
        }
        assert!(Line::through(&first, &sandwich(10_001_000, 40_001_000, 10_001_040)).is_some());
    }
}
