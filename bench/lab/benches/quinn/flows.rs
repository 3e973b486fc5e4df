//! Flows of different kinds over one path between two hosts: [`meet`].

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use rustix::net::sockopt::set_tcp_congestion;
use softtimers::{Clock, Monotonic};
use softtimers_measure::processor::Processor;

use crate::bridge::{Bridged, Crossing, FAR, NEAR};
use crate::path::Line;
use crate::run::{Failure, Kind, configs, connect, current_thread, send, serve};

/// A sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    Quinn(Kind),
    /// The kernel's TCP, with the congestion control of this name.
    Tcp(&'static str),
}

impl Sender {
    pub(crate) fn name(self) -> String {
        match self {
            Sender::Quinn(kind) => kind.name().to_owned(),
            Sender::Tcp(control) => format!("TCP, {}", control.to_uppercase()),
        }
    }
}

/// The results of the flows, and of the path.
#[derive(Debug)]
pub(crate) struct Met {
    /// The bytes received of each flow at each time, counted from the beginning of the first one.
    pub(crate) received: Vec<(Duration, Vec<u64>)>,
    /// The share of packets at the link that found its queue full, in percent.
    pub(crate) drops: f64,
}

/// What is sent: `bytes` from each sender, each beginning `apart` after the one before; until all have arrived, or for `most`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meeting {
    pub(crate) bytes: u64,
    pub(crate) apart: Duration,
    pub(crate) most: Duration,
}

impl Meeting {
    /// Flows without an end, that begin almost together.
    pub(crate) fn of(most: Duration) -> Meeting {
        Meeting { bytes: u64::MAX, apart: Duration::from_millis(137), most }
    }
}

/// Sends from each of `senders` over this path.
pub(crate) fn meet(
    between: &'static Bridged,
    line: Line,
    senders: &[Sender],
    meeting: Meeting,
) -> Result<Met, Failure> {
    let of = |number| Processor::new(number).ok();
    let (near, far) = Processor::two().map_or((None, None), |[far, near]| (of(near), of(far)));
    let (client, server) = configs()?;
    let counts: Vec<Arc<AtomicU64>> = senders.iter().map(|_| Arc::default()).collect();
    let over = AtomicBool::new(false);
    let (say, hear) = mpsc::channel();
    let crossing = Crossing::begin(between, line, far)?;
    let received = thread::scope(|scope| {
        let (counts, over) = (&counts, &over);
        let receiver = scope.spawn(move || {
            between.enter("far")?;
            let _kept = far.map(Processor::keep).transpose()?;
            current_thread()?.block_on(receive(senders, server, counts, say, over))
        });
        let addresses = senders.iter().map(|_| hear.recv_timeout(Duration::from_secs(5)));
        let mut addresses: Vec<(usize, SocketAddr)> =
            addresses.collect::<Result<_, _>>().inspect_err(|_| {
                // The receiver is waited for at the end of this scope.
                over.store(true, Ordering::Relaxed);
            })?;
        addresses.sort_unstable();
        let addresses: Vec<SocketAddr> = addresses.into_iter().map(|(_, address)| address).collect();
        let sender = scope.spawn(move || {
            between.enter("near")?;
            let _kept = near.map(Processor::keep).transpose()?;
            current_thread()?.block_on(load(senders, client, &addresses, counts, meeting))
        });
        let sent = sender.join().map_err(|_| "a sender has panicked");
        over.store(true, Ordering::Relaxed);
        receiver.join().map_err(|_| "a receiver has panicked")??;
        sent?
    });
    let counters = crossing.finish()?;
    let drops = 100.0 * counters.queue_drops as f64 / counters.offered.max(1) as f64;
    Ok(Met { received: received?, drops })
}

/// Receives each flow at its own address, until it is over.
async fn receive(
    senders: &[Sender],
    server: ServerConfig,
    counts: &[Arc<AtomicU64>],
    say: mpsc::Sender<(usize, SocketAddr)>,
    over: &AtomicBool,
) -> Result<(), Failure> {
    for (number, (sender, count)) in senders.iter().zip(counts).enumerate() {
        let (count, say) = (Arc::clone(count), say.clone());
        if let Sender::Quinn(_) = sender {
            let server = server.clone();
            tokio::spawn(async move {
                serve(FAR, server, &count, |address| _ = say.send((number, address))).await
            });
        } else {
            let listener = TcpListener::bind((FAR, 0))?;
            let _ = say.send((number, listener.local_addr()?));
            listener.set_nonblocking(true)?;
            tokio::spawn(take(tokio::net::TcpListener::from_std(listener)?, count));
        }
    }
    while !over.load(Ordering::Relaxed) {
        tokio::time::sleep(STEP).await;
    }
    Ok(())
}

async fn take(listener: tokio::net::TcpListener, count: Arc<AtomicU64>) -> std::io::Result<()> {
    let (stream, _) = listener.accept().await?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => _ = count.fetch_add(length as u64, Ordering::Relaxed),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// A connected sender.
enum Ready {
    Quinn(Endpoint, Connection),
    Tcp(tokio::net::TcpStream),
}

impl Ready {
    async fn connect(sender: Sender, config: ClientConfig, address: SocketAddr) -> Result<Self, Failure> {
        match sender {
            Sender::Quinn(kind) => {
                let (endpoint, connections) = connect(kind, NEAR, config, address, 1).await?;
                let connection = connections.into_iter().next().ok_or("no connection")?;
                Ok(Ready::Quinn(endpoint, connection))
            }
            Sender::Tcp(control) => {
                let stream = TcpStream::connect(address)?;
                set_tcp_congestion(&stream, control)?;
                stream.set_nonblocking(true)?;
                Ok(Ready::Tcp(tokio::net::TcpStream::from_std(stream)?))
            }
        }
    }
}

/// Sends on each flow.
async fn load(
    senders: &[Sender],
    client: ClientConfig,
    addresses: &[SocketAddr],
    counts: &[Arc<AtomicU64>],
    Meeting { bytes, apart, most }: Meeting,
) -> Result<Vec<(Duration, Vec<u64>)>, Failure> {
    // All connect before the first one sends: their handshakes would be lost among its packets, and retried after a
    // second.
    let mut ready = vec![];
    for (sender, &address) in senders.iter().zip(addresses) {
        ready.push(Ready::connect(*sender, client.clone(), address).await?);
    }
    let mut open = vec![];
    let mut flows = tokio::task::JoinSet::new();
    for (number, ready) in ready.into_iter().enumerate() {
        let later = apart * number as u32;
        match ready {
            Ready::Quinn(endpoint, connection) => {
                open.push((endpoint, connection.clone()));
                flows.spawn(async move {
                    tokio::time::sleep(later).await;
                    send(connection, bytes).await.map_err(Failure::from)
                });
            }
            Ready::Tcp(stream) => {
                flows.spawn(async move {
                    tokio::time::sleep(later).await;
                    push(&stream, bytes).await.map_err(Failure::from)
                });
            }
        }
    }
    let began = Monotonic.now();
    let mut received = vec![];
    loop {
        let now = Monotonic.now().saturating_duration_since(began);
        let counted: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let done = counted.iter().all(|&count| count >= bytes);
        received.push((now, counted));
        if done || now >= most {
            break;
        }
        tokio::time::sleep(STEP).await;
        // A flow that ended early has failed, or has handed over all of its bytes.
        while let Some(ended) = flows.try_join_next() {
            ended??;
        }
    }
    flows.abort_all();
    for (endpoint, connection) in open {
        connection.close(0u32.into(), b"");
        let _ = tokio::time::timeout(Duration::from_millis(300), endpoint.wait_idle()).await;
    }
    Ok(received)
}

async fn push(stream: &tokio::net::TcpStream, mut bytes: u64) -> std::io::Result<()> {
    let chunk = vec![0x55; 64 << 10];
    while bytes > 0 {
        stream.writable().await?;
        match stream.try_write(&chunk[..(chunk.len() as u64).min(bytes) as usize]) {
            Ok(length) => bytes -= length as u64,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    // If dropped, the stream would end before its buffered bytes have left.
    std::future::pending().await
}

/// The sampling interval.
const STEP: Duration = Duration::from_millis(2);
