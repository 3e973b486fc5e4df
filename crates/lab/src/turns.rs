//! Several timers take turns of 10 ms in one process.
//!
//! Runs after each other would compare the machine with itself a second ago. Turns that are short beside
//! its drift resolve one percent where such runs do not resolve five.

use std::error::Error;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use softtimers_cli::args::{Cli, Command};
use softtimers_cli::command;
pub use softtimers_cli::distribution::{median_within, quartiles};
use softtimers_cli::failure::Failure;
use softtimers_cli::machine::{Machine, Neighbours};
use softtimers_cli::plan::SendPlan;
use softtimers_cli::processor::Processor;
use softtimers_cli::send::{Contender, Share, take_turns};

use crate::arguments;

/// What becomes of a bench.
pub type Done = Result<(), Box<dyn Error>>;

/// Short beside the drift of the machine, long beside the 10 µs that it takes to change turns.
pub const TURN: Duration = Duration::from_millis(10);

/// Runs `measure` with the arguments of this bench; or the command, if this process is to be an echo server's
/// clients; or nothing, if only benches of another name are asked for: `cargo bench NAME` says NAME to all.
pub fn main(name: &str, measure: fn(&[String]) -> Done) -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--with-parent") {
        return command::run(std::env::args_os()).into();
    }
    let Some(arguments) = arguments::of(name) else { return ExitCode::SUCCESS };
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            // What the command would exit with: 2 for a file that exists, 77 for what is not possible here.
            error.downcast_ref::<Failure>().map_or(ExitCode::FAILURE, |failure| failure.exit().into())
        }
    }
}

/// The machine, in one line.
pub fn machine() -> String {
    let Machine { kernel, cpu, cores, .. } = Machine::read();
    format!("{kernel}, {cores} x {cpu}")
}

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
    let neighbours = Neighbours::watch();
    let turns = take_turns(&plan, contenders, turn, rounds)?;
    let disturbed = neighbours.so_far().inconclusive();
    Ok(Contest { rounds: turns.rounds, disturbed, interrupted: turns.interrupted })
}
