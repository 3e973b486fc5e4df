//! One trial: a receiver, a sender in another process, and what came of it. [`Bench::trial`].
//!
//! ```text
//!   processor 1                          processor 2
//!   softtimers send ── loopback ──▶ first stage ─▶ [queue ─▶ second stage] ── loopback ──▶ nobody reads it
//!                                        watcher: anything coming, anything finished?  (on processor 1)
//! ```
//!
//! On loopback the kernel's own receive work is done where the sender runs, so what competes for the receiver's
//! processor is the receiver's stages only.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::setpriority_process;
use softtimers::poll::{Progress, ProgressConfig};
use softtimers::{Clock, Monotonic};
use softtimers_net::udp::UdpSocket;

use super::filter::Filter;
use super::first::Ended;
use super::load::{self, Offer, Offered};
use super::naive::{self, Next};
use super::polled;
use super::queue::Queue;
use super::report::{DropCounts, FeedbackCounts, Livelock, Point};
use super::second::{Found, Second};
use super::window::{Busy, Window};
use crate::args::Beside;
use crate::failure::Failure;
use crate::forward::mode::Mode;
use crate::plan::ReceiverPlan;
use crate::processor::Processor;
use crate::send::GOODBYES;

/// A receiver to be measured.
#[derive(Debug)]
pub struct Bench {
    plan: ReceiverPlan,
    filter: Filter,
    /// The sender's and the receiver's, if there are two.
    processors: Option<[usize; 2]>,
    /// What the system granted to the last trial.
    recv_buffer: usize,
}

/// What the stages of a trial share.
pub(super) struct Stage<'a> {
    pub(super) plan: &'a ReceiverPlan,
    pub(super) filter: &'a Filter,
    pub(super) window: &'a Window,
    /// Readable when the sender has gone.
    pub(super) stop: UnixStream,
}

impl Bench {
    /// Measures nothing yet.
    pub fn new(plan: ReceiverPlan) -> Self {
        let filter = Filter::new(plan.work as usize);
        Bench { plan, filter, processors: Processor::two(), recv_buffer: plan.recv_buffer }
    }

    /// What the filter costs a datagram on the receiver's CPU now.
    ///
    /// # Errors
    /// A check failure if the system refuses to keep this thread on that CPU.
    pub fn work_cost(&self) -> Result<Duration, Failure> {
        let kept = self.keep(1).map_err(|error| Failure::broke_off("measuring the filter", &error))?;
        let cost = self.filter.cost();
        drop(kept);
        Ok(cost)
    }

    /// Whether sender and receiver have a processor each.
    pub fn has_two_processors(&self) -> bool {
        self.processors.is_some()
    }

    /// The size of the receive buffer in the last trial, in bytes.
    pub fn recv_buffer(&self) -> usize {
        self.recv_buffer
    }

    /// Offers `offer` to a fresh receiver.
    ///
    /// # Errors
    /// A check failure if the system fails meanwhile, or the sender does.
    pub fn trial(&mut self, offer: Offer) -> Result<Point, Failure> {
        let broke_off = |error: io::Error| Failure::broke_off("receiving", &error);
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(broke_off)?;
        self.recv_buffer = socket.request_recv_buffer(self.plan.recv_buffer).map_err(broke_off)?;
        let sink = UdpSocket::bind("127.0.0.1:0").map_err(broke_off)?;
        let addresses = [&socket, &sink].map(UdpSocket::local_addr);
        let [address, sink_address] = addresses;
        let (address, sink_address) = (address.map_err(broke_off)?, sink_address.map_err(broke_off)?);
        let window = Window::new(offer.length);
        let trial = Trial { bench: self, window: &window, sink: sink_address };
        thread::scope(|scope| {
            let threads = trial.start(scope, socket).map_err(broke_off)?;
            let offered = load::send(address, &offer, self.processors.map(|[here, _]| here), &window);
            // Or the threads would go on for ever.
            window.over.store(true, Ordering::Relaxed);
            drop(threads.stop);
            let outcome = threads.handles.join().map_err(broke_off)?;
            Ok(outcome.point(&offer, &offered?, &window, self.plan.looking.max_delay.unwrap_or_default()))
        })
    }
}

struct Trial<'a> {
    bench: &'a Bench,
    window: &'a Window,
    sink: SocketAddr,
}

/// The threads of a trial, which end when `stop` is dropped.
struct Threads<'scope> {
    stop: UnixStream,
    handles: Handles<'scope>,
}

struct Handles<'scope> {
    stages: ScopedJoinHandle<'scope, io::Result<(Ended, Found)>>,
    watcher: ScopedJoinHandle<'scope, io::Result<Livelock>>,
    beside: Option<ScopedJoinHandle<'scope, io::Result<Duration>>>,
}

impl<'a> Trial<'a> {
    fn start<'scope>(
        &self,
        scope: &'scope thread::Scope<'scope, '_>,
        socket: UdpSocket,
    ) -> io::Result<Threads<'scope>>
    where
        'a: 'scope,
    {
        let (bench, window, sink) = (self.bench, self.window, self.sink);
        let (stop, stopped) = UnixStream::pair()?;
        let stage = Stage { plan: &bench.plan, filter: &bench.filter, window, stop: stopped.try_clone()? };
        let beside = match bench.plan.beside {
            Beside::None => None,
            Beside::Compute => Some(scope.spawn(move || {
                let _kept = bench.keep(1)?;
                compute(window)
            })),
        };
        Ok(Threads {
            stop,
            handles: Handles {
                stages: scope.spawn(move || {
                    let _kept = bench.keep(1)?;
                    stages(bench, &stage, socket, sink)
                }),
                watcher: scope.spawn(move || {
                    let _kept = bench.keep(0)?;
                    watch(window, &stopped)
                }),
                beside,
            },
        })
    }
}

impl Bench {
    /// Keeps the calling thread on the sender's processor, or the receiver's.
    fn keep(&self, which: usize) -> io::Result<Option<crate::processor::Kept>> {
        let Some(processors) = self.processors else { return Ok(None) };
        Processor::new(processors[which]).map_err(io::Error::other)?.keep().map(Some)
    }
}

/// The receiver: this thread, and one more if there are two stages.
fn stages(
    bench: &Bench,
    stage: &Stage<'_>,
    socket: UdpSocket,
    sink: SocketAddr,
) -> io::Result<(Ended, Found)> {
    let naive = bench.plan.looking.mode == Mode::Naive;
    if bench.plan.stages == 1 {
        return if naive {
            let second = Second::new(stage.filter, sink, stage.window)?;
            naive::run(stage, &socket, Next::Here(second))
        } else {
            polled::run(stage, socket, sink, None)
        };
    }
    let queue = Queue::new()?;
    let second = Second::new(stage.filter, sink, stage.window)?;
    thread::scope(|scope| {
        let thread = scope.spawn(|| second.run(&queue, bench.plan.nice));
        let first = if naive {
            naive::run(stage, &socket, Next::Behind(&queue))
        } else {
            polled::run(stage, socket, sink, Some(&queue))
        };
        queue.close();
        let found = thread.join().map_err(|_| io::Error::other("the second stage panicked"))?;
        let ((ended, own), found) = (first?, found?);
        Ok((ended, Found { used: own.used + found.used, ..found }))
    })
}

/// Computes with a nice value of 19 until the window is over, and says how much processor time it had within it.
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

/// Looks every two milliseconds whether there is input without progress.
fn watch(window: &Window, stop: &UnixStream) -> io::Result<Livelock> {
    let mut progress = Progress::new(ProgressConfig::detector(DETECTED));
    let (mut looks, mut stalled) = (0u64, 0u64);
    while !closed_within(stop, LOOK)? {
        let now = Monotonic.now();
        let [received, delivered] = [&window.received, &window.delivered].map(|n| n.load(Ordering::Relaxed));
        progress.observe(now, received, delivered);
        if window.is_on(now) == Some(true) {
            (looks, stalled) = (looks + 1, stalled + u64::from(progress.is_stalled()));
        }
    }
    Ok(Livelock {
        episodes: progress.episodes(),
        stalled_share: (looks > 0).then(|| stalled as f64 / looks as f64),
    })
}

/// Whether the other end is dropped within this time.
fn closed_within(stop: &UnixStream, time: Duration) -> io::Result<bool> {
    let time = time.try_into().map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&time)) {
        Ok(found) => Ok(found > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// All that the threads of a trial have found.
struct Outcome {
    ended: Ended,
    found: Found,
    livelock: Livelock,
    /// Processor time of the computation beside.
    beside: Option<Duration>,
}

impl Handles<'_> {
    fn join(self) -> io::Result<Outcome> {
        fn join<T>(handle: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
            handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the trial panicked")))
        }
        // All of them, also if one has failed.
        let (stages, watcher) = (join(self.stages), join(self.watcher));
        let beside = self.beside.map(join).transpose();
        let (ended, found) = stages?;
        Ok(Outcome { ended, found, livelock: watcher?, beside: beside? })
    }
}

impl Outcome {
    /// The receiver lets a datagram wait for up to `max_delay`, whatever the rate.
    fn point(&self, offer: &Offer, offered: &Offered, window: &Window, max_delay: Duration) -> Point {
        let Ended { counts, timer_share } = self.ended;
        let length = window.length().as_secs_f64();
        let [delivered, in_time] = [&window.delivered, &window.in_time].map(|n| n.load(Ordering::Relaxed));
        let late = delivered - in_time;
        let share = |used: Duration| used.as_secs_f64() / length;
        Point {
            multiple: None,
            target_pps: offer.rate,
            offered_pps: offered.pps,
            burst: offer.burst,
            trial_s: length,
            sent: offered.sent,
            received: counts.received,
            delivered,
            delivered_pps: in_time as f64 / length,
            late,
            loss_free: delivered == offered.sent
                && keeps_up(offered.sent, late, max_delay.as_secs_f64() / length),
            dropped: DropCounts {
                ring: counts.ring,
                rule: self.found.rejected,
                queue: counts.queue,
                output: counts.output + self.found.failed,
            },
            latency_ns: self.found.latency.distribution(),
            timer_share,
            cpu_share: share(self.found.used),
            beside_share: self.beside.map(share),
            wakeups: counts.wakeups,
            wakeups_per_packet: (counts.received > 0).then(|| counts.wakeups as f64 / counts.received as f64),
            polls: counts.polls,
            empty_polls: counts.empty_polls,
            mode_switches: counts.mode_switches,
            cpu_limited: counts.cpu_limited,
            feedback: counts.feedback.map(FeedbackCounts::from),
            livelock: self.livelock,
        }
    }
}

/// Whether a trial of so many datagrams left no queue behind that grows: of a receiver that does `c` and is sent `r`, the
/// share `(r - c) / r` leaves when the trial is over, however long that is and however large its buffers are. `waits` is
/// the share of the trial that a datagram may wait at any rate.
fn keeps_up(sent: u64, late: u64, waits: f64) -> bool {
    // The goodbyes leave the sender when the trial is over.
    late.saturating_sub(GOODBYES.into()) as f64 <= sent as f64 * LATE.max(waits)
}

/// Twice what the search is exact to. In a trial of half a second it is 10 ms, which a processor is taken away for at times.
const LATE: f64 = 0.02;
const LOOK: Duration = Duration::from_millis(2);
const DETECTED: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// By a receiver of 3,200 datagrams a second, whose buffer holds all that comes too fast.
    #[test]
    fn what_a_buffer_absorbs_is_not_kept_up_with() {
        for seconds in [1, 10] {
            for rate in [100, 3_000, 3_200, 3_260, 3_300, 3_495, 6_400, 15_390] {
                let sent = rate * seconds + u64::from(GOODBYES);
                let late = sent - sent.min(3_200 * seconds);
                assert_eq!(keeps_up(sent, late, 0.0), rate < 3_270, "{rate}, of which {late} are late");
            }
        }
        // The last of it, and the goodbyes, in the poll that follows the end.
        assert!(keeps_up(43, 4 + 3, 0.1) && !keeps_up(43, 4 + 3, 0.0) && keeps_up(103, 3, 0.0));
    }
}
