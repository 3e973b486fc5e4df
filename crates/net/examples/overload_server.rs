//! A UDP server with workers, a timer each 20 ms, and more packets than it can handle.
//!
//! `cargo run --release -p softtimers-net --example overload_server` floods itself for a second as a poller,
//! and then as a loop that receives every packet before it does anything else. Both have the same worker on
//! the same CPU and the same queue of 256 before it.
//!
//! `… --example overload_server -- --trace FILE` also writes the poller's activity, stage by stage, for
//! Chrome's or Perfetto's trace viewer.

mod flood;

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{hint, io, thread};

use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::poller::{Gauge, Poller, UdpDevice};
use softtimers_net::udp::{RecvBatch, UdpSocket};
use softtimers_poll::{DelayBound, DelayBoundConfig, FeedbackConfig, Preset, SourceConfig};

use flood::{TICK, Ticks, flood};

const RUN: Duration = Duration::from_secs(1);
const ROOM: u32 = 256;

/// The number of last stages kept for the trace; they take 4 MB.
const STAGES: usize = 100_000;

const USAGE: &str = "\
Usage: overload_server [--trace FILE]

Options:
      --trace <FILE>  Write the poller's stages to this new file, for a trace viewer
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let trace = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        ["--trace", path] => match File::create_new(path) {
            Ok(file) => Some(file),
            Err(error) => {
                eprintln!("--trace {path}: {error}");
                return ExitCode::from(2);
            }
        },
        _ => {
            let arguments = arguments.join(" ");
            eprintln!("`{arguments}`; usage: overload_server [--trace FILE], or nothing");
            return ExitCode::from(2);
        }
    };
    match compare(trace) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overload_server: {error}");
            ExitCode::FAILURE
        }
    }
}

type Server<'a> = &'a dyn Fn(UdpSocket) -> io::Result<Outcome>;

fn compare(mut trace: Option<File>) -> io::Result<()> {
    let stages = trace.is_some().then_some(STAGES);
    let servers: [(&str, Server<'_>); 2] =
        [("poller", &|socket| polled(socket, stages)), ("naive", &|socket| naive(socket))];
    for (name, server) in servers {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?;
        let stop = AtomicBool::new(false);
        let (outcome, sent) = thread::scope(|scope| {
            let generator = scope.spawn(|| flood(address, &stop));
            let outcome = server(socket);
            stop.store(true, Ordering::Relaxed);
            (outcome, generator.join().unwrap_or(0))
        });
        let Outcome { finished, ticks, queue_drops, ring_drops, trace: traced } = outcome?;
        println!(
            "{name}: {sent} sent, {finished} finished; dropped {ring_drops} in the receive buffer, {queue_drops} at \
             the queue; the 20 ms timer fired {ticks} of {} times",
            RUN.as_millis() / TICK.as_millis() - 1
        );
        if let Some((file, traced)) = trace.as_mut().zip(traced) {
            file.write_all(traced.as_bytes())?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Outcome {
    finished: u64,
    ticks: u64,
    queue_drops: u64,
    ring_drops: u64,
    /// The file for the poller's last stages, if they were asked for: JSON that trace viewers read.
    trace: Option<String>,
}

/// The second stage: rules, a database, or other work that takes longer than receiving.
fn work(packet: &[u8]) {
    (0..6_000).for_each(|rule| _ = hint::black_box((rule, packet)));
}

/// Runs a poller with a quota, feedback from the queue, and the timers between rounds; keeps up to `stages`
/// stages.
fn polled(socket: UdpSocket, stages: Option<usize>) -> io::Result<Outcome> {
    let mut poller = Poller::new()?;
    stages.into_iter().for_each(|room| poller.log_stages(room));
    let policy = DelayBound::new(DelayBoundConfig::default());
    let source = poller.add(UdpDevice::new(socket)?, SourceConfig::new(policy))?;
    let gauge = Gauge::new()?;
    let marks = FeedbackConfig::preset(Preset::Measured, ROOM).map_err(io::Error::other)?;
    poller.attach_queue(&gauge, marks, &[source])?;

    let (mut outcome, mut queue, mut ticks) = (Outcome::default(), VecDeque::new(), Ticks::new());
    let end = Monotonic.now() + RUN;
    while Monotonic.now() < end {
        outcome.ticks += ticks.fire();
        // While the queue has packets this thread has work, and only polls for wake-ups.
        let until = if queue.is_empty() { ticks.poll_at() } else { Some(Timestamp::ZERO) };
        poller.wait(until, |packet, _| {
            if queue.len() < ROOM as usize {
                queue.push_back(packet.bytes.to_vec());
                gauge.put(1);
            } else {
                outcome.queue_drops += 1;
                gauge.refused();
            }
        })?;
        for packet in queue.drain(..queue.len().min(64)) {
            work(&packet);
            gauge.took(1);
            outcome.finished += 1;
        }
    }
    outcome.ring_drops = poller.drops(source)?.ring;
    if let Some(log) = poller.stages() {
        let mut trace = String::new();
        log.write_chrome(&mut trace).map_err(io::Error::other)?;
        outcome.trace = Some(trace);
    }
    Ok(outcome)
}

/// Receives until nothing is left, then does everything else, which never comes under a flood.
fn naive(socket: UdpSocket) -> io::Result<Outcome> {
    socket.set_nonblocking(true)?;
    let (mut outcome, mut queue, mut ticks) = (Outcome::default(), VecDeque::new(), Ticks::new());
    let mut batch = RecvBatch::new(64, 2_048);
    let end = Monotonic.now() + RUN;
    while Monotonic.now() < end {
        while socket.recv_batch(&mut batch).is_ok() && Monotonic.now() < end {
            for datagram in batch.iter() {
                if queue.len() < ROOM as usize {
                    queue.push_back(datagram.payload.to_vec());
                } else {
                    outcome.queue_drops += 1;
                }
            }
        }
        if let Some(packet) = queue.pop_front() {
            work(&packet);
            outcome.finished += 1;
        }
        outcome.ticks += ticks.fire();
    }
    outcome.ring_drops = socket.drops()?.into();
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trace has the turns that received the packets, and the wake-ups before.
    #[test]
    fn what_the_poller_did_is_a_trace() {
        let (server, client) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        client.connect(server.local_addr().unwrap()).unwrap();
        (0..10).for_each(|_| client.send(&[7; 64]).map(|_| ()).unwrap());
        let outcome = polled(server, Some(STAGES)).unwrap();
        assert_eq!((outcome.finished, outcome.queue_drops), (10, 0));
        let trace: serde_json::Value = serde_json::from_str(&outcome.trace.unwrap()).unwrap();
        let events = trace.as_array().unwrap();
        let of = |name: &str| events.iter().filter(|event| event["name"] == name).collect::<Vec<_>>();
        let received =
            of("receive").iter().map(|event| event["args"]["packets"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(received, 10);
        assert!(!of("arm").is_empty(), "{trace}");
    }
}
