//! HIP: chooses interrupts or polls by the gaps between packets (Dovrolis, Thayer and Ramanathan, *HIP:
//! Hybrid Interrupt-Polling for the Network Interface*, 2001).
//!
//! A regular and frequent stream is polled, with a period in which a packet can be expected; any other gets
//! interrupts. After too many empty polls the stream counts as over:
//!
//! ```text
//!                    σ/I < γ and I < T_max                                   (3)
//!     interrupts ──────────────────────────────▶ polls, each T_P after the last
//!                ◀──────────────────────────────   T_P = I + φσ within T_min ..= T_max, in ticks of T_min
//!                  σ/I ≥ γ, or I ≥ T_max, or P_U = P_U max                   (4)
//! ```
//!
//! The paper leaves some points open or contradicts itself; each is a field of [`HipConfig`] with both
//! answers. It polls at clock ticks, since a polling process would cost a context switch per poll (§3); here
//! a soft event does that.

mod config;
mod interarrival;

pub use config::{Costs, Decides, Deviation, FirstMean, Grid, HipConfig, Mean, Reading, Rounding, Unsaid};
use interarrival::Interarrival;

use super::named::{Named, PolicySettings};
use super::{Look, Next, Policy};
use crate::error::PolicyError;
use crate::nanos::Nanos;
use softtimers_core::Timestamp;

/// The state of HIP for one source.
///
/// ```
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{Hip, HipConfig, Look, Next, Policy, Preset};
///
/// let at = Timestamp::from_micros;
/// let mut hip = Hip::new(HipConfig::preset(Preset::Paper));
/// assert_eq!(hip.next(), Next::Armed);
///
/// // A packet each 2 ms: soon regular enough. I + 2.5 σ in whole milliseconds after the last one.
/// for packet in 1..=20 {
///     hip.arrived(at(2_000 * packet));
///     hip.looked(&Look { began: at(2_000 * packet), ended: at(2_000 * packet + 5), found: 1 });
/// }
/// assert_eq!(hip.next(), Next::At(at(42_000)));
///
/// // The stream ends: ten empty polls, and interrupts again.
/// let mut polls = 0;
/// while let Next::At(time) = hip.next() {
///     hip.looked(&Look { began: time, ended: time, found: 0 });
///     polls += 1;
/// }
/// assert_eq!(polls, 10);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hip {
    config: HipConfig,
    gaps: Interarrival,
    next: Next,
    /// When the last look began, from which the next poll is counted.
    from: Timestamp,
    /// P_U, the polls in a row that found nothing.
    unsuccessful: u32,
    stats: HipStats,
}

/// Counters of HIP, from which the columns of the paper's Table 3 are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HipStats {
    /// Looks that an interrupt began.
    pub interrupts: u64,
    /// Packets found by interrupts.
    pub by_interrupt: u64,
    /// Polls, whether they found packets or not.
    pub polls: u64,
    /// Packets found by polls.
    pub by_poll: u64,
    /// Number of polls that found nothing.
    pub unsuccessful: u64,
    /// Changes from interrupts to polls and back, each of which costs V_S.
    pub switches: u64,
    /// Changes back because of P_U max.
    pub resets: u64,
}

impl Hip {
    /// Starts in the paper's initial mode: interrupts, or polls if it only polls.
    pub fn new(config: HipConfig) -> Self {
        let gaps = Interarrival::new(&config);
        let (next, from, stats) = (Next::Armed, Timestamp::ZERO, HipStats::default());
        let hip = Hip { config, gaps, next, from, unsuccessful: 0, stats };
        let next = match config.polling_only {
            false => Next::Armed,
            true if config.unsaid.first_poll_waits => Next::At(hip.poll_after(from)),
            true => Next::Now,
        };
        Hip { next, ..hip }
    }

    #[cfg(test)]
    fn gaps(&self) -> &Interarrival {
        &self.gaps
    }

    /// Returns whether the policy polls now.
    pub fn polls(&self) -> bool {
        self.next != Next::Armed
    }

    /// Returns the counters since the beginning.
    pub fn stats(&self) -> HipStats {
        self.stats
    }

    /// Returns T_P, the period that follows from the present gaps, as a time after some tick.
    ///
    /// ```
    /// use core::time::Duration;
    /// use softtimers_poll::{Hip, HipConfig, Preset};
    ///
    /// assert_eq!(Hip::new(HipConfig::preset(Preset::Paper)).period(), Duration::from_millis(10));
    /// ```
    pub fn period(&self) -> core::time::Duration {
        core::time::Duration::from_nanos(self.period_nanos())
    }

    fn period_nanos(&self) -> u64 {
        let margin = self.config.phi.times(self.gaps.deviation_nanos());
        let (shortest, longest) = (self.config.shortest_nanos(), self.config.longest_nanos());
        let wanted = self.gaps.mean_nanos().saturating_add(margin).clamp(shortest, longest);
        let ticks = match self.config.rounding {
            Rounding::None => return wanted,
            Rounding::Down => wanted / shortest,
            Rounding::Up => wanted.div_ceil(shortest),
            Rounding::Nearest => wanted.saturating_add(shortest / 2) / shortest,
        };
        // The longest period need not be a multiple, but it must bound the wait.
        ticks.min(longest / shortest).saturating_mul(shortest)
    }

    /// Returns the time of the poll one period after `from`.
    fn poll_after(&self, from: Timestamp) -> Timestamp {
        let since_tick = match (self.config.grid, self.config.rounding) {
            (Grid::Relative, _) => 0,
            (_, Rounding::None) if !self.config.unsaid.unrounded_from_tick => 0,
            (Grid::Clock, _) => from.as_nanos() % self.config.shortest_nanos(),
        };
        Timestamp::from_nanos(from.as_nanos() - since_tick).after(self.period_nanos())
    }

    /// Returns whether eq. 3 holds; its complement is the first two terms of eq. 4.
    fn is_worth_polling(&self) -> bool {
        let often = self.gaps.mean_nanos() < self.config.longest_nanos();
        self.config.polling_only || (often && self.gaps.is_regular(self.config.gamma))
    }

    /// Decides at the end of an interrupt or of a poll by eq. 3 or eq. 4, and sets the next poll if there is
    /// one. That is never before the end, however short the period: a poll cannot begin while an interrupt is
    /// handled.
    fn decide(&mut self, ended: Timestamp) -> Next {
        let polled = self.polls();
        let poll = self.poll_after(self.from).max(ended);
        self.next = if self.is_worth_polling() { Next::At(poll) } else { Next::Armed };
        self.stats.switches += u64::from(polled != self.polls());
        self.unsuccessful = if self.polls() { self.unsuccessful } else { 0 };
        self.next
    }

    fn give_up(&mut self) -> Next {
        let counts = self.config.idle_gap_counts;
        match self.config.first_mean {
            FirstMean::Kept => self.gaps.keep(counts),
            FirstMean::Longest | FirstMean::Shortest => self.gaps.reset(counts),
        }
        self.unsuccessful = 0;
        self.stats.switches += 1;
        self.stats.resets += 1;
        self.next = Next::Armed;
        self.next
    }
}

impl Policy for Hip {
    fn arrived(&mut self, at: Timestamp) {
        self.gaps.arrived(at);
        if !self.polls() {
            return;
        }
        if self.config.decides == Decides::Arrival && !self.is_worth_polling() {
            self.next = Next::Armed;
            self.unsuccessful = 0;
            self.stats.switches += 1;
        } else if self.config.reading == Reading::Event {
            let mut poll = self.poll_after(self.from);
            if poll <= at && self.config.unsaid.late_polls_at_once {
                poll = at;
            } else if poll <= at {
                // The period has become shorter than its elapsed part: use the next tick.
                let tick = self.config.shortest_nanos();
                let passed = at.nanos_since(poll) / tick + 1;
                poll = poll.after(passed.saturating_mul(tick));
            }
            self.next = Next::At(poll);
        }
    }

    fn looked(&mut self, look: &Look) -> Next {
        self.from = if self.config.unsaid.counts_from_end { look.ended } else { look.began };
        if !self.polls() {
            self.stats.interrupts += 1;
            self.stats.by_interrupt += u64::from(look.found);
            return self.decide(look.ended);
        }
        self.stats.polls += 1;
        self.stats.by_poll += u64::from(look.found);
        if look.found > 0 {
            self.unsuccessful = 0;
            return self.decide(look.ended);
        }
        self.stats.unsuccessful += 1;
        self.unsuccessful = self.unsuccessful.saturating_add(1);
        if self.unsuccessful >= self.config.unsuccessful && !self.config.polling_only {
            return self.give_up();
        }
        self.decide(look.ended)
    }

    fn next(&self) -> Next {
        self.next
    }
}

impl Named for Hip {
    const NAME: &'static str = "hip";
    const ABOUT: &'static str =
        "By the mean and the spread of the gaps between packets (Dovrolis et al. 2001)";

    fn with(settings: PolicySettings) -> Result<Self, PolicyError> {
        let default = HipConfig::default();
        let longest = settings.time.unwrap_or(default.longest);
        Ok(Hip::new(HipConfig { shortest: default.shortest.min(longest), longest, ..default }))
    }

    fn settings(&self) -> PolicySettings {
        PolicySettings { time: Some(self.config.longest), ..PolicySettings::default() }
    }

    fn switches(&self) -> u64 {
        self.stats.switches
    }
}

#[cfg(test)]
mod tests;
