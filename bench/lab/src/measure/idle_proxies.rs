//! What idle connections through a hundred proxies of one process cost, beside Toxiproxy: its API makes the proxies of both.
//!
//! ```text
//!   this: clients ══▶ a hundred proxies of one process ══▶ this: accepted     then nothing moves
//! ```

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit};
use softtimers_trials::command::{Program, pause};
use softtimers_trials::paired::{Paired, Round};
use softtimers_trials::result::Table;

use super::Effort;
use super::emulators::{Emulator, made, serving, toxiproxy};
use crate::bench::Done;
use crate::rig::trial::busy;

const MEMORY: &str = "KiB a connection";
const CPU: &str = "CPU µs a connection and second";

/// Measures both with a thousand connections through each proxy, or as many as the limit on descriptors allows.
pub(super) fn idle_proxies(effort: &Effort) -> Done<Vec<Table>> {
    let program = Program::build()?;
    let proxies = effort.of(100, 4);
    // A connection takes two descriptors, in this process and in the proxies'.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let each = (limit.saturating_sub(OTHERS) / (2 * proxies)).clamp(1, effort.of(1_000, 10));
    let (other, found) = toxiproxy();
    let mut contenders = vec![Emulator::Relay];
    contenders.extend(found.ok().map(|()| other));
    let measured = Paired::new(effort.of(5, 1)).as_a_whole().contest(
        &[()],
        &mut contenders,
        |(), emulator, round| {
            let command = match emulator {
                Emulator::Toxiproxy(server) => Command::new(server),
                _ => program.command(&["wan"]),
            };
            once(command, emulator.name(), [proxies, each], round)
        },
    )?;
    let rows = contenders.iter().map(Emulator::name);
    let mut table = Table::of("idle-proxies", &measured, rows, &[(MEMORY, 1), (CPU, 2)]);
    table.note(format!(
        "{proxies} proxies of one process, {each} connections each, for which {limit} descriptors allow. \
         Memory is resident, without the kernel's."
    ));
    Ok(vec![table])
}

/// Opens all connections through one process's proxies, and measures it while they are idle.
fn once(mut command: Command, row: &str, [proxies, each]: [u64; 2], round: &mut Round) -> Result<()> {
    let (process, api) = serving(&mut command, row)?;
    let mut listeners = Vec::new();
    for number in 0..proxies {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = made(&api, &format!("proxy{number}"), listener.local_addr()?)?;
        listeners.push((listener, address));
    }
    pause(SETTLES);
    let before = resident(process.id())?;
    let mut open = Vec::new();
    for (listener, address) in &listeners {
        for _ in 0..each {
            open.push([TcpStream::connect(address)?, listener.accept()?.0]);
        }
    }
    pause(SETTLES);
    let grown = resident(process.id())?.saturating_sub(before);
    let begun = busy(process.id())?;
    pause(IDLE);
    let spent = busy(process.id())? - begun;
    let connections = open.len() as f64;
    round.put(row, MEMORY, grown as f64 / connections);
    round.put(row, CPU, spent * 1e6 / IDLE.as_secs_f64() / connections);
    Ok(())
}

/// Returns the resident memory of a process in KiB.
fn resident(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

const SETTLES: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(10);
/// The descriptors of a process for all else, listeners among them.
const OTHERS: u64 = 512;
