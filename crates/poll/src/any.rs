//! The one list of receive policies: [`AnyPolicy`].
//!
//! A policy is a module of this crate and a line of the list below. The file implements [`Policy`], and
//! [`Named`] for its name and its settings; it is then available by that name in the command, the simulator,
//! the benchmarks and C.
//!
//! ```text
//!   policy  = name [":" setting {"," setting}]
//!   setting = "quota=" packets | "time=" time | "idle=" ("wake-up" | "poll")
//!   time    = digits ("ns" | "us" | "ms" | "s")
//! ```

use core::fmt;
use core::str::FromStr;

use super::named::{Named, PolicySettings};
use super::{Look, Next, Policy};
use crate::error::PolicyError;
use crate::time_text::Time;
use softtimers_core::Timestamp;

/// Any of the receive policies, by its name and a few settings.
///
/// ```
/// use core::time::Duration;
/// use softtimers_poll::{AnyPolicy, Next, Policy, PolicySettings};
///
/// let policy: AnyPolicy = "delay-bound:time=500us".parse()?;
/// assert_eq!(policy.next(), Next::Armed);
/// assert_eq!(policy.to_string(), "delay-bound:quota=5,time=500us,idle=poll");
///
/// let settings = PolicySettings { time: Some(Duration::from_micros(50)), ..PolicySettings::default() };
/// assert_eq!(AnyPolicy::new("spin", settings)?.to_string(), "spin:time=50us");
/// assert!("spin".parse::<AnyPolicy>().is_err(), "it needs a time");
/// assert!("hip:quota=5".parse::<AnyPolicy>().is_err(), "it has no quota");
/// # Ok::<(), softtimers_poll::PolicyError>(())
/// ```
///
/// A policy that was made by its own constructor becomes one of these by `From`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnyPolicy(Kind);

macro_rules! policies {
    ($($module:ident::$policy:ident),+ $(,)?) => {
        $(use super::$module::$policy;)+

        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Kind {
            $($policy($policy)),+
        }

        impl AnyPolicy {
            /// The name of each policy, and what it does.
            ///
            /// New ones come last: C programs identify a policy by its index.
            pub const ALL: &'static [(&'static str, &'static str)] =
                &[$((<$policy as Named>::NAME, <$policy as Named>::ABOUT)),+];

            /// Makes the policy of this name. Settings that it does not have are ignored; see
            /// [`settings`](Self::settings).
            ///
            /// # Errors
            /// [`PolicyError::UnknownName`]; [`PolicyError::Missing`] for a policy without a default for a setting.
            pub fn new(name: &str, settings: PolicySettings) -> Result<Self, PolicyError> {
                Ok(AnyPolicy(match name {
                    $(<$policy as Named>::NAME => Kind::$policy(Named::with(settings)?),)+
                    _ => return Err(PolicyError::UnknownName { allowed: AnyPolicy::ALL }),
                }))
            }

            /// Returns the policy's name in [`ALL`](Self::ALL).
            pub fn name(&self) -> &'static str {
                match self.0 {
                    $(Kind::$policy(_) => <$policy as Named>::NAME),+
                }
            }

            /// Returns the settings in use; `None` for those that this policy does not have.
            pub fn settings(&self) -> PolicySettings {
                match &self.0 {
                    $(Kind::$policy(policy) => policy.settings()),+
                }
            }

            /// Returns how often the policy itself changed between polls and wake-ups.
            pub fn switches(&self) -> u64 {
                match &self.0 {
                    $(Kind::$policy(policy) => policy.switches()),+
                }
            }
        }

        impl Policy for AnyPolicy {
            #[inline]
            fn arrived(&mut self, at: Timestamp) {
                match &mut self.0 {
                    $(Kind::$policy(policy) => policy.arrived(at)),+
                }
            }

            #[inline]
            fn looked(&mut self, look: &Look) -> Next {
                match &mut self.0 {
                    $(Kind::$policy(policy) => policy.looked(look)),+
                }
            }

            #[inline]
            fn idle(&mut self, now: Timestamp) -> Next {
                match &mut self.0 {
                    $(Kind::$policy(policy) => policy.idle(now)),+
                }
            }

            #[inline]
            fn next(&self) -> Next {
                match &self.0 {
                    $(Kind::$policy(policy) => policy.next()),+
                }
            }
        }

        $(impl From<$policy> for AnyPolicy {
            fn from(policy: $policy) -> Self {
                AnyPolicy(Kind::$policy(policy))
            }
        })+
    };
}

policies! {
    delay_bound::DelayBound,
    aggregation::Aggregation,
    hip::Hip,
    baselines::Interrupts,
    baselines::BusyWait,
    baselines::ConstantPeriod,
    baselines::SpinThenBlock,
    baselines::Watchdog,
}

impl FromStr for AnyPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, PolicySettings::parse(settings).ok_or(PolicyError::Malformed)?),
            None => (text, PolicySettings::default()),
        };
        let policy = AnyPolicy::new(name, settings)?;
        let used = policy.settings();
        for (setting, is_given, is_used) in [
            ("quota", settings.quota.is_some(), used.quota.is_some()),
            ("time", settings.time.is_some(), used.time.is_some()),
            ("idle", settings.when_idle.is_some(), used.when_idle.is_some()),
        ] {
            if is_given && !is_used {
                return Err(PolicyError::Unused { setting });
            }
        }
        Ok(policy)
    }
}

impl fmt::Display for AnyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicySettings { quota, time, when_idle } = self.settings();
        f.write_str(self.name())?;
        let mut before = ":";
        let mut next = || core::mem::replace(&mut before, ",");
        if let Some(quota) = quota {
            write!(f, "{}quota={quota}", next())?;
        }
        if let Some(time) = time {
            write!(f, "{}time={}", next(), Time(time))?;
        }
        if let Some(when_idle) = when_idle {
            write!(f, "{}idle={}", next(), when_idle.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::{DelayBoundConfig, HipConfig, WhenIdle};
    use alloc::string::ToString;

    /// Makes any policy by name, with a time if it has no default.
    fn any(name: &str) -> AnyPolicy {
        let time = Some(Duration::from_micros(50));
        name.parse().or_else(|_| AnyPolicy::new(name, PolicySettings { time, ..Default::default() })).unwrap()
    }

    #[test]
    fn every_policy_is_read_as_it_is_written() {
        for (name, about) in AnyPolicy::ALL {
            let policy = any(name);
            assert_eq!((policy.name(), policy.to_string().parse()), (*name, Ok(policy)));
            assert!(!about.is_empty());
            assert_eq!(policy.switches(), 0, "{name} has not begun");
        }
    }

    #[test]
    fn names_are_different() {
        for (at, (name, _)) in AnyPolicy::ALL.iter().enumerate() {
            assert_eq!(AnyPolicy::ALL.iter().position(|(other, _)| other == name), Some(at));
        }
    }

    #[test]
    fn defaults_are_those_of_the_configurations() {
        let made: [AnyPolicy; 4] = [
            DelayBound::new(DelayBoundConfig::default()).into(),
            Aggregation::new(Default::default()).into(),
            Hip::new(HipConfig::default()).into(),
            Watchdog::default().into(),
        ];
        for policy in made {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
    }

    #[test]
    fn settings_reach_the_policy() {
        let all = PolicySettings {
            quota: Some(7),
            time: Some(Duration::from_micros(120)),
            when_idle: Some(WhenIdle::WakeUp),
        };
        assert_eq!(AnyPolicy::new("delay-bound", all).unwrap().settings(), all);
        assert_eq!(AnyPolicy::new("aggregation", all).unwrap().settings(), all);
        for name in ["hip", "constant", "spin", "watchdog"] {
            let only = PolicySettings { time: all.time, ..PolicySettings::default() };
            assert_eq!(AnyPolicy::new(name, all).unwrap().settings(), only, "{name}");
        }
        assert_eq!(AnyPolicy::new("interrupts", all).unwrap().settings(), PolicySettings::default());
    }

    #[test]
    fn wrong_text_is_refused() {
        let parse = |text: &str| text.parse::<AnyPolicy>().unwrap_err();
        assert!(matches!(parse("sleep"), PolicyError::UnknownName { .. }));
        assert!(parse("").to_string().starts_with("one of delay-bound, aggregation, hip, interrupts"));
        for text in ["hip:", "hip:time", "hip:time=", "hip:time=5", "hip:time=1ms,time=2ms", "hip:tick=1ms"] {
            assert_eq!(parse(text), PolicyError::Malformed, "{text}");
        }
        assert_eq!(parse("hip:quota=5"), PolicyError::Unused { setting: "quota" });
        assert_eq!(parse("watchdog:idle=poll"), PolicyError::Unused { setting: "idle" });
        assert_eq!(parse("constant"), PolicyError::Missing { setting: "time" });
    }
}
