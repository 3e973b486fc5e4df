//! [`PacedSender`]: one UDP socket, thousands of flows, each at its own rate.
//!
//! A [`Pacer`](crate::Pacer) per task is fine for ten flows. A thousand of them are a thousand timers, tasks
//! and system calls. Here one task has one [`DepartureQueue`], and sends all datagrams that are due together
//! with one `sendmmsg`:
//!
//! ```text
//!   send_to(a, …).await ─┐  copies              ┌──────────────────────── one task
//!   send_to(b, …).await ─┼─▶ ▢▢▢ DepartureQueue ─▶ due? ─▶ SendBatch ─▶ sendmmsg, UDP_SEGMENT for neighbours that are alike
//!   queue(c, …) ─────────┘   one rate a flow    └─ sleeps until the earliest release
//! ```
//!
//! Datagrams due together leave in the order of their times. Neighbours of one length to one address are
//! segments of one send, even if they are of different flows. If the kernel refuses that, they leave one by
//! one, and segments are tried again some seconds later.
//!
//! # Drops and shutdown
//!
//! | dropped or ended | effect |
//! |---|---|
//! | the future of [`send_to`](PacedSender::send_to), before it is ready | its datagram does not leave, unless it just has; those behind it move up |
//! | a flow ([`remove`](PacedSender::remove)) | its waiting datagrams do not leave; their futures return [`SendError::Removed`] |
//! | the last clone of the sender | queued datagrams leave at their times, then the task ends |
//! | the sender by [`close`](PacedSender::close), or the runtime | queued datagrams do not leave; their futures return [`SendError::Closed`] |

mod error;
mod task;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use softtimers_core::queue::{DepartureQueue, FlowId};
use softtimers_core::{PaceError, Rate, Timestamp};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;

use crate::clock;
pub use error::SendError;
pub use softtimers_core::queue::{FlowConfig, FlowStats, Limits, Quantum, QueueConfig, QueueStats, Reject};
use task::Task;

/// Sends the datagrams of many flows on one UDP socket, each flow at its rate. A clone is another handle of
/// the same sender, for another task or thread.
///
/// ```
/// use std::sync::Arc;
/// use softtimers_tokio::paced_sender::{FlowConfig, PacedSender};
/// use softtimers_tokio::{PaceConfig, Rate};
/// use tokio::net::UdpSocket;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let receiver = UdpSocket::bind("127.0.0.1:0").await?;
/// let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await?); // receive on it as usual
///
/// let sender = PacedSender::new(&socket)?;
/// let voice = sender.add(receiver.local_addr()?, FlowConfig::new(PaceConfig::new(Rate::pps(5_000))))?;
/// let video = sender.add(receiver.local_addr()?, FlowConfig::new(PaceConfig::bits_per_second(50_000_000)?))?;
///
/// sender.queue(&video, &[0; 1_200])?; // leaves by itself
/// sender.send_to(&voice, b"hello").await?; // returns when the datagram has left
/// sender.set_rate(&voice, Rate::pps(50))?; // from now on
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # Cost
/// A datagram: a copy of its bytes, a lock, and its part of a `sendmmsg`; if it is awaited, a wake-up of that task. A
/// flow takes some 400 bytes. With a [`Quantum`] of several a flow's datagrams are due together; those of one length to one
/// address leave as segments of one send.
///
/// # Memory
/// The queue is bounded in datagrams, not in bytes: the default of a million datagrams of 1,200 bytes is
/// 1.2 GB. If untrusted clients cause the datagrams or the flows, set [`QueueConfig`]'s `packets` to what the
/// machine can spare.
#[derive(Clone, Debug)]
pub struct PacedSender(Arc<Handle>);

/// A flow of a [`PacedSender`]: its destination, and its place in the queue.
///
/// It belongs to that sender and its clones. Using it on another sender is a mistake: debug builds panic,
/// release builds may confuse it with one of the other's flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    id: FlowId,
    to: SocketAddr,
}

impl Flow {
    /// Returns the destination of its datagrams.
    pub fn to(&self) -> SocketAddr {
        self.to
    }
}

/// Counters of a [`PacedSender`] since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SenderStats {
    /// Datagrams that the kernel has taken.
    pub sent: u64,
    /// Datagrams that it refused; their futures return the error.
    pub failed: u64,
    /// Datagrams whose future was dropped before their time.
    pub cancelled: u64,
    /// Datagrams that were due and had not left when the sender was closed, or its runtime ended.
    pub unsent: u64,
    /// Number of send system calls, including those that sent nothing.
    pub calls: u64,
    /// Datagrams among `sent` that left as segments of a longer send.
    pub segments: u64,
    /// Counters of the queue; its `sent` counts due datagrams.
    pub queue: QueueStats,
}

impl PacedSender {
    /// Creates a sender on this socket, without slack, whose queue takes a million packets, 100 of each flow
    /// by default (see [`Limits`]). It ends with the current runtime.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor of the socket.
    ///
    /// # Panics
    /// As [`Driver::current`](crate::Driver::current).
    #[track_caller]
    pub fn new(socket: &Arc<UdpSocket>) -> io::Result<Self> {
        Self::with_config(socket, QueueConfig::default())
    }

    /// Creates a sender with a bound on the packets, with slack, by which a departure may be late to leave with others, or
    /// with [slots](QueueConfig::slot) at which departures are collected.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn with_config(socket: &Arc<UdpSocket>, config: QueueConfig) -> io::Result<Self> {
        // Its timer belongs to this runtime, whichever one polls the task first.
        let driver = crate::Driver::current();
        let twin = std::net::UdpSocket::from(socket.as_fd().try_clone_to_owned()?);
        let common = Arc::new(Common {
            state: Mutex::new(State {
                queue: DepartureQueue::new(config),
                stats: SenderStats::default(),
                sleeps: None,
                ending: Ending::No,
                ended: None,
            }),
        });
        tokio::spawn(Task::new(common.clone(), socket.clone(), twin.into(), (&driver, config.slack)).run());
        Ok(PacedSender(Arc::new(Handle(common))))
    }

    /// Adds a flow to `to`.
    ///
    /// # Errors
    /// As [`DepartureQueue::add_flow`]. A sender that has ended adds a flow that sends nothing.
    pub fn add(&self, to: SocketAddr, config: FlowConfig) -> Result<Flow, PaceError> {
        let id = self.0.0.lock().queue.add_flow(config)?;
        Ok(Flow { id, to })
    }

    /// Removes a flow, and returns how many of its datagrams were waiting; `None` if it was removed before or
    /// the sender has ended.
    pub fn remove(&self, flow: &Flow) -> Option<usize> {
        let mut state = self.0.0.open().ok()?;
        let waiting: Vec<Datagram> = state.queue.remove_flow(flow.id)?.collect();
        drop(state);
        let count = waiting.len();
        waiting.into_iter().for_each(|datagram| datagram.finish(Err(SendError::Removed)));
        Some(count)
    }

    /// Changes a flow's rate from now on, without a burst: the elapsed part of the gap counts at the old
    /// rate.
    ///
    /// # Errors
    /// [`SendError::Refused`] if the flow was removed, [`SendError::Closed`] if the sender has ended.
    pub fn set_rate(&self, flow: &Flow, rate: Rate) -> Result<(), SendError> {
        let mut state = self.0.0.open()?;
        state.queue.set_rate(clock::timestamp(), flow.id, rate).map_err(SendError::Refused)?;
        wake(state);
        Ok(())
    }

    /// Sends a datagram of `flow` when its time has come, behind the flow's waiting ones; ready when the
    /// kernel has it. Several tasks may send on one flow: their datagrams leave in the order in which the
    /// futures were first polled.
    ///
    /// Cancel-safe: if you drop it before it is ready, the datagram does not leave, unless it is being sent
    /// at that moment, and those behind it move up.
    ///
    /// # Cost
    /// Dropped before it is ready, O(n) with n datagrams of the flow waiting.
    ///
    /// # Errors
    /// [`SendError`] if the queue or the kernel refuses this datagram.
    pub async fn send_to(&self, flow: &Flow, bytes: &[u8]) -> Result<(), SendError> {
        let (done, sent) = oneshot::channel();
        self.enqueue(flow, bytes, Some(done))?;
        let mut awaited = Awaited { sender: self, flow: flow.id, sent };
        (&mut awaited.sent).await.unwrap_or(Err(SendError::Closed))
    }

    /// Queues a datagram, which leaves by itself when its time has come. A refusal by the kernel is counted
    /// ([`SenderStats::failed`]).
    ///
    /// # Errors
    /// [`SendError`], if the queue does not take it.
    pub fn queue(&self, flow: &Flow, bytes: &[u8]) -> Result<(), SendError> {
        self.enqueue(flow, bytes, None)
    }

    fn enqueue(&self, flow: &Flow, bytes: &[u8], done: Option<Done>) -> Result<(), SendError> {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if length > MAX_PAYLOAD {
            let error = format!("a datagram of {length} bytes: {MAX_PAYLOAD} is the longest");
            return Err(SendError::Io(io::Error::new(io::ErrorKind::InvalidInput, error)));
        }
        let datagram = Datagram { to: flow.to, bytes: bytes.into(), done };
        let mut state = self.0.0.open()?;
        // An empty one takes a scheduled time, too.
        let counted = length.max(1);
        state
            .queue
            .enqueue(clock::timestamp(), flow.id, counted, datagram)
            .map_err(|rejected| SendError::Refused(rejected.reason))?;
        wake(state);
        Ok(())
    }

    /// Ends the sender at once, for all its clones. Queued datagrams do not leave.
    pub fn close(&self) {
        self.0.0.end(Ending::Now);
    }

    /// Returns the counters since the beginning.
    pub fn stats(&self) -> SenderStats {
        let state = self.0.0.lock();
        SenderStats { queue: state.ended.unwrap_or_else(|| state.queue.stats()), ..state.stats }
    }

    /// Returns a flow's counters; `None` if it was removed or the sender has ended.
    pub fn flow_stats(&self, flow: &Flow) -> Option<FlowStats> {
        self.0.0.open().ok()?.queue.flow_stats(flow.id)
    }
}

/// Shared by all clones; dropping the last one notifies the task.
#[derive(Debug)]
struct Handle(Arc<Common>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.end(Ending::WhenEmpty);
    }
}

#[derive(Debug)]
struct Common {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    queue: DepartureQueue<Datagram>,
    stats: SenderStats,
    /// The sleeping task's waker, and when it wakes.
    sleeps: Option<(Timestamp, Waker)>,
    ending: Ending,
    /// Counters of the queue when the task ended.
    ended: Option<QueueStats>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ending {
    No,
    WhenEmpty,
    Now,
}

impl Common {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for an operation on a flow; an error if the sender has ended.
    fn open(&self) -> Result<MutexGuard<'_, State>, SendError> {
        let state = self.lock();
        if state.ending == Ending::Now { Err(SendError::Closed) } else { Ok(state) }
    }

    fn end(&self, ending: Ending) {
        let mut state = self.lock();
        state.ending = state.ending.max(ending);
        let sleeps = state.sleeps.take();
        drop(state);
        if let Some((_, task)) = sleeps {
            task.wake();
        }
    }
}

/// Wakes the task if it sleeps beyond the next release time.
fn wake(mut state: MutexGuard<'_, State>) {
    let Some(due) = state.queue.next_due() else { return };
    if state.sleeps.as_ref().is_none_or(|(until, _)| due >= *until) {
        return;
    }
    let sleeps = state.sleeps.take();
    drop(state);
    if let Some((_, task)) = sleeps {
        task.wake();
    }
}

/// A datagram for which somebody waits; dropped before it has left, it is taken out of the queue.
struct Awaited<'a> {
    sender: &'a PacedSender,
    flow: FlowId,
    sent: oneshot::Receiver<Result<(), SendError>>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        // It has left if it has been told so; otherwise it is closed, and so known in the queue.
        self.sent.close();
        if !self.sent.is_terminated() && self.sent.try_recv().is_err() {
            // A sender that has ended has another queue, which knows no such flow.
            let Ok(mut state) = self.sender.0.0.open() else { return };
            // Drops its bytes without the lock.
            let datagram = state.queue.remove_packet(self.flow, Datagram::is_cancelled);
            state.stats.cancelled += u64::from(datagram.is_some());
            drop(state);
        }
    }
}

#[derive(Debug)]
struct Datagram {
    to: SocketAddr,
    bytes: Box<[u8]>,
    /// Notifies the task that awaits it.
    done: Option<Done>,
}

type Done = oneshot::Sender<Result<(), SendError>>;

impl Datagram {
    fn is_cancelled(&self) -> bool {
        self.done.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    fn finish(self, result: Result<(), SendError>) {
        if let Some(done) = self.done {
            // An error means that the receiver no longer waits.
            let _ = done.send(result);
        }
    }
}

/// The most that fits an IPv4 packet.
const MAX_PAYLOAD: u32 = 65_507;
