//! The call: fifty pairs of peers that know each other, the video, and code shared by both loops.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use example_harness::trial::Done;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::usage::Usage;
use str0m::media::{Direction, MediaKind, MediaTime, Mid};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};

use crate::receivers::Receiver;

/// The size of a frame: thirty packets.
pub(crate) const FRAME: usize = 33_000;
/// The approximate size of str0m's packets.
pub(crate) const PACKET: u64 = 1_100;
/// The frame interval, for 2 Mbit/s.
pub(crate) const INTERVAL: Duration = Duration::from_millis(132);
/// Time in addition to the video's: for the handshakes, on a busy machine.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(30);

/// The sender's end of one call.
pub(crate) struct Client {
    pub(crate) rtc: Rtc,
    mid: Mid,
    connected: bool,
}

/// Returns senders that share a socket, and their receivers with a socket each; nothing has been sent.
pub(crate) fn introduced(calls: usize) -> Done<(UdpSocket, Vec<Client>, Vec<Receiver>)> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let candidate = Candidate::host(socket.local_addr()?, "udp")?;
    let (mut clients, mut receivers) = (vec![], vec![]);
    for _ in 0..calls {
        let mut rtc = peer()?;
        rtc.add_local_candidate(candidate.clone());
        let mut receiver = Receiver::new(peer()?)?;
        let mut change = rtc.sdp_api();
        let mid = change.add_media(MediaKind::Video, Direction::SendOnly, None, None, None);
        let (offer, pending) = change.apply().ok_or("str0m has nothing to offer")?;
        let answer = receiver.rtc.sdp_api().accept_offer(offer)?;
        rtc.sdp_api().accept_answer(pending, answer)?;
        clients.push(Client { rtc, mid, connected: false });
        receivers.push(receiver);
    }
    Ok((socket, clients, receivers))
}

fn peer() -> Done<Rtc> {
    Ok(Rtc::builder().clear_codecs().enable_vp8(true).build(instant(Monotonic.now())?))
}

impl Client {
    /// Reads all output; returns when str0m wants to be called.
    pub(crate) fn drain(&mut self, mut send: impl FnMut(Vec<u8>, SocketAddr) -> Done) -> Done<Timestamp> {
        loop {
            match self.rtc.poll_output()? {
                Output::Transmit(packet) => send(packet.contents.into(), packet.destination)?,
                Output::Event(Event::Connected) => self.connected = true,
                Output::Event(_) => {}
                Output::Timeout(time) => return Ok(Monotonic::timestamp_of(time)),
            }
        }
    }

    pub(crate) fn write(&mut self, now: Timestamp, frame: &Frame) -> Done {
        let writer = self.rtc.writer(self.mid).ok_or("there is no video to write to")?;
        let vp8 = writer.payload_params().next().ok_or("no codec was agreed on")?.pt();
        Ok(writer.write(vp8, instant(now)?, frame.time, frame.bytes.clone())?)
    }
}

/// A frame, and its time in the video.
pub(crate) struct Frame {
    time: MediaTime,
    bytes: Vec<u8>,
}

/// The camera: a frame per interval, from when all are connected until all frames have been received.
pub(crate) struct Video<'a> {
    frames: u32,
    written: u32,
    next: Timestamp,
    over: &'a AtomicBool,
    give_up: Timestamp,
    /// The CPU time of the thread before the first frame.
    begun: Option<Usage>,
}

impl<'a> Video<'a> {
    pub(crate) fn new(frames: u32, over: &'a AtomicBool) -> Self {
        let next = Monotonic.now() + INTERVAL;
        Video { frames, written: 0, next, over, give_up: next + GIVE_UP + INTERVAL * frames, begun: None }
    }

    /// Returns whether all frames have been received; begins when all are connected.
    pub(crate) fn is_over(&mut self, clients: &[Client]) -> Done<bool> {
        let now = Monotonic.now();
        if self.begun.is_none() && clients.iter().all(|client| client.connected) {
            (self.begun, self.next) = (Some(Usage::now()), now + INTERVAL);
        }
        match self.over.load(Ordering::Acquire) {
            false if now > self.give_up => Err("not all was received in time".into()),
            over => Ok(over),
        }
    }

    /// Returns when to ask for a frame.
    pub(crate) fn next(&self) -> Timestamp {
        self.next
    }

    /// Returns the next frame, if it is due.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<Frame> {
        if now < self.next {
            return None;
        }
        self.next += INTERVAL;
        if self.begun.is_none() || self.written == self.frames {
            return None;
        }
        let mut bytes = self.written.to_be_bytes().to_vec();
        bytes.extend(now.as_nanos().to_be_bytes());
        bytes.resize(FRAME, self.written as u8);
        let time = MediaTime::from(INTERVAL * self.written);
        self.written += 1;
        Some(Frame { time, bytes })
    }

    /// Returns the CPU time since the first frame.
    pub(crate) fn cpu(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| Usage::now().since(&begun).cpu)
    }
}

/// Reads the number and the time of a frame, if it arrived unchanged.
pub(crate) fn frame(bytes: &[u8]) -> Option<(u32, Timestamp)> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (made, content) = rest.split_first_chunk()?;
    let number = u32::from_be_bytes(*number);
    let whole = bytes.len() == FRAME && content.iter().all(|byte| *byte == number as u8);
    whole.then(|| (number, Timestamp::from_nanos(u64::from_be_bytes(*made))))
}

/// Reads a datagram; `None` if none came in time.
pub(crate) fn read<'a>(socket: &UdpSocket, buffer: &'a mut [u8]) -> Done<Option<(SocketAddr, &'a [u8])>> {
    match socket.recv_from(buffer) {
        Ok((length, from)) => Ok(Some((from, &buffer[..length]))),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn received<'a>(socket: &UdpSocket, from: SocketAddr, packet: &'a [u8]) -> Done<Input<'a>> {
    let received = Receive::new(Protocol::Udp, from, socket.local_addr()?, packet)?;
    Ok(Input::Receive(instant(Monotonic.now())?, received))
}

/// Sends a packet; at a full socket it is lost, and requested again.
pub(crate) fn send(socket: &UdpSocket, packet: &[u8], to: SocketAddr) -> Done {
    match socket.send_to(packet, to) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.into()),
        _ => Ok(()),
    }
}

/// Converts to str0m's clock, which is `std`'s.
pub(crate) fn instant(time: Timestamp) -> Done<Instant> {
    Monotonic::instant_of(time).ok_or_else(|| "the clock is out of range".into())
}

/// Says whether a packet carries media: RTP, and not RTCP (RFC 7983, RFC 5761).
pub(crate) fn is_rtp(packet: &[u8]) -> bool {
    matches!(packet, [128..192, second, ..] if !(192..224).contains(second))
}
