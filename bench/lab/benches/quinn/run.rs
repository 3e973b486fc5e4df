//! One run: a client that sends as much as it may.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn::rustls::RootCertStore;
use quinn::rustls::crypto::ring;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use rcgen::{CertificateParams, KeyPair};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::estimate::quantile;
use softtimers_measure::processor::Processor;
use softtimers_quinn::{EvenCubic, SmoothController, SmoothRuntime};
use softtimers_trials::cpu;

use crate::path::{Line, Path, Seen};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// The kind of sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// quinn unchanged, with CUBIC.
    Stock,
    /// The same behind the gate.
    Gate,
    /// quinn's runtime and pacer, with the even controller.
    Controller,
    /// The even controller behind the gate: what a program gets.
    Even,
    Bbr,
    SmoothBbr,
}

impl Kind {
    /// Stock first; the last one is compared with it.
    pub(crate) const ALL: [Kind; 4] = [Kind::Stock, Kind::Gate, Kind::Controller, Kind::Even];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Stock => "stock",
            Kind::Gate => "gate, CUBIC",
            Kind::Controller => "even controller alone",
            Kind::Even => "even",
            Kind::Bbr => "stock, BBR",
            Kind::SmoothBbr => "gate, BBR",
        }
    }

    fn transport(self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match self {
            Kind::Stock => Arc::new(CubicConfig::default()),
            Kind::Gate => Arc::new(SmoothController::new(CubicConfig::default())),
            Kind::Controller => Arc::new(EvenCubic::default()),
            Kind::Even => Arc::new(SmoothController::default()),
            Kind::Bbr => Arc::new(BbrConfig::default()),
            Kind::SmoothBbr => Arc::new(SmoothController::new(BbrConfig::default())),
        };
        transport.congestion_controller_factory(factory).send_window(RECEIVE_BUFFER as u64);
        // One that waits for its turn stays connected.
        transport.keep_alive_interval(Some(Duration::from_millis(300)));
        transport
    }

    fn runtime(self) -> Arc<dyn quinn::Runtime> {
        match self {
            Kind::Stock | Kind::Controller | Kind::Bbr => Arc::new(TokioRuntime),
            Kind::Gate | Kind::Even | Kind::SmoothBbr => Arc::new(SmoothRuntime::default()),
        }
    }
}

/// A path and its traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    pub(crate) line: Line,
    /// Whether another program competes for the client's CPU.
    pub(crate) hog: bool,
    pub(crate) connections: u32,
}

impl Load {
    pub(crate) const fn on(line: Line) -> Load {
        Load { line, hog: false, connections: 1 }
    }

    pub(crate) const fn beside_hog(self) -> Load {
        Load { hog: true, ..self }
    }

    pub(crate) const fn connections(self, connections: u32) -> Load {
        Load { connections, ..self }
    }
}

/// The bytes that a socket holds: with fewer, some packets would be lost at the receiver.
pub(crate) const RECEIVE_BUFFER: usize = 16 << 20;
pub(crate) const GOODPUT: &str = "goodput Mbit/s";
pub(crate) const DROPS: &str = "drops %";
pub(crate) const COST: &str = "CPU ns/kB";
/// The figures of a run; CPU is a share of one.
pub(crate) const COLUMNS: [(&str, usize); 7] = [
    (GOODPUT, 1),
    (DROPS, 2),
    ("cuts", 0),
    ("burst 99.9%", 0),
    ("longest burst", 0),
    ("CPU %", 1),
    (COST, 0),
];

/// Runs once with `bytes` on each connection, and returns the figures by name.
pub(crate) fn run(
    kind: Kind,
    load: Load,
    bytes: u64,
    mut tell: impl FnMut(&str, f64),
) -> Result<(), Failure> {
    let connections = load.connections;
    let (Sent { time, used, cuts, .. }, Seen { counters, mut bursts, .. }) = transfer(kind, load, bytes)?;
    bursts.sort_unstable();
    let burst = |share: f64| f64::from(quantile(&bursts, share).unwrap_or(0));
    let (time, used) = (time.as_secs_f64(), used.as_secs_f64());
    let megabits = (bytes * u64::from(connections)) as f64 * 8e-6;
    let loss = counters.queue_drops as f64 / counters.offered.max(1) as f64;
    let cuts = cuts as f64 / f64::from(connections);
    let cost = used * 8e6 / megabits;
    let told = [megabits / time, 100.0 * loss, cuts, burst(0.999), burst(1.0), 100.0 * used / time, cost];
    COLUMNS.iter().zip(told).for_each(|((name, _), figure)| tell(name, figure));
    Ok(())
}

/// Transfers `bytes` on each connection. Returns the sender's findings, and the path's.
pub(crate) fn transfer(
    kind: Kind,
    Load { line, hog, connections }: Load,
    bytes: u64,
) -> Result<(Sent, Seen), Failure> {
    // The client's CPU and that of all others, if there are two.
    let of = |number| Processor::new(number).ok();
    let (near, far) = Processor::two().map_or((None, None), |[far, near]| (of(near), of(far)));
    let (client_config, server_config) = configs()?;
    let (received, over) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let (say, hear) = mpsc::channel();
    thread::scope(|scope| {
        let (received, over) = (&received, &over);
        let server = scope.spawn(move || {
            let _kept = far.map(Processor::keep).transpose()?;
            current_thread()?.block_on(serve(Ipv4Addr::LOCALHOST, server_config, received, |address| {
                _ = say.send(address);
            }))
        });
        let path = Path::start(line, hear.recv_timeout(Duration::from_secs(5))?, far)?;
        if hog {
            scope.spawn(move || {
                let _kept = near.map(Processor::keep).transpose();
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let address = path.address;
        let client = scope.spawn(move || {
            let _kept = near.map(Processor::keep).transpose()?;
            current_thread()?.block_on(load_up(
                kind,
                client_config,
                address,
                [u64::from(connections), bytes],
                received,
            ))
        });
        let client = client.join().map_err(|_| "the client has panicked");
        over.store(true, Ordering::Relaxed);
        server.join().map_err(|_| "the server has panicked")??;
        Ok((client??, path.finish()?))
    })
}

/// A transfer from its sender's view.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) began: Timestamp,
    time: Duration,
    /// CPU time of the client's thread.
    used: Duration,
    /// How often congestion control reacted to losses, of all connections.
    cuts: u64,
    /// The first connection's window, in bytes, every few milliseconds.
    pub(crate) windows: Vec<(Timestamp, u64)>,
}

pub(crate) fn current_thread() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

pub(crate) fn configs() -> Result<(ClientConfig, ServerConfig), Failure> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec!["server".into()])?.self_signed(&key)?;
    let certificate: CertificateDer<'static> = certificate.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let _ = ring::default_provider().install_default();
    let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate], secret)?;
    // quinn may lose a close (quinn#2785), and the server would wait for half a minute.
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(1_000).into()));
    let window = VarInt::from_u32(RECEIVE_BUFFER as u32);
    transport.stream_receive_window(window).receive_window(window);
    server.transport_config(Arc::new(transport));
    Ok((ClientConfig::with_root_certificates(Arc::new(roots))?, server))
}

/// Reads everything, until the connections are gone.
pub(crate) async fn serve(
    at: Ipv4Addr,
    config: ServerConfig,
    received: &Arc<AtomicU64>,
    bound: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let endpoint =
        Endpoint::new(EndpointConfig::default(), Some(config), socket(at)?, Arc::new(TokioRuntime))?;
    bound(endpoint.local_addr()?);
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            Some(_) = tasks.join_next() => if tasks.is_empty() { return Ok(()) } else { continue },
        };
        let connection = incoming.ok_or("the endpoint is closed")?.await?;
        let received = Arc::clone(received);
        tasks.spawn(async move {
            let Ok(mut stream) = connection.accept_uni().await else { return };
            while let Ok(Some(chunk)) = stream.read_chunk(1 << 20, true).await {
                received.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
            }
        });
    }
}

pub(crate) fn socket(at: Ipv4Addr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((at, 0))?;
    // Beyond the system's limit only with privileges; otherwise up to it.
    set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
        .or_else(|_| set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER))?;
    Ok(socket)
}

/// Sends `bytes` on each of `connections`, until all were received.
async fn load_up(
    kind: Kind,
    config: ClientConfig,
    address: SocketAddr,
    [connections, bytes]: [u64; 2],
    received: &AtomicU64,
) -> Result<Sent, Failure> {
    let (endpoint, open) = connect(kind, Ipv4Addr::LOCALHOST, config, address, connections).await?;
    let (began, used) = (Monotonic.now(), cpu::of_thread());
    let senders: Vec<_> =
        open.iter().cloned().map(|connection| tokio::spawn(send(connection, bytes))).collect();
    let mut windows = vec![];
    while received.load(Ordering::Relaxed) < connections * bytes {
        let first = open.first().map(|connection| connection.stats().path.cwnd);
        windows.extend(first.map(|window| (Monotonic.now(), window)));
        if Monotonic.now().saturating_duration_since(began) > MOST {
            return Err("a transfer does not end".into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (time, used) = (Monotonic.now().saturating_duration_since(began), cpu::of_thread() - used);
    let cuts = open.iter().map(|connection| connection.stats().path.congestion_events).sum();
    for sender in senders {
        sender.await??;
    }
    open.iter().for_each(|connection| connection.close(0u32.into(), b""));
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    Ok(Sent { began, time, used, cuts, windows })
}

/// Makes connections of this kind, each from its own socket.
pub(crate) async fn connect(
    kind: Kind,
    at: Ipv4Addr,
    mut config: ClientConfig,
    address: SocketAddr,
    connections: u64,
) -> Result<(Endpoint, Vec<Connection>), Failure> {
    config.transport_config(Arc::new(kind.transport()));
    let mut endpoint = Endpoint::new(EndpointConfig::default(), None, socket(at)?, kind.runtime())?;
    endpoint.set_default_client_config(config);
    let mut open = vec![];
    for _ in 0..connections {
        open.push(endpoint.connect(address, "server")?.await?);
    }
    Ok((endpoint, open))
}

pub(crate) async fn send(connection: Connection, mut bytes: u64) -> Result<(), quinn::WriteError> {
    let mut stream = connection.open_uni().await?;
    let chunk = vec![0x55; 64 << 10];
    while bytes > 0 {
        let most = (chunk.len() as u64).min(bytes) as usize;
        stream.write_all(&chunk[..most]).await?;
        bytes -= most as u64;
    }
    let _ = stream.finish();
    Ok(())
}

/// The longest time for one transfer.
const MOST: Duration = Duration::from_secs(60);
