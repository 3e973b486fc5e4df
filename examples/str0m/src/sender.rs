//! The subject: a loop that calls str0m at its requested times, and does not send a frame in one burst.
//!
//! ```text
//!   socket readable ─▶ handle_input(Receive) ─┐                       Timeout ─▶ one alarm
//!   its time        ─▶ handle_input(Timeout) ─┼─▶ poll_output, until ─┤
//!   a frame is made ─▶ Writer::write ─────────┘   nothing is left     Transmit ─▶ DepartureQueue ─▶ send_to
//!   a release time  ──────────────────────────────────────────────────────────────────┘    one alarm more
//! ```

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use example_harness::{Alarm, Sorted};
use softtimers::queue::{DepartureQueue, FlowConfig, FlowId, Limits, Popped, QueueConfig};
use softtimers::{Config, EventLoop, Happening, Interest, LoopConfig, PaceConfig, Slack, SoftTimers};
use softtimers::{Timestamp, Token};
use softtimers_net::udp::{RecvBatch, UdpSocket};
use str0m::Event;
use str0m::bwe::BweKind;
use str0m::media::{MediaTime, Mid};

use crate::frame;
use crate::peer::{Failure, GIVE_UP, Peer, Said, instant, is_rtp};

/// How str0m is driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Serve {
    /// Its time-outs are by a timer that counts whole milliseconds, as in most loops.
    Milliseconds,
    /// Its time-outs are on time.
    OnTime,
    /// The same, and its packets are spread at a rate.
    Spread,
}

/// The results of a run.
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// The lateness of every awaited time-out, relative to str0m's time.
    pub(crate) lateness: Sorted,
    /// str0m's final estimate of the path, in bit/s.
    pub(crate) estimate: f64,
    /// Packets that the socket had no room for.
    pub(crate) dropped: u64,
}

/// Sends `frames` frames, then waits until the receiver is `done`.
pub(crate) fn send(
    peer: Peer,
    mid: Mid,
    serve: Serve,
    frames: u32,
    megabits: u64,
    done: &AtomicBool,
) -> Result<Served, Failure> {
    let mut events = EventLoop::new(LoopConfig::default())?;
    events.register(&peer.socket, Token(0), Interest::Readable)?;
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(events.now(), GIVE_UP, Slack::millis(10), Wake::GiveUp);
    let mut timeout = match serve {
        Serve::Milliseconds => Alarm::in_steps(Wake::Timeout, Duration::from_millis(1)),
        Serve::OnTime | Serve::Spread => Alarm::exact(Wake::Timeout),
    };
    let mut departure = Alarm::exact(Wake::Departure);
    let mut batch = RecvBatch::new(64, 2_000);
    let mut sender = Sender::new(peer, mid, serve, frames, megabits)?;
    timeout.set(&mut timers, events.now(), Some(sender.peer.timeout()));
    loop {
        let happening = events.next(&mut timers)?;
        let now = events.now();
        match happening {
            Happening::Ready { .. } => {
                sender.peer.receive(&mut batch, |_, _| {}, |what| sender.out.take(now, what))?;
            }
            Happening::Due(fired) => match fired.event {
                Wake::Timeout => sender.call(now)?,
                Wake::Frame if sender.written < sender.frames => {
                    sender.write(now)?;
                    timers.schedule_at(now, fired.due + frame::INTERVAL, Slack::EXACT, Wake::Frame);
                }
                Wake::Frame if done.load(Ordering::Acquire) => return Ok(sender.out.served),
                Wake::Frame => drop(timers.schedule(now, frame::INTERVAL, Slack::millis(1), Wake::Frame)),
                // Due packets leave below, whatever woke the loop.
                Wake::Departure => {}
                Wake::GiveUp => return Err("the receiver did not get all frames in time".into()),
            },
        }
        if std::mem::take(&mut sender.out.connected) {
            timers.schedule(now, frame::INTERVAL, Slack::EXACT, Wake::Frame);
        }
        sender.out.depart(events.now())?;
        let now = events.now();
        timeout.set(&mut timers, now, sender.timeout(now));
        departure.set(&mut timers, now, sender.out.queue.next_due());
    }
}

#[derive(Clone, Copy, Debug)]
enum Wake {
    /// str0m wants to be called.
    Timeout,
    /// The camera has a frame.
    Frame,
    /// A packet may leave.
    Departure,
    GiveUp,
}

struct Sender {
    peer: Peer,
    mid: Mid,
    frames: u32,
    written: u32,
    /// The time that str0m waits for, unless it had already passed when it was given.
    wished: Option<Timestamp>,
    out: Out,
}

/// Handles str0m's output.
struct Out {
    serve: Serve,
    socket: Arc<UdpSocket>,
    queue: DepartureQueue<(Vec<u8>, SocketAddr)>,
    flow: FlowId,
    connected: bool,
    served: Served,
}

impl Sender {
    fn new(peer: Peer, mid: Mid, serve: Serve, frames: u32, megabits: u64) -> Result<Self, Failure> {
        let mut queue = DepartureQueue::new(QueueConfig::default());
        let limits = Limits { packets: 1_000, ..Limits::default() };
        let pace = PaceConfig::bits_per_second(megabits * 1_000_000)?;
        let flow = queue.add_flow(FlowConfig { limits, ..FlowConfig::new(pace) })?;
        let socket = peer.socket.clone();
        let out = Out { serve, socket, queue, flow, connected: false, served: Served::default() };
        Ok(Sender { peer, mid, frames, written: 0, wished: None, out })
    }

    /// Calls str0m at its requested time.
    fn call(&mut self, now: Timestamp) -> Result<(), Failure> {
        if let Some(wished) = self.wished.take() {
            self.out.served.lateness.add_lateness(wished, now);
        }
        self.peer.call(now, |what| self.out.take(now, what))
    }

    /// Returns when to call str0m.
    fn timeout(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.wished = Some(self.peer.timeout()).filter(|wished| *wished > now);
        Some(self.peer.timeout())
    }

    /// Writes the next frame.
    fn write(&mut self, now: Timestamp) -> Result<(), Failure> {
        let frame = frame::made(self.written, now);
        let time = MediaTime::from(frame::INTERVAL * self.written);
        let writer = self.peer.rtc.writer(self.mid).ok_or("there is no video to write to")?;
        let vp8 = writer.payload_params().next().ok_or("no codec was agreed on")?.pt();
        writer.write(vp8, instant(now)?, time, frame)?;
        self.written += 1;
        self.peer.drain(|what| self.out.take(now, what))
    }
}

impl Out {
    fn take(&mut self, now: Timestamp, what: Said) -> Result<(), Failure> {
        match what {
            // Only media waits. Connectivity checks and reports are few, and measure the path.
            Said::Packet(bytes, to) if self.serve == Serve::Spread && is_rtp(&bytes) => {
                let length = bytes.len() as u32;
                let queued = self.queue.enqueue(now, self.flow, length, (bytes, to));
                self.served.dropped += u64::from(queued.is_err());
            }
            Said::Packet(bytes, to) => self.send(&bytes, to)?,
            Said::Event(Event::Connected) => self.connected = true,
            Said::Event(Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. })) => {
                self.served.estimate = estimate.as_f64();
            }
            Said::Event(_) => {}
        }
        Ok(())
    }

    /// Sends the due packets.
    fn depart(&mut self, now: Timestamp) -> Result<(), Failure> {
        let turn = self.queue.turn(now);
        while let Some(Popped::Departure(departure)) = self.queue.pop_due(&turn) {
            let (bytes, to) = departure.token;
            self.send(&bytes, to)?;
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8], to: SocketAddr) -> Result<(), Failure> {
        match self.socket.send_to(bytes, to) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.served.dropped += 1,
            other => drop(other?),
        }
        Ok(())
    }
}
