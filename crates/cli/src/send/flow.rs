//! One paced flow: when its next datagram is due, and an account of all that left.

use std::io;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use softtimers::late::LateLog;
use softtimers::signal_timer::{Course, Departure, SignalCounts, SignalPacer, Stamps};
use softtimers::udp::{Retries, is_about_an_earlier_datagram};
use softtimers::{Clock, Monotonic, PerSource, RateClock, Timestamp, TriggerState, UdpSocket};

use crate::distribution::Recorder;
use crate::failure::Failure;
use crate::gaps::{GapReport, Gaps, Train};
use crate::plan::SendPlan;
use crate::wire::{self, Datagram};

use super::report::{LateReport, SocketReport};

/// A flow in progress. Its engine asks when the next datagram is [`due`](Flow::due) and calls
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
    socket: UdpSocket,
    clock: RateClock,
    /// As long as the longest datagram.
    packet: Vec<u8>,
    interval: Duration,
    limit: u64,
    sent: u64,
    fired: PerSource<u64>,
    due: Timestamp,
    gaps: Gaps,
    train: Train,
    late: Recorder,
    causes: LateLog,
    trouble: SocketReport,
    /// Only for a timer that counts them.
    overruns: Option<u64>,
    /// How late the last datagram was.
    skew: Option<Duration>,
    retries: Retries,
    /// Nothing is sent: its departures are null events, whose cost is that of the timer alone.
    muted: bool,
    /// They have no number, and no receiver hears of them.
    null_events: u64,
}

impl Flow {
    /// A flow whose first datagram is due at `start`.
    pub(super) fn new(plan: &SendPlan, socket: UdpSocket, start: Timestamp) -> Result<Self, Failure> {
        let mut clock = plan.clock()?;
        let interval = plan.pace.rate.interval();
        Ok(Flow {
            socket,
            due: clock.start(start),
            clock,
            packet: vec![0; plan.size],
            interval,
            limit: plan.end.count.unwrap_or(u64::MAX),
            sent: 0,
            fired: PerSource::default(),
            gaps: Gaps::new(Some(interval)),
            train: Train::default(),
            late: Recorder::new(),
            causes: LateLog::new(LATE_FROM, start),
            trouble: SocketReport::default(),
            overruns: None,
            skew: None,
            retries: Retries::default(),
            muted: false,
            null_events: 0,
        })
    }

    /// Begins a new train at `now`: the time since the last departure is no delay.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.due = self.clock.start(now);
        self.train = Train::default();
    }

    /// Whether departures are null events from now on.
    pub(super) fn mute(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// When the next datagram may leave.
    pub(super) fn due(&self) -> Timestamp {
        self.due
    }

    /// Whether all that was asked for has left, or was given up.
    pub(super) fn finished(&self) -> bool {
        self.departures() >= self.limit || self.clock.is_over()
    }

    /// Datagrams that have left, and null events.
    pub(super) fn departures(&self) -> u64 {
        self.sent + self.null_events
    }

    /// Datagrams that have left.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends the due datagram at `now` and returns when the next one is due. `source` noticed it.
    ///
    /// A datagram that the kernel does not take for want of room keeps its place and is tried again a
    /// burst interval later; the schedule runs on, so what it delays is made up for or forfeited.
    ///
    /// # Errors
    /// What trying again cannot mend, such as a datagram too long for the path, or a destination that
    /// has been out of reach for more than a second.
    pub(super) fn depart(&mut self, now: Timestamp, source: TriggerState) -> io::Result<Timestamp> {
        if self.muted {
            self.null_events += 1;
            self.due = self.clock.departed(now);
            return Ok(self.due);
        }
        let place = self.clock.place();
        let header =
            Datagram::Data { flow: 0, sequence: self.sent, scheduled: place, interval: self.interval };
        header.write(&mut self.packet);
        if !self.transmit(now)? {
            self.due = now + Retries::after(self.clock.burst_interval());
            return Ok(self.due);
        }
        let departure = Departure { sent: now, due: self.due, place };
        self.count(departure, source);
        self.causes.ran(now, pause(&departure), source);
        self.due = self.clock.departed(now);
        Ok(self.due)
    }

    /// Counts a datagram that a signal's handler has sent, some time ago. Of a late one no cause is told:
    /// by now this thread's accounts say what it did since, not what held the signal up.
    pub(super) fn account(&mut self, departure: Departure) {
        self.count(departure, TriggerState::Backup);
    }

    /// Counts a datagram that has left. Lateness counts from the place. A pause just before it made it so
    /// if it left later than it might have; else the cause lies further back.
    #[inline]
    fn count(&mut self, departure: Departure, source: TriggerState) {
        self.sent += 1;
        self.fired[source] += 1;
        let lateness = departure.sent.saturating_duration_since(departure.place);
        self.late.record_duration(lateness);
        self.skew = Some(lateness);
        if pause(&departure) <= LATE_FROM {
            self.causes.caught_up(lateness);
        }
        self.gaps.record(&mut self.train, departure.sent);
    }

    /// Hands the schedule over to a signal's handler, from the first datagram on. What leaves is told
    /// to [`account`](Flow::account); [`taken_back`](Flow::taken_back) ends it.
    ///
    /// # Errors
    /// If this thread cannot have such a timer.
    pub(super) fn hand_over(&mut self, end: Timestamp) -> io::Result<SignalPacer> {
        let course = Course { start: self.due, end, limit: self.limit };
        let header = Datagram::Data { flow: 0, sequence: 0, scheduled: self.due, interval: self.interval };
        header.write(&mut self.packet);
        let stamps = Stamps { sequence: wire::SEQUENCE_AT, place: wire::SCHEDULED_AT };
        SignalPacer::start(&self.socket, self.packet.clone(), stamps, self.clock.clone(), course)
    }

    /// Takes the schedule back where the handler left it; how often it waited for its account to be
    /// taken.
    pub(super) fn taken_back(&mut self, pacer: &mut SignalPacer) -> u64 {
        self.clock = pacer.stop();
        let SignalCounts { would_block, no_buffers, refused, overruns, unread } = pacer.counts();
        self.trouble.would_block += would_block;
        self.trouble.no_buffers += no_buffers;
        self.trouble.refused += refused;
        self.overruns = Some(overruns);
        unread
    }

    /// Makes this thread the one whose accounts tell why a departure was late.
    pub(super) fn adopt(&mut self, now: Timestamp) {
        self.causes = LateLog::new(LATE_FROM, now);
    }

    /// Whether the kernel took the packet; `false` if it has no room for it now.
    fn transmit(&mut self, now: Timestamp) -> io::Result<bool> {
        let mut outcome = self.attempt();
        for _ in 1..Retries::ATTEMPTS {
            if !outcome.as_ref().is_err_and(is_about_an_earlier_datagram) {
                break;
            }
            self.socket.drain_errors()?;
            outcome = self.attempt();
        }
        match outcome {
            Err(error) if is_about_an_earlier_datagram(&error) => self.still_unreachable(now, error),
            outcome => {
                self.retries.reached();
                outcome
            }
        }
    }

    fn attempt(&mut self) -> io::Result<bool> {
        let length = self.clock.length().map_or(self.packet.len(), usize::from);
        let Err(error) = self.socket.send(&self.packet[..length]) else { return Ok(true) };
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => self.trouble.would_block += 1,
            Some(Errno::NOBUFS) => self.trouble.no_buffers += 1,
            _ => {
                self.trouble.refused += u64::from(is_about_an_earlier_datagram(&error));
                return Err(error);
            }
        }
        Ok(false)
    }

    /// A route may come back; one that does not ends the run.
    fn still_unreachable(&mut self, now: Timestamp, error: io::Error) -> io::Result<bool> {
        self.socket.drain_errors()?;
        if self.retries.refused(now) { Err(error) } else { Ok(false) }
    }

    /// Sends `bye` a few times, since it may be lost: a little apart, and each again while there is no
    /// room for it, for a bounded time in all. Whether one has left.
    pub(super) fn say_goodbye(&mut self, bye: &Datagram) -> bool {
        let bye = bye.encode();
        let deadline = Monotonic.now() + GOODBYE_TIME;
        let mut said = 0;
        while said < GOODBYES && Monotonic.now() < deadline {
            if self.socket.send(&bye).is_ok() {
                said += 1;
            }
            // Nothing to wait for but time; a signal that cuts it short does no harm.
            let _ = poll(&mut [], Some(&GOODBYE_GAP));
        }
        said > 0
    }

    pub(super) fn forfeited(&self) -> u64 {
        self.clock.forfeited()
    }

    /// Departures by the trigger state that noticed them due.
    pub(super) fn fired(&self) -> &PerSource<u64> {
        &self.fired
    }

    pub(super) fn gap_report(&self) -> GapReport {
        self.gaps.report()
    }

    pub(super) fn lateness(&self) -> &Recorder {
        &self.late
    }

    /// How late the last datagram was against its place; `None` before the first.
    pub(super) fn skew(&self) -> Option<Duration> {
        self.skew
    }

    /// Departures more than a millisecond late, by cause.
    pub(super) fn late_report(&self) -> Vec<(&'static str, LateReport)> {
        self.causes.iter().map(|(cause, counts)| (cause.name(), LateReport::from(counts))).collect()
    }

    /// Expiries for which no signal came; `None` for a timer without signals.
    pub(super) fn overruns(&self) -> Option<u64> {
        self.overruns
    }

    pub(super) fn trouble(&self) -> SocketReport {
        self.trouble
    }
}

/// How much later it left than it might have.
fn pause(departure: &Departure) -> Duration {
    departure.sent.saturating_duration_since(departure.due)
}

/// Lateness from which on it is worth knowing why.
const LATE_FROM: Duration = Duration::from_millis(1);
const GOODBYES: u32 = 3;
/// Apart, so that one full queue does not swallow them all.
const GOODBYE_GAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
const GOODBYE_TIME: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
