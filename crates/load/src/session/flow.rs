//! The datagrams of a session, and when the next one is due: [`Flow`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use softtimers_core::{PaceConfig, RateClock, Timestamp, TriggerState};
use softtimers_linux::signal_timer::{Departure, SignalPacer, Ticks};
use softtimers_measure::distribution::Moments;
use softtimers_measure::failure::Failure;
use softtimers_measure::stats::Counter;
use softtimers_net::udp::UdpSocket;

use crate::gaps::Extremes;
use crate::handshake::Agreement;
use crate::traffic::Traffic;

use super::ahead::HandOver;
use super::catching_up::CatchingUp;
use super::departures::Departures;
use super::header::Header;
use super::many_flows::ManyFlows;
use super::refusals::{Notify, Refusals};
use super::sender::Sender;
use super::single_flow::SingleFlow;
use super::stats::SendStats;
use super::trace::SendTrace;

/// A flow in progress, or several. Its engine asks when the next datagram is [`due`](Flow::due), and calls
/// [`depart`](Flow::depart) at that time, or as soon as it notices.
///
/// A datagram has two times. Its *scheduled time* is the intended one: lateness is relative to it, so a delay counts
/// for every datagram that it delays. It is *due* when it may leave, which is later while the flow catches up or the
/// socket has no room:
///
/// ```text
///   scheduled  │1    │2    │3    │4    │5    │6
///   sent       ●1────── pause ────────●2  ●3  ●4  ●5
///                    ├─ 2 is late by ─┤   │   │
///                          ├─ 3 is late by┤   due a burst interval apart
/// ```
#[derive(Debug)]
pub(crate) struct Flow {
    sender: Sender,
    departures: Departures,
    header: Header,
    limit: u64,
    schedule: Schedule,
}

/// The schedule by which datagrams leave.
#[derive(Debug)]
enum Schedule {
    One(SingleFlow),
    /// Several flows, or one with several datagrams per call; and when the next may leave.
    Several(ManyFlows, Timestamp),
    /// Several flows, handed over ahead of their times.
    Ahead(ManyFlows, HandOver),
}

/// How an engine wants a flow to be handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Handling {
    /// softtimers' departure queue chooses among several flows, instead of a heap.
    pub(crate) queued: bool,
    /// Datagrams are handed over ahead of their times.
    pub(crate) ahead: bool,
}

impl Flow {
    /// Creates a flow whose first datagram is due at `start`, and whose datagrams carry the receiver's token, if it
    /// agreed.
    pub(super) fn new(
        traffic: &Traffic,
        handling: Handling,
        mut sender: Sender,
        agreement: Option<Agreement>,
        counter: Counter<SendStats>,
        start: Timestamp,
    ) -> Result<Self, Failure> {
        let header = Header::new(traffic.pace.rate.interval(), agreement);
        let mut departures = Departures::new(counter, traffic.flows, start);
        let several = || ManyFlows::new(traffic, handling.queued, header, start).map_err(Failure::usage);
        let schedule = if handling.ahead {
            sender
                .keep_times()
                .map_err(|error| Failure::not_possible(format_args!("--timer kernel: SO_TXTIME: {error}")))?;
            departures.foretell();
            let end = traffic.end.duration.map_or(Timestamp::MAX, |duration| start + duration);
            Schedule::Ahead(several()?, HandOver::new(start, end))
        } else if traffic.flows > 1 || traffic.quantum > 1 {
            Schedule::Several(several()?, start)
        } else {
            let clock = traffic.clock().map_err(Failure::usage)?;
            departures.track(CatchingUp::along(&clock));
            Schedule::One(SingleFlow::new(clock, header, traffic.size, start))
        };
        Ok(Flow { sender, departures, header, limit: traffic.end.count.unwrap_or(u64::MAX), schedule })
    }

    /// Restarts with another clock at `now`; with `muted`, departures are null events from now on. For one flow only.
    pub(crate) fn restart(&mut self, clock: RateClock, muted: bool, now: Timestamp) {
        self.settle();
        if let Schedule::One(one) = &mut self.schedule {
            one.restart(clock, muted, now);
            self.departures.begin_anew(CatchingUp::along(one.clock()));
        }
    }

    /// Returns the gaps between the departures of one flow since its restart, null events included.
    pub(crate) fn spacing(&self) -> Moments {
        if let Schedule::One(one) = &self.schedule { one.spacing() } else { Moments::default() }
    }

    /// Returns when the next datagram may leave, or is to be handed over.
    pub(crate) fn due(&self) -> Timestamp {
        match &self.schedule {
            Schedule::One(one) => one.due(),
            Schedule::Several(_, due) => *due,
            Schedule::Ahead(_, hand_over) => hand_over.wake(),
        }
    }

    /// Returns how long after [`due`](Flow::due) the next datagram may leave, if each may be late by `slack`.
    pub(crate) fn slack(&self, slack: Duration) -> Duration {
        match &self.schedule {
            Schedule::One(_) => slack,
            Schedule::Several(flows, due) => flows.slack_left(*due, slack),
            Schedule::Ahead(flows, hand_over) => flows.slack_left(hand_over.wake(), slack),
        }
    }

    /// Says whether everything requested has left, or was skipped.
    pub(crate) fn finished(&self) -> bool {
        let over = match &self.schedule {
            Schedule::One(one) => one.is_over(),
            Schedule::Several(flows, _) | Schedule::Ahead(flows, _) => flows.is_over(),
        };
        over || self.departures() >= self.limit
    }

    /// Returns the number of datagrams that have left, and null events.
    pub(crate) fn departures(&self) -> u64 {
        match &self.schedule {
            Schedule::One(one) => one.departures(),
            Schedule::Several(flows, _) | Schedule::Ahead(flows, _) => flows.all_sent(),
        }
    }

    /// Sends the due datagram at `now`, or a train of a catch-up by one call, and returns when the next one is due.
    /// `source` noticed it. With several flows it sends the due datagrams of all, up to a batch. When handing over
    /// ahead, it hands over everything allowed.
    ///
    /// A datagram that the kernel has no room for keeps its scheduled time and is tried again a burst interval later;
    /// the schedule goes on, so datagrams delayed by it are made up for or skipped.
    ///
    /// # Errors
    /// A failure that a retry cannot mend, such as a datagram too long for the path, or a destination that has been
    /// unreachable for more than a second.
    pub(crate) fn depart(&mut self, now: Timestamp, source: TriggerState) -> io::Result<Timestamp> {
        let Flow { sender, departures, limit, schedule, .. } = self;
        match schedule {
            Schedule::One(one) => {
                let left = limit.saturating_sub(one.departures());
                one.depart(sender, departures, left, now, source)
            }
            Schedule::Several(flows, due) => {
                let left = *limit - flows.all_sent();
                *due = flows.depart(sender, departures, left, now, source)?;
                Ok(*due)
            }
            Schedule::Ahead(flows, hand_over) => {
                let left = *limit - flows.all_sent();
                flows.hand_over(hand_over, sender, departures, left, now, source)?;
                Ok(hand_over.wake())
            }
        }
    }

    /// Hands the schedule of one flow to a signal's handler. Pass its departures to [`account`](Flow::account); end it
    /// with [`taken_back`](Flow::taken_back).
    ///
    /// # Errors
    /// If this thread cannot have such a timer, or there are several flows.
    pub(crate) fn hand_over(&mut self, end: Timestamp, ticks: Ticks) -> io::Result<SignalPacer> {
        let limit = self.limit.saturating_sub(self.departures());
        match &mut self.schedule {
            Schedule::One(one) => one.hand_over(&self.sender, limit, end, ticks),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a signal's handler sends one flow only")),
        }
    }

    /// Counts a datagram sent by a signal's handler some time ago.
    pub(crate) fn account(&mut self, departure: Departure) {
        if let Schedule::One(one) = &mut self.schedule {
            one.account(&mut self.departures, departure);
        }
    }

    /// Takes the schedule back where the handler left it; returns how often it waited for its departures to be read.
    pub(crate) fn taken_back(&mut self, pacer: &mut SignalPacer) -> u64 {
        if let Schedule::One(one) = &mut self.schedule { one.taken_back(&mut self.sender, pacer) } else { 0 }
    }

    /// Keeps a log of departures from now on, the latest `room` of them.
    pub(super) fn trace(&mut self, room: usize, pace: &PaceConfig) {
        let trace = SendTrace::new(room, pace.rate.interval(), pace.shortest_gap());
        self.departures.trace = Some(Box::new(trace));
    }

    /// Takes the log of departures, if one was kept.
    pub(crate) fn take_trace(&mut self) -> Option<Box<SendTrace>> {
        self.departures.trace.take()
    }

    /// Records a clock check, the first one after this time.
    #[inline]
    pub(crate) fn checked(&mut self, unchecked: impl FnOnce() -> Option<Duration>) {
        if let Some(trace) = &mut self.departures.trace {
            trace.checked(unchecked().unwrap_or_default());
        }
    }

    /// Makes this thread the one whose statistics explain late departures.
    pub(crate) fn adopt(&mut self, now: Timestamp) {
        self.departures.adopt(now);
    }

    /// Tells the user when a datagram is refused for the first time.
    pub(crate) fn tell_refusals(&mut self, destination: SocketAddr, notify: Notify) {
        self.sender.refusals.tell(destination, notify);
    }

    /// Counts refusals together with the socket's other readers.
    pub(super) fn share(&mut self, refusals: Arc<Refusals>) {
        self.sender.refusals = refusals;
    }

    /// Returns the number of refusals so far.
    pub(crate) fn refusals(&self) -> u64 {
        self.sender.refusals.count()
    }

    /// Returns the socket that datagrams leave by.
    pub(crate) fn socket(&self) -> &UdpSocket {
        self.sender.socket()
    }

    /// Sends each flow's goodbye a few times. Returns whether any has left.
    pub(super) fn say_goodbye(&mut self) -> bool {
        let Flow { sender, header, schedule, .. } = self;
        match schedule {
            Schedule::One(one) => sender.say_goodbye(1, |flow| header.bye(flow, one.sent())),
            Schedule::Several(flows, _) => {
                sender.say_goodbye(flows.count(), |flow| header.bye(flow, flows.sent(flow)))
            }
            Schedule::Ahead(flows, hand_over) => {
                hand_over.settle();
                sender.say_goodbye(flows.count(), |flow| header.bye(flow, flows.sent(flow)))
            }
        }
    }

    /// Counts what no departure has reported: scheduled times skipped since the last one, and calls that failed for
    /// good.
    pub(crate) fn settle(&mut self) {
        let forfeited = match &self.schedule {
            Schedule::One(one) => one.forfeited(),
            Schedule::Several(flows, _) | Schedule::Ahead(flows, _) => flows.forfeited(),
        };
        self.departures.tell(self.sender.take_calls(), forfeited);
    }

    /// Counts in `counter` from now on, and moves the counts so far there.
    pub(crate) fn count_in(&mut self, counter: &mut Counter<SendStats>) {
        self.settle();
        self.departures.count_in(counter);
    }

    /// Returns the counts so far.
    pub(crate) fn stats(&self) -> SendStats {
        self.departures.total()
    }

    /// Returns the share of its rate that each of several flows sent.
    pub(crate) fn shares(&self) -> Extremes {
        match &self.schedule {
            Schedule::Several(flows, _) | Schedule::Ahead(flows, _) if flows.count() > 1 => flows.shares(),
            _ => Extremes::default(),
        }
    }

    /// Returns the expiries without a signal of their own; `None` for a timer without signals.
    pub(crate) fn overruns(&self) -> Option<u64> {
        if let Schedule::One(one) = &self.schedule { one.overruns() } else { None }
    }

    /// Returns a sentence that says what did not work as requested, and what was done instead.
    pub(crate) fn fallback(&self) -> Option<String> {
        let why = self.sender.uncut()?;
        Some(format!(
            "the kernel does not cut sends into datagrams on this way (UDP_SEGMENT: {why}); those of a quantum \
             left in one system call, each as a send of its own"
        ))
    }
}

#[cfg(test)]
mod tests;
