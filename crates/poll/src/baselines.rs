//! Baseline policies: those that the papers compare with, and those of today's programs.
//!
//! ```text
//!   packets           ●     ● ●                        ●
//!   Interrupts        ↑     ↑ ↑                        ↑          one wake-up each, or each batch
//!   ConstantPeriod   ─┼───────┼───────┼───────┼───────┼──         whether or not packets came
//!   BusyWait         ││││││││││││││││││││││││││││││││││││         a CPU of its own
//!   SpinThenBlock     ↑││││││││││││· · · · · · · · · · ↑│││       spins while it pays, then sleeps
//!   Watchdog          trigger states; a timer only if none came for 50 µs; ↑ when idle
//! ```

use core::time::Duration;

use super::named::{Named, PolicySettings};
use super::{Look, Next, Policy};
use crate::error::PolicyError;
use crate::nanos::saturating_nanos;
use softtimers_core::Timestamp;

/// A wake-up for each packet that arrives while none is being handled: the policy of a plain event loop, and of a driver with
/// batched interrupts (livelock §4.1; HIP §6).
///
/// ```
/// use softtimers_poll::{Interrupts, Next, Policy};
/// assert_eq!(Interrupts.next(), Next::Armed);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interrupts;

impl Policy for Interrupts {
    #[inline]
    fn looked(&mut self, _: &Look) -> Next {
        Next::Armed
    }

    #[inline]
    fn next(&self) -> Next {
        Next::Armed
    }
}

impl Named for Interrupts {
    const NAME: &'static str = "interrupts";
    const ABOUT: &'static str = "A wake-up for each packet that arrives while none is being handled";

    fn with(_: PolicySettings) -> Result<Self, PolicyError> {
        Ok(Interrupts)
    }

    fn settings(&self) -> PolicySettings {
        PolicySettings::default()
    }
}

/// Polls all the time.
///
/// ```
/// use softtimers_poll::{BusyWait, Next, Policy};
/// assert_eq!(BusyWait.next(), Next::Now);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BusyWait;

impl Policy for BusyWait {
    #[inline]
    fn looked(&mut self, _: &Look) -> Next {
        Next::Now
    }

    #[inline]
    fn next(&self) -> Next {
        Next::Now
    }
}

impl Named for BusyWait {
    const NAME: &'static str = "busy-wait";
    const ABOUT: &'static str = "Polls all the time";

    fn with(_: PolicySettings) -> Result<Self, PolicyError> {
        Ok(BusyWait)
    }

    fn settings(&self) -> PolicySettings {
        PolicySettings::default()
    }
}

/// Polls at the multiples of a period: clocked interrupts (HIP §5 names 500 to 4,000 a second).
///
/// Skips multiples that passed during a look. The period is at least a nanosecond.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{ConstantPeriod, Look, Next, Policy};
///
/// let at = Timestamp::from_micros;
/// let mut policy = ConstantPeriod::new(Duration::from_micros(250));
/// assert_eq!(policy.looked(&Look { began: at(500), ended: at(510), found: 3 }), Next::At(at(750)));
/// assert_eq!(policy.looked(&Look { began: at(750), ended: at(1_000), found: 90 }), Next::At(at(1_250)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConstantPeriod {
    period: u64,
    next: Next,
}

impl ConstantPeriod {
    /// Makes a policy that polls once in each `period`.
    pub const fn new(period: Duration) -> Self {
        let nanos = saturating_nanos(period);
        ConstantPeriod { period: if nanos == 0 { 1 } else { nanos }, next: Next::Now }
    }
}

impl Policy for ConstantPeriod {
    fn looked(&mut self, look: &Look) -> Next {
        let periods = look.ended.as_nanos() / self.period + 1;
        self.next = Next::At(Timestamp::from_nanos(periods.saturating_mul(self.period)));
        self.next
    }

    fn next(&self) -> Next {
        self.next
    }
}

impl Named for ConstantPeriod {
    const NAME: &'static str = "constant";
    const ABOUT: &'static str = "Polls at the multiples of a period";

    fn with(settings: PolicySettings) -> Result<Self, PolicyError> {
        settings.needed_time().map(ConstantPeriod::new)
    }

    fn settings(&self) -> PolicySettings {
        PolicySettings { time: Some(Duration::from_nanos(self.period)), ..PolicySettings::default() }
    }
}

/// Spins for a while after each packet, then waits for a wake-up: the usual compromise of busy-polling sockets.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{Look, Next, Policy, SpinThenBlock};
///
/// let at = Timestamp::from_micros;
/// let mut policy = SpinThenBlock::new(Duration::from_micros(50));
/// let mut looked = |time, found| policy.looked(&Look { began: at(time), ended: at(time), found });
/// assert_eq!(looked(1_000, 1), Next::Now);
/// assert_eq!(looked(1_049, 0), Next::Now);
/// assert_eq!(looked(1_050, 0), Next::Armed);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpinThenBlock {
    spin: Duration,
    until: Timestamp,
    next: Next,
}

impl SpinThenBlock {
    /// Makes a policy that spins for `spin` after the last packet.
    pub const fn new(spin: Duration) -> Self {
        SpinThenBlock { spin, until: Timestamp::ZERO, next: Next::Armed }
    }
}

impl Policy for SpinThenBlock {
    fn looked(&mut self, look: &Look) -> Next {
        if look.found > 0 {
            self.until = look.ended + self.spin;
        }
        self.next = if look.ended < self.until { Next::Now } else { Next::Armed };
        self.next
    }

    fn next(&self) -> Next {
        self.next
    }
}

impl Named for SpinThenBlock {
    const NAME: &'static str = "spin";
    const ABOUT: &'static str = "Polls for a while after each packet, then waits for a wake-up";

    fn with(settings: PolicySettings) -> Result<Self, PolicyError> {
        settings.needed_time().map(SpinThenBlock::new)
    }

    fn settings(&self) -> PolicySettings {
        PolicySettings { time: Some(self.spin), ..PolicySettings::default() }
    }
}

/// Polls at every trigger state, and by a timer only if none has come within a time: the polling watchdog
/// (Maquelin et al. 1996, in HIP §5: context switches about every 50 µs, and a watchdog of 50 µs).
///
/// The watchdog interrupts a CPU that computes. An idle CPU passes no trigger state, and waits for the
/// wake-up.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{Next, Policy, Watchdog};
///
/// let mut policy = Watchdog::default();
/// assert_eq!(policy.next(), Next::Watched(Duration::from_micros(50)));
/// assert_eq!(policy.idle(Timestamp::ZERO), Next::Armed);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watchdog {
    delay: Duration,
    armed: bool,
}

impl Watchdog {
    /// Makes a policy under which a packet waits for at most `delay`.
    pub const fn new(delay: Duration) -> Self {
        Watchdog { delay, armed: false }
    }
}

impl Default for Watchdog {
    /// 50 µs, as in the paper.
    fn default() -> Self {
        Watchdog::new(Duration::from_micros(50))
    }
}

impl Policy for Watchdog {
    fn looked(&mut self, _: &Look) -> Next {
        self.armed = false;
        self.next()
    }

    fn idle(&mut self, _: Timestamp) -> Next {
        self.armed = true;
        self.next()
    }

    #[inline]
    fn next(&self) -> Next {
        if self.armed { Next::Armed } else { Next::Watched(self.delay) }
    }
}

impl Named for Watchdog {
    const NAME: &'static str = "watchdog";
    const ABOUT: &'static str = "Polls at every trigger state, and by a timer where none has come in time";

    fn with(settings: PolicySettings) -> Result<Self, PolicyError> {
        Ok(settings.time.map_or_else(Watchdog::default, Watchdog::new))
    }

    fn settings(&self) -> PolicySettings {
        PolicySettings { time: Some(self.delay), ..PolicySettings::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn look(policy: &mut impl Policy, ended: u64, found: u32) -> Next {
        policy.looked(&Look { began: at(ended), ended: at(ended), found })
    }

    #[test]
    fn clocked_polls_are_at_the_next_multiple() {
        let mut policy = ConstantPeriod::new(Duration::from_nanos(300));
        for (ended, poll) in [(0, 300), (1, 300), (299, 300), (300, 600), (1_000, 1_200)] {
            assert_eq!(look(&mut policy, ended, 0), Next::At(at(poll)), "after {ended}");
        }
    }

    #[test]
    fn spinning_lasts_from_the_last_packet() {
        let mut policy = SpinThenBlock::new(Duration::from_nanos(50));
        assert_eq!(look(&mut policy, 1_000, 0), Next::Armed, "no packet yet");
        assert_eq!(look(&mut policy, 1_100, 1), Next::Now);
        assert_eq!(look(&mut policy, 1_140, 1), Next::Now, "one packet is enough to begin anew");
        for (ended, next) in [(1_189, Next::Now), (1_190, Next::Armed), (1_200, Next::Armed)] {
            assert_eq!(look(&mut policy, ended, 0), next, "at {ended}");
        }
    }
}
