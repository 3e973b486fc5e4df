//! quinn-proto's QUIC over a path in virtual time: seconds of transfer in milliseconds.
//!
//! quinn-proto takes the time as `std::time::Instant`, which cannot be created from nothing: one is read at the
//! beginning, and all later ones are relative to it.

use std::collections::HashMap;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig,
    Event, MtuDiscoveryConfig, ReadError, ServerConfig, StreamId, Transmit, TransportConfig, VarInt,
    WriteError,
};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::pki_types::PrivateKeyDer;
use softtimers_core::Timestamp;
use softtimers_wan::{Wan, WanBuilder, Way};
use wan_examples::{Line, Transfer, lines, show};

/// A datagram on the path: its bytes, and the ECN bits of its IP header.
type Packet = (Vec<u8>, Option<EcnCodepoint>);

/// One end of the connection.
struct Peer {
    endpoint: Endpoint,
    connections: HashMap<ConnectionHandle, Connection>,
    way: Way,
    far: SocketAddr,
}

impl Peer {
    fn new(server: Option<ServerConfig>, way: Way, far: SocketAddr) -> Self {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([1 + way as u8; 32]));
        let endpoint = Endpoint::new(Arc::new(config), server.map(Arc::new), false, None);
        Peer { endpoint, connections: HashMap::new(), way, far }
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        self.connections.values_mut().next()
    }

    /// Receives a datagram.
    fn take(&mut self, now: Instant, (bytes, ecn): Packet) -> Result<(), Box<dyn Error>> {
        let mut buffer = vec![];
        match self.endpoint.handle(now, self.far, None, ecn, bytes.as_slice().into(), &mut buffer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut buffer, None);
                let (handle, connection) = accepted.map_err(|error| error.cause)?;
                self.connections.insert(handle, connection);
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        Ok(())
    }

    /// Lets the connection work, and puts its datagrams on the path.
    fn drive(&mut self, now: Timestamp, instant: Instant, wan: &mut Wan<Packet>) {
        let mut buffer = vec![];
        for (handle, connection) in &mut self.connections {
            if connection.poll_timeout().is_some_and(|at| at <= instant) {
                connection.handle_timeout(instant);
            }
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(answer);
                }
            }
            while let Some(Transmit { size, ecn, .. }) = connection.poll_transmit(instant, 1, &mut buffer) {
                wan.offer(now, self.way, size as u32, (buffer[..size].to_vec(), ecn));
                buffer.clear();
            }
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.connections.values_mut().filter_map(Connection::poll_timeout).min()
    }
}

/// Creates a certificate for one run. Ed25519 signatures all have the same length.
fn configs() -> Result<(ClientConfig, ServerConfig), Box<dyn Error>> {
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let certificate = CertificateParams::new(vec!["server".into()])?.self_signed(&key)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let crypto = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(4 << 20)).send_window(4 << 20);
    transport.mtu_discovery_config(None::<MtuDiscoveryConfig>);
    let transport = Arc::new(transport);
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    client.transport_config(Arc::clone(&transport));
    let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate.der().clone()], secret)?;
    server.transport_config(transport);
    Ok((client, server))
}

/// Sends `bytes` from a client on one stream.
fn transfer(path: WanBuilder, bytes: u64) -> Result<Transfer, Box<dyn Error>> {
    let mut wan: Wan<Packet> = path.build()?;
    let [near, far] = [1, 2].map(|last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 443)));
    let (client_config, server_config) = configs()?;
    let mut client = Peer::new(None, Way::Up, far);
    let mut server = Peer::new(Some(server_config), Way::Down, near);

    #[expect(clippy::disallowed_methods, reason = "an Instant to count from; no later one is read")]
    let epoch = Instant::now();
    let instant = |now: Timestamp| epoch + now.saturating_duration_since(Timestamp::ZERO);
    let (handle, connection) = client.endpoint.connect(epoch, client_config, far, "server")?;
    client.connections.insert(handle, connection);

    let mut now = Timestamp::ZERO;
    let mut sender = Sender { stream: None, left: bytes };
    let mut receiver = Receiver { stream: None, received: 0 };
    while receiver.received < bytes {
        while let Some((way, delivery)) = wan.pop_due(now) {
            let (bytes, ecn) = delivery.packet;
            let ecn = if delivery.marked && ecn.is_some() { Some(EcnCodepoint::Ce) } else { ecn };
            let to = if way == Way::Up { &mut server } else { &mut client };
            to.take(instant(now), (bytes, ecn))?;
        }
        sender.work(&mut client)?;
        receiver.work(&mut server)?;
        client.drive(now, instant(now), &mut wan);
        server.drive(now, instant(now), &mut wan);
        let timeouts = [client.poll_timeout(), server.poll_timeout()].into_iter().flatten();
        let timeouts = timeouts.map(|at| Timestamp::ZERO + at.saturating_duration_since(epoch));
        let next = timeouts.chain(wan.poll_at()).min().ok_or("both ends wait for each other")?;
        now = next.max(now);
    }
    let counters = wan.direction(Way::Up).counters();
    Ok(Transfer { bytes, end: now, queue_drops: counters.queue_drops, lost: counters.lost })
}

struct Sender {
    stream: Option<StreamId>,
    left: u64,
}

impl Sender {
    fn work(&mut self, client: &mut Peer) -> Result<(), Box<dyn Error>> {
        let Some(connection) = client.connection() else { return Ok(()) };
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.stream = connection.streams().open(Dir::Uni),
                Event::ConnectionLost { reason } => return Err(reason.into()),
                _ => {}
            }
        }
        let Some(stream) = self.stream else { return Ok(()) };
        let chunk = [0x55; 16_384];
        while self.left > 0 {
            let most = (chunk.len() as u64).min(self.left) as usize;
            match connection.send_stream(stream).write(&chunk[..most]) {
                Ok(written) => self.left -= written as u64,
                Err(WriteError::Blocked) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

struct Receiver {
    stream: Option<StreamId>,
    received: u64,
}

impl Receiver {
    fn work(&mut self, server: &mut Peer) -> Result<(), Box<dyn Error>> {
        let Some(connection) = server.connection() else { return Ok(()) };
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                return Err(reason.into());
            }
        }
        self.stream = self.stream.or_else(|| connection.streams().accept(Dir::Uni));
        let Some(id) = self.stream else { return Ok(()) };
        let mut stream = connection.recv_stream(id);
        let mut chunks = stream.read(true)?;
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.received += chunk.bytes.len() as u64,
                Ok(None) | Err(ReadError::Blocked) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let _ = chunks.finalize();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in lines()? {
        let Line { path, rate_bps, .. } = &line;
        let result = transfer(path.clone(), 4_000_000)?;
        show(&line, &result);
        assert!(result.goodput_bps() < *rate_bps);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use softtimers_wan::{Bottleneck, Limit, PathConfig, Queue};

    use super::*;

    #[test]
    fn every_line_carries_it_and_none_more_than_it_can() {
        main().unwrap();
    }

    /// Only the keys are random: the packets have the same lengths and times in each run.
    #[test]
    fn a_run_can_be_repeated() {
        let [_, _, radio] = lines().unwrap();
        let run = || transfer(radio.path.clone(), 500_000).unwrap();
        assert_eq!(run(), run());
    }

    /// A queue that marks early keeps the sender from filling it, so no packet is dropped.
    #[test]
    fn marks_are_heeded() {
        let path = |queue| {
            let path = PathConfig::default().bottleneck(Bottleneck::bits_per_second(10_000_000).unwrap());
            let path = path.delay(Duration::from_millis(20)).queue(queue);
            Wan::builder().both(path)
        };
        let plain = transfer(path(Queue::packets(60)), 4_000_000).unwrap();
        let marking = transfer(path(Queue::packets(60).marking(Limit::Packets(20))), 4_000_000).unwrap();
        assert!(marking.queue_drops < plain.queue_drops, "{} and {}", marking.queue_drops, plain.queue_drops);
    }
}
