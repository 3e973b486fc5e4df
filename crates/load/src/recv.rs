//! `recv`: the other side, which measures what arrived and when.
//!
//! The times are the kernel's, taken when the network stack first sees a packet. So the receiver need not be quick, and
//! should not be: a wake-up for each datagram would take CPU time from the sender that is measured. It sleeps until a
//! datagram comes, then naps up to a millisecond while more gather in a large buffer, and reads all of them at once.
//! While datagrams keep coming only the clock wakes it, so that a sender on the same machine does not pay for waking
//! it:
//!
//! ```text
//!   wait for the first ─▶ nap ≤ 1 ms ─▶ drain ─▶ nap … ─▶ nothing came ─▶ wait …
//!         0 CPU           shorter if the buffer filled by a quarter
//! ```

pub(crate) mod agreements;
mod flow;
pub(crate) mod ledger;
mod report;
mod rtp;
mod sequence;
mod silence;
mod stats;
mod strip;
mod together;
mod variation;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use softtimers::Monotonic;
use softtimers_core::{Clock, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::processor::Processor;
use softtimers_measure::stats::Counter;
use softtimers_measure::units::show_duration;
use softtimers_net::udp::{RecvBatch, UdpSocket};

use crate::traffic::End;
use crate::wire::VERSION;
use ledger::Ledger;
pub use ledger::MOST_FLOWS;
pub use report::{FlowReport, FlowsReport, RecvReport};
use silence::silence;
pub use stats::{CountFigures, Counts, RecvFigures, RecvStats};
use strip::Strip;

/// A run of `recv`.
#[derive(Clone, PartialEq, Debug)]
pub struct RecvPlan {
    /// The address to listen at; port 0 for any.
    pub local: SocketAddr,
    /// When the run ends: as soon as either bound is reached, or on a signal.
    pub end: End,
    /// Also ends the run when every sender heard has sent its goodbyes.
    pub once: bool,
    /// Counts every sender, agreed or not, and several at a time, and measures any program's datagrams.
    pub any: bool,
    /// Reads other programs' traffic as RTP, whose numbers tell loss and order. Only with `any`.
    pub rtp: bool,
    /// The interval to judge gaps by, instead of the senders' own.
    pub expect_interval: Option<Duration>,
    /// When, after the first datagram, to keep a stretch of gaps, if one is wanted.
    pub strip_after: Option<Duration>,
    /// The CPU to pin the receiver to.
    pub cpu: Option<Processor>,
}

impl RecvPlan {
    /// Returns the statistics of a run of this plan, with nothing counted.
    pub fn stats(&self) -> RecvStats {
        RecvStats::new(self.expect_interval)
    }
}

/// The `config` object of `recv`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct RecvConfig {
    /// The address that was bound, with the port in use.
    pub address: String,
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
    /// The most datagrams; `null` for no bound.
    pub count: Option<u64>,
    /// Whether the run ends when all senders have.
    pub once: bool,
    /// The interval that gaps were judged by; `null` if unknown.
    pub interval_ns: Option<u64>,
    /// Whether every sender is counted, agreed or not, and any program's datagrams are measured.
    pub any: bool,
    /// Whether other programs' datagrams are read as RTP.
    pub rtp: bool,
    /// The CPU that the receiver is pinned to; `null` for any.
    pub cpu: Option<usize>,
    /// The size of the receive buffer that was granted.
    pub recv_buffer_bytes: usize,
}

/// A listening receiver.
#[derive(Debug)]
pub struct Receiver<'a> {
    plan: &'a RecvPlan,
    socket: UdpSocket,
    batch: RecvBatch,
    ledger: Ledger,
    config: RecvConfig,
    fallbacks: Vec<String>,
    nap: Duration,
    /// Whether the last nap brought nothing.
    quiet: bool,
    /// Some datagram carried no receive timestamp.
    unstamped: bool,
}

impl<'a> Receiver<'a> {
    /// Binds the plan's address, without receiving yet.
    ///
    /// # Errors
    /// The system's error for the address; not-possible if it has no UDP sockets.
    pub fn bind(plan: &'a RecvPlan) -> Result<Self, BindError> {
        let socket = UdpSocket::bind(plan.local).map_err(BindError::Address)?;
        let Prepared { address, recv_buffer_bytes, fallbacks } =
            prepare(&socket).map_err(BindError::Socket)?;
        Ok(Receiver {
            plan,
            socket,
            batch: RecvBatch::new(BATCH, LONGEST_DATAGRAM),
            ledger: Ledger::new(plan.expect_interval, plan.any)
                .reading_rtp(plan.rtp)
                .with_strip(plan.strip_after.map(Strip::after)),
            config: RecvConfig { address, recv_buffer_bytes, ..RecvConfig::default() },
            fallbacks,
            nap: LONGEST_NAP,
            quiet: true,
            unstamped: false,
        })
    }

    /// Returns the address in use.
    pub fn address(&self) -> &str {
        &self.config.address
    }

    /// The configuration in effect, for the report.
    pub fn config(&self) -> RecvConfig {
        let plan = self.plan;
        RecvConfig {
            duration_s: plan.end.duration.map(|duration| duration.as_secs_f64()),
            count: plan.end.count,
            once: plan.once,
            any: plan.any,
            rtp: plan.rtp,
            cpu: plan.cpu.map(Processor::number),
            interval_ns: self.ledger.target().and_then(|target| u64::try_from(target.as_nanos()).ok()),
            ..self.config.clone()
        }
    }

    /// Receives until the plan's end, or until `interrupt` reports a signal.
    ///
    /// # Errors
    /// A check failure if the system fails meanwhile. The [report](Self::report) has the counts until then.
    pub fn receive(&mut self, interrupt: &Interrupt, counter: Counter<RecvStats>) -> Result<(), Failure> {
        let plan = self.plan;
        let blank = Ledger::new(None, false);
        self.ledger = std::mem::replace(&mut self.ledger, blank).counting_in(counter);
        let _kept = plan
            .cpu
            .map(Processor::keep)
            .transpose()
            .map_err(|error| Failure::broke_off("keeping to a CPU", &error))?;
        let start = Monotonic.now();
        let end = plan.end.duration.map(|duration| start + duration);
        let most = plan.end.count.unwrap_or(u64::MAX);
        let mut heard = Heard { at: start, received: 0 };
        let broke_off = |error: io::Error| Failure::broke_off("receiving", &error);
        loop {
            let silent_at = if plan.once { self.silent_at(heard) } else { None };
            let wake = [end, silent_at].into_iter().flatten().min();
            let left = wake.map(|wake| wake.saturating_duration_since(Monotonic.now()));
            if self.quiet {
                wait(&[self.socket.as_fd(), interrupt.as_fd()], left).map_err(broke_off)?;
            }
            let nap = left.map_or(self.nap, |left| left.min(self.nap));
            wait(&[interrupt.as_fd()], Some(nap)).map_err(broke_off)?;
            // However the run ends, datagrams that have arrived by now are counted.
            let now = Monotonic.now();
            let over = interrupt.arrived() || end.is_some_and(|end| now >= end);
            self.drain(most).map_err(broke_off)?;
            heard.update(self.ledger.received(), now);
            if over || self.ledger.received() >= most || (plan.once && self.ledger.all_ended()) {
                break;
            }
            if plan.once && self.silent_at(heard).is_some_and(|silent| now >= silent) {
                let silence = show_duration(silence(self.ledger.target()));
                self.fallbacks.push(format!("some flow never said goodbye; ended by {silence} of silence"));
                break;
            }
        }
        if let Some(version) = self.ledger.other_version() {
            self.fallbacks.push(format!(
                "received format {version}; this program reads format {VERSION}: use the same version at both ends"
            ));
        }
        if self.unstamped {
            self.fallbacks.push("no kernel receive timestamps; gaps are those of reading".to_owned());
        }
        Ok(())
    }

    /// Returns when to stop waiting, unless a datagram comes until then; `None` before the first traffic.
    fn silent_at(&self, heard: Heard) -> Option<Timestamp> {
        (heard.received > 0).then(|| heard.at + silence(self.ledger.target()))
    }

    /// Receives until the socket is empty, `most` datagrams have been counted, or a flood has kept it here for long
    /// enough: the end of the run must be noticed too.
    fn drain(&mut self, most: u64) -> io::Result<()> {
        let mut occupied = 0;
        for _ in 0..MOST_BATCHES {
            match self.socket.recv_batch(&mut self.batch) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            for datagram in self.batch.iter() {
                if self.ledger.received() >= most {
                    return Ok(());
                }
                occupied += datagram.payload.len() * 2 + OVERHEAD;
                let time = datagram.received.unwrap_or_else(|| {
                    self.unstamped = true;
                    Monotonic.now()
                });
                if let Some(answer) = self.ledger.take(datagram.from, datagram.payload, time) {
                    // If the answer is lost, the sender asks again.
                    let _ = match self.ledger.receipt(datagram.from, &answer, datagram.payload, time) {
                        Some(receipt) => self.socket.send_to(&receipt.encode(&answer), datagram.from),
                        None => self.socket.send_to(&answer.encode(), datagram.from),
                    };
                }
            }
            if self.batch.len() < self.batch.capacity() {
                break;
            }
        }
        self.quiet = occupied == 0;
        self.nap = next_nap(self.nap, occupied, self.config.recv_buffer_bytes);
        Ok(())
    }

    /// Returns the fallbacks: each is a sentence that says what did not work as requested, and what was done instead.
    pub fn fallbacks(&self) -> &[String] {
        &self.fallbacks
    }

    /// Returns the findings so far.
    pub fn report(&self) -> RecvReport {
        RecvReport { socket_drops: self.socket.drops().ok().map(u64::from), ..self.ledger.report() }
    }
}

/// Why a receiver cannot listen.
#[derive(Debug)]
pub enum BindError {
    /// The system's error about the address.
    Address(io::Error),
    /// The system's error about the socket.
    Socket(io::Error),
}

/// When datagrams last came.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Timestamp,
    received: u64,
}

impl Heard {
    fn update(&mut self, received: u64, now: Timestamp) {
        if received > self.received {
            *self = Heard { at: now, received };
        }
    }
}

struct Prepared {
    address: String,
    recv_buffer_bytes: usize,
    fallbacks: Vec<String>,
}

fn prepare(socket: &UdpSocket) -> io::Result<Prepared> {
    socket.set_nonblocking(true)?;
    let mut fallbacks = Vec::new();
    if let Err(error) = socket.set_timestamps(true) {
        fallbacks.push(format!("kernel receive timestamps cannot be switched on ({error})"));
    }
    let recv_buffer_bytes = socket.request_recv_buffer(WANTED_BUFFER)?;
    if recv_buffer_bytes < WANTED_BUFFER {
        fallbacks.push(format!(
            "a receive buffer of {recv_buffer_bytes} bytes was granted where {WANTED_BUFFER} were asked for; \
             raise net.core.rmem_max if datagrams are dropped"
        ));
    }
    Ok(Prepared { address: socket.local_addr()?.to_string(), recv_buffer_bytes, fallbacks })
}

/// Sleeps until one of `sources` is readable, or for `most`.
fn wait(sources: &[BorrowedFd<'_>], most: Option<Duration>) -> io::Result<()> {
    let mut sources: Vec<PollFd<'_>> =
        sources.iter().map(|source| PollFd::new(source, PollFlags::IN)).collect();
    let most = most.and_then(|most| Timespec::try_from(most).ok());
    match poll(&mut sources, most.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Halves the nap if the buffer filled by a quarter during it, and doubles it otherwise.
fn next_nap(nap: Duration, occupied: usize, buffer: usize) -> Duration {
    let nap = if occupied > buffer / 4 { nap / 2 } else { nap * 2 };
    nap.clamp(SHORTEST_NAP, LONGEST_NAP)
}

/// With [`BATCH`] 65,536 datagrams, some tens of milliseconds.
const MOST_BATCHES: usize = 256;

/// The longest that a nap may delay reading; the kernel's timestamps are unaffected.
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// Below this a nap costs as much as it saves.
const SHORTEST_NAP: Duration = Duration::from_micros(50);

/// Room for 60 ms at 100,000 packets/s of 1,200 bytes: longer than an ordinary stall of the scheduler.
const WANTED_BUFFER: usize = 16 << 20;

/// Bytes that the kernel charges to the buffer for a datagram, besides about twice its payload.
const OVERHEAD: usize = 1_024;

const BATCH: usize = 256;
const LONGEST_DATAGRAM: usize = crate::wire::MAX_SIZE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_traffic_breaks_the_silence() {
        let seconds = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let mut heard = Heard { at: Timestamp::ZERO, received: 0 };
        heard.update(5, seconds(1));
        heard.update(5, seconds(2));
        assert_eq!((heard.at, heard.received), (seconds(1), 5));
    }

    #[test]
    fn naps_follow_the_buffer() {
        let full = next_nap(LONGEST_NAP, 60_000, 200_000);
        assert_eq!(full, LONGEST_NAP / 2);
        assert_eq!(next_nap(full, 10_000, 200_000), LONGEST_NAP);
        assert_eq!(next_nap(SHORTEST_NAP, 200_000, 200_000), SHORTEST_NAP);
        assert_eq!(next_nap(LONGEST_NAP, 0, 200_000), LONGEST_NAP);
    }
}
