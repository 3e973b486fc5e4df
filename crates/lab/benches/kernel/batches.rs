//! The worked use: packets that an XDP program collects into batches and hands on after 100 µs at the latest, by a soft event
//! through `st_poll` and by a `bpf_timer`.
//!
//! Datagrams on the loopback of a network of its own, 20 µs apart for what is handed on, and without a pause for what it
//! costs.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::{Command, ExitCode};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_bench::turns::quartiles;
use softtimers_bpf::{Batches, FlushedBy};

use crate::{Bench, Done};

const FLAG: &str = "--batches";
/// Datagrams of a window.
const DATAGRAMS: u32 = 20_000;

/// Whether this process is the one in the network of its own.
pub(crate) fn is_inside() -> bool {
    std::env::args().nth(1).as_deref() == Some(FLAG)
}

pub(crate) fn run(bench: &mut Bench) -> Done<()> {
    println!("\n### Batches of an XDP program, flushed after 100 us\n");
    let script = format!("ip link set lo up && exec \"$0\" {FLAG} {}", bench.rounds);
    let output =
        Command::new("unshare").args(["--net", "sh", "-c", &script]).arg(std::env::current_exe()?).output();
    let output = match output {
        Err(why) if why.kind() == ErrorKind::NotFound => {
            println!("skipped: this needs unshare");
            return Ok(());
        }
        output => output?,
    };
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(()),
        // The shell has not found it; or it is not for this process to have a network of its own.
        Some(127) => {
            println!("skipped: this needs ip");
            Ok(())
        }
        _ if said.starts_with("unshare: ") => {
            println!("skipped: {}", said.trim());
            Ok(())
        }
        _ => Err(said.trim().into()),
    }
}

/// What that process does.
pub(crate) fn inside() -> ExitCode {
    let rounds = std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    match compare(rounds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(rounds: u32) -> Done<()> {
    println!(
        "| flushed by | packets | batches | by time | interrupts | longest wait | datagrams/s without a pause |"
    );
    println!("|---|---|---|---|---|---|---|");
    let methods = [
        ("none collected", None),
        ("`st_poll`", Some(FlushedBy::SoftEvent)),
        ("`bpf_timer`", Some(FlushedBy::Timer)),
    ];
    let mut rates = [vec![], vec![], vec![]];
    for _ in 0..rounds {
        for ((_, by), rates) in methods.iter().zip(&mut rates) {
            let _batches = by.map(|by| Batches::collect("lo", by)).transpose()?;
            rates.push(datagrams(Duration::ZERO)?);
        }
    }
    for ((name, by), rates) in methods.into_iter().zip(rates) {
        let handed_on = match by {
            None => "– | – | – | – | –".to_owned(),
            Some(by) => {
                let batches = Batches::collect("lo", by)?;
                datagrams(Duration::from_micros(20))?;
                // The last batch has nothing but the backup.
                spin(Duration::from_millis(5));
                let all = batches.totals()?;
                let longest = all.longest_ns / 1_000;
                format!(
                    "{} | {} | {} | {} | {longest} us",
                    all.packets, all.batches, all.by_time, all.interrupts
                )
            }
        };
        let [low, median, high] = quartiles(rates.into_iter());
        println!("| {name} | {handed_on} | {median:.0} ({low:.0} to {high:.0}) |");
    }
    Ok(())
}

/// Sends and receives, so far apart; returns how many a second.
fn datagrams(apart: Duration) -> Done<f64> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    let begun = Monotonic.now();
    for _ in 0..DATAGRAMS {
        socket.send(&[0; 32])?;
        socket.recv(&mut [0; 64])?;
        spin(apart);
    }
    Ok(f64::from(DATAGRAMS) / Monotonic.now().saturating_duration_since(begun).as_secs_f64())
}

fn spin(time: Duration) {
    let end = Monotonic.now() + time;
    while !time.is_zero() && Monotonic.now() < end {
        std::hint::spin_loop();
    }
}
