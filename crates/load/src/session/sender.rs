//! Where the datagrams of a run leave: one socket, perhaps a packet socket beside it, and the system calls that it took.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::UdpSocket;
use softtimers_net::udp::{
    PushError, Retries, Segmentation, SendBatch, SendOutcome, Stopped, is_about_an_earlier_datagram,
};

use crate::wire::{Datagram, GOODBYES};

use super::frames::{FramePath, Frames};
use super::refusals::Refusals;
use super::stats::Calls;

#[derive(Debug)]
pub(super) struct Sender {
    socket: UdpSocket,
    retries: Retries,
    /// Those that have not been counted yet.
    calls: Calls,
    /// Refusals of the destination.
    pub(super) refusals: Arc<Refusals>,
    /// Why the kernel did not cut a send into datagrams, if it was to.
    uncut: Option<io::Error>,
    /// The kernel keeps what is put into a batch until the time at which it is to leave.
    keeps_times: bool,
    /// The interface by which datagrams leave as frames, if they do.
    frames: Option<Box<Frames>>,
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
            frames: None,
        }
    }

    /// From now on datagrams leave as frames, where there is a way. Each has [room](Self::headroom) in front of it.
    pub(super) fn send_frames(&mut self, path: FramePath) -> io::Result<()> {
        self.frames = Some(Box::new(Frames::begin(path)?));
        Ok(())
    }

    /// The bytes that each packet has in front of its datagram, for the headers of a frame.
    pub(super) fn headroom(&self) -> usize {
        self.frames.as_ref().map_or(0, |frames| frames.headroom())
    }

    /// Returns how often the way of frames has changed; `None` if there are none.
    pub(super) fn way_changes(&self) -> Option<u64> {
        self.frames.as_ref().map(|frames| frames.changes())
    }

    /// Has the kernel keep each datagram of a batch until the time at which it is to leave.
    ///
    /// # Errors
    /// If it does not know how.
    pub(super) fn keep_times(&mut self) -> io::Result<()> {
        self.socket.enable_release_times()?;
        self.keeps_times = true;
        Ok(())
    }

    /// The system calls since this was last asked: what of the run's account the socket knows.
    pub(super) fn take_calls(&mut self) -> Calls {
        std::mem::take(&mut self.calls)
    }

    /// Counts calls that somebody else made on this socket.
    pub(super) fn add_calls(&mut self, calls: Calls) {
        self.refusals.heard_afterwards(calls.refused);
        self.calls += &calls;
    }

    /// Why what was to leave in one send did not, if so.
    pub(super) fn uncut(&self) -> Option<&io::Error> {
        self.uncut.as_ref()
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Puts a packet into a batch that is to leave at `time`: now, unless the kernel keeps it.
    pub(super) fn put(
        &self,
        batch: &mut SendBatch,
        packet: &mut [u8],
        time: Timestamp,
    ) -> Result<(), PushError> {
        if let Some(frames) = &self.frames {
            frames.complete(packet);
        }
        if self.keeps_times { batch.push_at(packet, None, time) } else { batch.push(packet, None) }
    }

    /// Returns whether the kernel took the packet; `false` if it has no room for it now.
    #[inline]
    pub(super) fn transmit(&mut self, packet: &mut [u8], now: Timestamp) -> io::Result<bool> {
        let headroom = match &mut self.frames {
            None => 0,
            Some(frames) => {
                let headroom = frames.headroom();
                if let Some(outcome) = frames.send(packet, now)
                    && let Some(taken) = self.framed(outcome)
                {
                    return Ok(taken);
                }
                headroom
            }
        };
        self.transmit_datagram(&packet[headroom..], now)
    }

    /// Counts a frame; whether the kernel took it, or `None` if the socket has to say more.
    fn framed(&mut self, outcome: io::Result<()>) -> Option<bool> {
        self.calls.calls += 1;
        let taken = match outcome {
            Ok(()) => {
                self.calls.frames += 1;
                true
            }
            Err(error) => {
                match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => self.calls.would_block += 1,
                    Some(Errno::NOBUFS) => self.calls.no_buffers += 1,
                    _ => return None,
                }
                false
            }
        };
        self.retries.reached();
        Some(taken)
    }

    fn transmit_datagram(&mut self, packet: &[u8], now: Timestamp) -> io::Result<bool> {
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

    /// A route may come back; one that does not ends the run.
    fn still_unreachable(&mut self, now: Timestamp, error: io::Error) -> io::Result<bool> {
        self.socket.drain_errors()?;
        if self.retries.refused(now) { Err(error) } else { Ok(false) }
    }

    /// Sends a batch in as few system calls as it takes; how many datagrams the kernel took, and what
    /// trying again cannot mend. What it has no room for stays in the batch.
    pub(super) fn transmit_batch(
        &mut self,
        batch: &mut SendBatch,
        now: Timestamp,
    ) -> (usize, io::Result<()>) {
        let framed = match self.frames.as_mut().and_then(|frames| frames.send_batch(batch, now)) {
            None => 0,
            Some(outcome) => match self.framed_batch(outcome) {
                (framed, false) => return (framed, Ok(())),
                (framed, true) => framed,
            },
        };
        let (sent, outcome) = self.transmit_datagrams(batch, now);
        (framed + sent, outcome)
    }

    /// Counts frames; how many left, and whether the socket has to say why no more did.
    fn framed_batch(&mut self, outcome: SendOutcome) -> (usize, bool) {
        self.calls.calls += outcome.calls as u64;
        self.calls.frames += outcome.sent as u64;
        match outcome.stopped {
            Some(Stopped::Error(_)) => return (outcome.sent, true),
            refused => {
                self.calls.would_block += u64::from(matches!(refused, Some(Stopped::WouldBlock)));
                self.calls.no_buffers += u64::from(matches!(refused, Some(Stopped::NoBuffers)));
            }
        }
        self.retries.reached();
        (outcome.sent, false)
    }

    fn transmit_datagrams(&mut self, batch: &mut SendBatch, now: Timestamp) -> (usize, io::Result<()>) {
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

    /// Counts `retried` that met an error that was gone when they were tried again, and of which the kernel does not
    /// always say what it was. An ICMP error is also in the queue of the socket; without one there a queue was full
    /// for a moment.
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

    /// Says the goodbyes of `flows` flows a few times, since they may be lost: a little apart, and each
    /// again while there is no room for it, for a bounded time in all. Returns whether one has left.
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

/// Nothing to wait for but time; a signal that cuts it short does no harm.
fn pause() {
    let gap = Timespec { tv_sec: 0, tv_nsec: GOODBYE_GAP.subsec_nanos().into() };
    let _ = poll(&mut [], Some(&gap));
}

/// The number that any receive buffer has room for.
const GOODBYES_AT_ONCE: u32 = 64;
/// Apart, so that one full queue does not swallow them all.
const GOODBYE_GAP: Duration = Duration::from_millis(1);
const GOODBYE_TIME: Duration = Duration::from_millis(200);
