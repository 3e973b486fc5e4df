//! [`CpuLimit`]: limits the CPU time spent on packets.
//!
//! Packets may use a share of each period; once it is used, input is shut until the period ends (livelock
//! §7). The counter is read at the start and at the end of each turn, so the excess is at most one turn,
//! which a quota bounds:
//!
//! ```text
//!   period │▓▓▓▓▓▓▓▓▓ shut · · · · · · · · │▓▓▓▓▓▓▓▓▓ shut · · · ·│
//!           ◀─ share ─▶                    the account is reset here, and when the CPU is idle
//! ```
//!
//! A turn that goes over does so in every period, by half its length on average: with turns of 1.3 ms, 25% of 10 ms
//! became 30% on Linux. So the default deducts only the share, and the excess counts in the next period.
//!
//! Packets cost more than turns. If each packet needs a wake-up, sleeping and waking cost several times its
//! turn, and a limit on turns is ineffective: a computation kept 39% instead of the desired 75%. So
//! [`CpuLimit::charge`] takes all CPU time spent, and with [`CpuLimitConfig::stretch`] the account drains all
//! the time:
//!
//! ```text
//!   used ─┐                 ┌ at the share of a period, polls move apart: after each that leaves nothing, shut for `stretch`
//!         │    ╱╲  ╱╲╱╲╱╲   │ still there: the limit overrides the delay, and it is shut until half has drained
//!   share │┄┄┄╱┄┄╲╱┄┄┄┄┄┄╲┄┄┘
//!    half │┄┄╱┄┄┄┄┄┄┄┄┄┄┄┄╲┄┄  here the policy decides again
//!         └─╱──────────────╲─▶ time          drains by the share of the time that passes
//! ```
//!
//! Over any time, the CPU time spent is at most the share of it, the share of one period, and the work
//! between two charges.
//!
//! It limits input, not output, and helps local users; remote users still lose packets, only different ones.
//! In return the first packet of a burst reaches its consumer after at most the share of a period (§8.2.1).
//!
//! When the CPU is idle, no other work needs the rest of the period: call [`CpuLimit::idle`], and input is
//! never shut needlessly.

use core::time::Duration;

use super::{Input, Preset};
use crate::nanos::{Nanos, multiply_divide, saturating_nanos};
use softtimers_core::{Percent, Timestamp};

/// A share of each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuLimitConfig {
    /// The share of a CPU that packets may use.
    pub share: Percent,
    /// The period over which the share is counted; at least a nanosecond.
    pub period: Duration,
    /// Carries the excess over the share into the next period, instead of dropping it.
    pub carry: bool,
    /// Drains the account all the time, and near the limit leaves this time between polls; `None`: periods, each with
    /// its share at once.
    pub stretch: Option<Duration>,
}

impl CpuLimitConfig {
    /// `share` of each 10 ms, the paper's period; measurements gave no reason for another one. The paper
    /// drops the excess.
    pub const fn preset(preset: Preset, share: Percent) -> Self {
        let carry = matches!(preset, Preset::Measured);
        CpuLimitConfig { share, period: Duration::from_millis(10), carry, stretch: None }
    }

    /// `share` of each 10 ms.
    pub const fn new(share: Percent) -> Self {
        CpuLimitConfig::preset(Preset::Measured, share)
    }

    /// Sets how far apart polls are near the limit: the longest delay of packets because of it.
    #[must_use]
    pub const fn stretched(self, stretch: Duration) -> Self {
        CpuLimitConfig { stretch: Some(stretch), ..self }
    }
}

/// The part of each period that packets have used.
///
/// The CPU time may be any counter that grows while this thread handles packets: its CPU time, or a cycle
/// counter.
///
/// ```
/// use core::time::Duration;
/// use softtimers_poll::{CpuLimit, CpuLimitConfig, Input};
/// use softtimers_core::{Percent, Timestamp};
///
/// let (at, cpu) = (Timestamp::from_micros, Duration::from_micros);
/// let mut limit = CpuLimit::new(CpuLimitConfig::new(Percent::new(25)?));
/// limit.begin(cpu(0));
/// assert_eq!(limit.end(at(2_000), cpu(2_000)), Input::Open);
/// limit.begin(cpu(2_000));
/// assert_eq!(limit.end(at(2_600), cpu(2_600)), Input::Shut(at(10_000)));
/// assert_eq!(limit.input(at(10_000)), Input::Open);
/// # Ok::<(), softtimers_core::PercentError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuLimit {
    share: Percent,
    /// In nanoseconds, as the fields below.
    limit: u64,
    period: u64,
    /// When the period under way ends; with `stretch`, when input is open again.
    ends: Timestamp,
    carry: bool,
    stretch: Option<u64>,
    /// The time up to which the account has drained.
    drained: Timestamp,
    /// Hundredths of a nanosecond left to drain: between two checks it may be less than a nanosecond.
    rest: u8,
    /// Whether polls are stretched.
    near: bool,
    used: u64,
    began: Option<u64>,
    shut: bool,
    inhibited: u64,
    exceeded: u64,
}

impl CpuLimit {
    /// Makes an empty account. Periods end at the multiples of their length.
    pub const fn new(config: CpuLimitConfig) -> Self {
        let period = match saturating_nanos(config.period) {
            0 => 1,
            nanos => nanos,
        };
        let limit = config.share.of_units(period);
        CpuLimit {
            share: config.share,
            limit,
            period,
            ends: Timestamp::ZERO,
            carry: config.carry,
            stretch: match config.stretch {
                Some(stretch) => Some(saturating_nanos(stretch)),
                None => None,
            },
            drained: Timestamp::ZERO,
            rest: 0,
            near: false,
            used: 0,
            began: None,
            shut: false,
            inhibited: 0,
            exceeded: 0,
        }
    }

    /// Notes that a turn begins at the counter value `cpu`.
    #[inline]
    pub fn begin(&mut self, cpu: Duration) {
        self.began = Some(saturating_nanos(cpu));
    }

    /// Notes that the turn is over at the counter value `cpu`. A turn that spans two periods counts in the
    /// later one.
    pub fn end(&mut self, now: Timestamp, cpu: Duration) -> Input {
        let began = self.began.take();
        let spent = began.map_or(0, |began| saturating_nanos(cpu).saturating_sub(began));
        self.charge(now, Duration::from_nanos(spent), false)
    }

    /// Charges the CPU time `spent` on packets since the last charge: turns, system calls, wake-ups. `more`:
    /// packets are known to wait, so that a longer interval would find no more of them.
    pub fn charge(&mut self, now: Timestamp, spent: Duration, more: bool) -> Input {
        self.renew(now);
        self.used = self.used.saturating_add(saturating_nanos(spent));
        match self.stretch {
            Some(stretch) => self.keep_apart(now, stretch, more),
            None if self.used > self.limit && !self.shut => {
                self.shut = true;
                self.inhibited += 1;
            }
            None => {}
        }
        self.input(now)
    }

    /// Returns whether input may go on.
    pub fn input(&mut self, now: Timestamp) -> Input {
        self.renew(now);
        if self.shut { Input::Shut(self.ends) } else { Input::Open }
    }

    /// Notes that the CPU has no other work.
    pub fn idle(&mut self) -> Input {
        self.used = 0;
        self.shut = false;
        self.near = false;
        Input::Open
    }

    /// Returns the time that this period's turns have used, including the excess carried over.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.used)
    }

    /// Returns in how many periods input was shut; with [`stretch`](CpuLimitConfig::stretch), how often.
    pub fn inhibited(&self) -> u64 {
        self.inhibited
    }

    /// Returns how often input was shut for longer than [`stretch`](CpuLimitConfig::stretch), to keep the
    /// limit.
    pub fn exceeded(&self) -> u64 {
        self.exceeded
    }

    /// Shuts input to move polls apart.
    fn keep_apart(&mut self, now: Timestamp, stretch: u64, more: bool) {
        self.near &= self.used > self.limit / 2;
        if self.used < self.limit && (more || !self.near) {
            return;
        }
        // Close to the limit although polls were apart: let one wake-up serve as much as possible.
        let drained = if self.near { self.limit / 2 } else { self.limit };
        let over = if self.used < self.limit { 0 } else { self.used - drained };
        self.near = true;
        let needed = match self.share.get() {
            0 => u64::MAX,
            percent => multiply_divide(over, 100, percent.into()),
        };
        if !self.shut {
            self.shut = true;
            self.inhibited += 1;
            self.exceeded += u64::from(needed > stretch);
            self.ends = now.after(needed.max(stretch));
        }
    }

    fn renew(&mut self, now: Timestamp) {
        if self.stretch.is_some() {
            let passed = now.nanos_since(self.drained);
            self.drained = self.drained.max(now);
            let hundredths = u128::from(passed) * u128::from(self.share.get()) + u128::from(self.rest);
            self.rest = (hundredths % 100) as u8;
            self.used = self.used.saturating_sub((hundredths / 100) as u64);
            self.shut &= now < self.ends;
            return;
        }
        if now < self.ends {
            return;
        }
        let periods = now.as_nanos() / self.period + 1;
        let before = self.ends.as_nanos() / self.period;
        self.ends = Timestamp::from_nanos(periods.saturating_mul(self.period));
        let allowed = self.limit.saturating_mul(periods.saturating_sub(before));
        self.used = if self.carry { self.used.saturating_sub(allowed) } else { 0 };
        self.shut = self.used > self.limit;
        self.inhibited += u64::from(self.shut);
    }
}

#[cfg(test)]
mod tests;
