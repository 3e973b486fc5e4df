//! One direction of a path, as a state machine: [`Direction`].
//!
//! ```text
//!   offer ──▶ queue ─────▶ link ──────▶ loss ──▶ copy ──▶ slot ──▶ delay ──▶ pop_due
//!             drop-tail,   rate or               × 1|2             jitter,
//!             marks        trace                                   late, flip
//! ```
//!
//! Three things follow from the order. A lost packet has used its time on the link, as on a radio link; a copy has not,
//! since it is made behind it. And the delay follows the link, so a queue cannot be mistaken for delay.
//!
//! Nothing happens between two calls: each call first processes what the link has finished by then. So **the frequency
//! of calls changes nothing**: each packet's fate depends only on the seed and on when packets were offered, and its
//! times are computed from these. Each cause has its own random numbers, so more loss does not change which packets are
//! late.
//!
//! **Nor does it matter when a program is late.** Packets that arrive by `now` left the link by `now` − delay, so
//! delivering them needs the link's work up to that time only. A program that was held up for less than the delay, and
//! delivers before it reads, offers what it reads with its time of arrival, and the queue drops the same packets.

mod change;
mod discipline;
mod link;
mod packet;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use softtimers_core::{Random, Timestamp};

use crate::account::Taken;
use crate::aqm::{Codel, FqCodel, Pie, Verdict};
use crate::bottleneck::Link;
use crate::delay::Propagation;
use crate::incidence::IncidenceProcess;
use crate::loss::LossProcess;
use crate::scenario::Timeline;
use crate::slots::SlotProcess;
use crate::{Aqm, Backlog, Counters, Measured, PathConfig, PathError};

pub(crate) use packet::Packet;
use packet::UnderWay;
pub use packet::{Admission, Delivery, Traits};

/// One direction of a path. Packets are values of your own; the model only knows their length.
///
/// ```
/// use std::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_wan::{Admission, Bottleneck, Direction, PathConfig, Queue};
///
/// let path = PathConfig::default()
///     .bottleneck(Bottleneck::bits_per_second(100_000_000)?)
///     .queue(Queue::packets(20))
///     .delay(Duration::from_millis(50));
/// let mut direction = Direction::new(path, 1)?;
///
/// let start = Timestamp::ZERO;
/// let admitted = (0..30).filter(|&n| direction.offer(start, 1_500, n) == Admission::Accepted).count();
/// assert_eq!(admitted, 21); // one on the link, twenty wait
///
/// let mut arrivals = Vec::new();
/// while let Some(now) = direction.poll_at() {
///     while let Some(delivery) = direction.pop_due(now) {
///         arrivals.push((delivery.packet, delivery.due.as_nanos() / 1_000));
///     }
/// }
/// assert_eq!(arrivals[..3], [(0, 50_120), (1, 50_240), (2, 50_360)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
/// O(log packets under way) for each packet, in the call that processes it. Memory grows with the packets held, up to
/// [`PathConfig::most_packets`] and [`PathConfig::most_bytes`].
#[derive(Debug)]
pub struct Direction<T> {
    path: PathConfig,
    /// Scheduled changes.
    timeline: Timeline,
    /// The time up to which the link has been processed. Earlier packets and changes count as of this time.
    latest: Timestamp,
    /// The latest time of a call.
    looked: Timestamp,
    /// The packet on the link, and when it is through.
    serving: Option<(Timestamp, Packet<T>)>,
    waiting: VecDeque<Packet<T>>,
    /// The bytes waiting, overhead included.
    waiting_bytes: u64,
    link: Link,
    codel: Codel,
    /// The waiting packets, if flows take turns: then `waiting` is empty.
    fair: Option<Box<FqCodel<Packet<T>>>>,
    /// Salts the hash that decides which flows share a queue.
    salt: u64,
    pie: Pie,
    early: Random,
    loss: LossProcess,
    propagation: Propagation,
    duplicate: IncidenceProcess,
    corrupt: IncidenceProcess,
    slots: SlotProcess,
    /// Popped at its head only, so a plain heap suffices: nothing is cancelled, nothing has slack.
    under_way: BinaryHeap<Reverse<UnderWay<T>>>,
    /// Packets accepted and copies made so far: breaks ties of arrivals at the same time.
    sequence: u64,
    held_bytes: u64,
    /// Dropped and lost packets with their times, for a caller that asked for them.
    lost: Option<VecDeque<(Timestamp, T)>>,
    counters: Counters,
    measured: Box<Measured>,
}

impl<T: Clone> Direction<T> {
    /// Creates an empty path. The same seed, packets and times give the same deliveries, bit for bit.
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`].
    pub fn new(path: PathConfig, seed: u64) -> Result<Self, PathError> {
        path.check()?;
        let [loss, jitter, late, duplicate, corrupt, early, mut salt, slots] =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|stream| Random::stream(seed, stream));
        let salt = salt.next_u64();
        let fair = match path.aqm {
            Aqm::FqCodel(config) => Some(Box::new(FqCodel::new(salt, &config))),
            _ => None,
        };
        Ok(Direction {
            fair,
            salt,
            latest: Timestamp::ZERO,
            looked: Timestamp::ZERO,
            serving: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            link: Link::new(&path.bottleneck, path.burst),
            codel: Codel::default(),
            pie: Pie::default(),
            early,
            loss: LossProcess::new(loss),
            propagation: Propagation::new(jitter, late),
            duplicate: IncidenceProcess::new(duplicate),
            corrupt: IncidenceProcess::new(corrupt),
            slots: SlotProcess::new(slots),
            under_way: BinaryHeap::new(),
            sequence: 0,
            held_bytes: 0,
            lost: None,
            counters: Counters::default(),
            measured: Box::default(),
            timeline: Timeline::default(),
            path,
        })
    }

    /// Offers a packet of `bytes` that comes in at `now`. A dropped packet is gone.
    ///
    /// The time may be earlier than the last call by up to the shortest delay, but not before the last packet: an
    /// earlier time counts as that packet's.
    pub fn offer(&mut self, now: Timestamp, bytes: u32, packet: T) -> Admission {
        self.offer_of(now, bytes, Traits::default(), packet)
    }

    /// Offers a packet with these traits.
    pub fn offer_of(&mut self, now: Timestamp, bytes: u32, traits: Traits, packet: T) -> Admission {
        self.advance(now);
        let number = self.counters.offered;
        self.counters.offered += 1;
        self.counters.offered_bytes += u64::from(bytes);
        if !self.has_room(bytes) {
            self.counters.overflowed += 1;
            self.keep(self.latest, packet);
            return Admission::Overflow;
        }
        self.look_at_wait();
        let mut marked = false;
        if self.serving.is_some() {
            let (on_link, ahead) = (self.on_link(bytes), self.ahead());
            // Where flows take turns, a packet of another may be dropped instead.
            if self.fair.is_none() && !self.path.queue.limit.admits(on_link, &ahead) {
                self.counters.queue_drops += 1;
                self.keep(self.latest, packet);
                return Admission::QueueFull;
            }
            let verdict = self.early_verdict(&ahead, traits.capable);
            if verdict == Verdict::Drop {
                self.counters.queue_drops += 1;
                self.counters.aqm_drops += 1;
                self.keep(self.latest, packet);
                return Admission::QueueFull;
            }
            marked = verdict == Verdict::Mark
                || self.path.queue.mark.is_some_and(|mark| !mark.admits(on_link, &ahead));
        }
        self.held_bytes += u64::from(bytes);
        self.counters.held += 1;
        let packet = Packet { packet, bytes, number, offered: self.latest, marked, traits };
        let admission = self.join(packet);
        self.counters.marked += u64::from(admission == Admission::Marked);
        self.expect_wait();
        admission
    }

    /// Puts a packet onto the link, or into the queue.
    fn join(&mut self, packet: Packet<T>) -> Admission {
        let (number, marked, on_link) = (packet.number, packet.marked, self.on_link(packet.bytes));
        if self.serving.is_none() && self.fair.is_none() {
            self.serve(self.latest, packet);
            self.advance(self.latest);
        } else {
            self.wait(packet);
            if self.serving.is_none() {
                let next = self.dequeue(self.latest);
                next.into_iter().for_each(|next| self.serve(self.latest, next));
                self.advance(self.latest);
            } else if self.fair.is_some() && self.make_room(number, on_link) {
                return Admission::QueueFull;
            }
        }
        if marked { Admission::Marked } else { Admission::Accepted }
    }

    /// Appends a packet to the queue.
    fn wait(&mut self, packet: Packet<T>) {
        let on_link = self.on_link(packet.bytes);
        self.waiting_bytes += on_link;
        match (&mut self.fair, self.path.aqm) {
            (Some(fair), Aqm::FqCodel(config)) => fair.enqueue(&config, packet.traits.flow, on_link, packet),
            _ => self.waiting.push_back(packet),
        }
    }

    /// Drops packets of the flow with the most bytes until there is room for the new packet of `on_link` bytes. Returns
    /// whether that one was dropped.
    fn make_room(&mut self, number: u64, on_link: u64) -> bool {
        let Some(mut fair) = self.fair.take() else { return false };
        let mut is_gone = false;
        while fair.packets() > 0 {
            let others = self.waiting_bytes.saturating_sub(on_link);
            let through = self.link.through(self.latest, others);
            let ahead = Backlog {
                packets: fair.packets() - 1,
                bytes: others,
                wait: through.saturating_duration_since(self.latest),
            };
            if is_gone || self.path.queue.limit.admits(on_link, &ahead) {
                break;
            }
            for packet in fair.fattest_half(self) {
                is_gone |= packet.number == number;
                self.held_bytes -= u64::from(packet.bytes);
                self.counters.held -= 1;
                self.counters.queue_drops += 1;
                self.keep(self.latest, packet.packet);
            }
        }
        self.fair = Some(fair);
        is_gone
    }

    /// Returns whether a packet of `bytes` would be accepted at `now`: for a sender that can hold it back instead of
    /// losing it.
    ///
    /// If not, ask again at [`next_departure`](Self::next_departure), or when a packet has been taken out.
    pub fn has_room_for(&mut self, now: Timestamp, bytes: u32) -> bool {
        self.advance(now);
        let queued = self.serving.is_some();
        self.has_room(bytes) && (!queued || self.path.queue.limit.admits(self.on_link(bytes), &self.ahead()))
    }

    /// Returns the number of packets waiting for the link at `now`, without the one on it.
    pub fn queued(&mut self, now: Timestamp) -> usize {
        self.advance(now);
        self.waits() as usize
    }

    /// Returns what waited for the link when it was last processed: at the last packet offered, or the shortest delay
    /// ago, whichever is later. Changes nothing, so it suits a report beside the traffic.
    pub fn backlog(&self) -> Backlog {
        self.ahead()
    }

    fn waits(&self) -> u64 {
        self.waiting.len() as u64 + self.fair.as_ref().map_or(0, |fair| fair.packets())
    }

    /// Returns when the packet on the link is through it; `None` if it is idle. A [scenario](Self::play) may change the
    /// path before that.
    pub fn next_departure(&self) -> Option<Timestamp> {
        let done = self.serving.as_ref().map(|(done, _)| *done)?;
        Some(self.timeline.next_at().map_or(done, |change| done.min(change)))
    }

    /// Returns when to call next: `None` if nothing is held. Calling sooner is harmless, calling later makes packets
    /// late.
    ///
    /// This is the time of the next arrival, or earlier where that is not known yet.
    ///
    /// # Cost
    /// O(1); O(changes of a [scenario](Self::play)) while one of them is due.
    pub fn poll_at(&self) -> Option<Timestamp> {
        let arrival = self.under_way.peek().map(|Reverse(next)| next.due);
        let through = self.serving.as_ref().map(|(done, _)| self.earliest(*done));
        arrival.into_iter().chain(through).min()
    }

    /// Returns when to call next for a packet that would be through the link at `done`.
    fn earliest(&self, done: Timestamp) -> Timestamp {
        let Some(change) = self.timeline.next_at() else { return done + self.path.least_delay() };
        // After that change, any delay is possible.
        if change > self.looked {
            return (done + self.path.least_delay()).min(change);
        }
        let least = self.timeline.least_delay(&self.path, self.looked);
        let next = self.timeline.next_after(self.looked);
        next.into_iter().fold(done.min(change) + least, Timestamp::min)
    }

    /// Returns the next packet that has arrived by `now`, in order of arrival; of equal times, in the order in which
    /// they left the link.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Delivery<T>> {
        self.next_due(now)?;
        let Reverse(UnderWay { due, copy, flipped, packet, .. }) = self.under_way.pop()?;
        let Packet { packet, bytes, number, offered, marked, .. } = packet;
        self.held_bytes -= u64::from(bytes);
        self.counters.held -= 1;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(bytes);
        let taken = Taken { now: self.looked, offered, due, bytes, number, copy };
        self.counters.reordered += u64::from(self.measured.note(&taken));
        Some(Delivery { packet, bytes, offered, due, marked, copy, flipped })
    }

    /// Keeps dropped and lost packets from now on, for [`pop_lost`](Self::pop_lost): for a transport that repairs
    /// losses.
    pub fn keep_lost(&mut self) {
        self.lost.get_or_insert_default();
    }

    /// Returns the next dropped or lost packet and its time; copies are not included.
    pub fn pop_lost(&mut self) -> Option<(Timestamp, T)> {
        self.lost.as_mut()?.pop_front()
    }

    /// Returns the arrival time of the next packet, if it is by `now`.
    pub(crate) fn next_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.looked = self.looked.max(now);
        // Packets that leave the link later arrive later. At the end of time nothing is later.
        let least = match self.looked {
            Timestamp::MAX => Duration::ZERO,
            looked => self.timeline.least_delay(&self.path, looked),
        };
        self.advance(self.looked.saturating_sub(least));
        let Reverse(next) = self.under_way.peek()?;
        (next.due <= self.looked).then_some(next.due)
    }

    /// Returns the counters of the packets so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the measurements of the packets that came out.
    pub fn measured(&self) -> &Measured {
        &self.measured
    }

    /// Returns the packet that arrives next, as far as that is known, and the time that one like it takes on the link.
    pub(crate) fn next_packet(&self) -> Option<(&T, Duration)> {
        let under_way = self.under_way.peek().map(|Reverse(next)| &next.packet);
        let next = under_way.or(self.serving.as_ref().map(|(_, packet)| packet))?;
        let bits = self.on_link(next.bytes).saturating_mul(8_000_000_000);
        let nanos = self.path.bottleneck.mean_bps().map_or(0, |rate| bits.checked_div(rate).unwrap_or(0));
        Some((&next.packet, Duration::from_nanos(nanos)))
    }

    fn keep(&mut self, at: Timestamp, packet: T) {
        if let Some(lost) = &mut self.lost {
            lost.push_back((at, packet));
        }
    }

    fn ahead(&self) -> Backlog {
        let through = self.link.through(self.latest, self.waiting_bytes);
        Backlog {
            packets: self.waits(),
            bytes: self.waiting_bytes,
            wait: through.saturating_duration_since(self.latest),
        }
    }

    fn has_room(&self, bytes: u32) -> bool {
        self.counters.held < u64::from(self.path.most_packets)
            && self.held_bytes + u64::from(bytes) <= self.path.most_bytes
    }

    fn on_link(&self, bytes: u32) -> u64 {
        u64::from(bytes) + u64::from(self.path.overhead)
    }
}
