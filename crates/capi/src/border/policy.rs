//! Receive policies: when to look at a source of packets.
//!
//! A look is one visit to a source, from its first packet until its ring was seen empty. A policy is told of it and says
//! when the next one is to be: now, at a time, or when the kernel wakes the program.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

use softtimers::Timestamp;
use softtimers::poll::{
    Aggregation, AggregationConfig, BusyWait, ConstantPeriod, DelayBound, DelayBoundConfig, Hip, HipConfig,
    Interrupts, Look, Next, Policy, Preset, SpinThenBlock, Watchdog,
};

use super::clock::SOFTTIMERS_NEVER;
use crate::object::{Errno, Kind, Object, write};

impl Kind for AnyPolicy {
    const NAME: &'static str = "softtimers_policy";
}

/// When to look at one source.
pub type softtimers_policy = Object<AnyPolicy>;

/// What is behind a `softtimers_policy`.
pub struct AnyPolicy(Box<dyn Policy + Send>);

impl std::fmt::Debug for AnyPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyPolicy").field(&self.0.next()).finish()
    }
}

/// A policy and its parameters. Zeros of those are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct softtimers_policy_config {
    /// One of the constants.
    pub kind: u32,
    /// Packets wanted in each poll, on average: of a delay bound and of aggregation.
    pub quota: u32,
    /// The longest delay of a delay bound, the period of a constant period, how long to spin or to watch.
    pub time_ns: u64,
}

/// When to look next.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct softtimers_next {
    /// One of the constants.
    pub what: u32,
    /// The time for SOFTTIMERS_LOOK_AT, a span for SOFTTIMERS_LOOK_WATCHED, else SOFTTIMERS_NEVER.
    pub time: u64,
}

/// By one number, the longest delay: polls while that is worth it. The default.
pub const SOFTTIMERS_POLICY_DELAY_BOUND: u32 = 0;
/// So that a wanted number of packets is found (soft timers, section 4.2).
pub const SOFTTIMERS_POLICY_AGGREGATION: u32 = 1;
/// By mean and spread of the gaps between packets (Dovrolis, Thayer and Ramanathan 2001).
pub const SOFTTIMERS_POLICY_HIP: u32 = 2;
/// A wake-up for each packet.
pub const SOFTTIMERS_POLICY_INTERRUPTS: u32 = 3;
/// All the time.
pub const SOFTTIMERS_POLICY_BUSY_WAIT: u32 = 4;
/// At the multiples of a period.
pub const SOFTTIMERS_POLICY_CONSTANT_PERIOD: u32 = 5;
/// Spins after each packet, then waits for a wake-up.
pub const SOFTTIMERS_POLICY_SPIN_THEN_BLOCK: u32 = 6;
/// At every trigger state, with a watchdog.
pub const SOFTTIMERS_POLICY_WATCHDOG: u32 = 7;

/// As soon as it is its turn again.
pub const SOFTTIMERS_LOOK_NOW: u32 = 0;
/// At a time; its wake-up stays off until then.
pub const SOFTTIMERS_LOOK_AT: u32 = 1;
/// At every trigger state; a packet that nobody has taken for a while wakes the program.
pub const SOFTTIMERS_LOOK_WATCHED: u32 = 2;
/// When a packet has arrived: the wake-up is to be enabled, and the source looked at once more after that.
pub const SOFTTIMERS_LOOK_ARMED: u32 = 3;

/// Makes a policy.
/// -EINVAL: `config` or `out` is NULL, or no such policy; a constant period or a spin without a time.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_new(
    config: Option<&softtimers_policy_config>,
    out: Option<&mut MaybeUninit<*mut softtimers_policy>>,
) -> c_int {
    Object::make(out, || Ok(AnyPolicy(config.ok_or(Errno::INVALID)?.read()?)))
}

/// Frees a policy. NULL is no error.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_free(policy: Option<&'static softtimers_policy>) -> c_int {
    Object::free(policy)
}

/// A packet arrived at `at`: to be called for each, in order, before `softtimers_policy_looked`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_arrived(policy: Option<&softtimers_policy>, at: u64) -> c_int {
    Object::with(policy, |policy| {
        policy.0.arrived(Timestamp::from_nanos(at));
        Ok(0)
    })
}

/// A look that began and ended then has found so many packets. When to look next is written to `next`, which may be NULL.
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
        write(next, policy.0.looked(&look).into());
        Ok(0)
    })
}

/// The program is about to sleep. When to look next is written to `next`, which may be NULL.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_policy_idle(
    policy: Option<&softtimers_policy>,
    now: u64,
    next: Option<&mut MaybeUninit<softtimers_next>>,
) -> c_int {
    Object::with(policy, |policy| {
        write(next, policy.0.idle(Timestamp::from_nanos(now)).into());
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

impl softtimers_policy_config {
    fn read(&self) -> Result<Box<dyn Policy + Send>, Errno> {
        let time = Duration::from_nanos(self.time_ns);
        let given = (self.time_ns != 0).then_some(time);
        Ok(match self.kind {
            SOFTTIMERS_POLICY_DELAY_BOUND => {
                let default = DelayBoundConfig::default();
                let config = DelayBoundConfig::preset(Preset::Measured, given.unwrap_or(default.max_delay));
                let quota = if self.quota == 0 { config.quota } else { self.quota };
                Box::new(DelayBound::new(DelayBoundConfig { quota, ..config }))
            }
            SOFTTIMERS_POLICY_AGGREGATION => {
                let config = AggregationConfig::default();
                let quota = if self.quota == 0 { config.quota } else { self.quota };
                Box::new(Aggregation::new(AggregationConfig { quota, ..config }))
            }
            SOFTTIMERS_POLICY_HIP => Box::new(Hip::new(HipConfig::default())),
            SOFTTIMERS_POLICY_INTERRUPTS => Box::new(Interrupts),
            SOFTTIMERS_POLICY_BUSY_WAIT => Box::new(BusyWait),
            SOFTTIMERS_POLICY_CONSTANT_PERIOD => Box::new(ConstantPeriod::new(given.ok_or(Errno::INVALID)?)),
            SOFTTIMERS_POLICY_SPIN_THEN_BLOCK => Box::new(SpinThenBlock::new(given.ok_or(Errno::INVALID)?)),
            SOFTTIMERS_POLICY_WATCHDOG => Box::new(given.map_or_else(Watchdog::default, Watchdog::new)),
            _ => return Err(Errno::INVALID),
        })
    }
}
