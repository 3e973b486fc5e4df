//! Receive policies: when to poll a source of packets.
//!
//! A look is one visit to a source, from its first packet until its ring was seen empty. A policy is told of
//! it and decides when the next one is: now, at a time, or when the kernel wakes the program.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

use softtimers::Timestamp;
use softtimers_poll::{AnyPolicy, Look, Next, Policy, PolicySettings};

use super::clock::SOFTTIMERS_NEVER;
use crate::object::{Errno, Kind, Object, write};

impl Kind for AnyPolicy {
    const NAME: &'static str = "softtimers_policy";
}

/// Decides when to poll one source.
pub(crate) type softtimers_policy = Object<AnyPolicy>;

/// A policy and its parameters. Zeros of those are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_policy_config {
    /// One of the constants.
    pub(crate) kind: u32,
    /// The target number of packets per poll, on average: for a delay bound and for aggregation.
    pub(crate) quota: u32,
    /// The longest wait for a poll, the period of a constant period, how long to spin or to watch.
    pub(crate) time_ns: u64,
}

/// When to poll next.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_next {
    /// One of the constants.
    pub(crate) what: u32,
    /// The time for SOFTTIMERS_LOOK_AT, a span for SOFTTIMERS_LOOK_WATCHED, otherwise SOFTTIMERS_NEVER.
    pub(crate) time: u64,
}

/// By one number, the longest delay: polls while that pays. The default.
pub const SOFTTIMERS_POLICY_DELAY_BOUND: u32 = 0;
/// At the interval that finds a target number of packets (soft timers, section 4.2).
pub const SOFTTIMERS_POLICY_AGGREGATION: u32 = 1;
/// By mean and spread of the gaps between packets (Dovrolis, Thayer and Ramanathan 2001).
pub const SOFTTIMERS_POLICY_HIP: u32 = 2;
/// A wake-up for each packet.
pub const SOFTTIMERS_POLICY_INTERRUPTS: u32 = 3;
/// Polls all the time.
pub const SOFTTIMERS_POLICY_BUSY_WAIT: u32 = 4;
/// At the multiples of a period.
pub const SOFTTIMERS_POLICY_CONSTANT_PERIOD: u32 = 5;
/// Spins after each packet, then waits for a wake-up.
pub const SOFTTIMERS_POLICY_SPIN_THEN_BLOCK: u32 = 6;
/// At every trigger state, with a watchdog.
pub const SOFTTIMERS_POLICY_WATCHDOG: u32 = 7;

/// At its next turn.
pub const SOFTTIMERS_LOOK_NOW: u32 = 0;
/// At a time; its wake-up stays off until then.
pub const SOFTTIMERS_LOOK_AT: u32 = 1;
/// At every trigger state; a packet that has waited for a while wakes the program.
pub const SOFTTIMERS_LOOK_WATCHED: u32 = 2;
/// When a packet has arrived: enable the wake-up, then poll the source once more.
pub const SOFTTIMERS_LOOK_ARMED: u32 = 3;

/// Makes a policy.
/// -EINVAL: `config` or `out` is NULL, or an unknown policy; a constant period or a spin without a time.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_new(
    config: Option<&softtimers_policy_config>,
    out: Option<&mut MaybeUninit<*mut softtimers_policy>>,
) -> c_int {
    Object::make(out, || config.ok_or(Errno::INVALID)?.read())
}

/// Frees a policy. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_free(policy: Option<&'static softtimers_policy>) -> c_int {
    Object::free(policy)
}

/// Records a packet that arrived at `at`: call it for each, in order, before `softtimers_policy_looked`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_arrived(policy: Option<&softtimers_policy>, at: u64) -> c_int {
    Object::with(policy, |policy| {
        policy.arrived(Timestamp::from_nanos(at));
        Ok(0)
    })
}

/// Records a look that began and ended at these times and found `found` packets. Writes the time of the next look to `next`,
/// which may be NULL.
/// -EINVAL: it ended before it began.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_looked(
    policy: Option<&softtimers_policy>,
    began: u64,
    ended: u64,
    found: u32,
    next: Option<&mut MaybeUninit<softtimers_next>>,
) -> c_int {
    Object::with(policy, |policy| {
        if ended < began {
            return Err(Errno::INVALID);
        }
        let look = Look { began: Timestamp::from_nanos(began), ended: Timestamp::from_nanos(ended), found };
        write(next, policy.looked(&look).into());
        Ok(0)
    })
}

/// Notes that the program is about to sleep. Writes when to poll next to `next`, which may be NULL. Thread:
/// its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_idle(
    policy: Option<&softtimers_policy>,
    now: u64,
    next: Option<&mut MaybeUninit<softtimers_next>>,
) -> c_int {
    Object::with(policy, |policy| {
        write(next, policy.idle(Timestamp::from_nanos(now)).into());
        Ok(0)
    })
}

impl From<Next> for softtimers_next {
    fn from(next: Next) -> Self {
        let (what, time) = match next {
            Next::Now => (SOFTTIMERS_LOOK_NOW, SOFTTIMERS_NEVER),
            Next::At(time) => (SOFTTIMERS_LOOK_AT, time.as_nanos()),
            Next::Watched(span) => {
                (SOFTTIMERS_LOOK_WATCHED, u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
            }
            Next::Armed => (SOFTTIMERS_LOOK_ARMED, SOFTTIMERS_NEVER),
        };
        softtimers_next { what, time }
    }
}

/// The name of each constant's policy. A number never changes its policy: programs are compiled with it.
const NAMES: [(u32, &str); 8] = [
    (SOFTTIMERS_POLICY_DELAY_BOUND, "delay-bound"),
    (SOFTTIMERS_POLICY_AGGREGATION, "aggregation"),
    (SOFTTIMERS_POLICY_HIP, "hip"),
    (SOFTTIMERS_POLICY_INTERRUPTS, "interrupts"),
    (SOFTTIMERS_POLICY_BUSY_WAIT, "busy-wait"),
    (SOFTTIMERS_POLICY_CONSTANT_PERIOD, "constant"),
    (SOFTTIMERS_POLICY_SPIN_THEN_BLOCK, "spin"),
    (SOFTTIMERS_POLICY_WATCHDOG, "watchdog"),
];

impl softtimers_policy_config {
    fn read(&self) -> Result<AnyPolicy, Errno> {
        let (_, name) = NAMES.iter().find(|(kind, _)| *kind == self.kind).ok_or(Errno::INVALID)?;
        let settings = PolicySettings {
            quota: (self.quota != 0).then_some(self.quota),
            time: (self.time_ns != 0).then_some(Duration::from_nanos(self.time_ns)),
            when_idle: None,
        };
        AnyPolicy::new(name, settings).map_err(|_| Errno::INVALID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy without a constant cannot be used from C; one in another place would get another's number in a table
    /// that somebody makes of the list.
    #[test]
    fn every_policy_has_a_number_that_never_changes() {
        let numbered: Vec<_> = NAMES.iter().map(|&(_, name)| name).collect();
        let listed: Vec<_> = AnyPolicy::ALL.iter().map(|&(name, _)| name).collect();
        assert_eq!(numbered, listed, "a new policy comes last, and gets the next constant");
        for (number, (kind, name)) in (0..).zip(NAMES) {
            assert_eq!(kind, number, "{name}");
            let config = softtimers_policy_config { kind, quota: 0, time_ns: 50_000 };
            assert_eq!(config.read().map(|policy| policy.name()).ok(), Some(name));
        }
        let unknown = softtimers_policy_config { kind: NAMES.len() as u32, quota: 0, time_ns: 50_000 };
        assert!(unknown.read().is_err());
    }
}
