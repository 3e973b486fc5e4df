//! One paced flow: when its next datagram is due, and an account of all that left.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use softtimers::late::LateLog;
use softtimers::{RateClock, Timestamp, TriggerState, UdpSocket};

use crate::distribution::Recorder;
use crate::failure::Failure;
use crate::gaps::{GapReport, Gaps, Train};
use crate::plan::SendPlan;
use crate::wire::Datagram;

use super::report::{LateReport, SocketReport};

/// A flow in progress. Its engine asks when the next datagram is [`due`](Flow::due) and calls
/// [`depart`](Flow::depart) at that time or as soon after it as it notices.
#[derive(Debug)]
pub(super) struct Flow {
    socket: UdpSocket,
    clock: RateClock,
    packet: Vec<u8>,
    interval: Duration,
    limit: u64,
    sent: u64,
    due: Timestamp,
    gaps: Gaps,
    train: Train,
    late: Recorder,
    causes: LateLog,
    trouble: SocketReport,
}

impl Flow {
    /// A flow whose first datagram is due at `start`.
    pub(super) fn new(plan: &SendPlan, socket: UdpSocket, start: Timestamp) -> Result<Self, Failure> {
        let mut clock = RateClock::new(plan.pace).map_err(Failure::usage)?;
        let interval = plan.pace.rate.interval();
        Ok(Flow {
            socket,
            due: clock.start(start),
            clock,
            packet: vec![0; plan.size],
            interval,
            limit: plan.end.count.unwrap_or(u64::MAX),
            sent: 0,
            gaps: Gaps::new(Some(interval)),
            train: Train::default(),
            late: Recorder::new(),
            causes: LateLog::new(LATE_FROM, start),
            trouble: SocketReport::default(),
        })
    }

    /// When the next datagram may leave.
    pub(super) fn due(&self) -> Timestamp {
        self.due
    }

    /// Whether all that was asked for has left.
    pub(super) fn finished(&self) -> bool {
        self.sent >= self.limit
    }

    /// Datagrams that have left.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends the due datagram at `now` and returns when the next one is due. `source` noticed it.
    ///
    /// A datagram that the kernel does not take for want of room stays due: it is tried again a burst
    /// interval later, and the schedule runs on, so it is made up for or counted as forfeited.
    ///
    /// # Errors
    /// What trying again cannot mend, such as a datagram too long for the path.
    pub(super) fn depart(&mut self, now: Timestamp, source: TriggerState) -> io::Result<Timestamp> {
        let lateness = now.saturating_duration_since(self.due);
        let header =
            Datagram::Data { flow: 0, sequence: self.sent, scheduled: self.due, interval: self.interval };
        header.write(&mut self.packet);
        if !self.transmit()? {
            self.due = now + self.clock.burst_interval().max(SHORTEST_RETRY);
            return Ok(self.due);
        }
        self.sent += 1;
        self.late.record_duration(lateness);
        self.causes.ran(now, lateness, source);
        self.gaps.record(&mut self.train, now);
        self.due = self.clock.departed(now);
        Ok(self.due)
    }

    /// Whether the kernel took the packet; `false` if it has no room for it now.
    fn transmit(&mut self) -> io::Result<bool> {
        for _ in 0..MOST_REFUSALS {
            let Err(error) = self.socket.send(&self.packet) else { return Ok(true) };
            match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => {
                    self.trouble.would_block += 1;
                    return Ok(false);
                }
                Some(Errno::NOBUFS) => {
                    self.trouble.no_buffers += 1;
                    return Ok(false);
                }
                // The ICMP answer to an earlier datagram; this one has not been looked at.
                Some(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::INTR) => {
                    self.trouble.refused += 1;
                    self.socket.drain_errors()?;
                }
                _ => return Err(error),
            }
        }
        Ok(false)
    }

    /// Sends `bye` a few times: it is not paced, nobody answers it, and it may be lost.
    pub(super) fn say_goodbye(&mut self, bye: &Datagram) {
        for _ in 0..GOODBYES {
            let _ = self.socket.send(&bye.encode());
        }
    }

    pub(super) fn forfeited(&self) -> u64 {
        self.clock.forfeited()
    }

    pub(super) fn gap_report(&self) -> GapReport {
        self.gaps.report()
    }

    pub(super) fn lateness(&self) -> &Recorder {
        &self.late
    }

    /// Departures more than a millisecond late, by cause.
    pub(super) fn late_report(&self) -> Vec<(&'static str, LateReport)> {
        self.causes.iter().map(|(cause, counts)| (cause.name(), LateReport::from(counts))).collect()
    }

    pub(super) fn trouble(&self) -> SocketReport {
        self.trouble
    }
}

/// Lateness from which on it is worth knowing why.
const LATE_FROM: Duration = Duration::from_millis(1);
/// Trying a full buffer again sooner than this only burns the core that should empty it.
const SHORTEST_RETRY: Duration = Duration::from_micros(10);
/// Each refusal is about one earlier datagram; more in a row mean that none gets through for now.
const MOST_REFUSALS: u32 = 3;
const GOODBYES: u32 = 3;
