//! Several timers take turns of 10 ms in one process.
//!
//! Consecutive runs would compare the machine with itself a second earlier. Turns that are short compared with its
//! drift resolve one percent where such runs do not resolve five.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use softtimers::Rate;
use softtimers_load::engines::Timer;
use softtimers_load::plan::SendPlan;
use softtimers_load::send::SendStats;
use softtimers_load::traffic::Traffic;
use softtimers_load::turns::{Contender, Share, take_turns};
use softtimers_load::work::Work;
use softtimers_measure::estimate::Estimate;
use softtimers_measure::machine::BackgroundLoad;
use softtimers_measure::processor::Processor;
use softtimers_trials::result::Table;

use crate::bench::Done;
use softtimers_trials::command::Program;

/// Short compared with the machine's drift, long compared with the 10 µs between turns.
pub const TURN: Duration = Duration::from_millis(10);

/// The work of each contender in each round, and the overall disturbance.
#[derive(Debug)]
pub struct Contest<const N: usize> {
    /// A share of each contender, in their order, for each round.
    pub rounds: Vec<[Share; N]>,
    /// The counts of each contender over all of its turns.
    pub stats: [SendStats; N],
    /// Why the comparison is inconclusive, if it is.
    pub disturbed: Option<String>,
    /// Whether a signal ended it early.
    pub interrupted: bool,
}

impl<const N: usize> Contest<N> {
    /// Returns the estimate of a figure over the rounds.
    pub fn over(&self, figure: impl Fn(&[Share; N]) -> Option<f64>) -> Option<Estimate> {
        Estimate::from_values(self.rounds.iter().filter_map(figure))
    }

    /// Returns an empty table for the findings.
    pub fn table(&self, key: &str, columns: &[(&str, usize)]) -> Table {
        let notes = if self.interrupted { vec!["interrupted: it is short".to_owned()] } else { Vec::new() };
        let (made, inconclusive) = (Some([self.rounds.len(), 0]), self.disturbed.clone());
        Table { made, inconclusive, notes, ..Table::new(key, columns) }
    }
}

/// Runs rounds of turns of this length, of a loop with this work and a flow of this rate, for about `time`.
///
/// # Errors
/// If the command cannot be built, whose clients keep an echo server busy; or the turns cannot start.
pub fn contest<const N: usize>(
    rate: Rate,
    work: Work,
    contenders: [Contender; N],
    turn: Duration,
    time: Duration,
) -> Done<Contest<N>> {
    // It is never read: the sender pays the same for a datagram that is dropped at the end.
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    beside(sink.local_addr()?, Traffic::new(rate), work, contenders, (turn, time))
}

/// Runs such rounds with datagrams of 200 bytes, for a receiver that reads every 2 ms, on the other CPU: a busy
/// receiver does not sleep between two datagrams, and so no sender has to wake it.
///
/// # Errors
/// As for [`contest`].
pub fn contest_received<const N: usize>(
    rate: Rate,
    work: Work,
    contenders: [Contender; N],
    turn: Duration,
    time: Duration,
) -> Done<Contest<N>> {
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    sink.set_nonblocking(true)?;
    let (address, over) = (sink.local_addr()?, AtomicBool::new(false));
    let traffic = Traffic { size: 200, ..Traffic::new(rate) };
    thread::scope(|scope| {
        scope.spawn(|| nap(&sink, &over));
        let contest = beside(address, traffic, work, contenders, (turn, time));
        over.store(true, Ordering::Relaxed);
        contest
    })
}

/// Reads what has come, and sleeps for 2 ms, until it is over.
pub fn nap(sink: &UdpSocket, over: &AtomicBool) {
    let other = Processor::two().and_then(|[_, other]| Processor::new(other).ok());
    let _kept = other.map(Processor::keep);
    let mut datagram = [0; 256];
    while !over.load(Ordering::Relaxed) {
        while sink.recv(&mut datagram).is_ok() {}
        thread::park_timeout(Duration::from_millis(2));
    }
}

fn beside<const N: usize>(
    destination: SocketAddr,
    traffic: Traffic,
    work: Work,
    contenders: [Contender; N],
    (turn, time): (Duration, Duration),
) -> Done<Contest<N>> {
    // The clients of an echo server need the other one.
    let cpu = Processor::two().map(|[here, _]| Processor::new(here)).transpose()?;
    let program = Some(Program::build()?.path().to_owned());
    let plan = SendPlan::new(destination, traffic, Timer::default());
    let plan = SendPlan { work, program, cpu, no_handshake: true, ..plan };
    let rounds = time.div_duration_f64(turn * N as u32).ceil() as usize;
    let background = BackgroundLoad::watch();
    let turns = take_turns(&plan, contenders, turn, rounds)?;
    let disturbed = background.so_far().inconclusive();
    Ok(Contest { rounds: turns.rounds, stats: turns.stats, disturbed, interrupted: turns.interrupted })
}

/// Returns the engine of this name.
///
/// # Panics
/// If there is none.
pub fn engine(name: &str) -> Timer {
    name.parse().expect("an engine of the list")
}
