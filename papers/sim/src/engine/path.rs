//! A sender with a fixed window, a slow link, and a receiver, in virtual time: the effect of big ACKs under
//! each answer to them (soft timers A.3).
//!
//! ```text
//!   sender ──▶ queue ▐ slow link ──── delay ────▶ receiver
//!      ▲                                             │
//!      └──────────────────── delay ◀──── ACKs ───────┘
//! ```
//!
//! Nothing is lost: the length of the queue is the buffer that a router would need to avoid drops.

pub(crate) mod ack_receiver;
pub(crate) mod slow_start;
pub(crate) mod transfer;

use std::collections::VecDeque;
use std::time::Duration;

use softtimers_core::{AckPacer, Timestamp};

use ack_receiver::AckReceiver;

use super::watch::Steps;

/// How a sender sends the packets that an ACK releases.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// It sends all at once.
    SelfClocked,
    /// It paces them (A.3).
    Paced(AckPacer),
    /// It sends at most this many packets for each ACK (Fall and Floyd 1996).
    MaxBurst(u64),
    /// A big ACK shrinks the window to two packets, and slow start opens it again (Brakmo and Peterson
    /// 1995).
    CutWindow,
}

/// A sender with a fixed window, and the path to its receiver.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The sender's answer to what an ACK releases.
    pub(crate) answer: Answer,
    /// Packets that may be in flight.
    pub(crate) window: u64,
    /// The time a packet takes on the sender's own link.
    pub(crate) access_link: Duration,
    /// The time a packet takes on the slow link.
    pub(crate) link: Duration,
    /// The delay each way.
    pub(crate) delay: Duration,
    /// The host that acknowledges.
    pub(crate) receiver: AckReceiver,
}

/// Counts of a run over a path.
#[derive(Clone, Default, Debug)]
pub(crate) struct PathStats {
    pub(crate) acknowledged: u64,
    /// The most packets that waited for the slow link.
    pub(crate) longest_queue: u64,
    /// Acknowledgements received.
    pub(crate) acks: u64,
    /// ACKs for more than three packets.
    pub(crate) big_acks: u64,
}

impl Path {
    /// Fills the pipe at the rate of the link from `start` on, then lets ACKs clock the sender until `end`.
    pub(crate) fn run(self, start: Timestamp, end: Timestamp, steps: &Steps) -> PathStats {
        let filling = (0..self.window).map(|packet| start + self.link * packet as u32).collect();
        Run {
            opened: self.window,
            in_flight: self.window,
            path: self,
            filling,
            access_free: Timestamp::ZERO,
            link_free: Timestamp::ZERO,
            arrivals: VecDeque::new(),
            acks: VecDeque::new(),
            stats: PathStats::default(),
        }
        .until(end, steps)
    }
}

struct Run {
    path: Path,
    /// The part of the window that slow start has opened.
    opened: u64,
    in_flight: u64,
    /// The initial departures.
    filling: VecDeque<Timestamp>,
    /// When the sender's own link and the slow link become free.
    access_free: Timestamp,
    link_free: Timestamp,
    arrivals: VecDeque<Timestamp>,
    acks: VecDeque<(Timestamp, u64)>,
    stats: PathStats,
}

impl Run {
    fn until(mut self, end: Timestamp, steps: &Steps) -> PathStats {
        loop {
            let paced = match &self.path.answer {
                Answer::Paced(pacer) => pacer.poll_at(),
                _ => None,
            };
            let next = [
                self.filling.front().copied(),
                self.arrivals.front().copied(),
                self.path.receiver.poll_at(),
                self.acks.front().map(|&(at, _)| at),
                paced,
            ];
            let Some(now) = next.into_iter().flatten().min().filter(|&now| now <= end) else {
                return self.stats;
            };
            if !steps.go_on(now.as_nanos(), end.as_nanos()) {
                return self.stats;
            }
            match next.iter().position(|&at| at == Some(now)) {
                Some(0) => {
                    self.filling.pop_front();
                    self.send(now);
                }
                Some(1) => {
                    self.arrivals.pop_front();
                    self.path.receiver.packet(now);
                }
                Some(2) => {
                    let ack = self.path.receiver.act(now);
                    self.acks.extend(ack.map(|packets| (now + self.path.delay, packets)));
                }
                Some(3) => {
                    let packets = self.acks.pop_front().map_or(0, |(_, packets)| packets);
                    self.on_ack(now, packets);
                }
                _ => {
                    if let Answer::Paced(pacer) = &mut self.path.answer {
                        pacer.departed(now);
                    }
                    self.send(now);
                }
            }
        }
    }

    fn on_ack(&mut self, now: Timestamp, packets: u64) {
        let big = packets > 3;
        self.stats.acks += 1;
        self.stats.big_acks += u64::from(big);
        self.stats.acknowledged += packets;
        self.in_flight -= packets;
        let cut = big && matches!(self.path.answer, Answer::CutWindow);
        self.opened = if cut { 2 } else { self.path.window.min(self.opened + packets) };
        let released = self.opened.saturating_sub(self.in_flight);
        let released = match self.path.answer {
            Answer::MaxBurst(most) => released.min(most),
            _ => released,
        };
        // Packets that a pacer holds back count as in flight, so that they are not released twice.
        self.in_flight += released;
        match &mut self.path.answer {
            Answer::Paced(pacer) => {
                pacer.on_ack(now, released);
            }
            _ => (0..released).for_each(|_| self.send(now)),
        }
    }

    fn send(&mut self, now: Timestamp) {
        let now = self.access_free.max(now);
        self.access_free = now + self.path.access_link;
        let queued = self.link_free.saturating_duration_since(now).as_nanos() / self.path.link.as_nanos();
        self.stats.longest_queue = self.stats.longest_queue.max(queued as u64);
        self.link_free = self.link_free.max(now) + self.path.link;
        self.arrivals.push_back(self.link_free + self.path.delay);
    }
}

#[cfg(test)]
mod tests;
