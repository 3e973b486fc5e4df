//! The parameters of HIP, and the choices where its text is ambiguous.

use core::time::Duration;

use super::super::{Factor, Preset};
use crate::nanos::saturating_nanos;

/// The parameters of [`Hip`](super::Hip).
///
/// Two readings of the paper reproduce its Table 3 about equally well: [`HipConfig::preset`] of
/// [`Preset::Paper`] is the *counter* of its section 3, [`HipConfig::event`] the wording of its section 6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HipConfig {
    /// T_P min: the shortest period, of which all others are multiples; at least a nanosecond.
    pub shortest: Duration,
    /// T_P max: the longest period, and so the longest that a packet waits; at least the shortest.
    pub longest: Duration,
    /// α: the weight of history in the mean, at most one.
    pub alpha: Factor,
    /// β: the weight of history in the variance, at most one.
    pub beta: Factor,
    /// γ: streams with σ/I below this are polled. One sentence of the text reverses it: a *larger* γ means
    /// more polling.
    pub gamma: Factor,
    /// φ: the period is I + φσ.
    pub phi: Factor,
    /// P_U max: interrupts after this many polls in a row that found nothing.
    pub unsuccessful: u32,
    /// Never change to interrupts: the paper's "polling" column, which adapts its period as HIP does.
    pub polling_only: bool,
    /// When a new period takes effect.
    pub reading: Reading,
    /// Rounds a period to a multiple of the shortest.
    pub rounding: Rounding,
    /// When eq. 4 is evaluated.
    pub decides: Decides,
    /// The origin of periods.
    pub grid: Grid,
    /// The mean that eq. 2 compares with.
    pub mean: Mean,
    /// The measure of the spread.
    pub deviation: Deviation,
    /// The mean after a reset.
    pub first_mean: FirstMean,
    /// Counts the gap in which a reset falls, from the last packet before it to the first one after.
    pub idle_gap_counts: bool,
    /// The choices on which the text is silent.
    pub unsaid: Unsaid,
}

/// Five choices that an implementation of HIP has to make and on which the text is silent. Each field selects
/// the alternative to [`Unsaid::default`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unsaid {
    /// Polling without interrupts waits for a period before its first poll, rather than polling at once.
    pub first_poll_waits: bool,
    /// Periods count from the end of a look, rather than from its beginning.
    pub counts_from_end: bool,
    /// In the event reading, a period that is over when an arrival shortens it ends in a poll at once, rather than at the next
    /// tick.
    pub late_polls_at_once: bool,
    /// A period that is not rounded counts from the tick before the look, rather than from the look.
    pub unrounded_from_tick: bool,
    /// Mean and deviation are kept in fractions of a nanosecond, rather than in whole ones.
    pub finer_estimate: bool,
}

impl Unsaid {
    /// The choices of the presets.
    pub const DEFAULT: Unsaid = Unsaid {
        first_poll_waits: false,
        counts_from_end: false,
        late_polls_at_once: false,
        unrounded_from_tick: false,
        finer_estimate: false,
    };
}

impl HipConfig {
    /// Table 2 of the paper, read as the mechanism of its section 3; or, measured, with a period of soft
    /// timers, a bound of a millisecond, and as many empty polls as a wake-up costs.
    pub const fn preset(preset: Preset) -> Self {
        let paper = HipConfig {
            shortest: Duration::from_millis(1),
            longest: Duration::from_millis(10),
            alpha: Factor::thousandths(300),
            beta: Factor::thousandths(300),
            gamma: Factor::thousandths(2_000),
            phi: Factor::thousandths(2_500),
            unsuccessful: 10,
            polling_only: false,
            reading: Reading::Counter,
            rounding: Rounding::Down,
            decides: Decides::PollEnd,
            grid: Grid::Clock,
            mean: Mean::Updated,
            deviation: Deviation::Standard,
            first_mean: FirstMean::Longest,
            idle_gap_counts: true,
            unsaid: Unsaid::DEFAULT,
        };
        match preset {
            Preset::Paper => paper,
            Preset::Measured => HipConfig {
                shortest: Duration::from_micros(100),
                longest: Duration::from_millis(1),
                unsuccessful: Costs::UDP.guess_unsuccessful(),
                ..paper
            },
        }
    }

    /// The paper's parameters, with each period in force from the arrival that gave it, rounded to the nearest
    /// tick.
    pub const fn event() -> Self {
        HipConfig { reading: Reading::Event, rounding: Rounding::Nearest, ..HipConfig::preset(Preset::Paper) }
    }

    /// Never changes to interrupts: the baseline of Table 3.
    #[must_use]
    pub const fn polling_only(self) -> Self {
        HipConfig { polling_only: true, ..self }
    }

    pub(super) const fn shortest_nanos(&self) -> u64 {
        match saturating_nanos(self.shortest) {
            0 => 1,
            nanos => nanos,
        }
    }

    pub(super) const fn longest_nanos(&self) -> u64 {
        let (shortest, longest) = (self.shortest_nanos(), saturating_nanos(self.longest));
        if longest < shortest { shortest } else { longest }
    }

    pub(super) const fn first_mean_nanos(&self) -> u64 {
        match self.first_mean {
            FirstMean::Shortest => self.shortest_nanos(),
            FirstMean::Longest | FirstMean::Kept => self.longest_nanos(),
        }
    }
}

impl Default for HipConfig {
    fn default() -> Self {
        HipConfig::preset(Preset::default())
    }
}

/// When a new period takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// When the counter is loaded, after a poll (§3).
    Counter,
    /// At the arrival that gave it (§6).
    Event,
}

/// The rounding of I + φσ to a multiple of the shortest period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// Rounds to the nearest multiple.
    Nearest,
    /// The next multiple above.
    Up,
    /// The next multiple below: an integer division.
    Down,
    /// No rounding, and no clock grid: a soft timer is set for it (§5).
    None,
}

/// When eq. 4 is evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decides {
    /// Only after a poll.
    PollEnd,
    /// At an arrival too: its wake-up is enabled before the next poll.
    Arrival,
}

/// The origin of periods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grid {
    /// From the ticks of a clock, at the multiples of the shortest period.
    Clock,
    /// From the beginning of the look before.
    Relative,
}

/// The mean that eq. 2 compares a gap with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mean {
    /// The mean that eq. 1 has just updated with this gap.
    Updated,
    /// The mean before this gap.
    Previous,
}

/// The measure of the spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deviation {
    /// By the variance, eq. 2.
    Standard,
    /// By the mean error of the prediction, which needs no square root (§4, after Jacobson), times 1.25.
    MeanError,
}

/// The mean after a reset, which the paper leaves open; it hardly matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstMean {
    /// T_P max: so a stream begins with interrupts.
    Longest,
    /// T_P min, so a stream begins with polls.
    Shortest,
    /// The mean before the reset.
    Kept,
}

/// The costs of interrupts and polls, as defined in the papers.
///
/// ```
/// use core::time::Duration;
/// use softtimers_poll::readings::Costs;
///
/// assert_eq!(Costs::HIP.guess_unsuccessful(), 10);
/// assert_eq!(Costs::HIP.interrupt_period(1_500), Duration::from_nanos(5_500));
/// assert_eq!(Costs::HIP.poll_period(3_000), Duration::from_nanos(1_500));
/// // HIP §2: at most 1 / (V_P + L · V_B) packets a second.
/// assert_eq!(Costs::HIP.most_polled_per_second(1_500), 1_000_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// V_I: of an interrupt, or of a wake-up.
    pub interrupt: Duration,
    /// V_P: the cost of a poll.
    pub poll: Duration,
    /// V(B) for 1,500 bytes, to which it is proportional.
    pub transfer: Duration,
    /// V_S: of enabling interrupts, and of disabling them.
    pub switch: Duration,
}

impl Costs {
    /// The costs in Table 2 of the paper on HIP.
    pub const HIP: Costs = Costs {
        interrupt: Duration::from_micros(5),
        poll: Duration::from_nanos(500),
        transfer: Duration::from_nanos(500),
        switch: Duration::from_micros(1),
    };
    /// The CM-5, in HIP §5: 0.6 µs to poll and 1 µs to decode and move the message.
    pub const CM5: Costs = Costs {
        interrupt: Duration::from_micros(19),
        poll: Duration::from_nanos(600),
        transfer: Duration::from_micros(1),
        switch: Duration::from_nanos(4_300),
    };
    /// EARTH-MANNA's, of the polling watchdog, in HIP §5.
    pub const MANNA: Costs = Costs {
        interrupt: Duration::from_nanos(4_500),
        poll: Duration::from_nanos(400),
        transfer: Duration::ZERO,
        switch: Duration::ZERO,
    };
    /// A UDP socket on Linux in a virtual machine: a wake-up, an empty receive, and an `epoll` registration
    /// change.
    pub const UDP: Costs = Costs {
        interrupt: Duration::from_micros(11),
        poll: Duration::from_nanos(280),
        transfer: Duration::from_nanos(1_000),
        switch: Duration::from_nanos(200),
    };

    /// V_I / V_P, the paper's first guess for P_U max: as many empty polls cost as much as an interrupt. (The
    /// text prints V_L / V_P.) At least one.
    pub const fn guess_unsuccessful(&self) -> u32 {
        let poll = saturating_nanos(self.poll);
        let ratio = saturating_nanos(self.interrupt) / if poll == 0 { 1 } else { poll };
        match ratio {
            0 => 1,
            ratio if ratio > u32::MAX as u64 => u32::MAX,
            ratio => ratio as u32,
        }
    }

    /// V_I + V(B): the time of an interrupt that brings `bytes` bytes.
    pub const fn interrupt_period(&self, bytes: u64) -> Duration {
        self.interrupt.saturating_add(self.transfer_of(bytes))
    }

    /// V_P + V(B): the time of a poll that brings `bytes` bytes.
    pub const fn poll_period(&self, bytes: u64) -> Duration {
        self.poll.saturating_add(self.transfer_of(bytes))
    }

    /// HIP §2: the most packets of `bytes` bytes a second, one a poll, if a CPU does nothing else.
    pub const fn most_polled_per_second(&self, bytes: u64) -> u64 {
        match saturating_nanos(self.poll_period(bytes)) {
            0 => u64::MAX,
            nanos => 1_000_000_000 / nanos,
        }
    }

    const fn transfer_of(&self, bytes: u64) -> Duration {
        let nanos = saturating_nanos(self.transfer) as u128 * bytes as u128 / 1_500;
        Duration::from_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
    }
}
