//! One direction of a path, as a state machine: [`Direction`].
//!
//! ```text
//!   offer ──▶ queue ─────▶ link ──────▶ loss ──▶ copy ──▶ slot ──▶ delay ──▶ pop_due
//!             drop-tail,   rate or               × 1|2             jitter,
//!             marks        trace                                   late, flip
//! ```
//!
//! Three things follow from the order. A lost packet has taken its time on the link, as on a radio link; a
//! copy has not, since it is made behind it. And delay is added to what has left the link, not to what
//! came in, so a queue in front is never mistaken for one.
//!
//! Nothing happens between two calls: each first works off what the link has finished by then. So
//! **how often one looks changes nothing**: each packet's fate is decided by what was offered when and by the
//! seed, and its times are written down before anybody asks. Each cause draws from numbers of its own, so
//! that more loss does not change who is late.
//!
//! **Nor does it matter whether a program reads late.** What arrives by `now` left the link by `now` − delay,
//! so to hand it out the link is worked off up to there and no further. A program that was held up for less
//! than the delay, and hands out first and reads then, offers what it reads with the time when it came, and
//! the queue drops what it would have dropped.

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

/// One direction of a path. Packets are values of yours; the model only knows how long they are.
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
/// O(log packets under way) for each packet, in whichever call works it off. Memory grows with what is
/// held, up to [`PathConfig::most_packets`] and [`PathConfig::most_bytes`].
#[derive(Debug)]
pub struct Direction<T> {
    path: PathConfig,
    /// Changes that come by themselves.
    timeline: Timeline,
    /// Up to where the link has been worked off. Packets and changes from before count from here.
    latest: Timestamp,
    /// When somebody looked last.
    looked: Timestamp,
    /// The packet on the link, and when it is through.
    serving: Option<(Timestamp, Packet<T>)>,
    waiting: VecDeque<Packet<T>>,
    /// The bytes that wait, overhead included.
    waiting_bytes: u64,
    link: Link,
    codel: Codel,
    /// Packets that wait, if flows take turns: then nothing is in `waiting`.
    fair: Option<Box<FqCodel<Packet<T>>>>,
    /// Which flows share a queue.
    salt: u64,
    pie: Pie,
    early: Random,
    loss: LossProcess,
    propagation: Propagation,
    duplicate: IncidenceProcess,
    corrupt: IncidenceProcess,
    slots: SlotProcess,
    /// Popped at its head only, so a plain heap serves: nothing is cancelled, nothing has slack.
    under_way: BinaryHeap<Reverse<UnderWay<T>>>,
    /// Packets accepted and copies made so far: the order among arrivals at the same time.
    sequence: u64,
    held_bytes: u64,
    /// Packets that were dropped or lost, and when, for a caller that asked for them.
    lost: Option<VecDeque<(Timestamp, T)>>,
    counters: Counters,
    measured: Box<Measured>,
}

impl<T: Clone> Direction<T> {
    /// An empty path. The same seed, packets and times give the same deliveries, bit for bit.
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

    /// Offers a packet of `bytes` that comes in at `now`. What is dropped is gone.
    ///
    /// That may be before the last look by as much as the shortest delay, but not before the last packet: what
    /// is earlier counts as of then.
    pub fn offer(&mut self, now: Timestamp, bytes: u32, packet: T) -> Admission {
        self.offer_capable(now, bytes, false, packet)
    }

    /// Offers a packet whose transport understands marks, if `capable`: then a [managed](Aqm) queue that may mark does
    /// not drop it.
    pub fn offer_capable(&mut self, now: Timestamp, bytes: u32, capable: bool, packet: T) -> Admission {
        self.offer_of(now, bytes, Traits { capable, ..Traits::default() }, packet)
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
            // Where flows take turns, another may have to go.
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

    /// A packet goes onto the link, or waits.
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

    /// Puts a packet behind those that wait.
    fn wait(&mut self, packet: Packet<T>) {
        let on_link = self.on_link(packet.bytes);
        self.waiting_bytes += on_link;
        match (&mut self.fair, self.path.aqm) {
            (Some(fair), Aqm::FqCodel(config)) => fair.enqueue(&config, packet.traits.flow, on_link, packet),
            _ => self.waiting.push_back(packet),
        }
    }

    /// Drops from the flow with the most bytes until there is room for the packet that has come, of `on_link` bytes.
    /// Returns whether that one was dropped.
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

    /// Returns whether a packet of `bytes` would be accepted at `now`: for a sender that can wait with it instead of
    /// losing it.
    ///
    /// If not, it is worth another look at [`next_departure`](Self::next_departure), or when something has
    /// been taken out.
    pub fn has_room_for(&mut self, now: Timestamp, bytes: u32) -> bool {
        self.advance(now);
        let queued = self.serving.is_some();
        self.has_room(bytes) && (!queued || self.path.queue.limit.admits(self.on_link(bytes), &self.ahead()))
    }

    /// Packets that wait for the link at `now`, the one on it not counted.
    pub fn queued(&mut self, now: Timestamp) -> usize {
        self.advance(now);
        self.waits() as usize
    }

    /// Returns what waited for the link when it was last worked off: at the last packet that was offered, or the shortest
    /// delay ago, whichever is later. For a report beside the traffic: it changes nothing.
    pub fn backlog(&self) -> Backlog {
        self.ahead()
    }

    fn waits(&self) -> u64 {
        self.waiting.len() as u64 + self.fair.as_ref().map_or(0, |fair| fair.packets())
    }

    /// Returns when the packet on the link is through it; `None` if it is idle. If a [scenario](Self::play) changes
    /// the path before, that is to be looked at first.
    pub fn next_departure(&self) -> Option<Timestamp> {
        let done = self.serving.as_ref().map(|(done, _)| *done)?;
        Some(self.timeline.next_at().map_or(done, |change| done.min(change)))
    }

    /// Returns when to look next: `None` if nothing is held. Sooner is harmless, later is late.
    ///
    /// It is the time of the next arrival, or one before it where that is not known yet.
    ///
    /// # Cost
    /// O(1); O(changes of a [scenario](Self::play)) while one of them is due.
    pub fn poll_at(&self) -> Option<Timestamp> {
        let arrival = self.under_way.peek().map(|Reverse(next)| next.due);
        let through = self.serving.as_ref().map(|(done, _)| self.earliest(*done));
        arrival.into_iter().chain(through).min()
    }

    /// Returns when to look for a packet that would be through the link at `done`.
    fn earliest(&self, done: Timestamp) -> Timestamp {
        let Some(change) = self.timeline.next_at() else { return done + self.path.least_delay() };
        // From then on everything may be otherwise.
        if change > self.looked {
            return (done + self.path.least_delay()).min(change);
        }
        let least = self.timeline.least_delay(&self.path, self.looked);
        let next = self.timeline.next_after(self.looked);
        next.into_iter().fold(done.min(change) + least, Timestamp::min)
    }

    /// The next packet that has arrived by `now`: in order of arrival, and among equal ones in the order in
    /// which they left the link.
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

    /// Keeps from now on what is dropped or lost, for [`pop_lost`](Self::pop_lost): for a transport that repairs it.
    pub fn keep_lost(&mut self) {
        self.lost.get_or_insert_default();
    }

    /// Returns the next packet that was dropped or lost, and when; copies of packets are not among them.
    pub fn pop_lost(&mut self) -> Option<(Timestamp, T)> {
        self.lost.as_mut()?.pop_front()
    }

    /// Returns the time of the first packet that has arrived by `now`.
    pub(crate) fn next_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.looked = self.looked.max(now);
        // What leaves the link later arrives later. Beyond the end of time nothing does.
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

    /// Returns the measurements of those that came out.
    pub fn measured(&self) -> &Measured {
        &self.measured
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
