//! When a receiver polls for packets: [`Mode`] names a receive policy of core's list, [`PollingPlan`] has its settings.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use softtimers::{Percent, Timestamp};
use softtimers_poll::PolicyError;
use softtimers_poll::{
    AnyPolicy, CpuLimitConfig, DelayBoundConfig, Hip, HipConfig, Look, Next, Policy, PolicySettings, Quota,
    WhenIdle,
};

/// A receive policy by its name here, or `naive`: no policy, for comparison.
///
/// Any policy of [`AnyPolicy::ALL`] is a mode, under the name that it has there unless it has a shorter one here.
///
/// ```
/// use softtimers_load::mode::Mode;
///
/// assert_eq!("hybrid".parse(), Ok(Mode::HYBRID));
/// assert_eq!(Mode::HYBRID.policy(), "delay-bound");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    name: &'static str,
    policy: &'static str,
}

/// When to poll for packets, and how many to take at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollingPlan {
    mode: Mode,
    policy: AnyPolicy,
    quota: u32,
}

impl Mode {
    /// Polls at the interval that finds the wanted number of packets.
    pub const POLL: Mode = Mode { name: "poll", policy: "aggregation" };
    /// Sleeps whenever no packet is there.
    pub const INTERRUPT: Mode = Mode { name: "interrupt", policy: "interrupts" };
    /// Polls at times predicted from the mean and the spread of the gaps (Dovrolis et al. 2001).
    pub const HIP: Mode = Mode { name: "hip", policy: "hip" };
    /// Polls while enough packets come within the longest delay, and sleeps otherwise.
    pub const HYBRID: Mode = Mode { name: "hybrid", policy: "delay-bound" };
    /// Takes everything available before it sends anything, without a quota.
    pub const NAIVE: Mode = Mode { name: "naive", policy: "interrupts" };

    const NAMED: [Mode; 5] = [Mode::POLL, Mode::INTERRUPT, Mode::HIP, Mode::HYBRID, Mode::NAIVE];

    /// Returns all modes, each with its policy's description.
    pub fn all() -> impl Iterator<Item = (Mode, &'static str)> {
        let about = |mode: Mode| AnyPolicy::ALL.iter().find(|(name, _)| *name == mode.policy);
        let named =
            Mode::NAMED.into_iter().map(move |mode| (mode, about(mode).map_or("", |&(_, about)| about)));
        let others =
            AnyPolicy::ALL.iter().filter(|(name, _)| Mode::NAMED.iter().all(|mode| mode.policy != *name));
        named.chain(others.map(|&(policy, about)| (Mode { name: policy, policy }, about)))
    }

    /// Returns the name of the receiver.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the name of its policy in core's list.
    pub fn policy(self) -> &'static str {
        self.policy
    }

    /// Returns the settings that its policy has.
    fn settings(self) -> PolicySettings {
        let any = PolicySettings { time: Some(Duration::from_millis(1)), ..PolicySettings::default() };
        AnyPolicy::new(self.policy, any).map(|policy| policy.settings()).unwrap_or_default()
    }

    /// Returns whether the policy wants a number of packets in each poll.
    pub fn aggregates(self) -> bool {
        self.settings().quota.is_some()
    }

    /// Returns whether a packet may wait for a poll, and so has a longest delay.
    pub fn delays(self) -> bool {
        self.settings().time.is_some()
    }
}

impl PollingPlan {
    /// Creates settings with at most `quota` packets a turn in each direction. `aggregate` and `max_delay` apply as far
    /// as the policy has them; without a value it uses its defaults.
    ///
    /// # Errors
    /// [`PolicyError::Missing`] for a policy without a default for the longest delay.
    pub fn new(
        mode: Mode,
        quota: u32,
        aggregate: Option<u32>,
        max_delay: Option<Duration>,
    ) -> Result<Self, PolicyError> {
        let mut settings = PolicySettings { quota: aggregate, time: max_delay, when_idle: None };
        if mode == Mode::POLL {
            // Polls only, but no packet waits longer than in the other modes.
            settings.when_idle = Some(WhenIdle::KeepPolling);
            settings.time = max_delay.or(Some(DelayBoundConfig::default().max_delay));
        }
        Ok(PollingPlan { mode, policy: AnyPolicy::new(mode.policy, settings)?, quota })
    }

    /// Replaces the policy by HIP with these parameters; its longest period is `max_delay`, if there is one.
    #[must_use]
    pub fn with_hip(self, config: HipConfig, max_delay: Option<Duration>) -> Self {
        let config = HipConfig { longest: max_delay.unwrap_or(config.longest), ..config };
        PollingPlan { policy: Hip::new(config).into(), ..self }
    }

    /// Returns the mode that the setting is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the policy, for one device.
    pub fn policy(&self) -> AnyPolicy {
        self.policy
    }

    /// Returns the quota of a socket.
    pub fn quota(&self) -> Quota {
        self.beginning_with(Quota::FIRST)
    }

    /// Returns the quota of a ring. It sends the first packet of a burst alone: memory shows whether there is another
    /// one, where a socket needs a system call.
    pub fn ring_quota(&self) -> Quota {
        self.beginning_with(1)
    }

    fn beginning_with(&self, packets: u32) -> Quota {
        if self.mode == Mode::NAIVE {
            return Quota::NONE;
        }
        Quota::new(self.quota, self.quota).with_first(packets)
    }

    /// Returns the most packets of a turn; `None` without a bound.
    pub fn packets(&self) -> Option<u32> {
        (self.mode != Mode::NAIVE).then_some(self.quota)
    }

    /// Returns the wanted number of packets in a poll; `None` if the policy has none.
    pub fn aggregate(&self) -> Option<u32> {
        self.policy.settings().quota
    }

    /// Returns the longest time that a packet waits for a poll; `None` without polls.
    pub fn max_delay(&self) -> Option<Duration> {
        self.policy.settings().time
    }

    /// Returns a limit that leaves polls as far apart as a packet may wait: by the policy's bound, or else the default
    /// policy's.
    pub fn limit(&self, share: Percent) -> CpuLimitConfig {
        let longest = self.max_delay().unwrap_or(DelayBoundConfig::default().max_delay);
        CpuLimitConfig::new(share).stretched(longest)
    }

    /// Returns whether the policy polls again at once after finding a packet, and never sleeps in between.
    pub fn spins(&self) -> bool {
        let look = Look { began: Timestamp::ZERO, ended: Timestamp::ZERO, found: 1 };
        self.policy().looked(&look) == Next::Now
    }

    /// Sets another quota.
    #[must_use]
    pub fn with_quota(self, quota: u32) -> Self {
        PollingPlan { quota, ..self }
    }
}

impl Default for Mode {
    fn default() -> Self {
        Mode::HYBRID
    }
}

impl FromStr for Mode {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let unknown = PolicyError::UnknownName { allowed: AnyPolicy::ALL };
        Mode::all().map(|(mode, _)| mode).find(|mode| mode.name == text).ok_or(unknown)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hip_takes_its_parameters_and_the_longest_delay() {
        let plan = PollingPlan::new(Mode::HIP, 64, None, None).unwrap();
        let config = HipConfig { unsuccessful: 3, ..HipConfig::default() };
        let two = Duration::from_millis(2);
        let with = plan.with_hip(config, Some(two));
        assert!(with.policy() != plan.policy() && with.policy().settings().time == Some(two));
        assert_eq!(plan.with_hip(HipConfig::default(), None), plan);
    }

    #[test]
    fn each_policy_of_the_list_is_a_mode_once() {
        for (policy, _) in AnyPolicy::ALL {
            let modes = Mode::all().filter(|(mode, _)| mode.policy == *policy && *mode != Mode::NAIVE);
            assert_eq!(modes.count(), 1, "{policy}");
        }
        for (mode, about) in Mode::all() {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert!(!about.is_empty(), "{mode}");
            assert!(PollingPlan::new(mode, 64, None, Some(Duration::from_micros(200))).is_ok(), "{mode}");
        }
    }

    #[test]
    fn those_that_spin_are_known() {
        let spins = |(mode, _): &(Mode, _)| {
            PollingPlan::new(*mode, 64, None, Some(Duration::from_micros(200))).unwrap().spins()
        };
        let names: Vec<_> = Mode::all().filter(spins).map(|(mode, _)| mode.name()).collect();
        assert_eq!(names, ["busy-wait", "spin"]);
    }

    #[test]
    fn what_is_not_given_is_the_policys_own() {
        let looking = PollingPlan::new(Mode::POLL, 64, None, None).unwrap();
        assert_eq!((looking.aggregate(), looking.max_delay()), (Some(5), Some(Duration::from_micros(200))));
        assert_eq!(
            PollingPlan::new(Mode::HIP, 64, None, None).unwrap().max_delay(),
            Some(Duration::from_millis(1))
        );
        let naive = PollingPlan::new(Mode::NAIVE, 64, None, None).unwrap();
        assert_eq!((naive.packets(), naive.quota(), naive.aggregate()), (None, Quota::NONE, None));
    }
}
