//! The other end: a client that requests the bytes, checks them, and records when each packet came.
//!
//! It is at the end of a path with a delay. Loopback has none, and without a round-trip time a congestion window is a
//! packet or two; so arriving packets reach QUIC only after a delay:
//!
//! ```text
//!   server ── loopback ──▶ kernel's receive time ──▶ delay line ──▶ quiche ── ACKs ── loopback ──▶ server
//!                          gaps are taken here       10 ms
//! ```

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use example_harness::{Alarm, Spacing};
use softtimers::{
    Clock, Config, EventLoop, Happening, Interest, LoopConfig, Monotonic, SoftTimers, Timestamp, Token,
};
use softtimers_net::udp::{RecvBatch, UdpSocket};

use crate::connection::{Failure, PACKET, REQUEST, STREAM, byte_at, limits};

/// The packets that arrived, and their spacing.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: u64,
    pub(crate) spacing: Spacing,
    /// The time from the request to the last byte.
    pub(crate) took: Duration,
}

/// Fetches from `server` over a path with this round-trip time; `interval` is the target gap of packets.
pub(crate) fn fetch(server: SocketAddr, path: Duration, interval: Duration) -> Result<Received, Failure> {
    let mut client = Client::new(server, path, interval)?;
    let mut events = EventLoop::new(LoopConfig::default())?;
    events.register(&client.socket, Token(0), Interest::Readable)?;
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(events.now(), limits::GIVE_UP, softtimers::Slack::millis(10), Event::GiveUp);
    let mut arrival = Alarm::exact(Event::Arrival);
    // Loss detection and idle times need no more precision than a millisecond.
    let mut protocol = Alarm::within(Event::Protocol, Duration::from_millis(1));

    client.send()?;
    while !client.quic.is_closed() && !client.quic.is_draining() {
        match events.next(&mut timers)? {
            Happening::Ready { .. } => client.receive()?,
            Happening::Due(fired) => match fired.event {
                Event::Arrival => client.deliver(events.now())?,
                Event::Protocol => client.quic.on_timeout(),
                Event::GiveUp => return Err("the transfer did not end in time".into()),
            },
        }
        client.read(events.now())?;
        client.send()?;
        arrival.set(&mut timers, events.now(), client.delayed.front().map(|(due, _)| *due));
        let timeout = client.quic.timeout_instant().map(Monotonic::timestamp_of);
        protocol.set(&mut timers, events.now(), timeout);
    }
    client.finished()
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet has reached the end of the path.
    Arrival,
    /// quiche wants to be called.
    Protocol,
    GiveUp,
}

struct Client {
    socket: UdpSocket,
    local: SocketAddr,
    server: SocketAddr,
    quic: quiche::Connection,
    batch: RecvBatch,
    path: Duration,
    /// The packets under way, each with its time of arrival.
    delayed: VecDeque<(Timestamp, Vec<u8>)>,
    spacing: Spacing,
    asked: Option<Timestamp>,
    took: Option<Duration>,
    bytes: u64,
}

impl Client {
    fn new(server: SocketAddr, path: Duration, interval: Duration) -> Result<Self, Failure> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        socket.set_timestamps(true)?;
        let local = socket.local_addr()?;
        let mut config = limits::config()?;
        config.verify_peer(false); // The certificate was made a moment ago, by the other thread.
        let id = quiche::ConnectionId::from_ref(b"the client's id!");
        let quic = quiche::connect(Some("localhost"), &id, local, server, &mut config)?;
        Ok(Client {
            socket,
            local,
            server,
            quic,
            batch: RecvBatch::new(64, PACKET),
            path,
            delayed: VecDeque::new(),
            spacing: Spacing::new(interval),
            asked: None,
            took: None,
            bytes: 0,
        })
    }

    /// Receives packets, and puts them on the path.
    fn receive(&mut self) -> Result<(), Failure> {
        match self.socket.recv_batch(&mut self.batch) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            other => other?,
        };
        for datagram in self.batch.iter() {
            let received = datagram.received.unwrap_or_else(|| Monotonic.now());
            // The stream's packets are full ones, except for the last.
            if self.asked.is_some() && datagram.payload.len() > PACKET / 2 {
                self.spacing.packet(received);
            }
            self.delayed.push_back((received + self.path, datagram.payload.to_owned()));
        }
        Ok(())
    }

    /// Passes packets at the end of the path to QUIC.
    fn deliver(&mut self, now: Timestamp) -> Result<(), Failure> {
        while self.delayed.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, mut packet)) = self.delayed.pop_front() else { break };
            let info = quiche::RecvInfo { from: self.server, to: self.local };
            self.quic.recv(&mut packet, info)?;
        }
        Ok(())
    }

    /// Sends the request as soon as possible, and reads what has come of the answer.
    fn read(&mut self, now: Timestamp) -> Result<(), Failure> {
        if self.quic.is_established() && self.asked.is_none() {
            self.quic.stream_send(STREAM, REQUEST, true)?;
            self.asked = Some(now);
        }
        let mut buffer = [0; 16 * 1_024];
        while self.quic.stream_readable(STREAM) {
            let (length, fin) = self.quic.stream_recv(STREAM, &mut buffer)?;
            let expected = |(at, byte): (usize, &u8)| *byte == byte_at(self.bytes + at as u64);
            if !buffer[..length].iter().enumerate().all(expected) {
                return Err(format!("other bytes than were sent, from {} on", self.bytes).into());
            }
            self.bytes += length as u64;
            if fin {
                self.took = self.asked.map(|asked| now.saturating_duration_since(asked));
                self.quic.close(true, 0, b"done")?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; PACKET];
        loop {
            match self.quic.send(&mut buffer) {
                Ok((length, info)) => self.socket.send_to(&buffer[..length], info.to)?,
                Err(quiche::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
        }
    }

    fn finished(self) -> Result<Received, Failure> {
        let Some(took) = self.took else { return Err("the connection closed before the last byte".into()) };
        Ok(Received { bytes: self.bytes, spacing: self.spacing, took })
    }
}
