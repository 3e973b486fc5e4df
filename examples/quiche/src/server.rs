//! The subject: a server that sends each packet when quiche says that it should.
//!
//! quiche reads clocks and decides, but it cannot wait: [`quiche::SendInfo::at`] says when a packet should leave, and
//! the program does the rest. Here this is a [`DepartureQueue`], checked after every event, and one timer for when
//! there is no event:
//!
//! ```text
//!   socket readable ─▶ quic.recv ─┐                                  ┌─ the packets whose time has come
//!   its timeout     ─▶ on_timeout ┼─▶ quic.send ─▶ enqueue_at(at) ─▶ turn, pop_due ─▶ send_to
//!   a release time  ──────────────┘   up to `max_release_into_future`   │
//!          ▲                                                            ▼
//!          └────────────────────────── one alarm at `next_due` ─────────┘
//! ```
//!
//! The queue has a rate of its own, the maximum that quiche may ask for. It changes no time from quiche, but spaces
//! packets that quiche leaves together: the ten packets released at once after an idle time, and overdue packets after
//! a stall, leave nine sixteenths of an interval apart.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use example_harness::{Alarm, Sorted};
use softtimers::queue::{DepartureQueue, FlowConfig, FlowId, Popped, Quantum, QueueConfig};
use softtimers::{
    Clock, Config, EventLoop, Happening, Interest, LoopConfig, Monotonic, PaceConfig, SoftTimers, Timestamp,
    Token,
};
use softtimers_net::udp::{RecvBatch, UdpSocket};

use crate::connection::{Failure, PACKET, STREAM, byte_at, limits};

/// When a packet from quiche is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// At once, ignoring its time, as in quiche's own examples.
    AtOnce,
    /// At its time, by a loop whose timer counts whole milliseconds.
    Milliseconds,
    /// At its time.
    OnTime,
}

/// The packets sent, and their times.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// The lateness of every packet relative to `SendInfo::at`.
    pub(crate) lateness: Sorted,
    /// Packets that the socket had no room for. QUIC retransmits their content.
    pub(crate) dropped: u64,
}

/// A server that waits for its one client.
pub(crate) struct Server {
    socket: UdpSocket,
    local: SocketAddr,
    config: quiche::Config,
    release: Release,
    megabits: u64,
    bytes: u64,
}

impl Server {
    /// Serves `bytes` at no more than `megabits` a second, with the certificate and the key of these files.
    pub(crate) fn new(release: Release, megabits: u64, bytes: u64, pem: &Path) -> Result<Self, Failure> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let mut config = limits::config()?;
        let pem = pem.to_str().ok_or("the temporary directory has a name that is not UTF-8")?;
        config.load_cert_chain_from_pem_file(pem)?;
        config.load_priv_key_from_pem_file(pem)?;
        // Only this algorithm of quiche's gives future times; Reno and CUBIC say "now" for every packet.
        config.set_cc_algorithm(quiche::CongestionControlAlgorithm::Bbr2Gcongestion);
        config.enable_pacing(true);
        config.set_max_pacing_rate(megabits); // Mbit/s for this algorithm; the documentation gives no unit.
        Ok(Server { socket, local, config, release, megabits, bytes })
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.local
    }

    /// Serves until the client closes the connection.
    pub(crate) fn serve(mut self) -> Result<Sent, Failure> {
        let mut events = EventLoop::new(LoopConfig::default())?;
        events.register(&self.socket, Token(0), Interest::Readable)?;
        let mut timers = SoftTimers::new(Config::default());
        timers.schedule(events.now(), limits::GIVE_UP, softtimers::Slack::millis(10), Event::GiveUp);
        let mut release = match self.release {
            Release::Milliseconds => Alarm::in_steps(Event::Release, Duration::from_millis(1)),
            Release::AtOnce | Release::OnTime => Alarm::exact(Event::Release),
        };
        let mut protocol = Alarm::within(Event::Protocol, Duration::from_millis(1));

        let mut batch = RecvBatch::new(64, PACKET);
        let mut transfer: Option<Transfer> = None;
        loop {
            match events.next(&mut timers)? {
                Happening::Ready { .. } => self.receive(&mut batch, &mut transfer)?,
                Happening::Due(fired) => match (fired.event, &mut transfer) {
                    (Event::Protocol, Some(transfer)) => transfer.quic.on_timeout(),
                    (Event::GiveUp, _) => return Err("the transfer did not end in time".into()),
                    // After any event, due packets leave below.
                    (Event::Release | Event::Protocol, _) => {}
                },
            }
            let Some(transfer) = &mut transfer else { continue };
            transfer.answer()?;
            transfer.depart(&self.socket, events.now())?;
            transfer.produce(&self.socket, events.now())?;
            release.set(&mut timers, events.now(), transfer.queue.next_due());
            let timeout = transfer.quic.timeout_instant().map(Monotonic::timestamp_of);
            protocol.set(&mut timers, events.now(), timeout);
            if transfer.quic.is_closed() || transfer.quic.is_draining() {
                return Ok(std::mem::take(&mut transfer.sent));
            }
        }
    }

    /// Passes received packets to QUIC. The first one opens the connection.
    fn receive(&mut self, batch: &mut RecvBatch, transfer: &mut Option<Transfer>) -> Result<(), Failure> {
        match self.socket.recv_batch(batch) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            other => other?,
        };
        for datagram in batch.iter() {
            let transfer = match transfer {
                Some(transfer) => transfer,
                None => transfer.insert(self.accept(datagram.from)?),
            };
            let info = quiche::RecvInfo { from: datagram.from, to: self.local };
            transfer.quic.recv(&mut datagram.payload.to_owned(), info)?;
        }
        Ok(())
    }

    fn accept(&mut self, client: SocketAddr) -> Result<Transfer, Failure> {
        // A server on a real network chooses it at random.
        let id = quiche::ConnectionId::from_ref(b"the server's id!");
        let mut queue = DepartureQueue::new(QueueConfig::default());
        let pace = PaceConfig::bits_per_second(self.megabits * 1_000_000)?;
        let config = match self.release {
            Release::AtOnce | Release::OnTime => FlowConfig::new(pace),
            // No rate but quiche's times: all packets that have become due since the last check leave together.
            Release::Milliseconds => FlowConfig {
                quantum: Quantum::within(Duration::from_millis(1)),
                ..FlowConfig::new(PaceConfig::bits_per_second(UNPACED)?)
            },
        };
        let flow = queue.add_flow(config)?;
        Ok(Transfer {
            quic: quiche::accept(&id, None, self.local, client, &mut self.config)?,
            client,
            release: self.release,
            answer: (0..self.bytes).map(byte_at).collect(),
            answered: None,
            queue,
            flow,
            latest: Timestamp::ZERO,
            sent: Sent::default(),
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet may leave.
    Release,
    /// quiche wants to be called.
    Protocol,
    GiveUp,
}

/// A packet that waits for its time.
struct Packet {
    at: Timestamp,
    bytes: Vec<u8>,
}

/// The connection, and its packets waiting to leave.
struct Transfer {
    quic: quiche::Connection,
    client: SocketAddr,
    release: Release,
    answer: Vec<u8>,
    /// The number of bytes of the answer that quiche has accepted; `None` before the request.
    answered: Option<usize>,
    queue: DepartureQueue<Packet>,
    flow: FlowId,
    /// The latest release time that quiche has given.
    latest: Timestamp,
    sent: Sent,
}

impl Transfer {
    /// Passes as much of the answer to quiche as it accepts.
    fn answer(&mut self) -> Result<(), Failure> {
        if self.answered.is_none() && self.quic.stream_readable(STREAM) {
            let (_, fin) = self.quic.stream_recv(STREAM, &mut [0; 64])?;
            self.answered = fin.then_some(0);
        }
        let Some(answered) = &mut self.answered else { return Ok(()) };
        while *answered < self.answer.len() {
            match self.quic.stream_send(STREAM, &self.answer[*answered..], true) {
                Ok(taken) => *answered += taken,
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Lets quiche create packets: only as far ahead as it says, since they contain its current state and count as
    /// sent, and not while many of them wait because of a stall.
    fn produce(&mut self, socket: &UdpSocket, now: Timestamp) -> Result<(), Failure> {
        let horizon = now + self.quic.max_release_into_future();
        while self.release == Release::AtOnce || (self.latest <= horizon && self.queue.len() < MOST_WAITING) {
            let mut bytes = vec![0; PACKET];
            let (length, info) = match self.quic.send(&mut bytes) {
                Ok(made) => made,
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(error.into()),
            };
            bytes.truncate(length);
            self.latest = Monotonic::timestamp_of(info.at);
            let packet = Packet { at: self.latest, bytes };
            if self.release == Release::AtOnce {
                self.send(socket, packet)?;
            } else {
                let queued = self.queue.enqueue_at(now, self.flow, packet.at, length as u32, packet);
                queued.map_err(|refused| refused.reason)?;
            }
        }
        Ok(())
    }

    /// Sends the due packets.
    fn depart(&mut self, socket: &UdpSocket, now: Timestamp) -> Result<(), Failure> {
        let turn = self.queue.turn(now);
        while let Some(Popped::Departure(departure)) = self.queue.pop_due(&turn) {
            self.send(socket, departure.token)?;
        }
        Ok(())
    }

    fn send(&mut self, socket: &UdpSocket, packet: Packet) -> Result<(), Failure> {
        self.sent.lateness.add_lateness(packet.at, Monotonic.now());
        match socket.send_to(&packet.bytes, self.client) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.sent.dropped += 1,
            other => drop(other?),
        }
        Ok(())
    }
}

/// The most waiting packets: a flow has at most a hundred, and being further ahead of the path is useless.
const MOST_WAITING: usize = 64;
/// More bits a second than loopback carries.
const UNPACED: u64 = 1_000_000_000_000;
