//! A receiving host that acknowledges as soft timers A.3 describes: interrupts before the reader, ACKs when
//! the application reads, every second packet, and a delayed-ACK timer for the rest.
//!
//! ```text
//!   packets     │    │    │    │    │            faster than they are processed
//!   interrupts  ▓▓   ▓▓   ▓▓   ▓▓   ▓▓           always first
//!   the reader    ░░░  ░░░  ░░░  ░░░  ░░░░░┐     one read of all that is there, again and again interrupted
//!   ACK                                    5     when a read is done: for everything that came by then
//! ```

use std::time::Duration;

use softtimers_core::Timestamp;

/// A receiving host and its costs.
#[derive(Clone, Debug)]
pub(crate) struct AckReceiver {
    /// Interrupt and protocol work for each packet.
    pub(crate) protocol: Duration,
    /// The time that the application needs for each packet it reads.
    pub(crate) read: Duration,
    /// A read sends an ACK if this many packets are unacknowledged: 2, or 3 with options.
    pub(crate) every: u64,
    /// The application does not read: in each period of the first length, for the second length from its
    /// start.
    pub(crate) away: (Duration, Duration),
    /// The delayed-ACK timer fires at multiples of this.
    pub(crate) delayed_acks: Duration,
    pub(crate) state: State,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    unread: u64,
    unacknowledged: u64,
    reading: Option<Read>,
    interrupts_until: Timestamp,
    /// When the delayed-ACK timer acknowledges packets that no read has acknowledged.
    delayed_ack: Timestamp,
}

/// A read of the application, and when it ends if nothing interrupts it.
#[derive(Clone, Copy, Debug)]
struct Read {
    packets: u64,
    begin: Timestamp,
    done: Timestamp,
}

impl AckReceiver {
    /// Acknowledges every second packet; the application is never away.
    pub(crate) fn new(protocol: Duration, read: Duration, delayed_acks: Duration) -> Self {
        AckReceiver {
            protocol,
            read,
            every: 2,
            away: (Duration::from_secs(1), Duration::ZERO),
            delayed_acks,
            state: State {
                unread: 0,
                unacknowledged: 0,
                reading: None,
                interrupts_until: Timestamp::ZERO,
                delayed_ack: Timestamp::MAX,
            },
        }
    }

    /// Handles the arrival of a packet.
    pub(crate) fn packet(&mut self, now: Timestamp) {
        self.state.interrupts_until = self.state.interrupts_until.max(now) + self.protocol;
        if let Some(read) =
            self.state.reading.as_mut().filter(|read| read.begin < self.state.interrupts_until)
        {
            read.done += self.protocol;
        }
        if self.state.unacknowledged == 0 {
            self.state.delayed_ack = start_of(now, self.delayed_acks) + self.delayed_acks;
        }
        self.state.unread += 1;
        self.state.unacknowledged += 1;
        if self.state.reading.is_none() {
            self.begin_to_read(self.state.interrupts_until);
        }
    }

    /// Returns when it acts next if no packet arrives.
    pub(crate) fn poll_at(&self) -> Option<Timestamp> {
        let read = self.state.reading.map(|read| read.done);
        let timer = (self.state.unacknowledged > 0).then_some(self.state.delayed_ack);
        read.into_iter().chain(timer).min()
    }

    /// Acts at the time from [`poll_at`](Self::poll_at); returns how many packets the ACK acknowledges, if it
    /// sends one.
    pub(crate) fn act(&mut self, now: Timestamp) -> Option<u64> {
        let mut least = 1;
        if let Some(read) = self.state.reading.filter(|read| read.done <= now) {
            self.state.unread -= read.packets;
            self.state.reading = None;
            if self.state.unread > 0 {
                self.begin_to_read(now);
            }
            least = self.every;
        }
        (self.state.unacknowledged >= least).then(|| std::mem::take(&mut self.state.unacknowledged))
    }

    fn begin_to_read(&mut self, now: Timestamp) {
        let (period, away) = self.away;
        let begin = now.max(start_of(now, period) + away);
        let done = begin + self.read * self.state.unread as u32;
        self.state.reading = Some(Read { packets: self.state.unread, begin, done });
    }
}

/// The start of the period that `now` is in.
fn start_of(now: Timestamp, period: Duration) -> Timestamp {
    let nanos = now.as_nanos();
    Timestamp::from_nanos(nanos - nanos % period.as_nanos() as u64)
}
