//! A request and its answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::CubicConfig;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, Dir, Event, ReadError, ServerConfig, StreamId, TransportConfig, VarInt,
    WriteError,
};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::pki_types::PrivateKeyDer;
use softtimers_core::{Percent, Timestamp};
use softtimers_quinn::{KnownCapacity, SmoothController};
use softtimers_wan::{Bottleneck, PathConfig, Queue, Wan};

use super::peer::{Packet, Peer};
use crate::bench::Done;

/// 50 ms each way, and a slow link for the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Its rate, in Mbit/s.
    pub mbit: u64,
}

/// How the server sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Slow start from two packets.
    TwoPackets,
    /// Sends as quinn does by default.
    Default,
    /// At the known capacity, through the gate.
    Known {
        /// The share of it with which the first train begins.
        percent: u32,
    },
}

/// Bytes of an answer per packet: the paper's 141 KB for a hundred packets.
pub const PACKET: u64 = 1_410;

/// Measures how long a client waits for an answer of `packets` packets: from its request on an established connection;
/// or, with `set_up`, from its decision to connect.
///
/// # Errors
/// None, unless something is broken.
pub fn time(path: Path, way: Way, packets: u64, set_up: bool) -> Done<Duration> {
    let mut network = Network::new(path, way)?;
    if !set_up {
        network.connect()?;
        network.rest(PAUSE)?;
    }
    let asked = network.now;
    Ok(network.ask(packets * PACKET)?.saturating_duration_since(asked))
}

/// As [`time`], for the second of two such answers on one connection, with five seconds between them.
///
/// # Errors
/// As [`time`].
pub fn restart(path: Path, way: Way, packets: u64) -> Done<Duration> {
    let mut network = Network::new(path, way)?;
    network.ask(packets * PACKET)?;
    network.rest(PAUSE)?;
    let asked = network.now;
    Ok(network.ask(packets * PACKET)?.saturating_duration_since(asked))
}

/// Both ends and the path between them.
struct Network {
    wan: Wan<Packet>,
    client: Peer,
    server: Peer,
    epoch: Instant,
    now: Timestamp,
    connected: bool,
}

impl Network {
    fn new(path: Path, way: Way) -> Done<Self> {
        let delayed = PathConfig::default().delay(Duration::from_millis(50)).overhead(HEADERS);
        let link = Bottleneck::bits_per_second(path.mbit * 1_000_000)?;
        let answers = delayed.clone().bottleneck(link).queue(Queue::packets(20_000));
        let wan = Wan::builder().up(delayed).down(answers).build()?;
        let [near, far] = [1, 2].map(|last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 443)));
        let (client_config, server_config) = configs(path, way)?;
        let mut client = Peer::new(None, softtimers_wan::Way::Up, far, false);
        let gated = matches!(way, Way::Known { .. });
        let server = Peer::new(Some(server_config), softtimers_wan::Way::Down, near, gated);
        #[expect(clippy::disallowed_methods, reason = "an Instant to count from; no later one is read")]
        let epoch = Instant::now();
        let (handle, connection) = client.endpoint.connect(epoch, client_config, far, "server")?;
        client.connections.insert(handle, connection);
        Ok(Network { wan, client, server, epoch, now: Timestamp::ZERO, connected: false })
    }

    /// Runs until `done` is satisfied by what has arrived, or until `end`.
    fn until(&mut self, end: Option<Timestamp>, mut done: impl FnMut(&mut Self) -> Done<bool>) -> Done {
        loop {
            self.arrive()?;
            if done(self)? || end.is_some_and(|end| self.now >= end) {
                return Ok(());
            }
            let (now, instant) = (self.now, self.instant());
            self.client.drive(now, instant, &mut self.wan);
            self.server.drive(now, instant, &mut self.wan);
            // Advance to the next event.
            let timeouts = [self.client.poll_timeout(self.epoch), self.server.poll_timeout(self.epoch)];
            let next = timeouts.into_iter().flatten().chain(self.wan.poll_at()).chain(end).min();
            self.now = next.ok_or("both ends wait for each other")?.max(self.now);
        }
    }

    fn connect(&mut self) -> Done {
        self.until(None, |network| Ok(network.connected))
    }

    /// Lets this time pass without requests.
    fn rest(&mut self, pause: Duration) -> Done {
        self.until(Some(self.now + pause), |_| Ok(false))
    }

    /// Requests `bytes`; returns when the last of them has arrived.
    fn ask(&mut self, bytes: u64) -> Done<Timestamp> {
        self.connect()?;
        let client = self.client.connection().ok_or("no connection")?;
        let stream = client.streams().open(Dir::Bi).ok_or("no stream")?;
        client.send_stream(stream).write(b"GET")?;
        client.send_stream(stream).finish()?;
        let (mut left, mut missing, mut asked) = (bytes, bytes, None);
        self.until(None, |network| {
            if let Some(server) = network.server.connection() {
                asked = asked.or_else(|| server.streams().accept(Dir::Bi));
                if let Some(stream) = asked {
                    write(server, stream, &mut left)?;
                }
            }
            missing -= read(network.client.connection().ok_or("no connection")?, stream)?;
            Ok(missing == 0)
        })?;
        Ok(self.now)
    }

    fn instant(&self) -> Instant {
        self.epoch + self.now.saturating_duration_since(Timestamp::ZERO)
    }

    /// Delivers the datagrams that have arrived by now.
    fn arrive(&mut self) -> Done {
        let instant = self.instant();
        let Network { wan, client, server, now, connected, .. } = self;
        while let Some((way, delivery)) = wan.pop_due(*now) {
            let to = if way == softtimers_wan::Way::Up { &mut *server } else { &mut *client };
            to.take(instant, delivery.packet)?;
        }
        for (peer, is_client) in [(client, true), (server, false)] {
            while let Some(event) = peer.connection().and_then(Connection::poll) {
                match event {
                    Event::Connected => *connected |= is_client,
                    Event::ConnectionLost { reason } => return Err(reason.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Writes as much of the answer as fits.
fn write(server: &mut Connection, stream: StreamId, left: &mut u64) -> Done {
    let chunk = [0x55; 16_384];
    while *left > 0 {
        let most = (chunk.len() as u64).min(*left) as usize;
        match server.send_stream(stream).write(&chunk[..most]) {
            Ok(written) => *left -= written as u64,
            Err(WriteError::Blocked) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads what has arrived, and returns the number of bytes.
fn read(client: &mut Connection, stream: StreamId) -> Done<u64> {
    let mut stream = client.recv_stream(stream);
    let mut chunks = stream.read(true)?;
    let mut bytes = 0;
    loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
            Ok(None) | Err(ReadError::Blocked) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let _ = chunks.finalize();
    Ok(bytes)
}

/// Creates a certificate for one run. Ed25519 signatures all have the same length.
fn configs(path: Path, way: Way) -> Done<(ClientConfig, ServerConfig)> {
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let certificate = CertificateParams::new(vec!["server".into()])?.self_signed(&key)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    client.transport_config(Arc::new(transport(path)));
    let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate.der().clone()], secret)?;
    let mut sends = transport(path);
    match way {
        Way::Default => {}
        Way::TwoPackets => {
            let mut cubic = CubicConfig::default();
            // quinn sends while there is room for one byte more.
            cubic.initial_window(2 * u64::from(DATAGRAM) + 1);
            sends.congestion_controller_factory(Arc::new(cubic));
        }
        Way::Known { percent } => {
            let known = KnownCapacity::bits_per_second(path.mbit * 1_000_000)?;
            let known = known.initial_fraction(Percent::new(percent)?)?;
            sends.congestion_controller_factory(Arc::new(SmoothController::new(known)));
        }
    }
    server.transport_config(Arc::new(sends));
    Ok((client, server))
}

/// Full packets from the first on, and twice the path's capacity in flight, so that flow control and path MTU discovery
/// do not matter.
fn transport(path: Path) -> TransportConfig {
    let held = u32::try_from(path.mbit * 1_000_000 / 8 / 10).map_or(u32::MAX, |bytes| bytes * 2);
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(held)).send_window(2 * u64::from(held));
    transport.initial_mtu(DATAGRAM).min_mtu(DATAGRAM).mtu_discovery_config(None);
    transport.max_idle_timeout(None);
    transport
}

/// Bytes of a full datagram: 1,500 with its headers.
const DATAGRAM: u16 = 1_452;
const HEADERS: u32 = 48;
/// The time between connecting and asking, and between two answers.
const PAUSE: Duration = Duration::from_secs(5);
