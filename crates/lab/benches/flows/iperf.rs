//! `iperf3 -u` at the same rate, seen by the same rules: its datagrams are not ours, so the receiver here is a
//! relay in front of its server, which takes the kernel's receive timestamps and hands everything on.
//!
//! ```text
//!   iperf3 -c 127.0.0.2 ──UDP──▶ relay, timestamps ──▶ iperf3 -s 127.0.0.1
//!                       ──TCP──▶ relay (control)   ──▶
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use softtimers_net::udp::RecvBatch;
use softtimers::Timestamp;
use softtimers_net::UdpSocket;
use softtimers_load::gaps::{Gaps, Train};
use softtimers_lab::command::Killed;
use softtimers_measure::distribution::Moments;

use crate::Load;
use crate::figures::{BACK_TO_BACK, COST, CPU, DEVIATION, FASTEST, Figures, SLOWEST, TRAIN, WORST};

pub(crate) fn run(load: &Load, processors: Option<[usize; 2]>) -> Result<Figures> {
    ensure!(load.flows == 1, "one stream at a time");
    let mut version = Command::new("iperf3");
    let found = version.arg("--version").stdout(Stdio::null()).status();
    ensure!(found.is_ok_and(|status| status.success()), "not installed");
    let control = TcpListener::bind("127.0.0.2:0")?;
    let port = control.local_addr()?.port();
    let data = UdpSocket::bind(("127.0.0.2", port))?;
    let server: SocketAddr = ([127, 0, 0, 1], port).into();
    let port = port.to_string();
    let mut serves = Command::new("iperf3");
    serves.args(["-s", "-B", "127.0.0.1", "-p", &port, "-1"]).stdout(Stdio::null());
    let _server = Killed::from(serves.spawn().context("starting the server")?);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let relayed = scope.spawn(|| relay(&data, server, load.interval(), &over));
        scope.spawn(|| control_connection(&control, server, &over));
        let mut client = Command::new("iperf3");
        client.args(["-c", "127.0.0.2", "-p", &port, "-u", "-J", "-l", &load.bytes.to_string()]);
        client.args(["-t", &load.time.as_secs().to_string()]);
        let bits = u64::from(load.packets_per_second) * u64::from(load.bytes) * 8;
        client.args(["-b", &bits.to_string()]);
        if let Some([here, there]) = processors {
            client.args(["-A", &format!("{here},{there}")]);
        }
        let output = client.stdin(Stdio::null()).output();
        over.store(true, Ordering::Relaxed);
        let seen = relayed.join().map_err(|_| anyhow::anyhow!("the relay broke off"))??;
        figures(load, &serde_json::from_slice(&output?.stdout).context("its report")?, &seen)
    })
}

/// What the relay saw of the stream.
struct Seen {
    gaps: Gaps,
    deviation: Moments,
    packets: u64,
}

fn figures(load: &Load, report: &Value, seen: &Seen) -> Result<Figures> {
    if let Some(error) = report["error"].as_str() {
        anyhow::bail!("{error}");
    }
    let gaps = seen.gaps.report();
    let cpu = report["end"]["cpu_utilization_percent"]["host_total"].as_f64().context("no CPU time")? / 100.0;
    let rate = gaps.gap_ns.mean.map(|nanos| 1e11 / nanos / f64::from(load.packets_per_second));
    let deviation = seen.deviation.stddev().map(|nanos| nanos / 1e3);
    Ok(vec![
        (SLOWEST, rate),
        (FASTEST, rate),
        (DEVIATION, deviation),
        (WORST, deviation),
        (TRAIN, Some(gaps.longest_burst.unwrap_or(0) as f64)),
        (BACK_TO_BACK, gaps.back_to_back.map(|share| 100.0 * share)),
        (CPU, Some(100.0 * cpu)),
        (COST, Some(cpu * load.time.as_secs_f64() * 1e6 / seen.packets as f64)),
    ])
}

/// Hands datagrams on, both ways, until it is over.
fn relay(client: &UdpSocket, server: SocketAddr, interval: Duration, over: &AtomicBool) -> Result<Seen> {
    client.set_nonblocking(true)?;
    client.set_timestamps(true)?;
    let towards = UdpSocket::bind("127.0.0.1:0")?;
    towards.connect(server)?;
    towards.set_nonblocking(true)?;
    let mut seen = Seen { gaps: Gaps::new(Some(interval)), deviation: Moments::default(), packets: 0 };
    let (mut train, mut batch, mut answer) = (Train::default(), RecvBatch::new(64, 65_535), vec![0; 65_535]);
    let mut peer = None;
    while !over.load(Ordering::Relaxed) {
        let mut sources = [PollFd::new(client, PollFlags::IN), PollFd::new(&towards, PollFlags::IN)];
        poll(&mut sources, Some(&PATIENCE))?;
        if taken(client.recv_batch(&mut batch))?.is_some() {
            for datagram in &batch {
                peer = Some(datagram.from);
                // The first one greets the server.
                if let Some(time) =
                    datagram.received.filter(|&time| time > Timestamp::ZERO && seen.packets > 0)
                    && let Some(gap) = seen.gaps.record(&mut train, time)
                {
                    seen.deviation.record(gap.as_nanos() as u64);
                }
                seen.packets += 1;
                // What its server has no room for is lost there, and of no matter here.
                let _ = towards.send(datagram.payload);
            }
        }
        if let (Some(length), Some(peer)) = (taken(towards.recv(&mut answer))?, peer) {
            client.send_to(&answer[..length], peer)?;
        }
    }
    Ok(seen)
}

fn taken<T>(received: io::Result<T>) -> Result<Option<T>> {
    match received {
        Ok(received) => Ok(Some(received)),
        // Nothing there; or a server that is not there yet, or no longer.
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Hands the control connection on.
fn control_connection(listener: &TcpListener, server: SocketAddr, over: &AtomicBool) -> Result<()> {
    listener.set_nonblocking(true)?;
    let client = loop {
        poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&PATIENCE))?;
        match listener.accept() {
            Ok((client, _)) => break client,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if over.load(Ordering::Relaxed) {
            return Ok(());
        }
    };
    client.set_nonblocking(false)?;
    let server = connected(server, over)?;
    thread::scope(|scope| {
        scope.spawn(|| copy(&client, &server));
        copy(&server, &client);
    });
    Ok(())
}

/// The server takes a moment to listen.
fn connected(server: SocketAddr, over: &AtomicBool) -> Result<TcpStream> {
    loop {
        match TcpStream::connect(server) {
            Ok(stream) => return Ok(stream),
            Err(error) if over.load(Ordering::Relaxed) => return Err(error.into()),
            Err(_) => _ = poll(&mut [], Some(&PATIENCE))?,
        }
    }
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// How soon an end is noticed.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
