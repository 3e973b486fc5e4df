//! What a session sends: one paced flow, or several of the same rate; and when the next datagram is due.

use std::io;
use std::time::Duration;

use softtimers::{RateClock, Timestamp, TriggerState};
use softtimers_linux::signal_timer::{Course, Departure, SignalCounts, SignalPacer, Stamps, Ticks};
use softtimers_net::UdpSocket;
use softtimers_net::udp::Retries;

use crate::args::Timer;
use crate::distribution::Moments;
use crate::failure::Failure;
use crate::gaps::Train;
use crate::handshake::Agreement;
use crate::plan::SendPlan;
use crate::stream::Counter;
use crate::wire;

use super::flows::Flows;
use super::header::Header;
use super::kernel::HandOver;
use super::outlet::{HandedOver, Outlet};
use super::report::SocketReport;
use super::second::Second;
use super::tally::{Tally, Trouble};

/// A flow in progress, or several. Its engine asks when the next datagram is [`due`](Flow::due) and calls
/// [`depart`](Flow::depart) at that time or as soon after it as it notices.
///
/// Two times belong to a datagram. Its *place* in the schedule is the intended time: lateness is
/// measured against it, so that a delay shows in all that it delays. It is *due* when it may leave,
/// which is later while the flow catches up or the socket has no room:
///
/// ```text
///   place   │1    │2    │3    │4    │5    │6
///   sent    ●1────── pause ────────●2  ●3  ●4  ●5
///                 ├─ 2 is late by ─┤   │   │
///                       ├─ 3 is late by┤   due a burst interval apart
/// ```
#[derive(Debug)]
pub(super) struct Flow {
    outlet: Outlet,
    clock: RateClock,
    header: Header,
    /// As long as the longest datagram.
    packet: Vec<u8>,
    limit: u64,
    due: Timestamp,
    train: Train,
    tally: Tally,
    /// Only for a timer that counts them.
    overruns: Option<u64>,
    /// Nothing is sent: its departures are null events, whose cost is that of the timer alone.
    muted: bool,
    /// They have no number, and no receiver hears of them.
    null_events: u64,
    /// The last departure of this train, and the gaps between all of them; of one flow.
    last: Option<Timestamp>,
    spacing: Moments,
    /// Several flows, or one of which several datagrams leave by one call, instead of the one that this is
    /// otherwise.
    flows: Option<Flows>,
    /// Only for a timer that hands datagrams over ahead of their times.
    hand_over: Option<HandOver>,
}

impl Flow {
    /// A flow whose first datagram is due at `start`, and whose datagrams carry what a receiver has agreed to.
    pub(super) fn new(
        plan: &SendPlan,
        socket: UdpSocket,
        agreement: Option<Agreement>,
        start: Timestamp,
    ) -> Result<Self, Failure> {
        let mut clock = plan.clock()?;
        let interval = plan.pace.rate.interval();
        let header = Header::new(interval, agreement);
        let ahead = plan.timer == Timer::Kernel;
        let flows = (ahead || plan.flows > 1 || plan.quantum > 1).then(|| Flows::new(plan, header, start));
        let mut outlet = Outlet::new(socket);
        let mut tally = Tally::new(interval, start);
        if ahead {
            outlet
                .keep_times()
                .map_err(|error| Failure::not_possible(format_args!("--timer kernel: SO_TXTIME: {error}")))?;
            tally.foretell();
        }
        let end = plan.end.duration.map_or(Timestamp::MAX, |duration| start + duration);
        let hand_over = ahead.then(|| HandOver::new(start, end));
        Ok(Flow {
            flows: flows.transpose().map_err(Failure::usage)?,
            hand_over,
            outlet,
            due: clock.start(start),
            clock,
            header,
            packet: vec![0; plan.size],
            limit: plan.end.count.unwrap_or(u64::MAX),
            train: Train::default(),
            tally,
            overruns: None,
            muted: false,
            null_events: 0,
            last: None,
            spacing: Moments::default(),
        })
    }

    /// Counts each second apart, too.
    pub(super) fn count_in(&mut self, second: Counter<Second>) {
        self.tally.count_in(second);
    }

    /// Departs by another clock from the next train on, which is not long in coming.
    pub(super) fn follow(&mut self, clock: RateClock) {
        self.clock = clock;
    }

    /// Begins a new train at `now`: the time since the last departure is no delay.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.due = self.clock.start(now);
        self.train = Train::default();
        (self.last, self.spacing, self.overruns) = (None, Moments::default(), None);
    }

    /// The gaps between the departures of this train, null events included.
    pub(super) fn spacing(&self) -> Moments {
        self.spacing
    }

    fn space(&mut self, now: Timestamp) {
        if let Some(last) = self.last.replace(now) {
            self.spacing.record(now.as_nanos().saturating_sub(last.as_nanos()));
        }
    }

    /// Whether departures are null events from now on.
    pub(super) fn mute(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// When the next datagram may leave, or is to be handed over.
    pub(super) fn due(&self) -> Timestamp {
        self.hand_over.as_ref().map_or(self.due, HandOver::wake)
    }

    /// How much later than [`due`](Flow::due) the next datagram may leave, if each may be late by `slack`.
    pub(super) fn slack(&self, slack: Duration) -> Duration {
        self.flows.as_ref().map_or(slack, |flows| flows.slack_left(self.due, slack))
    }

    /// Whether all that was asked for has left, or was given up.
    pub(super) fn finished(&self) -> bool {
        let over = self.flows.as_ref().map_or(self.clock.is_over(), Flows::is_over);
        self.departures() >= self.limit || over
    }

    /// Datagrams that have left, and null events.
    pub(super) fn departures(&self) -> u64 {
        self.tally.sent() + self.null_events
    }

    /// Datagrams that have left.
    pub(super) fn sent(&self) -> u64 {
        self.tally.sent()
    }

    /// Sends the due datagram at `now` and returns when the next one is due. `source` noticed it. Of several
    /// flows it sends what is due of all, up to a batch. Where datagrams are handed over ahead, it does that
    /// with all that may be.
    ///
    /// A datagram that the kernel does not take for want of room keeps its place and is tried again a
    /// burst interval later; the schedule runs on, so what it delays is made up for or forfeited.
    ///
    /// # Errors
    /// What trying again cannot mend, such as a datagram too long for the path, or a destination that
    /// has been out of reach for more than a second.
    pub(super) fn depart(&mut self, now: Timestamp, source: TriggerState) -> io::Result<Timestamp> {
        let departed = self.leave(now, source);
        if self.tally.is_streamed() {
            let forfeited = self.flows.as_ref().map_or(self.clock.forfeited(), Flows::forfeited_so_far);
            self.tell_trouble(forfeited);
        }
        departed
    }

    fn leave(&mut self, now: Timestamp, source: TriggerState) -> io::Result<Timestamp> {
        if self.muted {
            self.null_events += 1;
            self.space(now);
            self.due = self.clock.departed(now);
            return Ok(self.due);
        }
        let left = self.limit - self.tally.sent();
        let Flow { outlet, tally, flows, hand_over, .. } = self;
        match (flows, hand_over) {
            (Some(flows), Some(hand_over)) => {
                flows.hand_over(hand_over, outlet, tally, left, now, source)?;
                return Ok(hand_over.wake());
            }
            (Some(flows), None) => {
                self.due = flows.depart(outlet, tally, left, now, source)?;
                return Ok(self.due);
            }
            (None, _) => {}
        }
        let place = self.clock.place();
        self.header.data(0, self.tally.sent(), place).write(&mut self.packet);
        let length = self.clock.length().map_or(self.packet.len(), usize::from);
        if !self.outlet.transmit(&self.packet[..length], now)? {
            self.due = now + Retries::after(self.clock.burst_interval());
            return Ok(self.due);
        }
        self.tally.turn();
        self.tally.departed(&mut self.train, Departure { sent: now, due: self.due, place }, source);
        self.space(now);
        self.due = self.clock.departed(now);
        Ok(self.due)
    }

    /// Counts a datagram that a signal's handler has sent, some time ago. Of a late one no cause is told:
    /// by now this thread's accounts say what it did since, not what held the signal up.
    pub(super) fn account(&mut self, departure: Departure) {
        self.space(departure.sent);
        if self.muted {
            self.null_events += 1;
            return;
        }
        self.outlet.count_calls(1);
        self.tally.turn();
        self.tally.count(&mut self.train, departure, TriggerState::Backup);
    }

    /// Hands the schedule over to a signal's handler, from the first datagram on. What leaves is told
    /// to [`account`](Flow::account); [`taken_back`](Flow::taken_back) ends it.
    ///
    /// # Errors
    /// If this thread cannot have such a timer.
    pub(super) fn hand_over(&mut self, end: Timestamp, ticks: Ticks) -> io::Result<SignalPacer> {
        let course = Course {
            limit: self.limit.saturating_sub(self.departures()),
            number: self.tally.sent(),
            ticks,
            silent: self.muted,
            ..Course::new(self.due, end)
        };
        self.header.data(0, 0, self.due).write(&mut self.packet);
        let stamps = Stamps { sequence: wire::SEQUENCE_AT, place: wire::SCHEDULED_AT };
        SignalPacer::start(self.outlet.socket(), self.packet.clone(), stamps, self.clock.clone(), course)
    }

    /// Takes the schedule back where the handler left it; how often it waited for its account to be
    /// taken.
    pub(super) fn taken_back(&mut self, pacer: &mut SignalPacer) -> u64 {
        self.clock = pacer.stop();
        let SignalCounts { would_block, no_buffers, refused, overruns, unread } = pacer.counts();
        let trouble = self.outlet.trouble_mut();
        trouble.would_block += would_block;
        trouble.no_buffers += no_buffers;
        trouble.refused += refused;
        self.outlet.count_calls(would_block + no_buffers + refused);
        self.overruns = Some(overruns);
        unread
    }

    /// Tells the last second what no departure has told.
    pub(super) fn settle(&mut self) {
        self.tell_trouble(self.forfeited());
    }

    /// Tells the second what has happened so far beside departures.
    fn tell_trouble(&mut self, forfeited: u64) {
        let SocketReport { would_block, no_buffers, refused, .. } = self.outlet.trouble();
        self.tally.trouble(Trouble { forfeited, tried_again: would_block + no_buffers + refused });
    }

    /// Makes this thread the one whose accounts tell why a departure was late.
    pub(super) fn adopt(&mut self, now: Timestamp) {
        self.tally.adopt(now);
    }

    /// Sends each flow's goodbye a few times. Whether any has left.
    pub(super) fn say_goodbye(&mut self) -> bool {
        let Flow { outlet, header, tally, flows, hand_over, .. } = self;
        if let Some(hand_over) = hand_over {
            hand_over.settle();
        }
        match flows {
            Some(flows) => outlet.say_goodbye(flows.count(), |flow| header.bye(flow, flows.sent(flow))),
            None => outlet.say_goodbye(1, |flow| header.bye(flow, tally.sent())),
        }
    }

    pub(super) fn forfeited(&self) -> u64 {
        self.flows.as_ref().map_or_else(|| self.clock.forfeited(), Flows::forfeited)
    }

    /// The account of all that left.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What several flows know beyond that; `None` if there is one.
    pub(super) fn flows(&self) -> Option<&Flows> {
        self.flows.as_ref().filter(|flows| flows.count() > 1)
    }

    /// Expiries for which no signal came; `None` for a timer without signals.
    pub(super) fn overruns(&self) -> Option<u64> {
        self.overruns
    }

    pub(super) fn trouble(&self) -> SocketReport {
        self.outlet.trouble()
    }

    /// How it was handed to the kernel.
    pub(super) fn handed_over(&self) -> HandedOver {
        self.outlet.handed_over()
    }

    /// What did not work as asked, and what was done instead.
    pub(super) fn fallback(&self) -> Option<String> {
        let why = self.outlet.uncut()?;
        Some(format!(
            "the kernel does not cut sends into datagrams on this way (UDP_SEGMENT: {why}); those of a quantum \
             left in one system call, each as a send of its own"
        ))
    }
}

#[cfg(test)]
mod tests;
