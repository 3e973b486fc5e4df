//! One source of packets: its state between due and armed.

use alloc::vec::Vec;
use core::time::Duration;

use super::super::{Input, Next, Policy, Quota};
use crate::nanos::Nanos;
use softtimers_core::{Slots, Timestamp};

/// The policy and the quota of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceConfig<P> {
    /// Decides when the source is polled.
    pub policy: P,
    /// The most packets of a turn.
    pub quota: Quota,
}

impl<P> SourceConfig<P> {
    /// Makes a configuration with the default quota.
    pub fn new(policy: P) -> Self {
        SourceConfig { policy, quota: Quota::default() }
    }

    /// Replaces the default quota.
    #[must_use]
    pub fn with_quota(self, quota: Quota) -> Self {
        SourceConfig { quota, ..self }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Source<P> {
    pub(super) policy: P,
    pub(super) quota: Quota,
    /// The gates that can shut it.
    pub(super) gates: Vec<u32>,
    pub(super) open: bool,
    /// When to poll next, unless it is armed.
    pub(super) due: Timestamp,
    pub(super) arming: Arming,
    /// When the look under way began.
    pub(super) began: Option<Timestamp>,
    /// The number of packets that the look has found so far.
    pub(super) found: u32,
    /// Packets of this turn with a reported time of arrival.
    pub(super) stamped: u32,
    /// When its ring was last seen empty, or its last known packet arrived.
    pub(super) emptied: Timestamp,
    /// When to finish transmissions, if there are any.
    pub(super) transmits: Option<Timestamp>,
    /// Whether it is polled in every round, due or not, until it is armed.
    watched: bool,
    shut_since: Timestamp,
    pub(super) stats: SourceStats,
}

/// The state of a source's wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arming {
    Off,
    Wanted,
    Armed,
}

/// Counters of one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SourceStats {
    /// Number of packets received.
    pub packets: u64,
    /// Receive turns: a look may take several.
    pub turns: u64,
    /// Looks, from the first packet until the ring was empty.
    pub looks: u64,
    /// Number of looks that found nothing.
    pub empty_looks: u64,
    /// Number of wake-ups that were enabled.
    pub armed: u64,
    /// Wake-ups after whose enabling packets were found that had come in between.
    pub raced: u64,
    /// Enabled wake-ups that came.
    pub woken: u64,
    /// Times that its input was shut.
    pub shut: u64,
    /// Total time for which input was shut.
    pub shut_time: Duration,
}

impl<P: Policy> Source<P> {
    pub(super) fn new(config: SourceConfig<P>) -> Self {
        let SourceConfig { policy, quota } = config;
        let mut source = Source {
            policy,
            quota,
            gates: Vec::new(),
            open: true,
            due: Timestamp::ZERO,
            arming: Arming::Off,
            began: None,
            found: 0,
            stamped: 0,
            emptied: Timestamp::ZERO,
            transmits: None,
            watched: false,
            shut_since: Timestamp::ZERO,
            stats: SourceStats::default(),
        };
        let next = source.policy.next();
        source.follow(next, Timestamp::ZERO);
        source
    }

    pub(super) fn is_open(&self, gates: &Slots<Input>, now: Timestamp) -> bool {
        self.shut_by(gates).all(|until| until <= now)
    }

    /// Records that its input was shut or opened, and returns whether its wake-up must be disabled for that.
    /// An opened source is polled: packets may have come.
    pub(super) fn set_open(&mut self, open: bool, now: Timestamp) -> bool {
        if self.open == open {
            return false;
        }
        self.open = open;
        if open {
            self.stats.shut_time += now.saturating_duration_since(self.shut_since);
            self.due_at(now);
            return false;
        }
        self.stats.shut += 1;
        self.shut_since = now;
        core::mem::replace(&mut self.arming, Arming::Off) == Arming::Armed
    }

    /// Returns whether to poll the source.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.arming == Arming::Off && (self.watched || self.due <= now)
    }

    pub(super) fn due_at(&mut self, time: Timestamp) {
        self.due = time;
        self.arming = Arming::Off;
    }

    pub(super) fn begin(&mut self, now: Timestamp) {
        self.began.get_or_insert(now);
        self.stamped = 0;
    }

    /// Spreads the arrivals of packets without a time evenly since the ring was last empty, the last one now.
    pub(super) fn approximate_arrivals(&mut self, now: Timestamp, packets: u32) {
        let unknown = u64::from(packets.saturating_sub(self.stamped));
        if let Some(each) = now.nanos_since(self.emptied).checked_div(unknown) {
            for before in (0..unknown).rev() {
                self.policy.arrived(Timestamp::from_nanos(now.as_nanos() - before * each));
            }
        }
        self.emptied = now;
    }

    /// Applies its policy's decision.
    pub(super) fn follow(&mut self, next: Next, now: Timestamp) {
        self.watched = matches!(next, Next::Watched(_));
        match next {
            Next::Now => self.due_at(now),
            Next::At(time) => self.due_at(time),
            // No waiting packet arrived before this look.
            Next::Watched(delay) => self.due_at(now + delay),
            Next::Armed => self.arming = Arming::Wanted,
        }
    }

    /// Returns when its next step is due without a wake-up.
    pub(super) fn poll_at(&self, gates: &Slots<Input>, now: Timestamp) -> Option<Timestamp> {
        self.transmits.into_iter().chain(self.input_at(gates, now)).min()
    }

    fn input_at(&self, gates: &Slots<Input>, now: Timestamp) -> Option<Timestamp> {
        if let Some(opens) = self.shut_by(gates).filter(|&until| until > now).max() {
            // Its wake-up is still to be disabled.
            return if self.arming == Arming::Armed { Some(now) } else { Some(opens) };
        }
        match self.arming {
            _ if !self.open => Some(now),
            Arming::Off => Some(self.due),
            Arming::Wanted => Some(now),
            Arming::Armed => None,
        }
    }

    /// Returns until when each of its gates shuts it, for those that do or did.
    fn shut_by(&self, gates: &Slots<Input>) -> impl Iterator<Item = Timestamp> {
        self.gates.iter().filter_map(|&gate| match gates.at(gate) {
            Some(&Input::Shut(until)) => Some(until),
            _ => None,
        })
    }
}
