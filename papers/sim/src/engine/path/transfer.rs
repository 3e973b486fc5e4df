//! A transfer of N packets to a distant client, in virtual time: the time until the last one arrives.
//!
//! ```text
//!   client    SYN ╲      ╱ request ╲                       ╱ first … last ╱ done
//!                  ╲    ╱           ╲                     ╱  ACKs ╲      ╱
//!   server          ACK              ● begins to send  ──╱─────────╲────╱
//!             └─ set-up ─┘
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use softtimers_core::StartRate;
use softtimers_core::{PaceConfig, Rate, RateClock, Timestamp};

use super::ack_receiver::AckReceiver;
use super::slow_start::SlowStart;

/// The rule by which the sender sends.
#[derive(Clone, Debug)]
pub(crate) enum Sender {
    /// In a window that grows.
    SlowStart(SlowStart),
    /// Evenly, at the rate at which the train begins.
    Paced(StartRate),
    /// Evenly, doubling the rate in each round trip until the capacity is reached.
    Climbing(StartRate),
}

/// One answer over a path.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) sender: Sender,
    /// The length in packets.
    pub(crate) packets: u64,
    /// The time a packet takes on the slow link.
    pub(crate) link: Duration,
    /// The delay each way.
    pub(crate) delay: Duration,
    /// Whether the connection must be set up first.
    pub(crate) set_up: bool,
    /// It acknowledges every packet, or every second one and the rest by a timer.
    pub(crate) receiver: AckReceiver,
}

impl Transfer {
    /// From the client's first packet to the arrival of the server's last one.
    pub(crate) fn time(self) -> Duration {
        let round_trips = if self.set_up { 2 } else { 0 };
        let begin = Timestamp::ZERO + self.delay * (round_trips + 1);
        Run {
            clock: None,
            proof: 0,
            sent: 0,
            acknowledged: 0,
            link_free: Timestamp::ZERO,
            arrivals: VecDeque::new(),
            acks: VecDeque::new(),
            transfer: self,
        }
        .from(begin)
        .saturating_duration_since(Timestamp::ZERO)
    }
}

struct Run {
    transfer: Transfer,
    /// The clock of a paced sender, and when its next packet is due.
    clock: Option<(RateClock, Timestamp)>,
    /// The packet whose ACK shows that the path has carried the present rate.
    proof: u64,
    sent: u64,
    acknowledged: u64,
    link_free: Timestamp,
    arrivals: VecDeque<Timestamp>,
    acks: VecDeque<(Timestamp, u64)>,
}

impl Run {
    fn from(mut self, begin: Timestamp) -> Timestamp {
        match &mut self.transfer.sender {
            Sender::SlowStart(slow_start) => {
                let released = slow_start.begin();
                (0..released).for_each(|_| self.send(begin));
            }
            Sender::Paced(start) | Sender::Climbing(start) => {
                let mut clock = RateClock::new(PaceConfig::new(start.rate(begin))).unwrap();
                let due = clock.start(begin);
                self.clock = Some((clock, due));
            }
        }
        let mut arrived = 0;
        loop {
            let paced =
                self.clock.as_ref().filter(|_| self.sent < self.transfer.packets).map(|&(_, due)| due);
            let next = [
                self.arrivals.front().copied(),
                self.transfer.receiver.poll_at(),
                self.acks.front().map(|&(at, _)| at),
                paced,
            ];
            let now =
                next.into_iter().flatten().min().expect("something is under way until the last arrival");
            match next.iter().position(|&at| at == Some(now)) {
                Some(0) => {
                    self.arrivals.pop_front();
                    arrived += 1;
                    if arrived == self.transfer.packets {
                        return now;
                    }
                    self.transfer.receiver.packet(now);
                }
                Some(1) => {
                    let ack = self.transfer.receiver.act(now);
                    self.acks.extend(ack.map(|packets| (now + self.transfer.delay, packets)));
                }
                Some(2) => {
                    let packets = self.acks.pop_front().map_or(0, |(_, packets)| packets);
                    self.on_ack(now, packets);
                }
                _ => {
                    if let Some((clock, due)) = &mut self.clock {
                        *due = clock.departed(now);
                    }
                    self.send(now);
                }
            }
        }
    }

    fn on_ack(&mut self, now: Timestamp, packets: u64) {
        self.acknowledged += packets;
        match &mut self.transfer.sender {
            Sender::SlowStart(slow_start) => {
                let released = slow_start.on_ack(packets);
                (0..released).for_each(|_| self.send(now));
            }
            Sender::Climbing(start) if self.acknowledged > self.proof => {
                self.proof = self.sent;
                start.proved(now, Rate::every(start.rate(now).interval() / 2).unwrap());
                if let Some((clock, due)) = &mut self.clock {
                    *due = clock.set_rate(now, start.rate(now));
                }
            }
            Sender::Climbing(_) | Sender::Paced(_) => {}
        }
    }

    /// Unless all have been sent.
    fn send(&mut self, now: Timestamp) {
        if self.sent < self.transfer.packets {
            self.sent += 1;
            self.link_free = self.link_free.max(now) + self.transfer.link;
            self.arrivals.push_back(self.link_free + self.transfer.delay);
        }
    }
}
