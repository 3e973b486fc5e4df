//! Sending the datagrams of a run: one socket, and the system calls used.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::udp::UdpSocket;
use softtimers_net::udp::{
    PushError, Retries, Segmentation, SendBatch, Stopped, is_about_an_earlier_datagram,
};

use crate::wire::{Datagram, GOODBYES};

use super::refusals::Refusals;
use super::stats::Calls;

#[derive(Debug)]
pub(super) struct Sender {
    socket: UdpSocket,
    retries: Retries,
    /// Calls not counted yet.
    calls: Calls,
    /// Refusals of the destination.
    pub(super) refusals: Arc<Refusals>,
    /// Why the kernel did not segment a send, if it was to.
    uncut: Option<io::Error>,
    /// Whether the kernel keeps datagrams of a batch until their release times.
    keeps_times: bool,
}

impl Sender {
    pub(super) fn new(socket: UdpSocket) -> Self {
        Sender {
            socket,
            retries: Retries::default(),
            calls: Calls::default(),
            refusals: Arc::default(),
            uncut: None,
            keeps_times: false,
        }
    }

    /// Makes the kernel keep each datagram of a batch until its release time.
    ///
    /// # Errors
    /// If the kernel does not support it.
    pub(super) fn keep_times(&mut self) -> io::Result<()> {
        self.socket.enable_release_times()?;
        self.keeps_times = true;
        Ok(())
    }

    /// Returns the system calls since the last call.
    pub(super) fn take_calls(&mut self) -> Calls {
        std::mem::take(&mut self.calls)
    }

    /// Counts calls that other code made on this socket.
    pub(super) fn add_calls(&mut self, calls: Calls) {
        self.refusals.heard_afterwards(calls.refused);
        self.calls += &calls;
    }

    /// Returns why a segmented send failed, if it did.
    pub(super) fn uncut(&self) -> Option<&io::Error> {
        self.uncut.as_ref()
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Puts a packet into a batch that leaves at `time`: now, unless the kernel keeps it.
    pub(super) fn put(&self, batch: &mut SendBatch, packet: &[u8], time: Timestamp) -> Result<(), PushError> {
        if self.keeps_times { batch.push_at(packet, None, time) } else { batch.push(packet, None) }
    }

    /// Sends a packet; returns `false` if the kernel has no room for it now.
    #[inline]
    pub(super) fn transmit(&mut self, packet: &[u8], now: Timestamp) -> io::Result<bool> {
        let mut outcome = self.attempt(packet);
        for _ in 1..Retries::ATTEMPTS {
            if !outcome.as_ref().is_err_and(is_about_an_earlier_datagram) {
                break;
            }
            self.socket.drain_errors()?;
            outcome = self.attempt(packet);
        }
        match outcome {
            Err(error) if is_about_an_earlier_datagram(&error) => self.still_unreachable(now, error),
            outcome => {
                self.retries.reached();
                outcome
            }
        }
    }

    fn attempt(&mut self, packet: &[u8]) -> io::Result<bool> {
        self.calls.calls += 1;
        let Err(error) = self.socket.send(packet) else { return Ok(true) };
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => self.calls.would_block += 1,
            Some(Errno::NOBUFS) => self.calls.no_buffers += 1,
            _ => {
                if is_about_an_earlier_datagram(&error) {
                    self.count_refused(1, Some(&error));
                }
                return Err(error);
            }
        }
        Ok(false)
    }

    /// Tolerates an unreachable destination for a while: a route may come back, or the run ends.
    fn still_unreachable(&mut self, now: Timestamp, error: io::Error) -> io::Result<bool> {
        self.socket.drain_errors()?;
        if self.retries.refused(now) { Err(error) } else { Ok(false) }
    }

    /// Sends a batch in as few system calls as possible; returns how many datagrams the kernel accepted, and an error
    /// that a retry cannot mend. Datagrams without room stay in the batch.
    pub(super) fn transmit_batch(
        &mut self,
        batch: &mut SendBatch,
        now: Timestamp,
    ) -> (usize, io::Result<()>) {
        let outcome = self.socket.send_batch(batch);
        self.count_retried(outcome.retried);
        self.calls.calls += outcome.calls as u64;
        self.calls.segments += outcome.segments as u64;
        if let (Segmentation::Refused(why), None) = (batch.segmentation(), &self.uncut) {
            self.uncut =
                Some(why.raw_os_error().map_or_else(|| why.kind().into(), io::Error::from_raw_os_error));
        }
        if outcome.sent > 0 {
            self.retries.reached();
        }
        let stopped = match outcome.stopped {
            Some(Stopped::Error(error)) if is_about_an_earlier_datagram(&error) => {
                self.count_refused(1, Some(&error));
                self.still_unreachable(now, error).map(drop)
            }
            Some(Stopped::Error(error)) => Err(error),
            refused => {
                self.calls.would_block += u64::from(matches!(refused, Some(Stopped::WouldBlock)));
                self.calls.no_buffers += u64::from(matches!(refused, Some(Stopped::NoBuffers)));
                self.retries.reached();
                Ok(())
            }
        };
        (outcome.sent, stopped)
    }

    /// Counts `retried` datagrams whose error was gone at the second attempt. The kernel does not always say what it
    /// was: an ICMP error is also in the socket's queue; without one there, a queue was full for a moment.
    fn count_retried(&mut self, retried: usize) {
        if retried > 0 {
            let refused = self.socket.drain_errors().map_or(retried, |queued| queued.min(retried));
            self.count_refused(refused as u64, None);
            self.calls.no_buffers += (retried - refused) as u64;
        }
    }

    fn count_refused(&mut self, count: u64, error: Option<&io::Error>) {
        self.calls.refused += count;
        self.refusals.heard(count, error);
    }

    /// Sends the goodbyes of `flows` flows a few times, since they may be lost: a little apart, and again while there
    /// is no room, for a bounded time. Returns whether one has left.
    pub(super) fn say_goodbye(&self, flows: u32, bye: impl Fn(u32) -> Datagram) -> bool {
        let pauses = GOODBYES * flows.div_ceil(GOODBYES_AT_ONCE);
        let deadline = Monotonic.now() + GOODBYE_TIME + 2 * pauses * GOODBYE_GAP;
        let mut said = 0u32;
        for flow in (0..GOODBYES).flat_map(|_| 0..flows) {
            let bye = bye(flow).encode();
            while self.socket.send(&bye).is_err() {
                if Monotonic.now() >= deadline {
                    return said > 0;
                }
                pause();
            }
            said += 1;
            if (flow + 1) % GOODBYES_AT_ONCE == 0 || flow + 1 == flows {
                pause();
            }
        }
        said > 0
    }
}

/// Waits a little; an interruption does no harm.
fn pause() {
    let gap = Timespec { tv_sec: 0, tv_nsec: GOODBYE_GAP.subsec_nanos().into() };
    let _ = poll(&mut [], Some(&gap));
}

/// The number that any receive buffer has room for.
const GOODBYES_AT_ONCE: u32 = 64;
/// Apart, so that one full queue does not swallow all of them.
const GOODBYE_GAP: Duration = Duration::from_millis(1);
const GOODBYE_TIME: Duration = Duration::from_millis(200);
