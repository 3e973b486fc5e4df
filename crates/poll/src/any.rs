//! The one list of receive policies: [`AnyPolicy`].
//!
//! A policy is a module of this crate and a line of the list below. The file implements [`Policy`], and
//! [`Named`] for its name and its settings; it is then available by that name in the command, the simulator,
//! the benchmarks and C.

use super::named::{Named, PolicySettings};
use super::{Look, Next, Policy};
use crate::error::PolicyError;
use softtimers_core::Timestamp;

/// Any of the receive policies, by its name and a few settings.
///
/// ```
/// use core::time::Duration;
/// use softtimers_poll::{AnyPolicy, Next, Policy, PolicySettings};
///
/// let settings = PolicySettings { time: Some(Duration::from_micros(50)), ..PolicySettings::default() };
/// let policy = AnyPolicy::new("delay-bound", settings)?;
/// assert_eq!((policy.next(), policy.settings().quota), (Next::Armed, Some(5)));
/// assert!(AnyPolicy::new("spin", settings).is_ok());
/// assert!(AnyPolicy::new("spin", PolicySettings::default()).is_err(), "it needs a time");
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

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::{DelayBoundConfig, HipConfig, WhenIdle};

    fn made(name: &str, settings: PolicySettings) -> AnyPolicy {
        AnyPolicy::new(name, settings).unwrap()
    }

    #[test]
    fn names_are_different_and_each_is_a_policy_that_has_not_begun() {
        let time = Some(Duration::from_micros(50));
        for (at, (name, about)) in AnyPolicy::ALL.iter().enumerate() {
            assert_eq!(AnyPolicy::ALL.iter().position(|(other, _)| other == name), Some(at));
            let policy = made(name, PolicySettings { time, ..PolicySettings::default() });
            assert_eq!((policy.name(), policy.switches(), about.is_empty()), (*name, 0, false));
        }
    }

    #[test]
    fn defaults_are_those_of_the_configurations() {
        let configured: [AnyPolicy; 4] = [
            DelayBound::new(DelayBoundConfig::default()).into(),
            Aggregation::new(Default::default()).into(),
            Hip::new(HipConfig::default()).into(),
            Watchdog::default().into(),
        ];
        for policy in configured {
            assert_eq!(made(policy.name(), PolicySettings::default()), policy);
        }
    }

    #[test]
    fn settings_reach_the_policy() {
        let all = PolicySettings {
            quota: Some(7),
            time: Some(Duration::from_micros(120)),
            when_idle: Some(WhenIdle::WakeUp),
        };
        assert_eq!(made("delay-bound", all).settings(), all);
        assert_eq!(made("aggregation", all).settings(), all);
        for name in ["hip", "constant", "spin", "watchdog"] {
            let only = PolicySettings { time: all.time, ..PolicySettings::default() };
            assert_eq!(made(name, all).settings(), only, "{name}");
        }
        assert_eq!(made("interrupts", all).settings(), PolicySettings::default());
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        let refused = |name: &str| AnyPolicy::new(name, PolicySettings::default()).unwrap_err();
        assert!(matches!(refused("sleep"), PolicyError::UnknownName { .. }));
        assert!(
            alloc::format!("{}", refused("")).starts_with("one of delay-bound, aggregation, hip, interrupts")
        );
        assert_eq!(refused("constant"), PolicyError::Missing { setting: "time" });
    }
}
