//! When the relay looks for datagrams: the modes of `--mode` as policies of the poller. [`Looks`].

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use softtimers::Timestamp;
use softtimers::poll::{
    Aggregation, AggregationConfig, DelayBound, DelayBoundConfig, Hip, HipConfig, Interrupts, Look, Next,
    Policy, Preset, Quota, WhenIdle,
};

/// `--mode`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Polls only: at the interval that finds --aggregate datagrams, --max-delay at the longest
    Poll,
    /// Sleeps whenever nothing is there, and is woken up for what comes then
    Interrupt,
    /// As the mean and the spread of the gaps promise (Dovrolis et al. 2001)
    Hip,
    /// Polls while --aggregate datagrams come within --max-delay, else wake-ups
    #[default]
    Hybrid,
    /// Takes all there is before it sends anything, without a quota: to see what the others are for
    Naive,
}

/// The policy of a mode.
#[derive(Clone, Copy, Debug)]
pub enum Looks {
    /// `interrupt`, and `naive` without a quota.
    Interrupts(Interrupts),
    /// `poll`.
    Aggregation(Aggregation),
    /// `hip`.
    Hip(Hip),
    /// `hybrid`.
    DelayBound(DelayBound),
}

/// What can be set of the modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Looking {
    /// Which.
    pub mode: Mode,
    /// Datagrams a turn, each way; not for `naive`.
    pub quota: u32,
    /// Datagrams wanted in a poll; for `poll` and `hybrid`.
    pub aggregate: u32,
    /// The longest wait for a poll; for `poll`, `hip` and `hybrid`.
    pub max_delay: Option<Duration>,
}

impl Mode {
    /// Whether it wants a number of datagrams in each poll.
    pub fn aggregates(self) -> bool {
        matches!(self, Mode::Poll | Mode::Hybrid)
    }

    /// The longest wait for a poll unless it is said; `None` if it does not poll.
    pub fn default_delay(self) -> Option<Duration> {
        match self {
            Mode::Interrupt | Mode::Naive => None,
            Mode::Hip => Some(HipConfig::preset(Preset::Measured).longest),
            Mode::Poll | Mode::Hybrid => Some(DelayBoundConfig::default().max_delay),
        }
    }
}

impl Looking {
    /// The policy, for one device.
    pub fn policy(&self) -> Looks {
        let longest = self.max_delay.unwrap_or_default();
        match self.mode {
            Mode::Interrupt | Mode::Naive => Looks::Interrupts(Interrupts),
            Mode::Poll => {
                let config = AggregationConfig::default();
                let (quota, shortest) = (self.aggregate, config.shortest.min(longest));
                Looks::Aggregation(Aggregation::new(AggregationConfig {
                    quota,
                    shortest,
                    longest,
                    when_idle: WhenIdle::KeepPolling,
                }))
            }
            Mode::Hip => {
                let config = HipConfig::preset(Preset::Measured);
                let shortest = config.shortest.min(longest);
                Looks::Hip(Hip::new(HipConfig { shortest, longest, ..config }))
            }
            Mode::Hybrid => Looks::DelayBound(DelayBound::new(DelayBoundConfig {
                quota: self.aggregate,
                max_delay: longest,
                ..DelayBoundConfig::default()
            })),
        }
    }

    /// The quota of a device.
    pub fn quota(&self) -> Quota {
        if self.mode == Mode::Naive {
            return Quota::NONE;
        }
        Quota::new(self.quota, self.quota).with_first(Quota::FIRST)
    }
}

macro_rules! each {
    ($self:expr, $it:ident => $what:expr) => {
        match $self {
            Looks::Interrupts($it) => $what,
            Looks::Aggregation($it) => $what,
            Looks::Hip($it) => $what,
            Looks::DelayBound($it) => $what,
        }
    };
}

impl Looks {
    /// How often it changed between polls and wake-ups.
    pub fn switches(&self) -> u64 {
        match self {
            Looks::Interrupts(_) | Looks::Aggregation(_) => 0,
            Looks::Hip(hip) => hip.stats().switches,
            Looks::DelayBound(bound) => bound.switches(),
        }
    }
}

impl Policy for Looks {
    #[inline]
    fn arrived(&mut self, at: Timestamp) {
        each!(self, it => it.arrived(at));
    }

    #[inline]
    fn looked(&mut self, look: &Look) -> Next {
        each!(self, it => it.looked(look))
    }

    #[inline]
    fn idle(&mut self, now: Timestamp) -> Next {
        each!(self, it => it.idle(now))
    }

    #[inline]
    fn next(&self) -> Next {
        each!(self, it => it.next())
    }
}
