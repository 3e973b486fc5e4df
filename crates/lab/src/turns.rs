//! Several timers take turns of 10 ms in one process.
//!
//! Runs after each other would compare the machine with itself a second ago. Turns that are short beside
//! its drift resolve one percent where such runs do not resolve five.

use std::error::Error;
use std::net::UdpSocket;
use std::time::Duration;

use clap::Parser;
use softtimers_cli::args::{Cli, Command};
use softtimers_cli::plan::SendPlan;
use softtimers_cli::send::{Contender, Share, take_turns};
use softtimers_measure::estimate::Estimate;
use softtimers_measure::machine::BackgroundLoad;
use softtimers_measure::processor::Processor;
use softtimers_measure::result::Table;

/// Short beside the drift of the machine, long beside the 10 µs that it takes to change turns.
pub const TURN: Duration = Duration::from_millis(10);

/// What each contender did in each round, and what disturbed the whole.
#[derive(Debug)]
pub struct Contest<const N: usize> {
    /// A share of each contender, in their order, for each round.
    pub rounds: Vec<[Share; N]>,
    /// Why the comparison is inconclusive, if it is.
    pub disturbed: Option<String>,
    /// Whether a signal ended it early.
    pub interrupted: bool,
}

impl<const N: usize> Contest<N> {
    /// The estimate of a figure over the rounds.
    pub fn over(&self, figure: impl Fn(&[Share; N]) -> Option<f64>) -> Option<Estimate> {
        Estimate::of(self.rounds.iter().filter_map(figure))
    }

    /// An empty table for what was found.
    pub fn table(&self, key: &str, columns: &[(&str, usize)]) -> Table {
        let notes = if self.interrupted { vec!["interrupted: it is short".to_owned()] } else { Vec::new() };
        let (made, inconclusive) = (Some([self.rounds.len(), 0]), self.disturbed.clone());
        Table { made, inconclusive, notes, ..Table::new(key, columns) }
    }
}

/// Rounds of turns of this length of a loop with these flags of `send`, for about `time`.
///
/// # Errors
/// What the command would say; on this way usage errors end the process, as clap does.
pub fn contest<const N: usize>(
    flags: &str,
    contenders: [Contender; N],
    turn: Duration,
    time: Duration,
) -> Result<Contest<N>, Box<dyn Error>> {
    // Nobody reads it: the sender pays the same for a datagram that is dropped at the end.
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    // The clients of an echo server need the other one.
    let cpu = Processor::two().map_or(String::new(), |[here, _]| format!(" --cpu {here}"));
    let line = format!("softtimers send {}{cpu} --no-handshake {flags}", sink.local_addr()?);
    let Command::Send(arguments) = Cli::parse_from(line.split(' ')).command else {
        return Err("the line is one of send".into());
    };
    let plan = SendPlan::new(&arguments)?;
    let rounds = time.div_duration_f64(turn * N as u32).ceil() as usize;
    let background = BackgroundLoad::watch();
    let turns = take_turns(&plan, contenders, turn, rounds)?;
    let disturbed = background.so_far().inconclusive();
    Ok(Contest { rounds: turns.rounds, disturbed, interrupted: turns.interrupted })
}
