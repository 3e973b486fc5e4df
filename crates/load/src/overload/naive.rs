//! The loop of most programs, which receives everything available first. [`run`].
//!
//! ```text
//!   epoll ─▶ readable? ─ yes ─▶ receive one ─▶ queue, or drop ─┐
//!     ▲          └─ no ─▶ the next stage, the timers           │
//!     └────────────────────────────────────────────────────────┘
//! ```
//!
//! As with interrupts, receiving comes before everything else, here only by the order of the program: no priority is
//! needed. So from the rate at which receiving alone takes the whole CPU, nothing is delivered and no timer fires. With
//! a second stage in its own thread, the scheduler gives that thread its share, and the collapse is partial; with
//! `--nice 19` it is not.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::udp::{RecvBatch, UdpSocket};

use super::beat::Beat;
use super::queue::{Queue, ROOM};
use super::quiet::Quiet;
use super::receiver::Stage;
use super::second::{Item, SIZE, SecondStage};
use super::stats::Stats;
use super::window::Busy;

/// The step that follows receiving.
pub(crate) enum Next<'a> {
    /// The same thread processes it, when nothing more is available.
    Here(Box<SecondStage<'a>>),
    /// A thread behind this queue processes it.
    Behind(&'a Queue<Item>),
}

/// Receives until the trial is over and no more datagrams come.
pub(crate) fn run(stage: &Stage<'_>, socket: &UdpSocket, next: Next<'_>) -> io::Result<Stats> {
    socket.set_nonblocking(true)?;
    socket.set_timestamps(true)?;
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    epoll.add(socket.as_fd(), SOCKET, EventFlags::IN)?;
    epoll.add(stage.stop.as_fd(), STOP, EventFlags::IN)?;
    let mut receiver = FirstStage {
        batch: RecvBatch::new(1, 2 * SIZE),
        next,
        queue: VecDeque::with_capacity(ROOM as usize),
        stats: Stats::default(),
        busy: Busy::default(),
    };
    let (mut ready, mut quiet) = (Events::with_capacity(4), Quiet::default());
    let _ = stage.ready.send(());
    let mut now = Monotonic.now();
    let mut beat = Beat::new(now);
    let mut until = beat.fire(stage.window, now);
    while !quiet.is_over(now, receiver.stats.received, !receiver.queue.is_empty()) {
        let timeout = match receiver.queue.is_empty() {
            true => [until, quiet.until()].into_iter().flatten().min(),
            false => Some(Timestamp::ZERO),
        };
        let timeout = timeout.map(|until| until.saturating_duration_since(now));
        receiver.stats.wakeups += u64::from(timeout != Some(Duration::ZERO));
        epoll.wait(&mut ready, timeout)?;
        let (mut received, mut stop) = (false, false);
        for event in ready.iter() {
            match event.token {
                SOCKET => received = receiver.receive(stage, socket),
                _ => stop = true,
            }
        }
        now = Monotonic.now();
        receiver.busy.look(stage.window, now);
        if stop {
            epoll.delete(stage.stop.as_fd())?;
            quiet.begin(now, receiver.stats.received);
        }
        if !received {
            receiver.follow();
            now = Monotonic.now();
            until = beat.fire(stage.window, now);
        }
    }
    receiver.stats.dropped.ring = u64::from(socket.drops()?);
    Ok(receiver.end(beat.share(stage.window)))
}

struct FirstStage<'a> {
    batch: RecvBatch,
    next: Next<'a>,
    /// The queue before a second stage in this thread.
    queue: VecDeque<Item>,
    stats: Stats,
    busy: Busy,
}

impl FirstStage<'_> {
    /// Receives one datagram, if there is one.
    fn receive(&mut self, stage: &Stage<'_>, socket: &UdpSocket) -> bool {
        let Ok(1..) = socket.recv_at_most(&mut self.batch, 1) else { return false };
        let Some(datagram) = self.batch.get(0) else { return false };
        let item = Item::new(datagram.payload, datagram.from, datagram.received);
        stage.window.begin(Monotonic.now());
        self.stats.received += 1;
        stage.window.received.store(self.stats.received, Ordering::Relaxed);
        let admitted = match &self.next {
            Next::Here(_) => self.queue.len() < ROOM as usize,
            Next::Behind(queue) => queue.admits(),
        };
        match &self.next {
            _ if !admitted => self.stats.dropped.queue += 1,
            Next::Here(_) => self.queue.push_back(item),
            Next::Behind(queue) => queue.put([item]),
        }
        true
    }

    /// Gives the next stage its turn once no datagram is available, until one may have come.
    fn follow(&mut self) {
        if let (Next::Here(second), Some(item)) = (&mut self.next, self.queue.pop_front()) {
            second.process(&item);
        }
    }

    fn end(mut self, timer_share: Option<f64>) -> Stats {
        self.stats.timer_share = timer_share;
        self.stats.cpu = self.busy.used();
        if let Next::Here(second) = self.next {
            self.stats += &second.stats;
        }
        self.stats
    }
}

const SOCKET: u64 = 0;
const STOP: u64 = 1;
