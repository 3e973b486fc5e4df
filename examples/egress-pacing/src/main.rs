//! An unchanged program sends 30 packets at once: at the interface a BPF program assigns each its departure time, and
//! the queue `fq` keeps it until then.
//!
//! The bursts are real, their gaps as a receiver's kernel sees them, the BPF program, and the departure times, which
//! the kernel sets in its own packets. **Not shown is that `fq` keeps them**, which needs an interface with that queue:
//! the tests of softtimers-bpf show it, where there is one. The CPU time is that of a send, with the program at the
//! interface and without.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::time::Duration;

use example_harness::Spacing;
use example_harness::trial::{Done, Software, Trial};
use softtimers::late::cpu_time;
use softtimers::{Clock, Monotonic};
use softtimers_bpf::{Egress, EgressPace, Error};
use softtimers_net::udp::{RecvBatch, UdpSocket};
use softtimers_trials::result::Table;

const FIGURES: [(&str, usize); 4] =
    [("longest train", 0), ("gap p50 µs", 0), ("gap p99 µs", 0), ("CPU µs a packet", 2)];
const SOFTWARE: Software = Software::new(
    "Linux fq, any sender of UDP",
    "[srt #637](https://github.com/Haivision/srt/issues/637), [quic-go #2604](https://github.com/quic-go/quic-go/issues/2604): a sender's own timers are too coarse to pace by",
    include_str!("../../../crates/bpf/c/pace.bpf.c"),
);
const RATE: u64 = 20_000_000;
const PAYLOAD: usize = 1_200;
/// With the headers of Ethernet, IP and UDP.
const FRAME: usize = PAYLOAD + 42;
const BURST: usize = 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Nobody,
    Program,
}

impl By {
    const ALL: [By; 2] = [By::Nobody, By::Program];

    fn name(self) -> &'static str {
        if self == By::Nobody { "as it is sent" } else { "departure times for fq" }
    }
}

/// A program that sends, and its receiver.
struct Ends {
    sender: UdpSocket,
    receiver: UdpSocket,
    to: SocketAddr,
    port: u16,
    batch: RecvBatch,
    /// Time between packets at the rate.
    interval: Duration,
}

impl Ends {
    fn new(interval: Duration) -> Done<Self> {
        let (sender, receiver) =
            (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
        receiver.set_timestamps(true)?;
        let (to, port) = (receiver.local_addr()?, sender.local_addr()?.port());
        Ok(Ends { sender, receiver, to, port, batch: RecvBatch::new(BURST, FRAME), interval })
    }

    /// Sends a burst, and records when the kernel received each packet; returns the CPU time of the sends.
    fn burst(&mut self, spacing: &mut Spacing) -> Done<Duration> {
        let before = cpu_time();
        for _ in 0..BURST {
            self.sender.send_to(&[0; PAYLOAD], self.to)?;
        }
        let used = cpu_time() - before;
        let mut left = BURST;
        while left > 0 {
            left -= self.receiver.recv_at_most(&mut self.batch, left)?;
            let received = self.batch.iter().filter_map(|datagram| datagram.received);
            received.for_each(|at| spacing.packet(at));
        }
        // No packet comes any more: this waits until all would have left at the rate.
        self.receiver.as_ref().set_read_timeout(Some(self.interval * BURST as u32 * 2))?;
        let nothing = self.receiver.recv(&mut [0]);
        self.receiver.as_ref().set_read_timeout(None)?;
        if nothing.is_ok() { Err("an unexpected packet".into()) } else { Ok(used) }
    }

    /// Returns the frame that loopback sees.
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((FRAME as u16 - 14).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        let words = [self.port, self.to.port(), PAYLOAD as u16 + 8, 0];
        frame.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        frame.resize(FRAME, 0);
        frame
    }
}

/// Sends bursts for a time; returns their spacing, the CPU time of the sends, and the number of packets.
fn send(by: By, rate: NonZeroU64, time: Duration) -> Done<(Spacing, Duration, usize)> {
    let interval = Duration::from_nanos(FRAME as u64 * 8 * 1_000_000_000 / rate.get());
    let mut ends = Ends::new(interval)?;
    let mut pace = EgressPace::load(Egress::Port(ends.port), rate)?;
    if by == By::Program {
        pace.attach_before_fq("lo")?;
    }
    let mut spacing = Spacing::new(interval);
    let (mut used, mut packets, end) = (Duration::ZERO, 0, Monotonic.now() + time);
    while packets == 0 || Monotonic.now() < end {
        used += ends.burst(&mut spacing)?;
        packets += BURST;
    }
    if by == By::Program {
        // Loopback keeps no times, so the spacing is that of the times that the kernel sets in its own packets.
        spacing = Spacing::new(interval);
        let frame = ends.frame();
        for _ in 0..EgressPace::WAITING {
            pace.departure(&frame)?.into_iter().for_each(|time| spacing.packet(time));
        }
        let counts = pace.counts()?;
        if counts.dropped > 0 || counts.packets < packets as u64 {
            return Err(format!("{packets} packets were sent: {counts:?}").into());
        }
    }
    Ok((spacing, used, packets))
}

fn run(trial: &Trial) -> Done<Vec<Table>> {
    let rate = NonZeroU64::new(RATE).ok_or("no rate")?;
    let measured = trial.contest(&[()], &mut By::ALL.to_vec(), |(), by, round| {
        let (spacing, used, packets) = send(*by, rate, trial.time)?;
        let gap = |share| spacing.gaps.quantile(share).map(|nanos| nanos as f64 / 1e3);
        let cpu = used.as_secs_f64() * 1e6 / packets as f64;
        let figures = [Some(spacing.longest_burst as f64), gap(0.5), gap(0.99), Some(cpu)];
        FIGURES.iter().zip(figures).for_each(|((name, _), figure)| round.put(by.name(), name, figure));
        Done::Ok(())
    })?;
    let both = By::ALL.map(|by| by.name().to_owned());
    let table = Table::of("egress-pacing", &measured, both.iter(), &FIGURES);
    let said = "longest train, at 20 Mbit/s, of the departure times for fq";
    let lines = [(said.to_owned(), FIGURES[0].0, both)];
    Ok(vec![table, SOFTWARE.summary(&measured, FIGURES[3].0, &lines)])
}

/// Returns why it cannot run here, if so.
fn missing() -> Option<String> {
    let tried = NonZeroU64::new(RATE).map(|rate| EgressPace::load(Egress::Port(1), rate));
    match tried {
        Some(Err(error @ (Error::Privilege { .. } | Error::TooOld { .. } | Error::Refused { .. }))) => {
            Some(error.to_string())
        }
        _ => None,
    }
}

fn main() -> Done {
    let trial = Trial::asked()?;
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return Ok(());
    }
    trial.show("egress-pacing", run(&trial)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn departure_times_make_no_train() {
        if let Some(why) = missing() {
            let line = format!("skipped: departure_times_make_no_train: {why}\n");
            return std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
        let text = run(&Trial::short()).unwrap()[0].markdown(&[], |_| true).unwrap();
        assert!(By::ALL.iter().all(|by| text.contains(by.name())), "{text}");
        let rate = NonZeroU64::new(RATE).unwrap();
        let (spacing, _, packets) = send(By::Program, rate, Trial::short().time).unwrap();
        assert_eq!((spacing.longest_burst, spacing.back_to_back, packets % BURST), (1, 0, 0));
        assert!(!spacing.gaps.is_empty());
    }
}
