//! Departures of many flows: [`DepartureQueue`] decides which packet leaves next, and when to check again.
//!
//! One timer a flow suffices for ten flows. For ten thousand a program needs one object that knows the
//! earliest departure of all, hands out everything due in one turn, and keeps each flow's rate even when
//! several packets are due:
//!
//! ```text
//!   enqueue ─▶ flow a  ▢▢▢   RateClock ─┐
//!   enqueue ─▶ flow b  ▢     RateClock ─┼─▶ one release time a flow, the least first ──▶ poll_at()
//!   enqueue ─▶ flow c  ▢▢    RateClock ─┘            │
//!                                                    ▼  turn(now), pop_due
//!   sent         a     c   ab     a    bc   …       the packets whose time has come
//! ```
//!
//! It holds descriptors, the flow, the length and a token of yours by value; the bytes stay where they are.
//!
//! 1. **In order.** A flow's packets leave first in, first out. Flows go by release time, and among equal
//!    ones in the order in which they got it.
//! 2. **Paced.** Each flow has one [`RateClock`](crate::RateClock) and at most one release time
//!    outstanding. Between two departures of a flow there is at least its burst interval (or the gap of their
//!    scheduled times, where a [`Pattern`](crate::Pattern) has shorter ones), whatever stalls, idle times and
//!    changes of the rate lie between them. Only the baselines among the [strategies](crate::Strategy) do not
//!    keep it.
//! 3. **Idle is not late.** A flow is idle when its next packet may leave and there is none. The
//!    packet that ends this leaves at once and begins a new train, at the stored rate: nothing is made up. A
//!    packet that is enqueued by then continues the train, so a source that enqueues in answer to each
//!    departure is not idle.
//! 4. **A turn ends and is fair.** Whatever is enqueued, a flow has one departure (one
//!    [`Quantum`]) in a turn, and what becomes due meanwhile belongs to the next. Under overload, while more is due than
//!    the program can send, flows get about as many packets each, and one that asks for less gets all of it.
//! 5. **Nothing is lost.** Each enqueued packet is waiting, sent, expired or removed, and counted as such. A
//!    packet that cannot be taken comes back to the caller, with the reason: the newest is refused, never an
//!    older one dropped ([`Limits`]).
//!
//! ```text
//!   flow a, released every 40 µs; a stall; then idle; then one packet more
//!   place     │    │    │    │    │    │    │                       │
//!   sent      ●    ●    ───stall───●─●─●─●  ●                       ●    at once, as of a new train
//!                                  burst interval, until on schedule
//! ```
//!
//! **How much in one go** is one packet, unless the rate is so high that this is too fine: see [`Quantum`].
//!
//! **Late packets.** A packet whose turn comes late is sent late, and its `lateness` is reported. With a
//! [`Limits::delay`] the wait has a bound: a packet that would wait longer even on schedule is refused when
//! it is enqueued. One that is accepted and then waits longer, because of a stall or a lower rate, is handed
//! back as [`Popped::Expired`]; it does not take the place of a packet that can still be of use.

mod account;
mod calendar;
mod config;
mod flow;
mod hot;
mod id;
mod node;
mod packets;
mod releases;
mod run;
mod turn;

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::slots::Slots;
use crate::time::saturating_nanos;
use crate::{PaceError, Rate, Timestamp};

use super::lane::Lane;
use flow::{Batch, Flow};
use hot::Hot;
use packets::{FirstPacket, Packet, Packets, Removed};
use releases::Releases;

pub use account::{Departure, FlowStats, Popped, QueueStats, Reject, Rejected};
pub use config::{FlowConfig, Limits, Quantum, QueueConfig};
pub use id::FlowId;
pub use turn::DepartureTurn;

/// The packets of many flows, each at its own rate. See the [module documentation](self) for the contract.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::queue::{DepartureQueue, FlowConfig, Popped, QueueConfig};
/// use softtimers_core::{PaceConfig, Rate, Timestamp};
///
/// let mut queue = DepartureQueue::new(QueueConfig::default());
/// let voice = queue.add_flow(FlowConfig::new(PaceConfig::new(Rate::every(Duration::from_millis(20))?)))?;
/// let video = queue.add_flow(FlowConfig::new(PaceConfig::bits_per_second(8_000_000)?))?;
///
/// // Four packets arrive at once. A token is your reference to the bytes.
/// let start = Timestamp::from_micros(1_000);
/// queue.enqueue(start, voice, 160, "v1")?;
/// for token in ["frame 1", "frame 2", "frame 3"] {
///     queue.enqueue(start, video, 1_000, token)?; // 1 ms at 8 Mbit/s
/// }
///
/// // The loop: hand out what is due; otherwise sleep until `poll_at`.
/// let mut sent = Vec::new();
/// while let Some(now) = queue.poll_at() {
///     let turn = queue.turn(now);
///     while let Some(popped) = queue.pop_due(&turn) {
///         match popped {
///             Popped::Departure(packet) => sent.push((now.as_nanos() / 1_000, packet.token)),
///             Popped::Expired { .. } => unreachable!("no flow has a limit on its delay"),
///         }
///     }
/// }
/// assert_eq!(sent, [(1_000, "v1"), (1_000, "frame 1"), (2_000, "frame 2"), (3_000, "frame 3")]);
///
/// // Much later: idle, so nothing is owed, and the next packet begins a new train.
/// let later = start + Duration::from_secs(60);
/// queue.enqueue(later, voice, 160, "v2")?;
/// assert_eq!(queue.poll_at(), Some(later));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Cost
/// O(1) for each packet, amortised: flows whose release times lie within the same 256 ns are sorted together when
/// that time has come. With ten thousand flows the cost is cache misses, so a packet touches few lines: one
/// with the flow's pace and its first packet, and half of one in the order (`cargo bench -p softtimers-core
/// --bench departures`). A flow that counts bytes or has a pattern, a quantum or a limit on bytes or delay
/// touches two more.
///
/// Allocates only when the number of flows or packets reaches a new maximum. A queue takes 25 KB, a flow some
/// 310 bytes with its first packet's place, a packet behind it some 20 and its token.
#[derive(Debug)]
pub struct DepartureQueue<T> {
    flows: Slots<Flow>,
    /// By the flow's index.
    hot: Vec<Hot<T>>,
    packets: Packets<T>,
    releases: Releases,
    /// The latest time seen. Time that goes backwards is taken as standing still.
    latest: Timestamp,
    /// The flow with the least of `releases`, if a part of its quantum has been handed out.
    leaving: Option<Batch>,
    slack: Duration,
    /// In nanoseconds; 1 without slots.
    slot: u64,
    most_packets: u32,
    /// Without `enqueued` and `waiting`, which are computed from the others.
    stats: QueueStats,
}

impl<T> DepartureQueue<T> {
    /// Makes a queue without flows.
    pub fn new(config: QueueConfig) -> Self {
        DepartureQueue {
            flows: Slots::new(NonZeroU32::MIN),
            hot: Vec::new(),
            packets: Packets::new(),
            releases: Releases::new(),
            latest: Timestamp::ZERO,
            leaving: None,
            slack: config.slack,
            slot: saturating_nanos(config.slot).max(1),
            most_packets: config.packets.min(u32::MAX - 1),
            stats: QueueStats::default(),
        }
    }

    /// Adds a flow, without packets.
    ///
    /// # Errors
    /// [`PaceError`], as [`RateClock::new`](crate::RateClock::new).
    ///
    /// # Panics
    /// If there are 2³² − 1 flows, counting those whose slot is retired after as many uses.
    pub fn add_flow(&mut self, config: FlowConfig) -> Result<FlowId, PaceError> {
        let flow = Flow::new(config)?;
        let hot = Hot { lane: flow.lane(Timestamp::ZERO), first: FirstPacket::EMPTY };
        let (id, index) = self.flows.insert(flow);
        match self.hot.get_mut(index as usize) {
            Some(earlier) => self.packets.free_all(core::mem::replace(earlier, hot).first),
            None => self.hot.push(hot),
        }
        self.releases.add(index);
        self.stats.flows += 1;
        Ok(FlowId::from_timer(id))
    }

    /// Removes a flow and returns its waiting packets, the oldest first; the iterator drops those that are
    /// not taken. `None` if the flow was removed before.
    ///
    /// If the iterator is [forgotten](core::mem::forget), its packets are dropped when another flow gets the index, or with
    /// the queue; they count as removed in any case.
    ///
    /// # Cost
    /// O(1), O(log flows) if it is due; and O(1) for each packet.
    pub fn remove_flow(&mut self, flow: FlowId) -> Option<impl ExactSizeIterator<Item = T>> {
        let index = self.flows.find(flow.timer())?;
        self.leaving = self.leaving.filter(|batch| batch.flow != index);
        let (_, flow) = self.flows.take(index)?;
        self.releases.withdraw(index);
        let hot = &mut self.hot[index as usize];
        hot.lane = Lane::CLOSED;
        let (waiting, _) = flow.waiting(hot);
        self.stats.flows -= 1;
        self.stats.removed += u64::from(waiting);
        self.packets.discount(waiting);
        Some(Removed { packets: &mut self.packets, first: &mut hot.first, behind: flow.behind })
    }

    /// Returns the handle that [`FlowId::to_bits`] turned into this number, whether or not the flow still
    /// exists; `None` if no handle has it.
    pub fn id_of(&self, bits: u64) -> Option<FlowId> {
        self.flows.id_of(bits).map(FlowId::from_timer)
    }

    /// Changes the rate of a flow from `now` on, as [`RateClock::set_rate`](crate::RateClock::set_rate):
    /// the gap under way keeps its remaining share, and the next packet is no sooner after the last one than
    /// the new burst interval. The unit remains that of [`PaceConfig::counts`].
    ///
    /// Ends a quantum of which a part has been handed out.
    ///
    /// # Cost
    /// O(1), O(log flows) if the flow is due.
    ///
    /// # Errors
    /// [`Reject::NoSuchFlow`] if it was removed.
    ///
    /// [`PaceConfig::counts`]: crate::PaceConfig::counts
    pub fn set_rate(&mut self, now: Timestamp, flow: FlowId, rate: Rate) -> Result<(), Reject> {
        self.latest = self.latest.max(now);
        let index = self.settled(flow).ok_or(Reject::NoSuchFlow)?;
        let lane = &mut self.hot[index as usize].lane;
        self.flows.at_mut(index).ok_or(Reject::NoSuchFlow)?.set_rate(lane, self.latest, rate);
        self.file(index);
        Ok(())
    }

    /// Begins a new train of a flow at `now`: the time since its last departure does not count as delay, as
    /// after a pause that the program chose. The next packet leaves at once, but not sooner than it might
    /// have.
    ///
    /// # Cost
    /// O(1), O(log flows) if the flow is due.
    ///
    /// # Errors
    /// [`Reject::NoSuchFlow`] if it was removed.
    pub fn restart(&mut self, now: Timestamp, flow: FlowId) -> Result<(), Reject> {
        self.latest = self.latest.max(now);
        let index = self.settled(flow).ok_or(Reject::NoSuchFlow)?;
        let lane = &mut self.hot[index as usize].lane;
        let release = lane.release().max(self.latest);
        self.flows.at_mut(index).ok_or(Reject::NoSuchFlow)?.start(lane, release);
        self.file(index);
        Ok(())
    }

    /// Enqueues a packet of `bytes` bytes that may leave from `now` on.
    ///
    /// # Cost
    /// O(1), or O(log flows) if the flow has nothing waiting and is overdue. Allocates only when more packets wait
    /// than ever before.
    ///
    /// # Errors
    /// [`Rejected`], with the token and the reason. Nothing else changes.
    pub fn enqueue(&mut self, now: Timestamp, flow: FlowId, bytes: u32, token: T) -> Result<(), Rejected<T>> {
        self.enqueue_at(now, flow, now, bytes, token)
    }

    /// Enqueues a packet that may not leave before a time of its own, as with `SO_TXTIME`. Packets behind
    /// it wait for it, too. Otherwise as [`enqueue`](Self::enqueue).
    ///
    /// # Errors
    /// [`Rejected`], with the token and the reason. Nothing else changes.
    pub fn enqueue_at(
        &mut self,
        now: Timestamp,
        flow: FlowId,
        not_before: Timestamp,
        bytes: u32,
        token: T,
    ) -> Result<(), Rejected<T>> {
        self.latest = self.latest.max(now);
        let ready = not_before.max(self.latest);
        let Some(index) = self.flows.find_index(flow.timer()) else {
            return Err(self.refuse(Reject::NoSuchFlow, token));
        };
        let packet = Packet { ready, bytes, token };
        let hot = &mut self.hot[index as usize];
        let plain = hot.lane.is_open() && !hot.first.is_taken() && self.packets.waiting() < self.most_packets;
        if !plain {
            return self.enqueue_elsewise(index, packet);
        }
        hot.first = FirstPacket::from_packet(packet);
        self.packets.count(1);
        self.releases.file(index, head(&mut self.flows, hot, index), self.latest);
        Ok(())
    }

    /// Enqueues a packet of a flow that is not plain, has one waiting already, or does not exist.
    #[inline(never)]
    fn enqueue_elsewise(&mut self, index: u32, packet: Packet<T>) -> Result<(), Rejected<T>> {
        let (hot, ready) = (&mut self.hot[index as usize], packet.ready);
        let Some(flow) = self.flows.at_mut(index) else {
            return Err(self.refuse(Reject::NoSuchFlow, packet.token));
        };
        let admitted = if self.packets.waiting() >= self.most_packets {
            Err(Reject::QueueFull)
        } else {
            flow.admit(hot, self.latest, ready, packet.bytes)
        };
        if let Err(reason) = admitted {
            flow.refused += 1;
            return Err(self.refuse(reason, packet.token));
        }
        self.packets.count(1);
        if hot.first.is_taken() {
            self.packets.append(&mut hot.first, &mut flow.behind, packet);
        } else {
            hot.first = FirstPacket::from_packet(packet);
            self.releases.file(index, head(&mut self.flows, hot, index), self.latest);
        }
        Ok(())
    }

    /// Takes the first packet of a flow whose token `is_it` names out of the queue, as if it had not been enqueued: those
    /// behind it move up. `None` if no such packet waits. Ends a quantum of which a part has been handed out.
    ///
    /// ```
    /// use softtimers_core::queue::{DepartureQueue, FlowConfig, Popped, QueueConfig};
    /// use softtimers_core::{PaceConfig, Rate, Timestamp};
    ///
    /// let mut queue = DepartureQueue::new(QueueConfig::default());
    /// let flow = queue.add_flow(FlowConfig::new(PaceConfig::new(Rate::pps(1_000))))?;
    /// let at = Timestamp::from_micros;
    /// for token in ["first", "given up", "last"] {
    ///     queue.enqueue(at(1_000), flow, 1_200, token)?;
    /// }
    /// assert_eq!(queue.remove_packet(flow, |token| *token == "given up"), Some("given up"));
    /// for (time, sent) in [(1_000, "first"), (2_000, "last")] {
    ///     let turn = queue.turn(at(time));
    ///     assert!(matches!(queue.pop_due(&turn), Some(Popped::Departure(packet)) if packet.token == sent));
    /// }
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Cost
    /// O(n) with n packets of the flow waiting, and as [`set_rate`](Self::set_rate) if it is the first.
    pub fn remove_packet(&mut self, flow: FlowId, mut is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let index = self.flows.find(flow.timer())?;
        let is_first = self.hot.get(index as usize)?.first.token().is_some_and(&mut is_it);
        let (hot, flow) = (self.hot.get_mut(index as usize)?, self.flows.at_mut(index)?);
        let token = if is_first {
            let packet = hot.first.take()?;
            if hot.first.has_next() {
                self.packets.advance(&mut hot.first, &mut flow.behind);
            }
            packet.token
        } else {
            self.packets.unlink(&mut hot.first, &mut flow.behind, is_it)?
        };
        flow.hold_until(self.packets.latest_ready(&hot.first));
        self.packets.discount(1);
        self.stats.removed += 1;
        if self.leaving.is_some_and(|batch| batch.flow == index) {
            self.left();
        } else if is_first {
            self.file(index);
        }
        Some(token)
    }

    /// Returns the time at which a sleeping program must wake: the earliest release time, plus the slack.
    /// `None` when nothing waits. Checking earlier is harmless; checking later makes packets late.
    ///
    /// # Cost
    /// O(1) after a turn; O(k) when the earliest of k flows in a slot of time has been moved or removed since.
    #[inline]
    pub fn poll_at(&self) -> Option<Timestamp> {
        self.next_due().map(|due| due + self.slack)
    }

    /// Returns the earliest time at which a turn would find a packet due.
    ///
    /// # Cost
    /// As [`poll_at`](Self::poll_at).
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.releases.first().map(|release| self.collected_at(release))
    }

    /// Returns the first slot from `release` on.
    #[inline]
    fn collected_at(&self, release: Timestamp) -> Timestamp {
        match self.slot {
            1 => release,
            slot => Timestamp::from_nanos(release.as_nanos().div_ceil(slot).saturating_mul(slot)),
        }
    }

    /// Returns the latest slot until `now`: the release times until then are due.
    #[inline]
    fn collected_by(&self, now: Timestamp) -> Timestamp {
        match self.slot {
            1 => now,
            slot => Timestamp::from_nanos(now.as_nanos() / slot * slot),
        }
    }

    /// Returns the number of packets waiting.
    pub fn len(&self) -> usize {
        self.packets.waiting() as usize
    }

    /// Returns whether no packet is waiting.
    pub fn is_empty(&self) -> bool {
        self.packets.waiting() == 0
    }

    /// Returns the counters since the beginning.
    pub fn stats(&self) -> QueueStats {
        let QueueStats { sent, expired, removed, .. } = self.stats;
        let waiting = self.packets.waiting();
        QueueStats { enqueued: sent + expired + removed + u64::from(waiting), waiting, ..self.stats }
    }

    /// Returns a flow's counters since it was added; `None` if it was removed.
    pub fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        let index = self.flows.find(flow.timer())?;
        let hot = self.hot.get(index as usize)?;
        Some(self.flows.at(index)?.stats(hot, self.leaving.as_ref().filter(|batch| batch.flow == index)))
    }

    fn refuse(&mut self, reason: Reject, token: T) -> Rejected<T> {
        self.stats.refused += 1;
        Rejected { reason, token }
    }

    /// Returns the flow's index, after ending its quantum under way.
    fn settled(&mut self, flow: FlowId) -> Option<u32> {
        let index = self.flows.find(flow.timer())?;
        if self.leaving.is_some_and(|batch| batch.flow == index) {
            self.left();
        }
        Some(index)
    }

    /// Inserts a flow under the time at which its first packet may leave, if it has one.
    fn file(&mut self, index: u32) {
        self.releases.withdraw(index);
        let Some(hot) = self.hot.get_mut(index as usize) else { return };
        if hot.first.is_taken() {
            self.releases.file(index, head(&mut self.flows, hot, index), self.latest);
        }
    }
}

/// Returns when a packet may leave that has become its flow's first. If it is ready only after the flow's
/// pace would have let one leave, the flow was idle: a new train begins, without catch-up.
#[inline]
fn head<T>(flows: &mut Slots<Flow>, hot: &mut Hot<T>, index: u32) -> Timestamp {
    let (ready, release) = (hot.first.ready, hot.lane.release());
    if ready <= release {
        return release;
    }
    if hot.lane.is_open() {
        hot.lane.start(ready);
    } else if let Some(flow) = flows.at_mut(index) {
        flow.start(&mut hot.lane, ready);
    }
    ready
}
