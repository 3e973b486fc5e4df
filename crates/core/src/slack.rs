//! [`Slack`]: how late an event may run.
//!
//! An event asked for at time T with slack S may run anywhere in `[T, T + S]`. A trigger state met in that
//! window runs it for the cost of a function call; only if none is met, the hardware timer goes off, at T +
//! S, and runs every event whose due time has come. They are the firm timers that Tsafrir et al. (§3) combine
//! with the absence of a tick into *smart timers*.
//!
//! ```text
//!              due T                       deadline T + S
//!   ─────────────┬──────────────────────────────┬──────────▶ time
//!     never here │  any trigger state runs it   │ the backup runs it
//! ```

use core::time::Duration;

use crate::time::{Tick, saturating_nanos};
use crate::wheel::terms::{Key, Terms};

/// The lateness an event tolerates. Larger slack means fewer hardware timer events and wake-ups.
///
/// | value | deadline | use |
/// |---|---|---|
/// | [`Slack::EXACT`] | the due time, to the tick | pacing, conventional interval timers |
/// | [`Slack::within`] | due + slack | most timers: the first trigger state from the due time on runs it |
/// | [`Slack::rounded`] | due + slack | time-outs that rarely fire: moved to a round tick, so that they share wake-ups |
/// | [`Slack::DEFAULT`] | due + 10% of the delay, at most 50 µs | when you have no preference |
/// | [`Slack::DEFERRABLE`] | none | work that may wait for the next trigger state, however late |
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{Config, Slack, SoftTimers, Timestamp};
///
/// let mut timers = SoftTimers::new(Config::default());
/// let now = Timestamp::ZERO;
/// timers.schedule(now, Duration::from_micros(100), Slack::micros(30), "firm");
/// assert_eq!(timers.poll_at(), Some(Timestamp::from_micros(130)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Slack(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Kind {
    #[default]
    Proportional,
    Window(u64),
    Rounded(u64),
    Deferrable,
}

impl Slack {
    /// No slack: the hardware timer is armed for the due time, rounded up to the tick like every
    /// due time, so that exact timers closer than a tick share a wake-up.
    pub const EXACT: Slack = Slack(Kind::Window(0));

    /// A tenth of the delay, at most 50 µs, at least one tick.
    ///
    /// Precise timers without any coalescing have cost other runtimes an order of magnitude in CPU
    /// time, and 50 µs rarely matter on a delay of half a millisecond or more.
    pub const DEFAULT: Slack = Slack(Kind::Proportional);

    /// Any lateness: the event runs at the first trigger state from its due time on and never arms
    /// the hardware timer itself. Alone in an idle program it waits until something else wakes it.
    pub const DEFERRABLE: Slack = Slack(Kind::Deferrable);

    /// Allows an event to be up to `window` late. The first trigger state at or after the due time runs the event.
    pub const fn within(window: Duration) -> Slack {
        Slack(Kind::Window(saturating_nanos(window)))
    }

    /// Allows an event to be up to `window` late, and the due time itself may move up by half of that to the roundest
    /// tick in reach. Events so rounded fall due together, and re-arming one to a little later often costs
    /// nothing; in return it may miss a trigger state in the first half of its window.
    pub const fn rounded(window: Duration) -> Slack {
        Slack(Kind::Rounded(saturating_nanos(window)))
    }

    /// [`Slack::within`] of this many nanoseconds, without a [`Duration`] in between.
    pub const fn nanos(nanos: u64) -> Slack {
        Slack(Kind::Window(nanos))
    }

    /// [`Slack::within`] of this many microseconds.
    pub const fn micros(micros: u64) -> Slack {
        Slack(Kind::Window(micros.saturating_mul(1_000)))
    }

    /// [`Slack::within`] of this many milliseconds.
    pub const fn millis(millis: u64) -> Slack {
        Slack(Kind::Window(millis.saturating_mul(1_000_000)))
    }

    /// Returns the greatest lateness that it allows, whatever the delay, provided that the tick is no longer;
    /// `None` if there is no bound.
    ///
    /// ```
    /// use core::time::Duration;
    /// use softtimers_core::Slack;
    ///
    /// assert_eq!(Slack::DEFAULT.longest(), Some(Duration::from_micros(50)));
    /// assert_eq!(Slack::millis(3).longest(), Some(Duration::from_millis(3)));
    /// assert_eq!(Slack::DEFERRABLE.longest(), None);
    /// ```
    pub const fn longest(self) -> Option<Duration> {
        match self.0 {
            Kind::Proportional => Some(Duration::from_nanos(MOST_PROPORTIONAL)),
            Kind::Window(nanos) | Kind::Rounded(nanos) => Some(Duration::from_nanos(nanos)),
            Kind::Deferrable => None,
        }
    }

    /// Returns the times of an event due at `due`, scheduled `delay` ahead, when the latest time seen is
    /// `latest`. An event that is already due goes there, behind everything due so far; this is what ends a
    /// turn.
    #[inline]
    pub(crate) fn resolve(self, due: u64, delay: u64, tick: Tick, latest: u64) -> Window {
        let mut effective = if due <= latest { latest } else { tick.round_up(due) };
        let slack = match self.0 {
            Kind::Proportional => (delay / 10).min(MOST_PROPORTIONAL).max(tick.as_nanos()),
            Kind::Window(slack) => slack,
            Kind::Rounded(slack) => {
                if due > latest {
                    effective = roundest(due, slack / 2, tick.as_nanos()).unwrap_or(effective);
                }
                slack
            }
            Kind::Deferrable => return Window { due, effective, last: due, deferrable: true },
        };
        Window { due, effective, last: due.saturating_add(slack), deferrable: false }
    }
}

/// An event's times, all absolute and in nanoseconds: converting to and from a [`Duration`] would be a good
/// part of the cost of scheduling a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The requested time.
    pub(crate) due: u64,
    /// The time that orders it: `due` on the tick, after rounding.
    pub(crate) effective: u64,
    /// Due + slack; for a deferrable event, which has no deadline, due.
    last: u64,
    deferrable: bool,
}

impl Window {
    /// Returns the terms of an event, with its own key or one that it keeps.
    #[inline]
    pub(crate) fn terms(&self, key: Key) -> Terms {
        let deadline = if self.deferrable { NEVER } else { self.last.max(key.due) };
        Terms { key, asked: self.due, deadline }
    }

    /// Returns whether an event already inserted at `filed` need not move.
    #[inline]
    pub(crate) fn contains(&self, filed: u64) -> bool {
        self.due <= filed && filed <= self.last
    }
}

/// The multiple of `tick` in `[due, due + reach]` whose count of ticks has the most trailing zeros.
fn roundest(due: u64, reach: u64, tick: u64) -> Option<u64> {
    let low = due.div_ceil(tick);
    let high = due.saturating_add(reach) / tick;
    if high <= low || low == 0 {
        return None;
    }
    // Above the highest bit in which low - 1 and high differ they agree; clearing the bits below it
    // in `high` gives the roundest number that is still > low - 1.
    let bit = ((low - 1) ^ high).ilog2();
    ((high >> bit) << bit).checked_mul(tick)
}

/// Linux's default timer slack for an ordinary thread, which programs have today.
const MOST_PROPORTIONAL: u64 = 50_000;
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::terms::Sequence;

    fn window(slack: Slack, due: u64, delay: u64, tick: u64) -> (u64, u64) {
        let window = slack.resolve(due, delay, Tick::new(tick), 0);
        let key = Key { due: window.effective, sequence: Sequence::FIRST };
        (window.effective, window.terms(key).deadline)
    }

    #[test]
    fn each_kind_gives_its_window() {
        assert_eq!(window(Slack::EXACT, 1_500, 1_500, 1_000), (2_000, 2_000));
        assert_eq!(window(Slack::micros(3), 1_500, 1_500, 1_000), (2_000, 4_500));
        assert_eq!(window(Slack::DEFERRABLE, 1_500, 1_500, 1_000), (2_000, u64::MAX));
        assert_eq!(window(Slack::millis(1), 1_500, 0, 1), (1_500, 1_001_500));
    }

    #[test]
    fn the_default_is_a_tenth_within_one_tick_and_50_us() {
        assert_eq!(window(Slack::DEFAULT, 100_000, 100_000, 1_000).1, 110_000);
        assert_eq!(window(Slack::default(), 3_000, 3_000, 1_000).1, 4_000);
        assert_eq!(window(Slack::DEFAULT, 10_000_000, 10_000_000, 1_000).1, 10_050_000);
    }

    #[test]
    fn rounding_picks_the_roundest_tick_in_half_the_window() {
        // [1001, 1501] µs: 1024 µs has ten trailing zeros.
        assert_eq!(window(Slack::rounded(Duration::from_millis(1)), 1_001_000, 0, 1_000).0, 1_024_000);
        // Nothing rounder in reach: the due tick itself.
        assert_eq!(window(Slack::rounded(Duration::from_nanos(10)), 1_001_000, 0, 1_000).0, 1_001_000);
        assert_eq!(window(Slack::rounded(Duration::MAX), 0, 0, 1_000).0, 0);
    }

    #[test]
    fn rounding_never_leaves_the_first_half_of_the_window() {
        let many = if cfg!(miri) { 40 } else { 5_000 };
        for due in (0..many).chain(u64::MAX - many..=u64::MAX) {
            for slack in [0, 1, 7, 64, 999, 4_096] {
                let (effective, deadline) = window(Slack::rounded(Duration::from_nanos(slack)), due, 0, 1);
                assert!(effective >= due && effective <= due.saturating_add(slack / 2));
                assert_eq!(deadline, due.saturating_add(slack));
            }
        }
    }
}
