//! The receiver: it records when each packet of video came, and when each frame was complete.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use example_harness::{Alarm, Sorted, Spacing};
use softtimers::{Config, EventLoop, Happening, Interest, LoopConfig, Slack, SoftTimers, Timestamp, Token};
use softtimers_net::udp::{RecvBatch, UdpSocket};
use str0m::Event;

use crate::frame;
use crate::peer::{Failure, GIVE_UP, Peer, Said, is_rtp};

/// The packets received.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) frames: u32,
    pub(crate) bytes: u64,
    /// The spacing of the packets that carry video.
    pub(crate) spacing: Spacing,
    /// The time from when a frame was made until it was complete here.
    pub(crate) delay: Sorted,
}

#[derive(Clone, Copy)]
enum Wake {
    Timeout,
    GiveUp,
}

/// Receives until `frames` frames have come, and sets `done`; `interval` is the target gap of packets.
pub(crate) fn watch(
    mut peer: Peer,
    frames: u32,
    interval: Duration,
    done: &AtomicBool,
) -> Result<Watched, Failure> {
    let mut events = EventLoop::new(LoopConfig::default())?;
    events.register(&peer.socket, Token(0), Interest::Readable)?;
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(events.now(), GIVE_UP, Slack::millis(10), Wake::GiveUp);
    let mut timeout = Alarm::exact(Wake::Timeout);
    timeout.set(&mut timers, events.now(), Some(peer.timeout()));

    let mut batch = RecvBatch::new(64, 2_000);
    let mut said = vec![];
    let (spacing, delay) = (Spacing::new(interval), Sorted::default());
    let mut watched = Watched { frames: 0, bytes: 0, spacing, delay };
    while watched.frames < frames {
        let happening = events.next(&mut timers)?;
        let now = events.now();
        let hear = |what| {
            said.push(what);
            Ok(())
        };
        match happening {
            Happening::Ready { .. } => {
                peer.receive(&mut batch, |at, packet| watched.packet(at, packet), hear)?;
            }
            Happening::Due(fired) => match fired.event {
                Wake::Timeout => peer.call(now, hear)?,
                Wake::GiveUp => {
                    return Err(format!("{} of {frames} frames came in time", watched.frames).into());
                }
            },
        }
        let now = events.now();
        for what in said.drain(..) {
            watched.heard(what, &peer.socket, now)?;
        }
        timeout.set(&mut timers, now, Some(peer.timeout()));
    }
    done.store(true, Ordering::Release);
    Ok(watched)
}

impl Watched {
    fn packet(&mut self, received: Timestamp, packet: &[u8]) {
        // Shorter packets are padding.
        if is_rtp(packet) && packet.len() > 500 {
            self.spacing.packet(received);
        }
    }

    fn heard(&mut self, what: Said, socket: &UdpSocket, now: Timestamp) -> Result<(), Failure> {
        match what {
            Said::Packet(bytes, to) => drop(socket.send_to(&bytes, to)?),
            Said::Event(Event::MediaData(media)) => {
                let Some((number, made)) = frame::read(&media.data) else {
                    return Err("a frame is not as it was made".into());
                };
                if number != self.frames {
                    return Err(format!("frame {number} came after {} others", self.frames).into());
                }
                self.frames += 1;
                self.bytes += media.data.len() as u64;
                self.delay.add_lateness(made, now);
            }
            Said::Event(_) => {}
        }
        Ok(())
    }
}
