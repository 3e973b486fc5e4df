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
use softtimers_bpf::{Batches, FlushedBy};
use softtimers_lab::bench::Done;
use softtimers_measure::paired::Paired;
use softtimers_measure::result::{Cell, Table};

use crate::{Bench, skipped};

const FLAG: &str = "--batches";
/// Datagrams of a window.
const DATAGRAMS: u32 = 20_000;

/// Whether this process is the one in the network of its own.
pub(crate) fn is_inside() -> bool {
    std::env::args().nth(1).as_deref() == Some(FLAG)
}

/// Batches of an XDP program, flushed after 100 µs.
pub(crate) fn run(bench: &Bench) -> Done<Vec<Table>> {
    let script = format!("ip link set lo up && exec \"$0\" {FLAG} {}", bench.rounds);
    let output =
        Command::new("unshare").args(["--net", "sh", "-c", &script]).arg(std::env::current_exe()?).output();
    let output = match output {
        Err(why) if why.kind() == ErrorKind::NotFound => {
            return Ok(vec![skipped("batches", "this needs unshare")]);
        }
        output => output?,
    };
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(vec![serde_json::from_slice(&output.stdout)?]),
        // The shell has not found it; or it is not for this process to have a network of its own.
        Some(127) => Ok(vec![skipped("batches", "this needs ip")]),
        _ if said.starts_with("unshare: ") => Ok(vec![skipped("batches", said.trim())]),
        _ => Err(said.trim().into()),
    }
}

/// What that process does.
pub(crate) fn inside() -> ExitCode {
    let rounds = std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    match compare(rounds).and_then(|table| Ok(serde_json::to_string(&table)?)) {
        Ok(table) => {
            println!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(rounds: usize) -> Done<Table> {
    let mut methods = [
        ("none collected", None),
        ("`st_poll`", Some(FlushedBy::SoftEvent)),
        ("`bpf_timer`", Some(FlushedBy::Timer)),
    ];
    let measured = Paired::new(rounds).contest(&[()], &mut methods, |(), (name, by), round| {
        let _batches = by.map(|by| Batches::collect("lo", by)).transpose()?;
        round.put(name, RATE, datagrams(Duration::ZERO)?);
        Done::Ok(())
    })?;
    let mut table = Table::of("batches", &measured, methods.map(|(name, _)| name), &[(RATE, 0)]);
    for column in ["packets", "batches", "by time", "interrupts", "longest wait µs"] {
        table.columns.push(column.to_owned());
        table.decimals.push(0);
    }
    for (row, (_, by)) in table.rows.iter_mut().zip(methods) {
        let Some(by) = by else {
            row.extend([const { Cell::Nothing(()) }; 5]);
            continue;
        };
        let batches = Batches::collect("lo", by)?;
        datagrams(Duration::from_micros(20))?;
        // The last batch has nothing but the backup.
        spin(Duration::from_millis(5));
        let all = batches.totals()?;
        let figures = [all.packets, all.batches, all.by_time, all.interrupts, all.longest_ns / 1_000];
        row.extend(figures.map(|figure| Cell::from(figure as f64)));
    }
    Ok(table)
}

const RATE: &str = "datagrams/s without a pause";

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
