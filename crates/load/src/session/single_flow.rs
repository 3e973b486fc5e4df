//! One flow with one datagram per call: the socket's simplest use, and the only one possible in a signal's handler. A
//! train of a catch-up leaves by one call.
//!
//! A departure is decided by [`SingleFlow::take`], sent by the [`Sender`], and recorded by the [`Departures`].

use std::collections::VecDeque;
use std::io;

use softtimers_core::{RateClock, Timestamp, TriggerState};
use softtimers_linux::signal_timer::{Course, Departure, SignalCounts, SignalPacer, Ticks};
use softtimers_measure::distribution::Moments;
use softtimers_net::udp::{Retries, SendBatch};

use crate::traffic::nanos;
use crate::wire;

use super::departures::Departures;
use super::header::Header;
use super::sender::Sender;
use super::stats::Calls;

/// The schedule of one flow.
#[derive(Debug)]
pub(super) struct SingleFlow {
    clock: RateClock,
    header: Header,
    /// As long as the longest datagram.
    packet: Vec<u8>,
    due: Timestamp,
    /// A train that is about to leave, or that the kernel had no room for; `waiting` has its times.
    batch: SendBatch,
    waiting: VecDeque<Times>,
    /// When the next one after the batch may leave.
    next: Timestamp,
    sent: u64,
    /// Whether nothing is sent: departures are null events, whose cost is that of the timer alone. They have no number,
    /// and no receiver sees them.
    muted: bool,
    null_events: u64,
    /// The last departure since the restart, and the gaps between all of them.
    last: Option<Timestamp>,
    spacing: Moments,
    /// Only for a timer that counts them.
    overruns: Option<u64>,
}

/// A datagram's due time, and its scheduled time.
#[derive(Clone, Copy, Debug)]
struct Times {
    due: Timestamp,
    place: Timestamp,
}

impl Times {
    /// Returns the departure of the datagram at this time.
    fn left_at(self, sent: Timestamp) -> Departure {
        Departure { sent, due: self.due, place: self.place }
    }
}

impl SingleFlow {
    /// Creates a flow whose first datagram, of `size` bytes, is due at `start`.
    pub(super) fn new(mut clock: RateClock, header: Header, size: usize, start: Timestamp) -> Self {
        let (due, most) = (clock.start(start), usize::from(clock.recovery().train));
        SingleFlow {
            due,
            batch: SendBatch::new(most, size),
            waiting: VecDeque::with_capacity(most),
            next: due,
            clock,
            header,
            packet: vec![0; size],
            sent: 0,
            muted: false,
            null_events: 0,
            last: None,
            spacing: Moments::default(),
            overruns: None,
        }
    }

    /// Restarts with this clock at `now`: the time since the last departure does not count as delay. With `muted`,
    /// departures are null events from now on.
    pub(super) fn restart(&mut self, clock: RateClock, muted: bool, now: Timestamp) {
        (self.clock, self.muted) = (clock, muted);
        self.due = self.clock.start(now);
        self.batch.clear();
        self.waiting.clear();
        (self.last, self.spacing, self.overruns) = (None, Moments::default(), None);
    }

    pub(super) fn due(&self) -> Timestamp {
        self.due
    }

    /// Returns the clock of the flow.
    pub(super) fn clock(&self) -> &RateClock {
        &self.clock
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of datagrams that have left, and null events.
    pub(super) fn departures(&self) -> u64 {
        self.sent + self.null_events
    }

    /// Returns the gaps between departures since the restart, null events included.
    pub(super) fn spacing(&self) -> Moments {
        self.spacing
    }

    /// Returns the expiries without a signal of their own; `None` for a timer without signals.
    pub(super) fn overruns(&self) -> Option<u64> {
        self.overruns
    }

    /// Says whether a recording is over, and all of it has left.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.clock.is_over()
    }

    pub(super) fn forfeited(&self) -> u64 {
        self.clock.forfeited()
    }

    /// Sends the due datagram at `now`, or a train of a catch-up of at most `left`; returns when the next may leave.
    pub(super) fn depart(
        &mut self,
        sender: &mut Sender,
        departures: &mut Departures,
        left: u64,
        now: Timestamp,
        source: TriggerState,
    ) -> io::Result<Timestamp> {
        if self.muted {
            self.null_events += 1;
            self.space(now);
            self.due = self.clock.departed(now);
            return Ok(self.due);
        }
        if !self.waiting.is_empty() {
            self.flush(sender, departures, now, source)?;
            if self.waiting.is_empty() {
                // The clock counts from the first attempt.
                self.due = self.due.max(now + self.clock.burst_interval());
            }
            return Ok(self.due);
        }
        let (times, length) = self.take(now);
        if self.next <= now && left > 1 && self.batch.capacity() > 1 {
            return self.depart_together(sender, departures, (times, length, left), now, source);
        }
        if !sender.transmit(&self.packet[..length], now)? {
            self.stage(sender, times, length)?;
            return Ok(self.refused(sender, departures, now));
        }
        self.sent += 1;
        self.space(now);
        self.due = self.next;
        let told = (sender.take_calls(), self.clock.forfeited());
        departures.record(told, source, std::iter::once((0, times.left_at(now))));
        Ok(self.due)
    }

    /// Sends a train by one call; its first datagram has already been taken from the clock.
    #[inline(never)]
    fn depart_together(
        &mut self,
        sender: &mut Sender,
        departures: &mut Departures,
        (times, length, left): (Times, usize, u64),
        now: Timestamp,
        source: TriggerState,
    ) -> io::Result<Timestamp> {
        self.stage(sender, times, length)?;
        while self.next <= now && !self.batch.is_full() && (self.waiting.len() as u64) < left {
            self.due = self.next;
            let (times, length) = self.take(now);
            self.stage(sender, times, length)?;
        }
        self.flush(sender, departures, now, source)
    }

    /// Writes the due datagram, which leaves at `now`; returns its length.
    #[inline]
    fn take(&mut self, now: Timestamp) -> (Times, usize) {
        let times = Times { due: self.due, place: self.clock.place() };
        let number = self.sent + self.waiting.len() as u64;
        self.header.data(0, number, times.place).write(&mut self.packet);
        let length = self.clock.length().map_or(self.packet.len(), usize::from);
        self.next = self.clock.departed(now);
        (times, length)
    }

    /// Puts it into the batch.
    fn stage(&mut self, sender: &Sender, times: Times, length: usize) -> io::Result<()> {
        sender.put(&mut self.batch, &self.packet[..length], times.due).map_err(io::Error::other)?;
        self.waiting.push_back(times);
        Ok(())
    }

    /// Sends the batch, by one call if the kernel has room for all of it.
    fn flush(
        &mut self,
        sender: &mut Sender,
        departures: &mut Departures,
        now: Timestamp,
        source: TriggerState,
    ) -> io::Result<Timestamp> {
        let (taken, outcome) = sender.transmit_batch(&mut self.batch, now);
        self.sent += taken as u64;
        (0..taken).for_each(|_| self.space(now));
        if taken > 0 {
            let told = (sender.take_calls(), self.clock.forfeited());
            departures.record(told, source, self.waiting.drain(..taken).map(|times| (0, times.left_at(now))));
        }
        outcome?;
        if !self.waiting.is_empty() {
            return Ok(self.refused(sender, departures, now));
        }
        self.due = self.next;
        Ok(self.due)
    }

    /// Called when the kernel has no room: the waiting datagrams keep their scheduled times, and are tried again.
    fn refused(&mut self, sender: &mut Sender, departures: &mut Departures, now: Timestamp) -> Timestamp {
        departures.tell(sender.take_calls(), self.clock.forfeited());
        self.due = now + Retries::after(self.clock.burst_interval());
        self.waiting.iter_mut().for_each(|times| times.due = self.due);
        self.due
    }

    fn space(&mut self, now: Timestamp) {
        if let Some(last) = self.last.replace(now) {
            self.spacing.record(nanos(now.saturating_duration_since(last)));
        }
    }

    /// Hands the schedule to a signal's handler, from the first datagram on, up to `limit` of them until `end`. Pass
    /// its departures to [`account`](Self::account); end it with [`taken_back`](Self::taken_back).
    ///
    /// # Errors
    /// If this thread cannot have such a timer.
    pub(super) fn hand_over(
        &mut self,
        sender: &Sender,
        limit: u64,
        end: Timestamp,
        ticks: Ticks,
    ) -> io::Result<SignalPacer> {
        let course = Course {
            limit,
            number: self.sent,
            sequence_at: wire::SEQUENCE_AT,
            scheduled_at: wire::SCHEDULED_AT,
            ticks,
            silent: self.muted,
            ..Course::new(self.due, end)
        };
        self.header.data(0, 0, self.due).write(&mut self.packet);
        SignalPacer::start(sender.socket(), self.packet.clone(), self.clock.clone(), course)
    }

    /// Counts a datagram that the handler has sent.
    pub(super) fn account(&mut self, departures: &mut Departures, departure: Departure) {
        self.space(departure.sent);
        if self.muted {
            self.null_events += 1;
            return;
        }
        self.sent += 1;
        let calls = Calls { calls: 1, ..Calls::default() };
        departures.record_reported((calls, self.clock.forfeited()), departure);
    }

    /// Takes the schedule back where the handler left it; returns how often it waited for its departures to be read.
    pub(super) fn taken_back(&mut self, sender: &mut Sender, pacer: &mut SignalPacer) -> u64 {
        self.clock = pacer.stop();
        let SignalCounts { would_block, no_buffers, refused, overruns, unread } = pacer.counts();
        let calls = would_block + no_buffers + refused;
        sender.add_calls(Calls { calls, segments: 0, would_block, no_buffers, refused });
        self.overruns = Some(overruns);
        unread
    }
}
