//! **When to poll a source of packets, how long, and when to stop taking them.** Policies that are stable
//! under overload, as pure state machines.
//!
//! A program that takes every packet as soon as it arrives does nothing else once packets come faster than it
//! finishes them: it livelocks (Mogul and Ramakrishnan 1997). The remedy is to separate three decisions. Each
//! is a small state machine here, independent of devices, clocks and threads:
//!
//! ```text
//!            when to look              who is next, how many         may input go on
//!          ┌──────────────┐  Next     ┌──────────────────────┐      ┌──────────────────────┐
//!   Look ─▶│    Policy    │──────────▶│        Rounds        │◀─────│ Feedback  CpuLimit   │◀─ depth of a queue,
//!          │ DelayBound   │ Now, At,  │ quota, round robin   │Input │ Progress           │   CPU time, progress
//!          │ Hip  …       │ Armed     │ over receive, transmit│Open, └──────────────────────┘
//!          └──────────────┘           └──────────┬───────────┘Shut
//!                 ▲                              │ Action: Receive, Transmit, Arm, Disarm, Rest
//!                 └─────── found, empty ───── a poller (softtimers_net), a simulator, a test
//! ```
//!
//! All of them share these types. A [`Look`] is one visit to a source, from its first packet until its ring
//! was seen empty. [`Next`] is a [`Policy`]'s answer: poll again now, at some time, or wait for a wake-up,
//! which in a kernel is an interrupt. [`Input`] is the answer of a limit on input: open, or shut until a
//! time.
//!
//! | policy | polls | source |
//! |---|---|---|
//! | [`DelayBound`] | by the user's one number, the longest delay; **the default** | ours, from the two below |
//! | [`Aggregation`] | at the interval that finds a target number of packets, on average | soft timers §4.2 |
//! | [`Hip`] | by the mean and the spread of the gaps between packets | Dovrolis, Thayer, Ramanathan 2001 |
//! | [`Interrupts`], [`ConstantPeriod`], [`BusyWait`], [`SpinThenBlock`], [`Watchdog`] | as their names say | the papers' baselines |
//!
//! [`AnyPolicy`] is any of them by name and settings: the one list, which the command, the
//! simulator, the benchmarks and C share.
//!
//! | limit on input | shuts | source |
//! |---|---|---|
//! | [`Feedback`] | at the high-water mark of any queue, until the low one or a time-out | livelock §6.6.1, §9 |
//! | [`CpuLimit`] | when packets have used their share of a period | livelock §7 |
//! | [`Progress`] | when nothing above makes progress | livelock §5.1 |
//!
//! Quotas come in [`Quota`], or from [`AutoQuota`]. [`LossFree`] finds a receiver's capacity,
//! [`Confirmation`] confirms it, and [`Curve`] classifies the behaviour beyond it. Everything is integer
//! arithmetic, O(1) for each packet, and allocates nothing after set-up.

#![no_std]
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

extern crate alloc;

/// The program of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod aggregation;
mod any;
mod auto_quota;
mod baselines;
mod cpu_limit;
mod delay_bound;
mod error;
mod factor;
mod feedback;
mod hip;
mod named;
mod nanos;
mod overload;
mod progress;
mod quota;
mod rounds;
mod stages;

/// What the paper about HIP leaves open, and its readings.
pub mod readings {
    pub use crate::hip::{Costs, Decides, Deviation, FirstMean, Grid, Mean, Reading, Rounding, Unsaid};
}

use core::time::Duration;

use softtimers_core::Timestamp;

pub use error::PolicyError;

pub use aggregation::{Aggregation, AggregationConfig};
pub use any::AnyPolicy;
pub use auto_quota::{AutoQuota, AutoQuotaConfig};
pub use baselines::{BusyWait, ConstantPeriod, Interrupts, SpinThenBlock, Watchdog};
pub use cpu_limit::{CpuLimit, CpuLimitConfig};
pub use delay_bound::{DelayBound, DelayBoundConfig};
pub use factor::Factor;
pub use feedback::{Feedback, FeedbackConfig, FeedbackStats, TimeOut};
pub use hip::{Hip, HipConfig, HipStats};
pub use named::{PolicySettings, WhenIdle};
pub use overload::{Behaviour, Confirmation, Curve, LossFree, Point};
pub use progress::{Progress, ProgressConfig};
pub use quota::Quota;
pub use rounds::{Action, GateId, Rounds, SourceConfig, SourceId, SourceStats};
pub use stages::{Stage, StageEvent, StageLog};

/// One look at a source: from the time it began until its ring was seen empty.
///
/// A look may take several turns, because a quota ends each of them: a source that has more is visited again
/// after the others' turns, whatever its policy, and the policy decides when it is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The time at which the look began.
    pub began: Timestamp,
    /// When the ring was seen empty.
    pub ended: Timestamp,
    /// Number of packets found.
    pub found: u32,
}

/// When to poll a source next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// At its next turn; its wake-up stays off.
    Now,
    /// At this time; its wake-up stays off until then.
    At(Timestamp),
    /// At every trigger state, its wake-up off; if none comes within this time after the look, by a timer, so
    /// that no packet waits longer. Hardware with a watchdog counts from the packet's arrival instead.
    Watched(Duration),
    /// When a packet has arrived: enable its wake-up, then poll the source once more.
    Armed,
}

/// Decides when to poll one source.
///
/// The driver calls [`arrived`](Policy::arrived) for each packet, in order, with its time of arrival: a simulator
/// when it happens, a poller when it finds the packet, before [`looked`](Policy::looked). The result of
/// [`next`](Policy::next) holds until the next call that may change it.
pub trait Policy {
    /// A packet arrived at `at`.
    #[inline]
    fn arrived(&mut self, at: Timestamp) {
        let _ = at;
    }

    /// Records a look, and returns when the next one is.
    fn looked(&mut self, look: &Look) -> Next;

    /// Notes that the CPU is about to be idle (soft timers §5.8: then polling is turned off).
    #[inline]
    fn idle(&mut self, now: Timestamp) -> Next {
        let _ = now;
        self.next()
    }

    /// Returns the last decision again.
    fn next(&self) -> Next;
}

impl<P: Policy + ?Sized> Policy for alloc::boxed::Box<P> {
    fn arrived(&mut self, at: Timestamp) {
        (**self).arrived(at);
    }

    fn looked(&mut self, look: &Look) -> Next {
        (**self).looked(look)
    }

    fn idle(&mut self, now: Timestamp) -> Next {
        (**self).idle(now)
    }

    fn next(&self) -> Next {
        (**self).next()
    }
}

/// The state of a source's input: whether packets may be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Packets may be taken.
    Open,
    /// No packets before this time, unless it is opened earlier: neither polls nor wake-ups.
    Shut(Timestamp),
}

impl Input {
    /// Returns whether packets may be taken at `now`.
    #[inline]
    pub fn is_open(self, now: Timestamp) -> bool {
        match self {
            Input::Open => true,
            Input::Shut(until) => until <= now,
        }
    }
}

/// The parameters that a policy starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preset {
    /// The paper's parameters, to compare with it.
    Paper,
    /// Parameters chosen by measurements on Linux.
    #[default]
    Measured,
}
