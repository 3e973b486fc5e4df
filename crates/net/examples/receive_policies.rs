//! The cost of each policy and the delay of packets under it, at a low, a medium and a high rate.
//!
//! `cargo run --release -p softtimers-net --example receive_policies` sends to itself, paced, a quarter
//! of a second each; `-- 2` makes it two seconds. Latency is
//! from the kernel's receive time to the handler; a wake-up is a sleep that a packet ended.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::late::cpu_time;
use softtimers::{
    Clock, Config, EventLoop, Happening, Histogram, LoopConfig, Monotonic, PaceConfig, Rate, RateClock,
    Slack, SoftTimers,
};
use softtimers_net::poller::{Poller, UdpDevice};
use softtimers_net::udp::{RecvBatch, UdpSocket};
use softtimers_poll::{
    DelayBound, DelayBoundConfig, Hip, HipConfig, Interrupts, Policy, Preset, SourceConfig, SpinThenBlock,
};

fn main() -> io::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok());
    let run = seconds.map_or(Duration::from_millis(250), Duration::from_secs);
    println!("packets/s  policy                    wake-ups    sleeps   p50 µs   p99 µs   processor");
    for rate in [200, 2_000, 20_000] {
        for (name, policy) in policies() {
            let receiver = UdpSocket::bind("127.0.0.1:0")?;
            let address = receiver.local_addr()?;
            let stop = AtomicBool::new(false);
            let row = thread::scope(|scope| {
                let sender = scope.spawn(|| send(rate, address, &stop));
                let row = match policy {
                    Some(policy) => receive(receiver, policy, run),
                    None => plain(&receiver, run),
                };
                stop.store(true, Ordering::Relaxed);
                sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))?;
                row
            })?;
            let Row { packets, woken, sleeps, latency, cpu } = row;
            let micros = |q| latency.quantile(q).unwrap_or(0) as f64 / 1e3;
            let each = |n: u64| n as f64 / packets.max(1) as f64;
            println!(
                "{rate:>9}  {name:<22} {:>8.3}/pkt {:>6.3}/pkt {:>7.1} {:>8.1} {:>10.1}%",
                each(woken),
                each(sleeps),
                micros(0.5),
                micros(0.99),
                100.0 * cpu.as_secs_f64() / run.as_secs_f64()
            );
        }
    }
    Ok(())
}

/// `None`: a plain loop on `epoll`, without a poller.
fn policies() -> Vec<(&'static str, Option<Box<dyn Policy>>)> {
    let bound = |millis| DelayBoundConfig::preset(Preset::Measured, Duration::from_millis(millis));
    vec![
        ("plain epoll", None),
        ("interrupts", Some(Box::new(Interrupts))),
        ("delay bound, 200 µs", Some(Box::new(DelayBound::new(DelayBoundConfig::default())))),
        ("delay bound, 5 ms", Some(Box::new(DelayBound::new(bound(5))))),
        ("hip", Some(Box::new(Hip::new(HipConfig::default())))),
        ("hip, paper", Some(Box::new(Hip::new(HipConfig::preset(Preset::Paper))))),
        ("spin 50 µs, block", Some(Box::new(SpinThenBlock::new(Duration::from_micros(50))))),
    ]
}

struct Row {
    packets: u64,
    woken: u64,
    sleeps: u64,
    latency: Histogram,
    cpu: Duration,
}

fn receive(socket: UdpSocket, policy: Box<dyn Policy>, run: Duration) -> io::Result<Row> {
    let mut poller = Poller::new()?;
    let source = poller.add(UdpDevice::new(socket)?.with_timestamps()?, SourceConfig::new(policy))?;
    let mut latency = Histogram::new();
    let (end, began) = (Monotonic.now() + run, cpu_time());
    while Monotonic.now() < end {
        poller.wait(Some(end), |packet, _| {
            if let Some(arrived) = packet.arrived {
                latency.record(Monotonic.now().saturating_duration_since(arrived).as_nanos() as u64);
            }
        })?;
    }
    let stats = poller.source_stats(source);
    let (woken, sleeps) = (stats.woken, poller.stats().sleeps);
    Ok(Row { packets: stats.packets, woken, sleeps, latency, cpu: cpu_time() - began })
}

fn plain(socket: &UdpSocket, run: Duration) -> io::Result<Row> {
    socket.set_nonblocking(true)?;
    socket.set_timestamps(true)?;
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    epoll.add(socket.as_fd(), 0, EventFlags::IN)?;
    let (mut ready, mut batch) = (Events::with_capacity(1), RecvBatch::new(64, 2_048));
    let (end, began) = (Monotonic.now() + run, cpu_time());
    let mut row = Row { packets: 0, woken: 0, sleeps: 0, latency: Histogram::new(), cpu: Duration::ZERO };
    while Monotonic.now() < end {
        epoll.wait(&mut ready, Some(end.saturating_duration_since(Monotonic.now())))?;
        row.sleeps += 1;
        if ready.is_empty() {
            continue;
        }
        row.woken += 1;
        row.packets += socket.recv_batch(&mut batch)? as u64;
        for arrived in batch.iter().filter_map(|datagram| datagram.received) {
            row.latency.record(Monotonic.now().saturating_duration_since(arrived).as_nanos() as u64);
        }
    }
    Ok(Row { cpu: cpu_time() - began, ..row })
}

/// Paced, so that only the receiver causes bursts.
fn send(rate: u64, address: std::net::SocketAddr, stop: &AtomicBool) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let rate = Rate::per_second(rate).map_err(io::Error::other)?;
    let mut pace = RateClock::new(PaceConfig::new(rate)).map_err(io::Error::other)?;
    let (mut events, mut timers) =
        (EventLoop::new(LoopConfig::default())?, SoftTimers::new(Config::default()));
    let now = events.now();
    timers.schedule_at(now, pace.start(now), Slack::EXACT, ());
    while !stop.load(Ordering::Relaxed) {
        if let Happening::Due(_) = events.next(&mut timers)? {
            // The receiver may be gone.
            let _ = socket.send_to(&[7; 64], address);
            let now = events.now();
            timers.schedule_at(now, pace.departed(now), Slack::EXACT, ());
        }
    }
    Ok(())
}
