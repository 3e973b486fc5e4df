//! One run: a client that sends as much as it may, for so long.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quinn::rustls::RootCertStore;
use quinn::rustls::crypto::ring;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use rcgen::{CertificateParams, KeyPair};
use softtimers_lab::cpu;
use softtimers_measure::estimate::quantile;
use softtimers_measure::processor::Processor;
use softtimers_quinn::gate::GateConfig;
use softtimers_quinn::{SmoothRuntime, transport};

use crate::path::{Line, Path, Seen};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// The kind of sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Stock,
    Pairs,
    Singles,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Stock, Kind::Pairs, Kind::Singles];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Stock => "stock",
            Kind::Pairs => "gate, pairs",
            Kind::Singles => "gate, singles",
        }
    }

    fn gate(self) -> Option<GateConfig> {
        let release_interval = Duration::from_nanos(1);
        match self {
            Kind::Stock => None,
            Kind::Pairs => Some(GateConfig::default()),
            Kind::Singles => {
                Some(GateConfig { least_segments: 1, release_interval, ..GateConfig::default() })
            }
        }
    }
}

pub(crate) const GOODPUT: &str = "goodput Mbit/s";
pub(crate) const COST: &str = "CPU ns/kB";
/// The figures of a run; CPU is a share of one.
pub(crate) const COLUMNS: [(&str, usize); 7] = [
    (GOODPUT, 1),
    ("loss %", 2),
    ("cuts", 0),
    ("burst 99.9%", 0),
    ("longest burst", 0),
    ("CPU %", 1),
    (COST, 0),
];

/// One run, whose figures are told by name; `hog`: something else wants the client's processor.
pub(crate) fn run(
    kind: Kind,
    line: Line,
    hog: bool,
    connections: u32,
    time: Duration,
    mut tell: impl FnMut(&str, f64),
) -> Result<(), Failure> {
    // The client's and everybody else's, where there are two.
    let of = |number| Processor::new(number).ok();
    let (near, far) = Processor::two().map_or((None, None), |[far, near]| (of(near), of(far)));
    let (client_config, server_config) = configs()?;
    let (received, over) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let (say, hear) = mpsc::channel();
    let (client, seen) = thread::scope(|scope| {
        let (received, over) = (&received, &over);
        let server = scope.spawn(move || {
            let _kept = far.map(Processor::keep).transpose()?;
            current_thread()?.block_on(serve(server_config, received, |address| _ = say.send(address)))
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
            current_thread()?.block_on(load_up(kind, client_config, address, connections, time, received))
        });
        let client = client.join().map_err(|_| "the client has panicked");
        over.store(true, Ordering::Relaxed);
        server.join().map_err(|_| "the server has panicked")??;
        Ok::<_, Failure>((client??, path.finish()?))
    })?;
    let ((bytes, used, events), Seen { counters, mut bursts }) = (client, seen);
    bursts.sort_unstable();
    let burst = |share: f64| f64::from(quantile(&bursts, share).unwrap_or(0));
    let (goodput, cpu) = (bytes as f64 * 8e-6 / time.as_secs_f64(), used.as_secs_f64() / time.as_secs_f64());
    let loss = counters.queue_drops as f64 / counters.offered.max(1) as f64;
    // Times that congestion control cut the window, of a connection.
    let cuts = events as f64 / f64::from(connections);
    let told = [goodput, 100.0 * loss, cuts, burst(0.999), burst(1.0), 100.0 * cpu, cpu * 8e6 / goodput];
    COLUMNS.iter().zip(told).for_each(|((name, _), figure)| tell(name, figure));
    Ok(())
}

fn current_thread() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn configs() -> Result<(ClientConfig, ServerConfig), Failure> {
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
    server.transport_config(Arc::new(transport));
    Ok((ClientConfig::with_root_certificates(Arc::new(roots))?, server))
}

/// Reads whatever comes, until the connections are gone.
async fn serve(
    config: ServerConfig,
    received: &Arc<AtomicU64>,
    bound: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?;
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

/// Sends for so long; what was received meanwhile, and the CPU time that it took.
async fn load_up(
    kind: Kind,
    mut config: ClientConfig,
    address: SocketAddr,
    connections: u32,
    time: Duration,
    received: &AtomicU64,
) -> Result<(u64, Duration, u64), Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let endpoint_config = EndpointConfig::default();
    let mut endpoint = match kind.gate() {
        None => {
            config.transport_config(Arc::new(TransportConfig::default()));
            Endpoint::new(endpoint_config, None, socket, Arc::new(TokioRuntime))?
        }
        Some(gate) => {
            config.transport_config(Arc::new(transport()));
            Endpoint::new(endpoint_config, None, socket, Arc::new(SmoothRuntime::new(gate)))?
        }
    };
    endpoint.set_default_client_config(config);
    let mut open = vec![];
    for _ in 0..connections {
        open.push(endpoint.connect(address, "server")?.await?);
    }
    let (bytes, used) = (received.load(Ordering::Relaxed), cpu::of_thread());
    let senders: Vec<_> = open.iter().cloned().map(|connection| tokio::spawn(send(connection))).collect();
    tokio::time::sleep(time).await;
    let events = open.iter().map(|connection| connection.stats().path.congestion_events).sum();
    let result = (received.load(Ordering::Relaxed) - bytes, cpu::of_thread() - used, events);
    open.iter().for_each(|connection| connection.close(0u32.into(), b""));
    for sender in senders {
        let _ = sender.await?;
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    Ok(result)
}

async fn send(connection: quinn::Connection) -> Result<(), quinn::WriteError> {
    let mut stream = connection.open_uni().await?;
    let chunk = vec![0x55; 64 << 10];
    loop {
        stream.write_all(&chunk).await?;
    }
}
