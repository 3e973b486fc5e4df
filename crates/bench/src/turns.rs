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
use softtimers_cli::machine::{Machine, Neighbours};
use softtimers_cli::plan::SendPlan;
use softtimers_cli::processor::Processor;
use softtimers_cli::send::{Contender, Share, take_turns};

/// Short beside the drift of the machine, long beside the 10 µs that it takes to change turns.
pub const TURN: Duration = Duration::from_millis(10);

/// Runs `measure`; or the command, if this process is to be an echo server's clients.
pub fn main(measure: fn() -> Result<(), Box<dyn Error>>) -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--with-parent") {
        return command::run(std::env::args_os()).into();
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
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
}

/// Rounds of turns of a loop with these flags of `send`, for about `time`.
///
/// # Errors
/// What the command would say; on this way usage errors end the process, as clap does.
pub fn contest<const N: usize>(
    flags: &str,
    contenders: [Contender; N],
    time: Duration,
) -> Result<Contest<N>, Box<dyn Error>> {
    // Nobody reads it: the sender pays the same for a datagram that is dropped at the end.
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    // The clients of an echo server need the other one.
    let cpu = Processor::two().map_or(String::new(), |[here, _]| format!(" --cpu {here}"));
    let line = format!("softtimers send {}{cpu} {flags}", sink.local_addr()?);
    let Command::Send(arguments) = Cli::parse_from(line.split(' ')).command else {
        return Err("the line is one of send".into());
    };
    let plan = SendPlan::new(&arguments).map_err(|failure| failure.to_string())?;
    let rounds = time.div_duration_f64(TURN * N as u32).ceil() as usize;
    let neighbours = Neighbours::watch();
    let rounds = take_turns(&plan, contenders, TURN, rounds).map_err(|failure| failure.to_string())?;
    Ok(Contest { rounds, disturbed: neighbours.so_far().inconclusive().map(|reason| reason.to_string()) })
}

/// The lower quartile, the median and the upper quartile; NaN of nothing.
pub fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values.get(values.len() * quarter / 4).copied().unwrap_or(f64::NAN))
}
