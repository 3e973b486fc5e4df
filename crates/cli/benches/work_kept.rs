//! How much work a saturated loop keeps beside pacing, by each way to notice a due time:
//! `cargo bench -p softtimers-cli --bench work_kept [-- ECHO_BATCH [SECONDS]]`.
//!
//! Turns of 10 ms in one process, because runs after each other would compare the machine with
//! itself a second ago. Each round has its own ratio; the median and the middle half of the ratios
//! are printed. A round is as long as three turns, so what takes the processor away for longer
//! spoils few of them.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use softtimers_cli::args::{Cli, Command, Timer};
use softtimers_cli::command;
use softtimers_cli::machine::Neighbours;
use softtimers_cli::plan::SendPlan;
use softtimers_cli::send::{Share, take_turns};

const TURN: Duration = Duration::from_millis(10);
const TIMERS: [Timer; 3] = [Timer::Off, Timer::Soft, Timer::Loop];

fn main() -> ExitCode {
    // The echo server's clients are this program again, as the command.
    if std::env::args().nth(1).as_deref() == Some("--with-parent") {
        return command::run(std::env::args_os()).into();
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("work_kept: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let batch: u16 = arguments.next().as_deref().unwrap_or("4").parse()?;
    let seconds: u64 = arguments.next().as_deref().unwrap_or("20").parse()?;
    let rounds = Duration::from_secs(seconds).div_duration_f64(TURN * TIMERS.len() as u32) as usize;

    // Nobody reads it: the sender pays the same for a datagram that is dropped at the end.
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    let line = format!(
        "softtimers send {} --interval 40us --busy echo --echo-batch {batch} --cpu 0",
        sink.local_addr()?
    );
    let Command::Send(arguments) = Cli::parse_from(line.split(' ')).command else {
        return Err("the line is one of send".into());
    };
    let plan = SendPlan::new(&arguments).map_err(|failure| failure.to_string())?;
    let neighbours = Neighbours::watch();
    let shares = take_turns(&plan, TIMERS, TURN, rounds).map_err(|failure| failure.to_string())?;
    let disturbed = neighbours.so_far().inconclusive();

    println!("echo batch {batch}, {rounds} rounds of {TURN:?} for each of off, soft, loop");
    let median = |of: fn(&[Share; 3]) -> f64| quartiles(shares.iter().map(of).collect());
    for (name, [low, middle, high]) in [
        ("packets/s, soft", median(|[_, soft, _]| soft.sent_rate)),
        ("packets/s, loop", median(|[_, _, own]| own.sent_rate)),
        ("work kept, soft", median(|[off, soft, _]| soft.work_rate / off.work_rate)),
        ("work kept, loop", median(|[off, _, own]| own.work_rate / off.work_rate)),
        ("work, soft over loop", median(|[_, soft, own]| soft.work_rate / own.work_rate)),
    ] {
        println!("{name:<22} {middle:>10.3}   (middle half {low:.3} to {high:.3})");
    }
    if let Some(reason) = disturbed {
        println!("inconclusive: {reason}");
    }
    Ok(())
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values.get(values.len() * quarter / 4).copied().unwrap_or(f64::NAN))
}
