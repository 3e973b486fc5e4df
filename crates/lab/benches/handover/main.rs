//! What it costs to hand a datagram to the kernel, so many at a time: `cargo bench -p softtimers-bench --bench
//! handover [-- SECONDS]`.
//!
//! A pacer sends one datagram when it is due, or the few that are due when it looks; rarely more. So the sizes
//! that count are 1 to 8, and 64 shows where each way is going. All of them send 1,200 bytes over loopback,
//! in turns of a few milliseconds:
//!
//! ```text
//!   send           send(2) for each
//!   sendmmsg       one call for all                                        SendBatch
//!   gso            one call, one send, which the kernel cuts               SendBatch, with segmentation
//!   io_uring       one submission for all; registered descriptor, single issuer, no thread that polls
//!   io_uring_zc    the same, without a copy of the payload
//! ```
//!
//! CPU time is that of the whole process, for a ring may have others do its work. It contains the trip
//! through the stack into the receiver's buffer, which on loopback is the sender's. The receiver is another
//! process, once one that polls and once one that never reads, whose buffer is full. Neither is woken: a
//! datagram that leaves the machine wakes nobody here, and a wake-up costs as much as a send.

mod ring;
mod ways;

use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers::udp::RecvBatch;
use softtimers::{Clock, Monotonic};
use softtimers_bench::arguments;
use softtimers_bench::turns::{machine, quartiles};
use softtimers_cli::machine::Neighbours;

use ring::Ring;
use ways::{Batched, Single, Way};

/// Datagrams handed over at a time.
const AT_A_TIME: [usize; 5] = [1, 2, 4, 8, 64];
/// Datagrams of a turn: some 3 ms.
const TURN: usize = 1_024;
const SIZE: usize = 1_200;
const POLLS: &str = "--sink-polls";
const NEVER_READS: &str = "--sink-never-reads";

fn main() -> ExitCode {
    let Some(arguments) = arguments::of("handover") else { return ExitCode::SUCCESS };
    let argument = arguments.into_iter().next();
    let outcome = match argument.as_deref() {
        Some(mode @ (POLLS | NEVER_READS)) => receive(mode == POLLS),
        _ => match argument.map_or(Ok(10), |seconds| seconds.parse::<u32>()) {
            Ok(seconds) if seconds > 0 => measure(Duration::from_secs(seconds.into())),
            _ => {
                eprintln!("error: the argument is a number of seconds, at least 1");
                return ExitCode::from(2);
            }
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(time: Duration) -> io::Result<()> {
    let neighbours = Neighbours::watch();
    println!("{}\n", machine());
    println!(
        "CPU ns of a datagram of {SIZE} bytes, median; in brackets against `send`, median of the rounds\n"
    );
    let heads: Vec<String> = AT_A_TIME.iter().map(|count| format!("{count} at a time")).collect();
    println!("| receiver | way | {} |", heads.join(" | "));
    println!("|---|---|{}", "---|".repeat(AT_A_TIME.len()));
    for (receiver, mode) in [("polls", POLLS), ("never reads", NEVER_READS)] {
        let sink = Sink::start(mode)?;
        let mut ways = ways(sink.address)?;
        let rounds = rounds(&mut ways, time / 2)?;
        for (way, (name, _)) in ways.iter().enumerate() {
            let cells: Vec<String> = (0..AT_A_TIME.len()).map(|count| cell(&rounds, count, way)).collect();
            println!("| {receiver} | {name} | {} |", cells.join(" | "));
        }
    }
    if let Some(reason) = neighbours.so_far().inconclusive() {
        println!("\ninconclusive: {reason}");
    }
    Ok(())
}

/// All that there are; a ring only where the kernel has it.
fn ways(receiver: SocketAddr) -> io::Result<Vec<(&'static str, Box<dyn Way>)>> {
    let connected = || -> io::Result<softtimers::UdpSocket> {
        let socket = softtimers::UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(receiver)?;
        Ok(socket)
    };
    let mut ways: Vec<(&'static str, Box<dyn Way>)> = vec![
        ("send", Box::new(Single::new(connected()?, SIZE))),
        ("sendmmsg", Box::new(Batched::new(connected()?, SIZE, false))),
        ("gso", Box::new(Batched::new(connected()?, SIZE, true))),
    ];
    for (name, copies) in [("io_uring", true), ("io_uring_zc", false)] {
        match Ring::new(connected()?, SIZE, copies) {
            Ok(ring) => ways.push((name, Box::new(ring))),
            Err(error) => println!("no {name}: {error}"),
        }
    }
    Ok(ways)
}

/// CPU ns of a datagram, for each number at a time by each way.
type Round = Vec<Vec<f64>>;

fn rounds(ways: &mut [(&'static str, Box<dyn Way>)], time: Duration) -> io::Result<Vec<Round>> {
    let end = Monotonic.now() + time;
    let mut rounds: Vec<Round> = Vec::new();
    while Monotonic.now() < end || rounds.len() < 2 {
        let mut round = vec![vec![f64::NAN; ways.len()]; AT_A_TIME.len()];
        for (count, costs) in AT_A_TIME.iter().zip(&mut round) {
            for place in 0..ways.len() {
                // One round forwards, one backwards.
                let way = if rounds.len().is_multiple_of(2) { place } else { ways.len() - 1 - place };
                costs[way] = turn(&mut *ways[way].1, *count)?;
            }
        }
        rounds.push(round);
    }
    Ok(rounds)
}

fn turn(way: &mut dyn Way, at_a_time: usize) -> io::Result<f64> {
    let before = used();
    for _ in 0..TURN / at_a_time {
        way.hand_over(at_a_time)?;
    }
    Ok((used() - before).as_nanos() as f64 / TURN as f64)
}

/// CPU time of this process.
fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn cell(rounds: &[Round], count: usize, way: usize) -> String {
    let [_, cost, _] = quartiles(rounds.iter().map(|round| round[count][way]));
    let [_, ratio, _] = quartiles(rounds.iter().map(|round| round[count][way] / round[count][0]));
    format!("{cost:.0} ({ratio:.2})")
}

/// This program as a receiver, in a process of its own that ends with this value.
struct Sink {
    process: Child,
    address: SocketAddr,
}

impl Sink {
    fn start(mode: &str) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut process = command.arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let mut sink = Sink { process, address: ([127, 0, 0, 1], 9).into() };
        sink.address = line.trim().parse().map_err(io::Error::other)?;
        Ok(sink)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a sink does, until its parent is gone.
fn receive(polls: bool) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    println!("{}", socket.local_addr()?);
    if polls {
        socket.set_nonblocking(true)?;
        std::thread::spawn(move || {
            let (socket, mut batch) = (softtimers::UdpSocket::from(socket), RecvBatch::new(64, 2_048));
            loop {
                // Nothing there, mostly.
                let _ = socket.recv_batch(&mut batch);
            }
        });
        return ends_with_parent();
    }
    let ended = ends_with_parent();
    drop(socket);
    ended
}

/// The pipe closes with whoever holds its other end.
fn ends_with_parent() -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop)
}
