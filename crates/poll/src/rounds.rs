//! [`Rounds`]: the order of turns between sources, and the packets of each turn.
//!
//! A round visits every source once. A due source may receive as many packets as its quota allows, then
//! finish as many transmissions as that allows, and then the next source has its turn. So no source waits for
//! more than a quota of each of the others, in either direction (livelock §5.2 and §6.4).
//!
//! Each source's wake-up, an interrupt in the papers, is off while it is polled and enabled when its policy says
//! so, after its ring was seen empty. Packets may come between the two, and cause no wake-up; so arming ends
//! with another check of the ring:
//!
//! ```text
//!                  Receive                    its policy says At or Now
//!        ┌────────────────────────── due ◀──────────────────────────────┐
//!        │ more: in the next round    ▲                                  │
//!        └────────────────────────────┤ woken; gate opened               │ empty
//!                                     │                                  │
//!                                   armed ◀── ring empty ── Arm ◀── its policy says Armed
//!                                             not empty: due, at once
//! ```
//!
//! It does no I/O. [`Rounds::action`] returns the next step, the driver takes it and reports: the same for a
//! poller on real devices, for a simulator, and for a test.

mod ids;
mod source;

use core::num::NonZeroU32;

use super::{Input, Look, Policy, Quota};
use softtimers_core::{Slots, Timestamp, Wait};

pub use ids::{GateId, SourceId};
use source::{Arming, Source};
pub use source::{SourceConfig, SourceStats};

/// The next step of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Take at most `quota` packets and process each to completion; report by [`Rounds::received`].
    Receive {
        /// The source to take packets from.
        source: SourceId,
        /// The largest number of them; at least one.
        quota: u32,
    },
    /// Finish at most `quota` transmissions; report by [`Rounds::transmitted`].
    Transmit {
        /// The source concerned.
        source: SourceId,
        /// The largest number of them; at least one.
        quota: u32,
    },
    /// Enable the wake-up, then check whether the ring is still empty; if it is not, disable it again. Report
    /// by [`Rounds::armed`].
    Arm {
        /// The source concerned.
        source: SourceId,
    },
    /// Disable the wake-up: input is shut.
    Disarm {
        /// The source concerned.
        source: SourceId,
    },
    /// The round is over. Do other work, or, if there is none, wait.
    Rest(Wait),
}

/// Round robin over sources, each with its policy and quota.
///
/// ```
/// use softtimers_poll::{Action, Interrupts, Quota, Rounds, SourceConfig};
/// use softtimers_core::{Timestamp, Wait};
///
/// let now = Timestamp::from_micros(5);
/// let mut rounds = Rounds::new();
/// let eth0 = rounds.add(SourceConfig::new(Interrupts).with_quota(Quota::new(2, 2)));
///
/// // A source begins armed, so that packets from before are seen.
/// assert_eq!(rounds.action(now), Action::Arm { source: eth0 });
/// rounds.armed(eth0, now, false); // three packets are waiting already
/// assert_eq!(rounds.action(now), Action::Rest(Wait::Poll));
/// assert_eq!(rounds.action(now), Action::Receive { source: eth0, quota: 2 });
/// rounds.received(eth0, now, 2, true);
/// assert_eq!(rounds.action(now), Action::Rest(Wait::Poll));
/// assert_eq!(rounds.action(now), Action::Receive { source: eth0, quota: 2 });
/// rounds.received(eth0, now, 1, false);
/// assert_eq!(rounds.action(now), Action::Arm { source: eth0 });
/// rounds.armed(eth0, now, true);
/// assert_eq!(rounds.action(now), Action::Rest(Wait::Forever));
/// ```
///
/// Sources come and go ([`remove`](Rounds::remove)). Reports about a removed one have no effect: its wake-up
/// may have been under way.
///
/// # Cost
/// A round is O(sources), plus O(gates) of a source for each check of whether its input is open. Removing is
/// O(1) for a source, O(sources) for a gate.
#[derive(Clone, Debug)]
pub struct Rounds<P> {
    sources: Slots<Source<P>>,
    gates: Slots<Input>,
    /// The slot whose turn it is, and the phase of that turn.
    at: u32,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Input,
    Arm,
    Transmit,
}

impl<P: Policy> Rounds<P> {
    /// Makes rounds without sources.
    pub fn new() -> Self {
        Rounds {
            sources: Slots::new(NonZeroU32::MIN),
            gates: Slots::new(NonZeroU32::MIN),
            at: 0,
            phase: Phase::Input,
        }
    }

    /// Adds a source, and returns its id.
    ///
    /// # Panics
    /// If there are 2³² − 1 of them.
    pub fn add(&mut self, config: SourceConfig<P>) -> SourceId {
        let (_, index) = self.sources.insert(Source::new(config));
        SourceId { index, generation: self.sources.generation(index) }
    }

    /// Removes a source in any state; its id is dead afterwards. `None` if it was removed before. The driver
    /// must disable its wake-up.
    pub fn remove(&mut self, source: SourceId) -> Option<P> {
        let index = self.find(source)?;
        if index == self.at {
            // The next source in this slot begins with its first phase.
            self.phase = Phase::Input;
        }
        self.sources.take(index).map(|(_, source)| source.policy)
    }

    /// Adds a gate, a reason to shut input; it shuts nothing until sources are attached to it.
    ///
    /// # Panics
    /// If there are 2³² − 1 of them.
    pub fn add_gate(&mut self) -> GateId {
        let (_, index) = self.gates.insert(Input::Open);
        GateId { index, generation: self.gates.generation(index) }
    }

    /// Removes a gate; the sources that it shut are open if their other gates are. Returns `false` if there
    /// is no such gate.
    pub fn remove_gate(&mut self, gate: GateId) -> bool {
        let Some(index) = self.find_gate(gate) else { return false };
        self.gates.take(index);
        self.sources.iter_mut().for_each(|source| source.gates.retain(|&gate| gate != index));
        true
    }

    /// Attaches a source to a gate, which can shut it from now on. Returns `false` if one of them does not
    /// exist.
    pub fn attach(&mut self, gate: GateId, source: SourceId) -> bool {
        let Some(gate) = self.find_gate(gate) else { return false };
        let Some(source) = self.source_mut(source) else { return false };
        if !source.gates.contains(&gate) {
            source.gates.push(gate);
        }
        true
    }

    /// Sets a gate. A source is open when all its gates are.
    pub fn set(&mut self, gate: GateId, input: Input) {
        if let Some(gate) = self.find_gate(gate).and_then(|gate| self.gates.at_mut(gate)) {
            *gate = input;
        }
    }

    /// Sets a source's quota from the next turn on.
    pub fn set_quota(&mut self, source: SourceId, quota: Quota) {
        if let Some(source) = self.source_mut(source) {
            source.quota = quota;
        }
    }

    /// Returns the next step to take. Until [`Action::Rest`], carry each out and report it before the next call.
    pub fn action(&mut self, now: Timestamp) -> Action {
        while self.at < self.sources.slots() {
            let id = SourceId { index: self.at, generation: self.sources.generation(self.at) };
            let Some(source) = self.sources.at_mut(self.at) else {
                self.at += 1;
                continue;
            };
            match self.phase {
                Phase::Input => {
                    self.phase = Phase::Arm;
                    let open = source.is_open(&self.gates, now);
                    if source.set_open(open, now) {
                        return Action::Disarm { source: id };
                    }
                    if open && source.is_due(now) {
                        source.begin(now);
                        let quota = source.quota.receive_after(source.found);
                        return Action::Receive { source: id, quota };
                    }
                }
                Phase::Arm => {
                    self.phase = Phase::Transmit;
                    if source.open && source.arming == Arming::Wanted {
                        return Action::Arm { source: id };
                    }
                }
                Phase::Transmit => {
                    self.phase = Phase::Input;
                    self.at += 1;
                    if source.transmits.is_some_and(|at| at <= now) {
                        return Action::Transmit { source: id, quota: source.quota.transmit() };
                    }
                }
            }
        }
        self.at = 0;
        Action::Rest(self.rest(now))
    }

    /// Records that a packet of the look under way arrived at `at`. Call it for each packet whose time is
    /// known, in order.
    pub fn arrived(&mut self, source: SourceId, at: Timestamp) {
        let Some(source) = self.source_mut(source) else { return };
        source.stamped = source.stamped.saturating_add(1);
        source.policy.arrived(at);
    }

    /// Records that a receive took `packets` packets, and whether the ring has `more`.
    ///
    /// Packets without a reported time count as evenly spread since the ring was last seen empty.
    pub fn received(&mut self, source: SourceId, now: Timestamp, packets: u32, more: bool) {
        let Some(source) = self.source_mut(source) else { return };
        source.approximate_arrivals(now, packets);
        source.stats.turns += 1;
        source.stats.packets += u64::from(packets);
        source.found = source.found.saturating_add(packets);
        if more {
            return;
        }
        let look = Look { began: source.began.take().unwrap_or(now), ended: now, found: source.found };
        source.found = 0;
        source.emptied = now;
        source.stats.looks += 1;
        source.stats.empty_looks += u64::from(look.found == 0);
        let next = source.policy.looked(&look);
        source.follow(next, now);
    }

    /// Records that the source has transmissions to finish. Postponed ones stay postponed.
    pub fn transmit_wanted(&mut self, source: SourceId) {
        if let Some(source) = self.source_mut(source) {
            source.transmits.get_or_insert(Timestamp::ZERO);
        }
    }

    /// Records the end of a turn of transmissions. If more are left, they have their turn in the round at or
    /// after `again`: now, or later if the output is busy.
    pub fn transmitted(&mut self, source: SourceId, again: Option<Timestamp>) {
        if let Some(source) = self.source_mut(source) {
            source.transmits = again;
        }
    }

    /// Records that the wake-up was enabled, and whether the ring was then seen empty.
    pub fn armed(&mut self, source: SourceId, now: Timestamp, empty: bool) {
        let Some(source) = self.source_mut(source) else { return };
        source.stats.armed += 1;
        if empty {
            source.arming = Arming::Armed;
        } else {
            source.stats.raced += 1;
            source.due_at(now);
        }
    }

    /// Records that the source's wake-up came and is disabled now. For a source that is not armed, it was
    /// already under way.
    pub fn woken(&mut self, source: SourceId, now: Timestamp) {
        let Some(source) = self.source_mut(source) else { return };
        if source.arming == Arming::Armed {
            source.stats.woken += 1;
            source.due_at(now);
        }
    }

    /// Notes that the caller has no other work and is about to wait: policies may enable wake-ups. Carry out
    /// the actions of one more round before.
    pub fn idle(&mut self, now: Timestamp) {
        for source in self.sources.iter_mut() {
            let waits = source.began.is_none() && source.arming == Arming::Off && source.due > now;
            if source.open && waits {
                let next = source.policy.idle(now);
                source.follow(next, now);
            } else if source.arming == Arming::Armed {
                source.policy.idle(now);
            }
        }
    }

    /// Returns when the next step is due without a wake-up, for a soft timer; `None` if never.
    pub fn poll_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.sources.iter().filter_map(|source| source.poll_at(&self.gates, now)).min()
    }

    /// Returns the sources that were added and not removed.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> + '_ {
        let ids = (0..self.sources.slots()).filter(|&index| self.sources.at(index).is_some());
        ids.map(|index| SourceId { index, generation: self.sources.generation(index) })
    }

    /// Returns whether the source has not been removed.
    pub fn contains(&self, source: SourceId) -> bool {
        self.find(source).is_some()
    }

    /// Returns whether the source's wake-up is enabled.
    pub fn is_armed(&self, source: SourceId) -> bool {
        self.source(source).is_some_and(|source| source.arming == Arming::Armed)
    }

    /// Returns whether any wake-up is enabled.
    pub fn any_armed(&self) -> bool {
        self.sources.iter().any(|source| source.arming == Arming::Armed)
    }

    /// Returns whether any look is unfinished: its turn ended because of its quota.
    pub fn any_unfinished(&self) -> bool {
        self.sources.iter().any(|source| source.began.is_some())
    }

    /// Returns whether the source's input was open when it last had its turn.
    pub fn is_open(&self, source: SourceId) -> bool {
        self.source(source).is_some_and(|source| source.open)
    }

    /// Returns the source's policy.
    ///
    /// # Panics
    /// If the source was removed.
    #[track_caller]
    pub fn policy(&self, source: SourceId) -> &P {
        &self.source(source).expect(REMOVED).policy
    }

    /// Returns the source's counters.
    ///
    /// # Panics
    /// If the source was removed.
    #[track_caller]
    pub fn stats(&self, source: SourceId) -> SourceStats {
        self.source(source).expect(REMOVED).stats
    }

    fn find(&self, id: SourceId) -> Option<u32> {
        self.sources.holds(id.index, id.generation).then_some(id.index)
    }

    fn find_gate(&self, id: GateId) -> Option<u32> {
        self.gates.holds(id.index, id.generation).then_some(id.index)
    }

    fn source(&self, id: SourceId) -> Option<&Source<P>> {
        self.sources.at(self.find(id)?)
    }

    fn source_mut(&mut self, id: SourceId) -> Option<&mut Source<P>> {
        let index = self.find(id)?;
        self.sources.at_mut(index)
    }

    fn rest(&self, now: Timestamp) -> Wait {
        match self.poll_at(now) {
            Some(time) if time <= now => Wait::Poll,
            Some(time) => Wait::Until(time),
            None => Wait::Forever,
        }
    }
}

impl<P: Policy> Default for Rounds<P> {
    fn default() -> Self {
        Rounds::new()
    }
}

const REMOVED: &str = "the source was removed";
