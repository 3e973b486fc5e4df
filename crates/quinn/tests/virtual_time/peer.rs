//! One end of a connection in virtual time: quinn-proto, driven as quinn's task drives it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, ServerConfig,
    Transmit,
};
use softtimers_core::{Random, Timestamp};
use softtimers_quinn::gate::{Gate, Verdict};
use softtimers_wan::{Admission, Wan, Way};

/// A datagram as it crosses the path.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) flow: usize,
    pub(crate) from: SocketAddr,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ecn: Option<EcnCodepoint>,
}

/// How late a program is that waits for packets and timers, as on a busy machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lateness {
    /// The mean lateness of a wake-up.
    pub(crate) wake_up: Duration,
    /// How long it does not run at all, and the mean time from one such time to the next.
    pub(crate) stall: Duration,
    pub(crate) every: Duration,
}

impl Lateness {
    pub(crate) const NONE: Lateness =
        Lateness { wake_up: Duration::ZERO, stall: Duration::ZERO, every: Duration::ZERO };
}

/// One end.
pub(crate) struct Peer {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Option<(ConnectionHandle, Connection)>,
    pub(crate) address: SocketAddr,
    pub(crate) way: Way,
    pub(crate) flow: usize,
    /// `None` for quinn as it is.
    pub(crate) gate: Option<Gate>,
    /// Packets offered to the bottleneck, and dropped by its queue.
    pub(crate) offered: u64,
    pub(crate) dropped: u64,
    /// Transmits that have left.
    pub(crate) transmits: u64,
    buffer: Vec<u8>,
    /// Built, and waits at the gate; its bytes are in the buffer.
    waits: Option<Transmit>,
    /// What has arrived and was not taken yet, and when the program runs for it.
    inbox: VecDeque<Packet>,
    runs: Option<Timestamp>,
    lateness: Lateness,
    random: Random,
    /// The lateness of the next wake-up, and the next time without the program.
    late: Duration,
    away: [Timestamp; 2],
}

impl Peer {
    pub(crate) fn new(
        flow: usize,
        way: Way,
        address: SocketAddr,
        server: Option<ServerConfig>,
        gate: Option<Gate>,
        seed: u64,
    ) -> Self {
        let mut config = EndpointConfig::default();
        let mut rng = [1 + way as u8; 32];
        rng[..8].copy_from_slice(&seed.to_le_bytes());
        rng[8] = flow as u8;
        config.rng_seed(Some(rng));
        Peer {
            endpoint: Endpoint::new(Arc::new(config), server.map(Arc::new), true, None),
            connection: None,
            address,
            way,
            flow,
            gate,
            offered: 0,
            dropped: 0,
            transmits: 0,
            buffer: Vec::new(),
            waits: None,
            inbox: VecDeque::new(),
            runs: None,
            lateness: Lateness::NONE,
            random: Random::stream(seed, 2 * flow as u64 + way as u64),
            late: Duration::ZERO,
            away: [Timestamp::ZERO; 2],
        }
    }

    /// It is late from now on.
    pub(crate) fn set_lateness(&mut self, lateness: Lateness) {
        self.lateness = lateness;
    }

    fn drawn(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(self.random.exponential() as f64 / Random::ONE as f64)
    }

    /// When it runs for something that happens at this time.
    fn after(&self, at: Timestamp) -> Timestamp {
        let at = at + self.late;
        if (self.away[0]..self.away[1]).contains(&at) { self.away[1] } else { at }
    }

    /// Something has arrived, or its program has something to do: it runs for that.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        self.runs = self.runs.or(Some(self.after(now)));
    }

    /// A datagram has arrived.
    pub(crate) fn receive(&mut self, now: Timestamp, packet: Packet) {
        self.inbox.push_back(packet);
        self.wake(now);
    }

    /// It runs: it takes what has arrived.
    pub(crate) fn run(&mut self, now: Timestamp, instant: Instant) {
        self.runs = None;
        self.late = self.drawn(self.lateness.wake_up);
        if !self.lateness.stall.is_zero() && now >= self.away[1] {
            let from = now + self.drawn(self.lateness.every);
            self.away = [from, from + self.lateness.stall];
        }
        while let Some(packet) = self.inbox.pop_front() {
            self.take(instant, packet);
        }
    }

    pub(crate) fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    fn take(&mut self, now: Instant, packet: Packet) {
        let Packet { from, bytes, ecn, .. } = packet;
        let mut answer = vec![];
        match self.endpoint.handle(now, from, None, ecn, bytes.as_slice().into(), &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut answer, None);
                self.connection = Some(accepted.map_err(|error| error.cause).unwrap());
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(connection) = self.connection() {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// Lets the connection work; what it sends, and may send, goes on the path.
    pub(crate) fn drive(&mut self, now: Timestamp, instant: Instant, wan: &mut Wan<Packet>) {
        let Peer {
            endpoint,
            connection,
            way,
            flow,
            address,
            gate,
            buffer,
            waits,
            offered,
            dropped,
            transmits,
            ..
        } = self;
        let Some((handle, connection)) = connection else { return };
        if connection.poll_timeout().is_some_and(|at| at <= instant) {
            connection.handle_timeout(instant);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        loop {
            let transmit = match waits.take() {
                Some(transmit) => transmit,
                None => {
                    buffer.clear();
                    let most = gate.as_mut().map_or(MOST_SEGMENTS, |gate| gate.begin(MOST_SEGMENTS));
                    let mut build = || connection.poll_transmit(instant, most, buffer);
                    let built = match gate {
                        Some(gate) => gate.drive(build),
                        None => build(),
                    };
                    let Some(transmit) = built else { return };
                    transmit
                }
            };
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            let (packets, bytes) = (transmit.size.div_ceil(segment) as u32, transmit.size as u32);
            if let Some(gate) = gate {
                if let Verdict::Wait(_) = gate.offer(now, packets, bytes) {
                    *waits = Some(transmit);
                    return;
                }
                gate.departed(now, packets, bytes);
            }
            *transmits += 1;
            for packet in buffer[..transmit.size].chunks(segment) {
                let content =
                    Packet { flow: *flow, from: *address, bytes: packet.to_vec(), ecn: transmit.ecn };
                *offered += 1;
                let admission = wan.offer(now, *way, packet.len() as u32, content);
                *dropped += u64::from(admission == Admission::QueueFull);
            }
        }
    }

    /// Returns when it runs next. quinn's timers count in milliseconds; those of a
    /// connection with a gate are late by a wake-up.
    pub(crate) fn next(&mut self, epoch: Instant) -> Option<Timestamp> {
        let timer = self.poll_timeout(epoch).map(|at| self.after(at));
        timer.into_iter().chain(self.runs).min()
    }

    fn poll_timeout(&mut self, epoch: Instant) -> Option<Timestamp> {
        let timeout = self.connection().and_then(Connection::poll_timeout);
        let timeout = timeout.map(|at| Timestamp::ZERO + at.saturating_duration_since(epoch));
        let Some(gate) = &self.gate else {
            let millis = |at: Timestamp| Timestamp::from_micros(at.as_nanos().div_ceil(1_000_000) * 1_000);
            return timeout.map(millis);
        };
        let release = self.waits.as_ref().and_then(|_| gate.waits_until());
        timeout.into_iter().chain(release).min().map(|at| at + WAKE_UP)
    }
}

/// Packets in one transmit, as quinn has it.
const MOST_SEGMENTS: usize = 10;
const WAKE_UP: Duration = Duration::from_micros(30);
