//! A UDP server with workers, a timer each 20 ms, and more packets than it can handle.
//!
//! `cargo run --release -p softtimers --example overload_server` floods itself for a second as a poller, and then
//! as the loop that receives all there is before it does anything else. Both have the same worker on the same
//! processor and the same queue of 256 before it.

mod flood;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{hint, io, thread};

use softtimers::poll::{DelayBound, DelayBoundConfig, FeedbackConfig, Preset, SourceConfig};
use softtimers::poller::{Gauge, Poller, UdpDevice};
use softtimers::udp::{RecvBatch, UdpSocket};
use softtimers::{Clock, Monotonic, Timestamp};

use flood::{TICK, Ticks, flood};

const RUN: Duration = Duration::from_secs(1);
const ROOM: u32 = 256;

fn main() -> io::Result<()> {
    for (name, server) in [("poller", polled as fn(UdpSocket) -> io::Result<Outcome>), ("naive", naive)] {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?;
        let stop = AtomicBool::new(false);
        let (outcome, sent) = thread::scope(|scope| {
            let generator = scope.spawn(|| flood(address, &stop));
            let outcome = server(socket);
            stop.store(true, Ordering::Relaxed);
            (outcome, generator.join().unwrap_or(0))
        });
        let Outcome { finished, ticks, queue_drops, ring_drops } = outcome?;
        println!(
            "{name}: {sent} sent, {finished} finished; dropped {ring_drops} in the receive buffer, {queue_drops} at \
             the queue; the 20 ms timer fired {ticks} of {} times",
            RUN.as_millis() / TICK.as_millis() - 1
        );
    }
    Ok(())
}

#[derive(Default)]
struct Outcome {
    finished: u64,
    ticks: u64,
    queue_drops: u64,
    ring_drops: u64,
}

/// The second stage: rules, a database, whatever takes longer than receiving.
fn work(packet: &[u8]) {
    (0..6_000).for_each(|rule| _ = hint::black_box((rule, packet)));
}

/// A quota in turn, feedback from the queue, and the timers between rounds.
fn polled(socket: UdpSocket) -> io::Result<Outcome> {
    let mut poller = Poller::new()?;
    let policy = DelayBound::new(DelayBoundConfig::default());
    let source = poller.add(UdpDevice::new(socket)?, SourceConfig::new(policy))?;
    let gauge = Gauge::new()?;
    let marks = FeedbackConfig::preset(Preset::Measured, ROOM).map_err(io::Error::other)?;
    poller.attach_queue(&gauge, marks, &[source])?;

    let (mut outcome, mut queue, mut ticks) = (Outcome::default(), VecDeque::new(), Ticks::new());
    let end = Monotonic.now() + RUN;
    while Monotonic.now() < end {
        outcome.ticks += ticks.fire();
        // While the queue has packets this thread has work, and only looks at the wake-ups.
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
    Ok(outcome)
}

/// Receives until nothing is left, then does the rest: under a flood there is no "then".
fn naive(socket: UdpSocket) -> io::Result<Outcome> {
    socket.set_nonblocking(true)?;
    let (mut outcome, mut queue, mut ticks) = (Outcome::default(), VecDeque::new(), Ticks::new());
    let mut batch = RecvBatch::new(64, 2_048);
    let end = Monotonic.now() + RUN;
    while Monotonic.now() < end {
        while socket.recv_batch(&mut batch).is_ok() && Monotonic.now() < end {
            for datagram in &batch {
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
