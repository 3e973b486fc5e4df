//! One way through `wan`, from the sender's kernel to the receiver's: neither end's wake-ups count.
//!
//! ```text
//!   socket ──▶ departs (stamp) ──▶ received (stamp)                            loopback alone, right before
//!   socket ──▶ departs (stamp) ──▶ wan: 10 ms ──▶ received (stamp)
//! ```

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use softtimers_linux::control::Control;
use softtimers_linux::recvmmsg::RecvBuffers;
use softtimers_linux::sockopt;
use softtimers_measure::estimate::median;
use softtimers_net::udp::UdpSocket;
use softtimers_trials::bar::Bar;
use softtimers_trials::command::{Killed, Program, announced, pause, start};
use softtimers_trials::paired::Round;
use softtimers_trials::result::Table;

use super::Effort;
use crate::bench::Done;

/// The delay that is set.
const SET_DELAY: Duration = Duration::from_millis(10);
const ABOVE_P50: &str = "p50 above loopback µs";
const ABOVE_P99: &str = "p99 above loopback µs";
const EARLIEST: &str = "earliest µs";
const ADDS: &str = "p50 by its own account µs";

/// The traffic, and whether programs that compute take all CPUs meanwhile.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    gap: Duration,
    beside_work: bool,
}

const CASES: [Case; 4] = [
    Case { name: "100/s", gap: Duration::from_millis(10), beside_work: false },
    Case { name: "1,000/s", gap: Duration::from_millis(1), beside_work: false },
    Case { name: "10,000/s", gap: Duration::from_micros(100), beside_work: false },
    Case { name: "1,000/s beside work", gap: Duration::from_millis(1), beside_work: true },
];

/// Measures how late packets are, against what was set.
pub(super) fn one_way(effort: &Effort) -> Done<Vec<Table>> {
    let program = Program::build()?;
    let packets = effort.of(1_000, 50);
    let mut cases = CASES;
    let measured =
        effort.paired.contest(&[()], &mut cases, |(), case, round| once(&program, case, packets, round))?;
    let columns = [(ABOVE_P50, 1), (ABOVE_P99, 1), (EARLIEST, 1), (ADDS, 1)];
    let mut table = Table::of("one-way", &measured, CASES.iter().map(|case| case.name), &columns);
    for (case, figure, most) in
        [(CASES[1], ABOVE_P50, 30.0), (CASES[1], ABOVE_P99, 150.0), (CASES[3], ABOVE_P99, 300.0)]
    {
        let name = case.name;
        table.bar(Bar::at_most(format!("{name}: {figure}"), most, measured.estimate(name, figure)));
    }
    table.note("wan --listen … --to …, 10 ms one way. From the sender's stamp of departure to the receiver's stamp, less the 10 ms; earliest is the least of that, without subtracting loopback.");
    Ok(vec![table])
}

fn once(program: &Program, case: &mut Case, packets: usize, round: &mut Round) -> Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_timestamps(true)?;
    receiver.as_ref().set_read_timeout(Some(Duration::from_secs(2)))?;
    let here = receiver.local_addr()?;
    let delay = format!("{}us", SET_DELAY.as_micros());
    let words = [
        "wan",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &here.to_string(),
        "--delay",
        &delay,
        "--json",
        "-t",
        "60",
    ];
    let (child, line) = announced(&mut program.command(&words), "listening on ")?;
    let address: SocketAddr =
        line.split([' ', ',']).next().unwrap_or_default().parse().context("an address")?;
    let _work: Vec<Killed> = busy(case.beside_work)?;
    let alone = trips(here, &receiver, case.gap, packets)?;
    let mut late = trips(address, &receiver, case.gap, packets)?;
    let report = child.ended()?;
    late.iter_mut().for_each(|nanos| *nanos -= SET_DELAY.as_nanos() as f64);
    let base = median(alone).context("packets over loopback")?;
    late.sort_by(f64::total_cmp);
    let rank =
        |share: f64| late.get(((late.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
    for (figure, nanos) in [
        (ABOVE_P50, rank(0.5).map(|nanos| nanos - base)),
        (ABOVE_P99, rank(0.99).map(|nanos| nanos - base)),
        (EARLIEST, late.first().copied()),
        (ADDS, report["adds_p50_ns"].as_f64()),
    ] {
        round.put(case.name, figure, nanos.map(|nanos| nanos / 1e3));
    }
    Ok(())
}

/// Starts as many programs that compute as there are CPUs.
fn busy(wanted: bool) -> Result<Vec<Killed>> {
    let cpus = if wanted { std::thread::available_parallelism()?.get() } else { 0 };
    (0..cpus).map(|_| start(Command::new("sh").args(["-c", "while :; do :; done"]))).collect()
}

/// Sends packets at this distance, and returns the nanoseconds from the stamp of each departure to that of its arrival.
fn trips(to: SocketAddr, receiver: &UdpSocket, gap: Duration, packets: usize) -> Result<Vec<f64>> {
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(to)?;
    sockopt::set_transmit_times(sender.as_fd())?;
    let arrivals = receiver.as_ref().try_clone()?;
    let receiving = std::thread::spawn(move || -> Result<Vec<(u64, Duration)>> {
        let mut buffers = RecvBuffers::new(64, 64);
        let mut all = Vec::new();
        while all.len() < packets && buffers.receive(arrivals.as_fd()).is_ok() {
            for index in 0..64 {
                let Some(message) = buffers.message(index) else { break };
                let number = message.payload.first_chunk().copied().map(u64::from_ne_bytes);
                all.extend(number.zip(Control::parse(message.control).received));
            }
        }
        Ok(all)
    });
    let mut departures = Vec::new();
    let mut buffers = RecvBuffers::new(1, 1);
    for number in 0..packets as u64 {
        sender.send(&number.to_ne_bytes())?;
        // Loopback stamps within the send.
        buffers.receive_errors(sender.as_fd())?;
        let stamp = buffers.message(0).and_then(|message| Control::parse(message.control).departed);
        departures.push(stamp.context("a stamp of departure")?);
        pause(gap);
    }
    let arrived = receiving.join().map_err(|_| anyhow::anyhow!("the receiver has panicked"))??;
    ensure!(arrived.len() * 10 >= packets * 9, "{} of {packets} packets have arrived", arrived.len());
    let trip = |(number, arrival): (u64, Duration)| {
        let departure = departures.get(usize::try_from(number).ok()?)?;
        Some(arrival.as_nanos() as f64 - departure.as_nanos() as f64)
    };
    Ok(arrived.into_iter().filter_map(trip).collect())
}
