//! A UDP server whose packets are handled by a pool of threads, a timer each 20 ms, and more packets than the pool can
//! handle.
//!
//! ```text
//!   receive buffer ─▶ quota ─▶ queue of 256 ─▶ worker
//!      ▲ drops cost nothing    │    └────────▶ worker
//!      └──── shut ◀── Gauge ◀──┘ three quarters full; open again at one quarter
//! ```
//!
//! `cargo run --release -p softtimers-net --example thread_pool_server` floods itself for a second; with `--
//! --naive` it also shows a loop that receives every packet and drops those for which the pool's queue has no
//! room. A number sets the number of workers, 2 by default.

mod flood;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, hint, io, thread};

use softtimers::late::cpu_time;
use softtimers::{Clock, Monotonic};
use softtimers_net::poller::{Gauge, Poller, UdpDevice};
use softtimers_net::udp::{RecvBatch, UdpSocket};
use softtimers_poll::{DelayBound, DelayBoundConfig, FeedbackConfig, Preset, SourceConfig};

use flood::{TICK, Ticks, flood};

const RUN: Duration = Duration::from_secs(1);
/// More than the high mark and a quota: no turn overruns it, except after a time-out, which takes one in
/// although it is full.
const ROOM: u32 = 256;

type Packet = Vec<u8>;
type Server = fn(UdpSocket, &SyncSender<Packet>, &Gauge) -> io::Result<Seen>;

fn main() -> ExitCode {
    let (mut naive, mut workers) = (false, 2);
    for argument in env::args().skip(1) {
        match argument.parse() {
            Ok(number @ 1..=64) => workers = number,
            _ if argument == "--naive" => naive = true,
            _ => {
                eprintln!(
                    "thread_pool_server: {argument}: it takes --naive and a number of workers, 1 to 64"
                );
                return ExitCode::from(2);
            }
        }
    }
    println!("             sent   received  in the buffer  at the queue   finished  20 ms timer  receiving");
    let servers = [("poller", polled as Server), ("naive", receive_all)];
    for (name, server) in servers.into_iter().take(1 + usize::from(naive)) {
        match run(server, workers) {
            Ok(row) => row.print(name),
            Err(error) => {
                eprintln!("thread_pool_server: {name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// The receiving thread's counts.
#[derive(Default)]
struct Seen {
    received: u64,
    ring_drops: u64,
    queue_drops: u64,
    ticks: u64,
    cpu: Duration,
}

struct Row {
    sent: u64,
    seen: Seen,
    finished: u64,
}

impl Row {
    fn print(&self, name: &str) {
        let Seen { received, ring_drops, queue_drops, ticks, cpu } = self.seen;
        let all = (RUN.as_millis() / TICK.as_millis() - 1) as u64;
        println!(
            "{name:<8}{:>9}  {received:>9}  {ring_drops:>6} dropped {queue_drops:>5} dropped  {:>9}  {:>10}%  {:>8}%",
            self.sent,
            self.finished,
            100 * ticks.min(all) / all,
            100 * cpu.as_micros() / RUN.as_micros(),
        );
    }
}

/// The pool, the flood, and the server on this thread.
fn run(server: Server, workers: usize) -> io::Result<Row> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let (address, gauge, stop) = (socket.local_addr()?, Gauge::new()?, AtomicBool::new(false));
    let (hand, take) = mpsc::sync_channel(ROOM as usize);
    let take = Mutex::new(take);
    thread::scope(|scope| {
        let pool: Vec<_> = (0..workers).map(|_| scope.spawn(|| work(&take, &gauge))).collect();
        let generator = scope.spawn(|| flood(address, &stop));
        let seen = server(socket, &hand, &gauge);
        stop.store(true, Ordering::Relaxed);
        // Closes the queue: the workers finish what is in it.
        drop(hand);
        let finished = pool.into_iter().map(|worker| worker.join().unwrap_or(0)).sum();
        Ok(Row { sent: generator.join().unwrap_or(0), seen: seen?, finished })
    })
}

/// A worker: rules, a database, or other work that takes longer than receiving.
fn work(queue: &Mutex<Receiver<Packet>>, gauge: &Gauge) -> u64 {
    let mut finished = 0;
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(packet) = next else { return finished };
        gauge.took(1);
        (0..20_000).for_each(|rule| _ = hint::black_box((rule, &packet)));
        finished += 1;
    }
}

/// A quota at a time while the queue has room, and the timers between rounds.
fn polled(socket: UdpSocket, hand: &SyncSender<Packet>, gauge: &Gauge) -> io::Result<Seen> {
    let mut poller = Poller::new()?;
    let policy = DelayBound::new(DelayBoundConfig::default());
    let source = poller.add(UdpDevice::new(socket)?, SourceConfig::new(policy))?;
    let marks = FeedbackConfig::preset(Preset::Measured, ROOM).map_err(io::Error::other)?;
    poller.attach_queue(gauge, marks, &[source])?;

    let (mut seen, mut ticks, cpu) = (Seen::default(), Ticks::new(), cpu_time());
    let end = Monotonic.now() + RUN;
    while Monotonic.now() < end {
        seen.ticks += ticks.fire();
        // While input is shut this thread sleeps, and the workers can use this CPU, too.
        poller.wait(ticks.poll_at(), |packet, _| {
            seen.received += 1;
            seen.queue_drops += u64::from(!put(packet.bytes, hand, gauge));
        })?;
    }
    (seen.ring_drops, seen.cpu) = (poller.drops(source)?.ring, cpu_time() - cpu);
    Ok(seen)
}

/// Receives until nothing is left, then does everything else, which never comes under a flood.
fn receive_all(socket: UdpSocket, hand: &SyncSender<Packet>, gauge: &Gauge) -> io::Result<Seen> {
    socket.set_nonblocking(true)?;
    let (mut seen, mut ticks, cpu) = (Seen::default(), Ticks::new(), cpu_time());
    let mut batch = RecvBatch::new(64, 2_048);
    let end = Monotonic.now() + RUN;
    while Monotonic.now() < end {
        while Monotonic.now() < end && socket.recv_batch(&mut batch).is_ok() {
            for datagram in batch.iter() {
                seen.received += 1;
                seen.queue_drops += u64::from(!put(datagram.payload, hand, gauge));
            }
        }
        seen.ticks += ticks.fire();
    }
    (seen.ring_drops, seen.cpu) = (socket.drops()?.into(), cpu_time() - cpu);
    Ok(seen)
}

/// Hands a packet to the pool, if its queue has room.
fn put(bytes: &[u8], hand: &SyncSender<Packet>, gauge: &Gauge) -> bool {
    // Only this thread puts packets in, and the depth is decremented after a worker has taken one: it is
    // never too small.
    if gauge.depth() >= ROOM {
        gauge.refused();
        return false;
    }
    gauge.put(1);
    hand.try_send(bytes.to_vec()).is_ok()
}
