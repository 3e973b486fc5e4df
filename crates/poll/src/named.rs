//! The name and description of a policy in the list, [`Named`], and the settings that it is made with.

use core::time::Duration;

use super::Policy;
use crate::error::PolicyError;

/// A policy that is in the list: its name, and how settings make it.
pub(super) trait Named: Policy + Sized {
    const NAME: &'static str;
    /// One line for help texts.
    const ABOUT: &'static str;

    /// Makes the policy with these settings; a missing one takes its default.
    fn with(settings: PolicySettings) -> Result<Self, PolicyError>;

    /// Returns the settings in use; `None` for those that the policy does not have.
    fn settings(&self) -> PolicySettings;

    /// Returns the number of changes between polls and wake-ups.
    fn switches(&self) -> u64 {
        0
    }
}

/// The settings that receive policies share; each policy uses some of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PolicySettings {
    /// The target number of packets per poll, on average.
    pub quota: Option<u32>,
    /// The longest time that a packet waits for a poll. For `constant` that is the period; `spin` polls for this long
    /// after a packet.
    pub time: Option<Duration>,
    /// The behaviour when the CPU is about to be idle.
    pub when_idle: Option<WhenIdle>,
}

impl PolicySettings {
    /// Returns the time, for a policy that has no default for it.
    pub(super) fn needed_time(&self) -> Result<Duration, PolicyError> {
        self.time.ok_or(PolicyError::Missing { setting: "time" })
    }
}

/// The behaviour of a polling policy when the CPU is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenIdle {
    /// Enables the wake-up: no packet waits for a poll in an idle CPU.
    WakeUp,
    /// Keeps polling while the rate justifies it: a wake-up for several packets.
    KeepPolling,
}
