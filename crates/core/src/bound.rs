//! The paper's bound on lateness, as code (soft timers §3).
//!
//! The facility has two clocks: one to *measure* with, and a slower periodic interrupt that *backs
//! up* the trigger states. Scheduling happens somewhere between two ticks of the measurement clock,
//! so an event asked for in T ticks may only fire once T + 1 ticks have been counted; and the backup
//! finds it within the X ticks of one interrupt period after that:
//!
//! ```text
//!      T  <  time until the event fires  <  T + X + 1        X = measurement rate / interrupt rate
//!
//!   T = 1, X = 2       scheduled      T + 1 counted        latest backup
//!   measurement   |      ▼    |          ▲|           |       |
//!   backup        ┃           |           ┃           |       ┃
//!   real time     0    0.4    1           2           3       4
//! ```
//!
//! On a nanosecond clock the "+ 1" is one nanosecond and the rule is `now >= due`: the path that
//! [`SoftTimers`](crate::SoftTimers) takes by default. With a coarse clock, tell it the step
//! ([`Config::clock_step`](crate::Config::clock_step)) and it counts T + 1.

use core::num::{NonZeroU32, NonZeroU64};
use core::time::Duration;

use crate::Timestamp;
use crate::time::NANOS_PER_SEC;

/// The two rates that bound every event: `measure_resolution` and `interrupt_clock_resolution`.
///
/// ```
/// use softtimers_core::bound::Resolutions;
///
/// let typical = Resolutions::TYPICAL; // 1 MHz and 1 kHz
/// assert_eq!(typical.x(), 1_000);
/// assert_eq!(typical.most_delay(), 1_001); // ticks beyond T
/// assert_eq!(typical.bounds(40), 40..1_041); // exclusive at both ends
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Resolutions {
    measure_hz: NonZeroU64,
    interrupt_hz: NonZeroU64,
}

impl Resolutions {
    /// The paper's typical values: a 1 MHz measurement clock backed up 1,000 times a second.
    pub const TYPICAL: Resolutions = match Resolutions::new(1_000_000, 1_000) {
        Some(resolutions) => resolutions,
        None => unreachable!(),
    };

    /// Both in Hz; `None` if either is zero, the interrupt is the faster one, or the measurement
    /// clock is finer than a nanosecond.
    pub const fn new(measure_hz: u64, interrupt_hz: u64) -> Option<Self> {
        match (NonZeroU64::new(measure_hz), NonZeroU64::new(interrupt_hz)) {
            (Some(measure), Some(interrupt)) if interrupt_hz <= measure_hz && measure_hz <= NANOS_PER_SEC => {
                Some(Resolutions { measure_hz: measure, interrupt_hz: interrupt })
            }
            _ => None,
        }
    }

    /// Ticks per second of the clock that measures.
    pub const fn measure_resolution(self) -> u64 {
        self.measure_hz.get()
    }

    /// Interrupts per second that back up the trigger states: the resolution that is guaranteed.
    pub const fn interrupt_clock_resolution(self) -> u64 {
        self.interrupt_hz.get()
    }

    /// `time` in whole ticks of the measurement clock.
    pub const fn measure_time(self, time: Timestamp) -> u64 {
        (time.as_nanos() as u128 * self.measure_hz.get() as u128 / NANOS_PER_SEC as u128) as u64
    }

    /// One tick of the measurement clock, rounded up to a nanosecond.
    pub const fn measure_tick(self) -> Duration {
        Duration::from_nanos(NANOS_PER_SEC.div_ceil(self.measure_hz.get()))
    }

    /// One period of the backup, rounded up to a nanosecond.
    pub const fn interrupt_period(self) -> Duration {
        Duration::from_nanos(NANOS_PER_SEC.div_ceil(self.interrupt_hz.get()))
    }

    /// Measurement ticks per interrupt: the X of the bound, rounded up.
    pub const fn x(self) -> u64 {
        self.measure_hz.get().div_ceil(self.interrupt_hz.get())
    }

    /// The firing rule on a coarse clock: at least T + 1 ticks counted since `scheduled`.
    pub const fn may_fire(self, scheduled: Timestamp, t: u64, now: Timestamp) -> bool {
        let counted = self.measure_time(now).saturating_sub(self.measure_time(scheduled));
        counted > t
    }

    /// The firing rule on a clock fine enough to ignore the tick: `now` is at or past the due time.
    pub const fn may_fire_fine(due: Timestamp, now: Timestamp) -> bool {
        now.as_nanos() >= due.as_nanos()
    }

    /// Ticks after scheduling between which an event asked for in `t` ticks fires; both ends are
    /// exclusive: it is later than `start` and earlier than `end`.
    pub const fn bounds(self, t: u64) -> core::ops::Range<u64> {
        t..t.saturating_add(self.x()).saturating_add(1)
    }

    /// The most ticks by which an event can be late: X + 1.
    pub const fn most_delay(self) -> u64 {
        self.x() + 1
    }
}

/// The greatest share p of phases that a node may delay in a job of `nodes` that wait for each other
/// after each phase: an order of magnitude below one in n (Tsafrir et al. §2.2).
///
/// The job is held up by any one of them, in `1 − (1 − p)ⁿ` of its phases; with `0.1 / n` that is less
/// than a tenth.
///
/// ```
/// use core::num::NonZeroU32;
/// use softtimers_core::bound::max_p;
///
/// assert_eq!(max_p(NonZeroU32::new(100).unwrap()), 1e-3);
/// ```
pub fn max_p(nodes: NonZeroU32) -> f64 {
    0.1 / f64::from(nodes.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_bound_nothing_are_refused() {
        assert_eq!(Resolutions::new(0, 1), None);
        assert_eq!(Resolutions::new(1_000, 0), None);
        assert_eq!(Resolutions::new(1_000, 1_001), None);
        assert_eq!(Resolutions::new(1_000_000_001, 1_000), None);
        assert_eq!(Resolutions::new(1_000, 1_000).map(Resolutions::x), Some(1));
    }

    #[test]
    fn the_typical_clocks_give_a_delay_of_1001_ticks() {
        assert_eq!(Resolutions::TYPICAL.most_delay(), 1_001);
        assert_eq!(Resolutions::TYPICAL.measure_tick(), Duration::from_micros(1));
        assert_eq!(Resolutions::TYPICAL.interrupt_period(), Duration::from_millis(1));
        assert_eq!(Resolutions::TYPICAL.measure_time(Timestamp::from_nanos(1_999)), 1);
    }

    /// T is not enough on a coarse clock, T + 1 is.
    #[test]
    fn the_coarse_path_wants_t_plus_one() {
        let clocks = Resolutions::TYPICAL;
        let scheduled = Timestamp::from_nanos(5_900); // reads as tick 5, though 6 is near
        assert!(!clocks.may_fire(scheduled, 3, Timestamp::from_nanos(8_999)));
        assert!(clocks.may_fire(scheduled, 3, Timestamp::from_nanos(9_000)));
    }

    #[test]
    fn a_tenth_of_one_in_n_delays_less_than_a_tenth_of_the_job() {
        for nodes in [1, 2, 100, 10_000, u32::MAX] {
            let p = max_p(NonZeroU32::new(nodes).unwrap());
            assert!((p * f64::from(nodes) - 0.1).abs() < 1e-12);
            // 1 − (1 − p)ⁿ ≤ n·p, the union bound.
            let held_up = if nodes <= 10_000 {
                1.0 - (0..nodes).fold(1.0, |on_time, _| on_time * (1.0 - p))
            } else {
                0.0
            };
            assert!(held_up < 0.1 + 1e-12, "{nodes}: {held_up}");
        }
    }

    /// A nanosecond clock needs no extra tick.
    #[test]
    fn the_fine_path_wants_t() {
        let due = Timestamp::from_nanos(8_900);
        assert!(!Resolutions::may_fire_fine(due, Timestamp::from_nanos(8_899)));
        assert!(Resolutions::may_fire_fine(due, due));
    }
}
