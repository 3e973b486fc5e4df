//! The receivers, each a peer of its own: when packets came, and the effect on an access link.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use example_harness::trial::Done;
use example_harness::{Alarm, Sorted, Spacing};
use softtimers::{Config, EventLoop, Happening, Interest, LoopConfig, Slack, SoftTimers, Timestamp, Token};
use softtimers_net::udp::{RecvBatch, UdpSocket};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};

use crate::fanout::RATE;
use crate::peers::{GIVE_UP, INTERVAL, PACKET, frame, instant, is_rtp};

/// The receiver's access link: its rate in bit/s, and the packets that its queue holds.
const LINK: u64 = 10_000_000;
const QUEUE: u32 = 16;

/// The results of all receivers.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The spacing of each one's video packets.
    pub(crate) spacing: Spacing,
    pub(crate) packets: u64,
    /// Packets that would find the link's queue full.
    pub(crate) dropped: u64,
    /// The others' waits in that queue: the delay variation (RFC 5481) that it adds.
    pub(crate) waits: Sorted,
    /// The time from when a frame was made until it was complete.
    pub(crate) delays: Sorted,
}

/// The receiver's end of a call.
pub(crate) struct Receiver {
    pub(crate) rtc: Rtc,
    socket: UdpSocket,
    local: SocketAddr,
    frames: u32,
    spacing: Spacing,
    /// When the link will have sent its queue.
    idle: Timestamp,
}

#[derive(Clone, Copy, Debug)]
enum Wake {
    Call(usize),
    GiveUp,
}

/// Receives until each has `frames` frames.
pub(crate) fn watch(mut receivers: Vec<Receiver>, frames: u32, over: &AtomicBool) -> Done<Seen> {
    let watched = watch_all(&mut receivers, frames);
    over.store(true, Ordering::Release);
    let mut seen = watched?;
    receivers.into_iter().for_each(|receiver| seen.spacing.join(receiver.spacing));
    Ok(seen)
}

fn watch_all(receivers: &mut [Receiver], frames: u32) -> Done<Seen> {
    let mut events = EventLoop::new(LoopConfig::default())?;
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(events.now(), GIVE_UP + INTERVAL * frames, Slack::millis(10), Wake::GiveUp);
    let mut calls = vec![];
    for (at, receiver) in receivers.iter().enumerate() {
        events.register(&receiver.socket, Token(at as u64), Interest::Readable)?;
        let mut call = Alarm::within(Wake::Call(at), Duration::from_millis(1));
        call.set(&mut timers, events.now(), Some(events.now()));
        calls.push(call);
    }
    let mut batch = RecvBatch::new(64, 2_000);
    let spacing = Spacing::new(interval());
    let mut seen =
        Seen { spacing, packets: 0, dropped: 0, waits: Sorted::default(), delays: Sorted::default() };
    while receivers.iter().any(|receiver| receiver.frames < frames) {
        let happening = events.next(&mut timers)?;
        let now = events.now();
        let (at, timeout) = match happening {
            Happening::Ready { token, .. } => {
                let at = token.0 as usize;
                (at, receivers[at].receive(now, &mut batch, &mut seen)?)
            }
            Happening::Due(fired) => match fired.event {
                Wake::Call(at) => {
                    receivers[at].rtc.handle_input(Input::Timeout(instant(now)?))?;
                    (at, receivers[at].drain(now, &mut seen)?)
                }
                Wake::GiveUp => return Err("not all frames came in time".into()),
            },
        };
        calls[at].set(&mut timers, events.now(), Some(timeout));
    }
    Ok(seen)
}

/// Returns the target gap of a receiver's packets.
fn interval() -> Duration {
    Duration::from_nanos(PACKET * 8 * 1_000_000_000 / RATE)
}

impl Receiver {
    pub(crate) fn new(mut rtc: Rtc) -> Done<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        socket.set_timestamps(true)?;
        let local = socket.local_addr()?;
        rtc.add_local_candidate(Candidate::host(local, "udp")?);
        let spacing = Spacing::new(interval());
        Ok(Receiver { rtc, socket, local, frames: 0, spacing, idle: Timestamp::ZERO })
    }

    /// Reads what has arrived; returns when str0m wants to be called.
    fn receive(&mut self, now: Timestamp, batch: &mut RecvBatch, seen: &mut Seen) -> Done<Timestamp> {
        self.socket.recv_batch(batch)?;
        for datagram in batch.iter() {
            // Shorter packets are padding.
            if is_rtp(datagram.payload) && datagram.payload.len() > 500 {
                self.count(datagram.received.unwrap_or(now), datagram.payload.len() as u64, seen);
            }
            let received = Receive::new(Protocol::Udp, datagram.from, self.local, datagram.payload)?;
            self.rtc.handle_input(Input::Receive(instant(now)?, received))?;
            self.drain(now, seen)?;
        }
        self.drain(now, seen)
    }

    fn count(&mut self, at: Timestamp, bytes: u64, seen: &mut Seen) {
        self.spacing.packet(at);
        seen.packets += 1;
        let takes = Duration::from_nanos(bytes * 8 * 1_000_000_000 / LINK);
        let wait = self.idle.saturating_duration_since(at);
        if wait > takes * QUEUE {
            seen.dropped += 1;
        } else {
            self.idle = self.idle.max(at) + takes;
            seen.waits.add(wait.as_nanos() as i64);
        }
    }

    fn drain(&mut self, now: Timestamp, seen: &mut Seen) -> Done<Timestamp> {
        loop {
            match self.rtc.poll_output()? {
                Output::Transmit(packet) => drop(self.socket.send_to(&packet.contents, packet.destination)?),
                Output::Event(Event::MediaData(media)) => {
                    let (number, made) = frame(&media.data).ok_or("a frame is not as it was made")?;
                    if number != self.frames {
                        return Err(format!("frame {number} came after {} others", self.frames).into());
                    }
                    self.frames += 1;
                    seen.delays.add_lateness(made, now);
                }
                Output::Event(_) => {}
                Output::Timeout(time) => return Ok(softtimers::Monotonic::timestamp_of(time)),
            }
        }
    }
}
