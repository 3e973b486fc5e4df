//! One trial: a receiver, and a sender in another process. [`Bench::trial`].
//!
//! ```text
//!   CPU 1                                CPU 2
//!   softtimers send ── loopback ──▶ first stage ─▶ [queue ─▶ second stage] ── loopback ──▶ nobody reads it
//!                                        watcher: anything coming, anything finished?  (on CPU 1)
//! ```
//!
//! On loopback the sender's CPU does the kernel's receive work, so only the receiver's stages compete for the
//! receiver's CPU.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::setpriority_process;
use softtimers::{Clock, Monotonic};
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::{Kept, Processor};
use softtimers_net::udp::UdpSocket;
use softtimers_poll::{Progress, ProgressConfig};

use super::filter::Filter;
use super::load::{self, Offer, Offered};
use super::naive::{self, Next};
use super::point::Point;
use super::polled;
use super::queue::Queue;
use super::receiver::{Receiver, Stage};
use super::second::SecondStage;
use super::stats::Stats;
use super::window::{Busy, Window};
use crate::mode::Mode;

/// A bench that measures a receiver.
#[derive(Debug)]
pub struct Bench {
    plan: Receiver,
    filter: Filter,
    /// The program `softtimers`, which sends.
    program: PathBuf,
    /// The sender's and the receiver's CPU, if there are two.
    processors: Option<[usize; 2]>,
    /// The receive buffer that the system granted to the last trial, in bytes.
    recv_buffer: usize,
}

impl Bench {
    /// Creates a bench that has measured nothing yet. `program` is `softtimers`, whose `send` is the sender of each
    /// trial.
    pub fn new(plan: Receiver, program: PathBuf) -> Self {
        let filter = Filter::new(plan.rules as usize);
        Bench { plan, filter, program, processors: Processor::two(), recv_buffer: plan.recv_buffer }
    }

    /// Measures the filter's cost per datagram on the receiver's CPU.
    ///
    /// # Errors
    /// A check failure if the system refuses to pin this thread to that CPU.
    pub fn work_cost(&self) -> Result<Duration, Failure> {
        let kept = self.keep(1).map_err(|error| Failure::broke_off("measuring the filter", &error))?;
        let cost = self.filter.cost();
        drop(kept);
        Ok(cost)
    }

    /// Returns whether sender and receiver have a CPU each.
    pub fn has_two_processors(&self) -> bool {
        self.processors.is_some()
    }

    /// Returns the size of the receive buffer in the last trial, in bytes.
    pub fn recv_buffer(&self) -> usize {
        self.recv_buffer
    }

    /// Offers `offer` to a fresh receiver.
    ///
    /// # Errors
    /// A check failure if the system or the sender fails.
    pub fn trial(&mut self, offer: Offer) -> Result<Point, Failure> {
        let broke_off = |error: io::Error| Failure::broke_off("receiving", &error);
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(broke_off)?;
        self.recv_buffer = socket.request_recv_buffer(self.plan.recv_buffer).map_err(broke_off)?;
        let sink = UdpSocket::bind("127.0.0.1:0").map_err(broke_off)?;
        let [address, sink_address] = [&socket, &sink].map(UdpSocket::local_addr);
        let (address, sink_address) = (address.map_err(broke_off)?, sink_address.map_err(broke_off)?);
        let (bench, window) = (&*self, &Window::new(offer.length));
        let (stop, stopped) = UnixStream::pair().map_err(broke_off)?;
        let (ready, is_ready) = mpsc::channel();
        let stage = Stage {
            plan: &bench.plan,
            filter: &bench.filter,
            window,
            stop: stopped.try_clone().map_err(broke_off)?,
            ready,
        };
        thread::scope(|scope| {
            // Otherwise the threads would run for ever, even when one of them cannot be started.
            let over = Over { window, _stop: stop };
            let start = || thread::Builder::new();
            let receives = move || bench.keep(1).and_then(|_kept| stages(&stage, socket, sink_address));
            let stages = start().spawn_scoped(scope, receives).map_err(broke_off)?;
            let watches = move || bench.keep(0).and_then(|_kept| watch(window, &stopped));
            let watcher = start().spawn_scoped(scope, watches).map_err(broke_off)?;
            let computes = move || bench.keep(1).and_then(|_kept| compute(window));
            let beside = bench.plan.computes.then(|| start().spawn_scoped(scope, computes));
            let beside = beside.transpose().map_err(broke_off)?;
            let here = bench.processors.map(|[here, _]| here);
            // A receiver that has failed says so when it is joined.
            let _ = is_ready.recv();
            let offered = load::send(&bench.program, address, &offer, here, window);
            drop(over);
            // Join all of them, even if one has failed.
            let (stages, watcher) = (join(stages), join(watcher));
            let beside = beside.map(join).transpose().map_err(broke_off)?;
            let mut stats = stages.map_err(broke_off)?;
            stats += &watcher.map_err(broke_off)?;
            stats.beside = beside.unwrap_or_default();
            Ok(bench.point(&offer, &offered?, window, &stats))
        })
    }
}

/// Ends the threads of a trial when dropped.
struct Over<'a> {
    window: &'a Window,
    /// Closing it tells the other end.
    _stop: UnixStream,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.window.over.store(true, Ordering::Relaxed);
    }
}

fn join<T>(handle: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the trial panicked")))
}

impl Bench {
    /// Pins the calling thread to the sender's or the receiver's CPU.
    fn keep(&self, which: usize) -> io::Result<Option<Kept>> {
        let Some(processors) = self.processors else { return Ok(None) };
        Processor::new(processors[which]).map_err(io::Error::other)?.keep().map(Some)
    }

    fn point(&self, offer: &Offer, offered: &Offered, window: &Window, stats: &Stats) -> Point {
        let length = window.length();
        let [delivered, in_time] = [&window.delivered, &window.in_time].map(|n| n.load(Ordering::Relaxed));
        // A datagram may wait in the receiver for this long, at any rate.
        let waits = self.plan.looking.max_delay().unwrap_or_default();
        let keeps_up =
            keeps_up(offered.sent, delivered - in_time, waits.as_secs_f64() / length.as_secs_f64());
        Point {
            target_pps: offer.rate,
            offered_pps: offered.pps,
            burst: offer.burst,
            sent: offered.sent,
            delivered,
            delivered_pps: in_time as f64 / length.as_secs_f64(),
            late: delivered - in_time,
            loss_free: delivered == offered.sent && keeps_up,
            beside_share: self.plan.computes.then(|| stats.beside.as_secs_f64() / length.as_secs_f64()),
            ..Point::from_stats(stats, length)
        }
    }
}

/// Runs the receiver: in this thread, and one more if there are two stages.
fn stages(stage: &Stage<'_>, socket: UdpSocket, sink: SocketAddr) -> io::Result<Stats> {
    let naive = stage.plan.looking.mode() == Mode::NAIVE;
    if stage.plan.stages == 1 {
        return if naive {
            let second = SecondStage::new(stage.filter, sink, stage.window)?;
            naive::run(stage, &socket, Next::Here(Box::new(second)))
        } else {
            polled::run(stage, socket, sink, None)
        };
    }
    let queue = Queue::new()?;
    let second = SecondStage::new(stage.filter, sink, stage.window)?;
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, || second.run(&queue, stage.plan.nice))?;
        let first = if naive {
            naive::run(stage, &socket, Next::Behind(&queue))
        } else {
            polled::run(stage, socket, sink, Some(&queue))
        };
        queue.close();
        let second = thread.join().map_err(|_| io::Error::other("the second stage panicked"))?;
        let mut stats = first?;
        stats += &second?;
        Ok(stats)
    })
}

/// Computes with a nice value of 19 until the window is over, and returns the CPU time it got within it.
///
/// # Errors
/// If the system refuses the nice value.
pub fn compute(window: &Window) -> io::Result<Duration> {
    // Zero for this thread only: on Linux each has its own.
    setpriority_process(None, 19)?;
    let from = SocketAddr::from(([127, 0, 0, 1], 9));
    let (work, mut busy) = (Filter::new(10_000), Busy::default());
    while !window.over.load(Ordering::Relaxed) {
        std::hint::black_box(work.accepts(from, &[1; 64]));
        busy.look(window, Monotonic.now());
    }
    Ok(busy.used())
}

/// Checks every two milliseconds for input without progress.
fn watch(window: &Window, stop: &UnixStream) -> io::Result<Stats> {
    let mut progress = Progress::new(ProgressConfig::detector(DETECTED));
    let mut stats = Stats::default();
    while !closed_within(stop, LOOK)? {
        let now = Monotonic.now();
        let [received, delivered] = [&window.received, &window.delivered].map(|n| n.load(Ordering::Relaxed));
        progress.observe(now, received, delivered);
        if window.is_on(now) == Some(true) {
            stats.looks += 1;
            stats.stalled += u64::from(progress.is_stalled());
        }
    }
    stats.episodes = progress.episodes();
    Ok(stats)
}

/// Says whether the other end is dropped within this time.
fn closed_within(stop: &UnixStream, time: Duration) -> io::Result<bool> {
    let time = time.try_into().map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&time)) {
        Ok(found) => Ok(found > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Says whether a trial of `sent` datagrams left no growing queue behind: a receiver with capacity `c` that is sent `r`
/// leaves the share `(r - c) / r` when the trial is over, whatever its length and the size of its buffers. `waits` is
/// the share of the trial that a datagram may wait at any rate.
fn keeps_up(sent: u64, late: u64, waits: f64) -> bool {
    late as f64 <= sent as f64 * LATE.max(waits)
}

/// Twice the search's precision. In a trial of half a second it is 10 ms, for which another thread may take the CPU.
const LATE: f64 = 0.02;
const LOOK: Duration = Duration::from_millis(2);
const DETECTED: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver of 3,200 datagrams a second, whose buffer holds all that exceed it.
    #[test]
    fn what_a_buffer_absorbs_is_not_kept_up_with() {
        for seconds in [1, 10] {
            for rate in [100, 3_000, 3_200, 3_260, 3_300, 3_495, 6_400, 15_390] {
                let sent = rate * seconds;
                let late = sent - sent.min(3_200 * seconds);
                assert_eq!(keeps_up(sent, late, 0.0), rate < 3_270, "{rate}, of which {late} are late");
            }
        }
        // The last of them, in the poll that follows the end.
        assert!(keeps_up(43, 4, 0.1) && !keeps_up(43, 4, 0.0) && keeps_up(103, 0, 0.0));
    }
}
