//! Two endpoints, a certificate for one run, and a path between them.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use quinn::congestion::{ControllerFactory, CubicConfig};
use quinn::rustls::pki_types::PrivateKeyDer;
use quinn::rustls::{RootCertStore, crypto::ring};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TokioRuntime,
    TransportConfig,
};
use rcgen::{CertificateParams, KeyPair};
use softtimers_quinn::{EvenCubic, SmoothController, SmoothRuntime};
use softtimers_wan::udp::RelayConfig;
use softtimers_wan::{Carried, PathConfig, Relay, Wan, Way};

/// No test waits longer for anything.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

/// Bytes: `small` in CI, `full` if asked for.
pub(crate) fn size(small: u64, full: u64) -> u64 {
    if std::env::var_os("SOFTTIMERS_FULL").is_some() { full } else { small }
}

/// Runs a test on a runtime of its own, with two threads, for at most [`WAIT`] (five times that if it is full).
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let limit = WAIT * size(1, 5) as u32;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("no end in sight") })
}

/// Configurations of both sides, with the same transport.
pub(crate) fn configs(transport: TransportConfig) -> (ClientConfig, ServerConfig) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["server".into()]).unwrap().self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let _ = ring::default_provider().install_default();
    let transport = Arc::new(transport);
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    client.transport_config(Arc::clone(&transport));
    let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate.der().clone()], secret).unwrap();
    server.transport_config(transport);
    (client, server)
}

/// A transport whose controllers tell the gate, or none if `smooth` is false.
pub(crate) fn transport<F>(smooth: bool, factory: F) -> TransportConfig
where
    F: ControllerFactory + Send + Sync + 'static,
{
    let mut transport = TransportConfig::default();
    if smooth {
        transport.congestion_controller_factory(Arc::new(SmoothController::new(factory)));
    } else {
        transport.congestion_controller_factory(Arc::new(factory));
    }
    transport.max_idle_timeout(Some(IdleTimeout::try_from(Duration::from_secs(20)).unwrap()));
    transport
}

/// A client and a server, each on a runtime of its own kind.
pub(crate) struct Pair {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    /// The client's runtime; nothing counts if it is stock.
    pub(crate) near: SmoothRuntime,
    pub(crate) far: SmoothRuntime,
}

impl Pair {
    /// Returns a pair with the gate and the even controller on both sides.
    pub(crate) fn smooth() -> Pair {
        Pair::new(true, transport(true, EvenCubic::default()))
    }

    /// quinn as it is.
    pub(crate) fn stock() -> Pair {
        Pair::new(false, transport(false, CubicConfig::default()))
    }

    pub(crate) fn new(smooth: bool, transport: TransportConfig) -> Pair {
        let (client_config, server_config) = configs(transport);
        let (near, far) = (SmoothRuntime::default(), SmoothRuntime::default());
        let endpoint = |runtime: &SmoothRuntime, server| {
            let runtime: Arc<dyn quinn::Runtime> =
                if smooth { Arc::new(runtime.clone()) } else { Arc::new(TokioRuntime) };
            Endpoint::new(EndpointConfig::default(), server, socket(), runtime).unwrap()
        };
        let mut client = endpoint(&near, None);
        client.set_default_client_config(client_config);
        let server = endpoint(&far, Some(server_config));
        Pair { client, server, near, far }
    }

    /// Both ends of a connection, over a path whose client side is `through`.
    pub(crate) async fn connect(&self, through: SocketAddr) -> (Connection, Connection) {
        let connect = async { self.client.connect(through, "server").unwrap().await.unwrap() };
        let accept = async { self.server.accept().await.unwrap().await.unwrap() };
        tokio::join!(connect, accept)
    }

    /// Without a path between.
    pub(crate) fn direct(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }
}

pub(crate) fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// A path between a client and a server, in a thread of its own that ends with this.
pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    stop: UnixStream,
    thread: Option<JoinHandle<Vec<u64>>>,
}

impl Path {
    /// The same in both directions all the time.
    pub(crate) fn to(server: &Endpoint, path: PathConfig) -> Path {
        Path::changing(server, vec![(WAIT * 6, path)])
    }

    /// One after the other, each for so long; the last one stays.
    pub(crate) fn changing(server: &Endpoint, phases: Vec<(Duration, PathConfig)>) -> Path {
        let upstream = server.local_addr().unwrap();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (say, hear) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let first = phases[0].1.clone();
            let mut relay =
                Relay::udp(RelayConfig::to(upstream), Wan::builder().both(first).seed(1)).unwrap();
            relay.watch(&stopped, 7).unwrap();
            say.send(relay.local_addr().unwrap()).unwrap();
            let mut arrivals = vec![];
            for (time, path) in phases {
                for way in [Way::Up, Way::Down] {
                    relay.set(way, path.clone()).unwrap();
                }
                let until = relay.now() + time;
                let note = |packet: &Carried| {
                    if packet.way == Way::Up && packet.bytes > 1_000 {
                        arrivals.push(packet.offered.as_nanos());
                    }
                };
                if relay.run_observed(Some(until), note).unwrap() == softtimers_wan::Ended::Watched(7) {
                    break;
                }
            }
            arrivals
        });
        Path { address: hear.recv_timeout(WAIT).unwrap(), stop, thread: Some(thread) }
    }

    /// Ends it: when the large packets of the client came, in nanoseconds.
    pub(crate) fn finish(mut self) -> Vec<u64> {
        self.stop.write_all(b"x").unwrap();
        self.thread.take().map(|thread| thread.join().unwrap()).unwrap_or_default()
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = self.stop.write_all(b"x");
    }
}

/// Sends `bytes` bytes on a stream of its own; each says where it is.
pub(crate) async fn send(connection: &Connection, bytes: u64) {
    let mut stream = connection.open_uni().await.unwrap();
    let mut chunk = vec![0; 64 << 10];
    let mut at = 0;
    while at < bytes {
        let most = (chunk.len() as u64).min(bytes - at) as usize;
        chunk[..most].iter_mut().enumerate().for_each(|(n, byte)| *byte = byte_at(at + n as u64));
        stream.write_all(&chunk[..most]).await.unwrap();
        at += most as u64;
    }
    stream.finish().unwrap();
    stream.stopped().await.unwrap();
}

/// Receives a stream to its end; how many bytes. Each must be in its place.
pub(crate) async fn receive(connection: &Connection) -> u64 {
    let mut stream = connection.accept_uni().await.unwrap();
    let mut at = 0;
    while let Some(chunk) = stream.read_chunk(1 << 20, true).await.unwrap() {
        for &byte in chunk.bytes.iter() {
            assert_eq!(byte, byte_at(at), "byte {at}");
            at += 1;
        }
    }
    at
}

fn byte_at(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}
