//! Leave the processor to others: [`CpuLimit`].
//!
//! Packets may have a share of each period; when they have had it, input is shut until the period ends (livelock
//! §7). The counter is read at the start and at the end of each turn, so what goes over is one turn, which a
//! quota bounds:
//!
//! ```text
//!   period │▓▓▓▓▓▓▓▓▓ shut · · · · · · · · │▓▓▓▓▓▓▓▓▓ shut · · · ·│
//!           ◀─ share ─▶                    all is forgotten here, and when the processor is idle
//! ```
//!
//! A turn that goes over does so in every period, by half its length on average: with turns of 1.3 ms, 25% of 10 ms
//! became 30% on Linux. So the default forgets only the share, and what went over is part of the next period.
//!
//! It limits input, not output, and does not count what the kernel does before: the others get somewhat less
//! than the rest. And it helps local users; remote ones still lose packets, only others. In return the first
//! packet of a burst reaches its consumer after no more than the share of a period (§8.2.1).
//!
//! An idle processor means that nobody wants the rest of the period: tell it ([`CpuLimit::idle`]), and input is
//! never shut in vain.

use core::time::Duration;

use super::{Input, Preset};
use crate::nanos::saturating_nanos;
use softtimers_core::{Percent, Timestamp};

/// A share of each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuLimitConfig {
    /// The share of a processor that packets may have.
    pub share: Percent,
    /// The time it is counted over; at least a nanosecond.
    pub period: Duration,
    /// Carries what goes over the share into the next period, instead of forgetting it.
    pub carry: bool,
}

impl CpuLimitConfig {
    /// `share` of each 10 ms, the paper's period; what was measured gave no reason for another one. The paper forgets
    /// what went over.
    pub const fn preset(preset: Preset, share: Percent) -> Self {
        let carry = matches!(preset, Preset::Measured);
        CpuLimitConfig { share, period: Duration::from_millis(10), carry }
    }

    /// `share` of each 10 ms.
    pub const fn new(share: Percent) -> Self {
        CpuLimitConfig::preset(Preset::Measured, share)
    }
}

/// The part of each period that packets have used.
///
/// The count of processor time is any that grows while this thread handles packets: its CPU time, or a cycle
/// counter's.
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
    /// Nanoseconds, as all below.
    limit: u64,
    period: u64,
    /// When the period under way ends.
    ends: Timestamp,
    carry: bool,
    used: u64,
    began: Option<u64>,
    shut: bool,
    inhibited: u64,
}

impl CpuLimit {
    /// Nothing used. Periods end at the multiples of their length.
    pub const fn new(config: CpuLimitConfig) -> Self {
        let period = match saturating_nanos(config.period) {
            0 => 1,
            nanos => nanos,
        };
        let limit = config.share.of_units(period);
        CpuLimit {
            limit,
            period,
            ends: Timestamp::ZERO,
            carry: config.carry,
            used: 0,
            began: None,
            shut: false,
            inhibited: 0,
        }
    }

    /// A turn begins; the count stands at `cpu`.
    #[inline]
    pub fn begin(&mut self, cpu: Duration) {
        self.began = Some(saturating_nanos(cpu));
    }

    /// It is over; the count stands at `cpu`. A turn that spans two periods counts in the later one.
    pub fn end(&mut self, now: Timestamp, cpu: Duration) -> Input {
        self.renew(now);
        if let Some(began) = self.began.take() {
            self.used = self.used.saturating_add(saturating_nanos(cpu).saturating_sub(began));
        }
        if self.used > self.limit && !self.shut {
            self.shut = true;
            self.inhibited += 1;
        }
        self.input(now)
    }

    /// Returns whether input may go on.
    pub fn input(&mut self, now: Timestamp) -> Input {
        self.renew(now);
        if self.shut { Input::Shut(self.ends) } else { Input::Open }
    }

    /// The processor has nothing else to do.
    pub fn idle(&mut self) -> Input {
        self.used = 0;
        self.shut = false;
        Input::Open
    }

    /// Returns the time that this period's turns have used, with what was carried over.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.used)
    }

    /// In how many periods input was shut.
    pub fn inhibited(&self) -> u64 {
        self.inhibited
    }

    fn renew(&mut self, now: Timestamp) {
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
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn limit(percent: u32) -> CpuLimit {
        limit_of(Preset::Measured, percent)
    }

    fn limit_of(preset: Preset, percent: u32) -> CpuLimit {
        CpuLimit::new(CpuLimitConfig::preset(preset, Percent::new(percent).unwrap()))
    }

    /// A processor that does nothing but turns of `turn` while it may: the share it spends, and the most of a
    /// period.
    fn flooded(mut limit: CpuLimit, turn: u64) -> (u64, u64) {
        let (mut now, mut cpu, mut most) = (0u64, 0u64, 0);
        while now < 1_000_000 {
            match limit.input(at(now)) {
                Input::Shut(until) => now = until.as_nanos() / 1_000,
                Input::Open => {
                    limit.begin(Duration::from_micros(cpu));
                    (now, cpu) = (now + turn, cpu + turn);
                    limit.end(at(now), Duration::from_micros(cpu));
                    most = most.max(limit.used().as_micros() as u64);
                }
            }
        }
        (cpu / 10_000, most)
    }

    #[test]
    fn the_share_is_kept_and_overshot_by_one_turn_at_the_most() {
        for percent in [25, 50, 75] {
            for turn in [10, 100, 997] {
                let allowed = u64::from(percent) * 100;
                for (preset, over) in [(Preset::Paper, 10), (Preset::Measured, 1)] {
                    let (share, most) = flooded(limit_of(preset, percent), turn);
                    assert!(most <= allowed + turn, "{percent}%: {most} µs of a period, turns of {turn}");
                    assert!((u64::from(percent)..=u64::from(percent) + over).contains(&share), "{share}%");
                }
            }
        }
        assert!(flooded(limit(100), 100).0 >= 99);
    }

    /// Turns longer than the share, and than the period: it is kept all the same.
    #[test]
    fn what_goes_over_is_paid_back_by_the_periods_that_follow() {
        for turn in [4_000, 26_000] {
            let (share, _) = flooded(limit(25), turn);
            assert!((23..=28).contains(&share), "{share}%, turns of {turn}");
        }
        let mut limit = limit(25);
        limit.begin(Duration::ZERO);
        assert_eq!(limit.end(at(9_000), Duration::from_millis(8)), Input::Shut(at(10_000)));
        // Of the 8 ms the first period allows 2.5, the second as much; 3 ms are too much for the third as well.
        assert_eq!(limit.input(at(10_000)), Input::Shut(at(20_000)));
        assert_eq!(limit.input(at(20_000)), Input::Shut(at(30_000)));
        assert_eq!((limit.input(at(30_000)), limit.used()), (Input::Open, Duration::from_micros(500)));
        assert_eq!(limit.inhibited(), 3);
        // Long after, nothing is owed.
        assert_eq!((limit.input(at(70_000)), limit.used()), (Input::Open, Duration::ZERO));
    }

    #[test]
    fn an_idle_processor_clears_the_total() {
        let mut limit = limit(25);
        limit.begin(Duration::ZERO);
        assert_eq!(limit.end(at(3_000), Duration::from_millis(3)), Input::Shut(at(10_000)));
        assert_eq!(limit.idle(), Input::Open);
        assert_eq!((limit.input(at(3_001)), limit.used()), (Input::Open, Duration::ZERO));
    }

    #[test]
    fn a_count_that_goes_back_or_a_turn_without_a_beginning_is_nothing() {
        let mut limit = limit(25);
        limit.begin(Duration::from_secs(9));
        assert_eq!(limit.end(at(1), Duration::from_secs(8)), Input::Open);
        assert_eq!(limit.end(at(2), Duration::from_secs(9)), Input::Open);
    }
}
