//! The cost of handing datagrams to the kernel, one to 64 at a time: `cargo bench --manifest-path
//! bench/Cargo.toml --bench handover [-- --rounds 100]`.
//!
//! A pacer sends one datagram when it is due, or the few that are due at a clock check; rarely more. So the sizes that
//! matter are 1 to 8, and 64 shows the trend of each way. All of them send 1,200 bytes over loopback, in turns of a few
//! milliseconds:
//!
//! ```text
//!   send           send(2) for each
//!   sendmmsg       one call for all                                        SendBatch
//!   gso            one call, one send, which the kernel cuts               SendBatch, with segmentation
//!   io_uring       one submission for all; registered descriptor, single issuer, no thread that polls
//!   io_uring_zc    the same, without a copy of the payload
//! ```
//!
//! CPU time is that of the whole process, since other threads may do a ring's work. It contains the way through the
//! stack into the receiver's buffer, for which the sender pays on loopback. The receiver is another process, once one
//! that polls and once one that never reads, whose buffer is full. Neither is woken: a datagram that leaves the machine
//! wakes no process here, and a wake-up costs as much as a send.

mod ring;
mod ways;

use std::io;
use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};

use softtimers_lab::bench::{self, Done, Section};
use softtimers_measure::child;
use softtimers_net::udp::RecvBatch;
use softtimers_trials::bar::Bar;
use softtimers_trials::command::announced;
use softtimers_trials::cpu;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;

use ring::Ring;
use ways::Way;

/// Datagrams handed over at a time.
const AT_A_TIME: [usize; 5] = [1, 2, 4, 8, 64];
/// Datagrams of a turn: some 3 ms.
const TURN: usize = 1_024;
const SIZE: usize = 1_200;
const POLLS: &str = "polls";
const NEVER_READS: &str = "never reads";

const SECTIONS: [Section<usize>; 1] = [("handover", measure)];

fn main() -> ExitCode {
    bench::child(|words| Ok(receive(words == [POLLS])?))
        .unwrap_or_else(|| bench::main("handover", &SECTIONS, |asked| Ok(asked.rounds())))
}

/// Returns a table for each receiver: the cost of each way, and its ratio to `send` in the same round.
fn measure(rounds: &usize) -> Done<Vec<Table>> {
    let columns = AT_A_TIME.map(|count| format!("{count} at a time"));
    let mut tables = Vec::new();
    for receiver in [POLLS, NEVER_READS] {
        let (_sink, address) =
            announced(child::command()?.arg(receiver).stdin(Stdio::piped()), "receives at ")?;
        let mut ways = ways(address.parse()?)?;
        let measured = Paired::new(*rounds).as_a_whole().contest(
            &AT_A_TIME,
            &mut ways,
            |&count, (name, way), round| {
                round.put(name, &format!("{count} at a time"), turn(way, count)?);
                io::Result::Ok(())
            },
        )?;
        let names = ways.iter().map(|(name, _)| *name);
        let heads = columns.each_ref().map(|name| (name.as_str(), 0));
        let mut costs = Table::of(&format!("receiver {receiver}: ns"), &measured, names, &heads);
        for count in &columns {
            costs.against(&format!("{count}, against send"), &measured, count, "send");
        }
        if receiver == POLLS {
            let eight = |way| measured.ratio("8 at a time", way, "send");
            costs.bar(Bar::at_most("eight datagrams as one send, against as many", 0.5, eight("gso")));
            costs.bar(Bar::at_most(
                "eight datagrams by one sendmmsg, against as many sends",
                0.95,
                eight("sendmmsg"),
            ));
        }
        tables.push(costs);
    }
    Ok(tables)
}

/// Returns all ways; a ring only where the kernel has it.
fn ways(receiver: SocketAddr) -> io::Result<Vec<(&'static str, Way)>> {
    let connected = || -> io::Result<softtimers_net::udp::UdpSocket> {
        let socket = softtimers_net::udp::UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(receiver)?;
        Ok(socket)
    };
    let mut ways: Vec<(&'static str, Way)> = vec![
        ("send", ways::single(connected()?, SIZE)),
        ("sendmmsg", ways::batched(connected()?, SIZE, false)),
        ("gso", ways::batched(connected()?, SIZE, true)),
    ];
    for (name, copies) in [("io_uring", true), ("io_uring_zc", false)] {
        match Ring::new(connected()?, SIZE, copies) {
            Ok(mut ring) => ways.push((name, Box::new(move |count| ring.hand_over(count)))),
            Err(error) => println!("no {name}: {error}"),
        }
    }
    Ok(ways)
}

fn turn(way: &mut Way, at_a_time: usize) -> io::Result<f64> {
    let before = cpu::of_process();
    for _ in 0..TURN / at_a_time {
        way(at_a_time)?;
    }
    Ok((cpu::of_process() - before).as_nanos() as f64 / TURN as f64)
}

/// Receives until its parent ends.
fn receive(polls: bool) -> io::Result<()> {
    let socket = softtimers_net::udp::UdpSocket::bind("127.0.0.1:0")?;
    eprintln!("receives at {}", socket.local_addr()?);
    if !polls {
        return io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop);
    }
    socket.set_nonblocking(true)?;
    let mut batch = RecvBatch::new(64, 2_048);
    loop {
        // Most often it is empty.
        let _ = socket.recv_batch(&mut batch);
    }
}
