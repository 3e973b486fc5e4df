//! `kept`: what a computation keeps of its rate beside a limited relay on the same CPU, at a tenth of its capacity, at all of it
//! and at five times that. The bar is what the limit leaves, less three points.
//!
//! The computation has the priority of the relay, as programs do that one leaves a share to. Its rate is by the clock: what
//! interrupts and wake-ups take is missing from it, whoever is charged with them.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use softtimers_measure::bar::Bar;
use softtimers_measure::paired::{Paired, Round};
use softtimers_measure::processor::Processor;
use softtimers_measure::result::Table;

use super::trial::{Rig, now};
use crate::bench::Done;
use crate::command::{Killed, announced, pause, start};
use crate::figures;

/// Percent of the CPU.
const LIMITS: [u32; 5] = [10, 25, 50, 80, 100];
const LOADS: [f64; 3] = [0.1, 1.0, 5.0];

pub(super) fn kept(rig: &Rig) -> Done<Vec<Table>> {
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    let relay = Relay { rig, to: sink.local_addr()?.to_string() };
    let capacity = relay.capacity()?;
    let loads = rig.of(&LOADS[..], &LOADS[2..]);
    let measured = Paired::new(rig.rounds(3)).beside_others().contest(
        loads,
        &mut LIMITS.clone(),
        |&load, &mut limit, round| relay.trial(limit, load, load * capacity, round),
    )?;
    let rows = LIMITS.iter().flat_map(|&limit| loads.iter().map(move |&load| row(limit, load)));
    let columns = [(OFFERED, 0), (RELAYED, 0), (KEPT, 1), (CPU, 1), (DELAYED, 0)];
    let mut table = Table::of("kept", &measured, rows, &columns);
    table.note(format!("capacity {:.0} kpps, without a limit and alone on its CPU", capacity / 1e3));
    for limit in LIMITS.into_iter().filter(|&limit| limit < 100) {
        for &load in loads {
            let row = row(limit, load);
            let least = f64::from(100 - limit - 3);
            table.bar(Bar::at_least(format!("{row}: kept, %"), least, measured.estimate(&row, KEPT)));
        }
    }
    Ok(vec![table])
}

struct Relay<'a> {
    rig: &'a Rig,
    /// A socket that nobody reads: what it has no room for costs the kernel little.
    to: String,
}

impl Relay<'_> {
    fn started(&self, flags: &str) -> Result<(Killed, String)> {
        let words = format!(
            "taskset -c 1 {}",
            self.rig.softtimers(&format!(
                "forward --udp 127.0.0.1:0 --to {} --json --duration 20s --trust 127.0.0.0/8 {flags}",
                self.to
            ))
        );
        let mut words = words.split_whitespace();
        let mut command = std::process::Command::new(words.next().context("a program")?);
        announced(command.args(words).stdin(std::process::Stdio::null()), "listening on ")
    }

    fn sender(&self, address: &str, rate: f64, time: Duration) -> Result<Killed> {
        let words = self.rig.softtimers(&format!(
            "send {address} --no-handshake --rate {:.0}pps --quantum 16 --catch-up all --size 64 --cpu 0 --duration {}ms --json",
            rate.max(1.0),
            time.as_millis()
        ));
        let mut words = words.split_whitespace();
        let mut command = std::process::Command::new(words.next().context("a program")?);
        start(command.args(words).stdin(std::process::Stdio::null()))
    }

    /// Datagrams a second that it relays in a flood.
    fn capacity(&self) -> Result<f64> {
        let (relay, address) = self.started("")?;
        let sender = self.sender(address.split(',').next().unwrap_or(&address), 2e6, WINDOW)?;
        sender.object()?;
        let report = relay.ended()?;
        let out = figures::at(&report, "out").context("out")?;
        ensure!(out > 0.0, "nothing was relayed");
        Ok(out / WINDOW.as_secs_f64())
    }

    fn trial(&self, limit: u32, load: f64, rate: f64, round: &mut Round) -> Result<()> {
        let flags = if limit < 100 { format!("--cpu-limit {limit}%") } else { String::new() };
        let row = row(limit, load);
        let before = computed(ALONE)?;
        let (relay, address) = self.started(&flags)?;
        let address = address.split(',').next().unwrap_or(&address).to_owned();
        let sender = self.sender(&address, rate, WINDOW + SETTLED * 2)?;
        pause(SETTLED);
        let with = computed(WINDOW)?;
        let sent = sender.object()?;
        let report = relay.ended()?;
        let alone = f64::midpoint(before, computed(ALONE)?);
        round.put(&row, OFFERED, figures::at(&sent, "achieved_pps").map(|pps| pps / 1e3));
        let span = (WINDOW + SETTLED * 2).as_secs_f64();
        round.put(&row, RELAYED, figures::at(&report, "out").map(|out| out / span / 1e3));
        round.put(&row, KEPT, 100.0 * with / alone);
        round.put(&row, CPU, figures::at(&report, "cpu_share").map(|share| 100.0 * share));
        round.put(&row, DELAYED, figures::at(&report, "cpu_limit_delayed"));
        eprintln!("{:7.1} s  {row}: {:.1}% kept", now(), 100.0 * with / alone);
        Ok(())
    }
}

/// Pieces a second of a computation on the relay's CPU, by the clock.
fn computed(time: Duration) -> Result<f64> {
    std::thread::scope(|scope| {
        let work = scope.spawn(|| -> Result<f64> {
            let _kept = Processor::new(1)?.keep()?;
            let (begun, mut pieces, mut word) = (now(), 0u64, 1u64);
            loop {
                for _ in 0..2_000 {
                    word = std::hint::black_box(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
                pieces += 1;
                let passed = now() - begun;
                if passed >= time.as_secs_f64() {
                    return Ok(pieces as f64 / passed);
                }
            }
        });
        work.join().map_err(|_| anyhow::anyhow!("the computation panicked"))?
    })
}

fn row(limit: u32, load: f64) -> String {
    match limit {
        100 => format!("no limit, {load} x capacity"),
        _ => format!("limit {limit}%, {load} x capacity"),
    }
}

const OFFERED: &str = "offered kpps";
const RELAYED: &str = "relayed kpps";
const KEPT: &str = "kept %";
const CPU: &str = "relay's CPU %";
const DELAYED: &str = "polls delayed by the limit";
const ALONE: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_millis(1_000);
const SETTLED: Duration = Duration::from_millis(300);
