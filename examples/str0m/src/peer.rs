//! One end of the call: an `Rtc`, its socket, and the time of its next call.
//!
//! str0m's one rule is that after each call an `Rtc` is drained until only a time is left ([`str0m::Output::Timeout`]).
//! [`Peer`] follows that rule, so that the loops around it need not.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::udp::{RecvBatch, UdpSocket};
use str0m::bwe::Bitrate;
use str0m::media::{Direction, MediaKind, Mid};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};

/// An error ends the run without being handled.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// No call takes half of this.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(5);

pub(crate) struct Peer {
    pub(crate) rtc: Rtc,
    pub(crate) socket: Arc<UdpSocket>,
    local: SocketAddr,
    timeout: Timestamp,
}

/// The output of an `Rtc`, without times.
#[expect(clippy::large_enum_variant, reason = "str0m hands them out so; they are moved, not kept")]
pub(crate) enum Said {
    /// A packet to send to this address.
    Packet(Vec<u8>, SocketAddr),
    Event(Event),
}

/// Returns two peers that know each other and one stream of video, but have not sent anything yet.
pub(crate) fn introduced(bitrate: Bitrate) -> Result<(Peer, Peer, Mid), Failure> {
    let mut sender = Peer::new(Some(bitrate))?;
    let mut receiver = Peer::new(None)?;
    let mut change = sender.rtc.sdp_api();
    let mid = change.add_media(MediaKind::Video, Direction::SendOnly, None, None, None);
    let (offer, pending) = change.apply().ok_or("str0m has nothing to offer")?;
    let answer = receiver.rtc.sdp_api().accept_offer(offer)?;
    sender.rtc.sdp_api().accept_answer(pending, answer)?;
    // The bitrate that the estimator should probe for.
    sender.rtc.bwe().set_bitrate(Bitrate::ZERO, bitrate);
    Ok((sender, receiver, mid))
}

impl Peer {
    fn new(estimate: Option<Bitrate>) -> Result<Self, Failure> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        socket.set_timestamps(true)?;
        let local = socket.local_addr()?;
        let now = Monotonic.now();
        let mut rtc =
            Rtc::builder().clear_codecs().enable_vp8(true).enable_bwe(estimate).build(instant(now)?);
        rtc.add_local_candidate(Candidate::host(local, "udp")?);
        Ok(Peer { rtc, socket: Arc::new(socket), local, timeout: now })
    }

    /// Returns when the `Rtc` wants to be called.
    pub(crate) fn timeout(&self) -> Timestamp {
        self.timeout
    }

    /// Calls it at its requested time.
    pub(crate) fn call(
        &mut self,
        now: Timestamp,
        say: impl FnMut(Said) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.rtc.handle_input(Input::Timeout(instant(now)?))?;
        self.drain(say)
    }

    /// Passes everything that has arrived to it.
    pub(crate) fn receive(
        &mut self,
        batch: &mut RecvBatch,
        mut packet: impl FnMut(Timestamp, &[u8]),
        mut say: impl FnMut(Said) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.socket.recv_batch(batch) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            other => other?,
        };
        for datagram in batch.iter() {
            let now = Monotonic.now();
            packet(datagram.received.unwrap_or(now), datagram.payload);
            let received = Receive {
                proto: Protocol::Udp,
                source: datagram.from,
                destination: self.local,
                contents: datagram.payload.try_into()?,
            };
            self.rtc.handle_input(Input::Receive(instant(now)?, received))?;
            self.drain(&mut say)?;
        }
        Ok(())
    }

    /// Reads all output of the `Rtc`.
    pub(crate) fn drain(&mut self, mut say: impl FnMut(Said) -> Result<(), Failure>) -> Result<(), Failure> {
        loop {
            match self.rtc.poll_output()? {
                Output::Transmit(transmit) => {
                    say(Said::Packet(transmit.contents.into(), transmit.destination))?;
                }
                Output::Event(event) => say(Said::Event(event))?,
                Output::Timeout(timeout) => {
                    self.timeout = Monotonic::timestamp_of(timeout);
                    return Ok(());
                }
            }
        }
    }
}

/// Converts to str0m's clock, which is `std`'s.
pub(crate) fn instant(time: Timestamp) -> Result<Instant, Failure> {
    Monotonic::instant_of(time).ok_or_else(|| "the clock is out of range".into())
}

/// Says whether a packet carries media: RTP, and not RTCP (RFC 7983, RFC 5761).
pub(crate) fn is_rtp(packet: &[u8]) -> bool {
    matches!(packet, [128..192, second, ..] if !(192..224).contains(second))
}
