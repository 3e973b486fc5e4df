//! The name and description of a policy in the list, [`Named`], and the settings that it is made with.

use core::time::Duration;

use super::Policy;
use crate::error::PolicyError;
use crate::time_text::parse_time;

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
    /// Parses settings, each at most once.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut settings = PolicySettings::default();
        for setting in text.split(',') {
            let (name, value) = setting.split_once('=')?;
            let is_again = match name {
                "quota" => settings.quota.replace(value.parse().ok()?).is_some(),
                "time" => settings.time.replace(parse_time(value)?).is_some(),
                "idle" => settings.when_idle.replace(WhenIdle::find(value)?).is_some(),
                _ => true,
            };
            if is_again {
                return None;
            }
        }
        Some(settings)
    }

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

impl WhenIdle {
    pub(super) fn name(self) -> &'static str {
        match self {
            WhenIdle::WakeUp => "wake-up",
            WhenIdle::KeepPolling => "poll",
        }
    }

    fn find(name: &str) -> Option<Self> {
        [WhenIdle::WakeUp, WhenIdle::KeepPolling].into_iter().find(|when_idle| when_idle.name() == name)
    }
}
