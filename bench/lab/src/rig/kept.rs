//! `kept`: what a computation keeps of its rate next to a limited relay on the same CPU, at a tenth of its capacity, at
//! all of it and at five times that. The bar is the remainder of the limit, within three points where the relay uses
//! all of its share.
//!
//! Each datagram costs the relay a walk through rules, as in a relay with work per datagram. So the other CPU can send
//! five times its capacity; the multiple that was reached is a column.
//!
//! The computation has the relay's priority, like the programs to which the limit leaves a share. Its rate is by the
//! clock, so it is reduced by interrupts and wake-ups, whoever is charged with them.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use softtimers_measure::processor::Processor;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Paired, Round};
use softtimers_trials::result::Table;

use super::trial::{Offer, Rig, now};
use crate::bench::Done;
use crate::figures;
use softtimers_trials::command::{Killed, announced, pause, start};

/// Percent of the CPU.
const LIMITS: [u32; 5] = [10, 25, 50, 80, 100];
const LOADS: [f64; 3] = [0.1, 1.0, 5.0];

pub(super) fn kept(rig: &Rig) -> Done<Vec<Table>> {
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    let rules = Walk::write()?;
    let rules = rules.0.display().to_string();
    let datagrams = Relay { rig, to: Some(sink.local_addr()?.to_string()), rules: rules.clone() };
    let frames = Relay { rig, to: None, rules };
    Ok(vec![datagrams.table("kept")?, frames.table("kept, frames by packet")?])
}

impl Relay<'_> {
    fn table(&self, key: &str) -> Done<Table> {
        let (rig, relay) = (self.rig, self);
        let capacity = relay.capacity()?;
        let loads = rig.either(&LOADS[..], &LOADS[2..]);
        let measured = Paired::new(rig.rounds(3)).beside_others().contest(
            loads,
            &mut LIMITS.clone(),
            |&load, &mut limit, round| relay.trial(limit, load, capacity, round),
        )?;
        let rows = LIMITS.iter().flat_map(|&limit| loads.iter().map(move |&load| row(limit, load)));
        let columns = [(OFFERED, 0), (MULTIPLE, 2), (RELAYED, 0), (KEPT, 1), (CPU, 1), (DELAYED, 0)];
        let mut table = Table::of(key, &measured, rows, &columns);
        table.note(format!("capacity {:.0} kpps, without a limit and alone on its CPU", capacity / 1e3));
        for limit in LIMITS.into_iter().filter(|&limit| limit < 100) {
            for &load in loads {
                let row = row(limit, load);
                let least = f64::from(100 - limit - 3);
                table.bar(Bar::at_least(format!("{row}: kept, %"), least, measured.estimate(&row, KEPT)));
                // A relay with less to do leaves more, and beyond a half the scheduler shares equally.
                if limit <= 50 && load >= 1.0 {
                    let most = f64::from(100 - limit + 3);
                    table.bar(Bar::at_most(format!("{row}: kept, %"), most, measured.estimate(&row, KEPT)));
                }
            }
        }
        Ok(table)
    }
}

struct Relay<'a> {
    rig: &'a Rig,
    /// The unread socket that datagrams go to: those without room cost the kernel little. `None` for frames, which go
    /// between interfaces.
    to: Option<String>,
    rules: String,
}

impl Relay<'_> {
    /// Starts the relay, and returns it with its address.
    fn started(&self, flags: &str) -> Result<(Killed, String)> {
        let Some(to) = &self.to else {
            let words = format!("forward r0 out --rules {} --json --duration 20s {flags}", self.rules);
            let forwarder = self.rig.started(&self.rig.softtimers(&words), "forwarding between")?;
            return Ok((forwarder, String::new()));
        };
        let words = format!(
            "taskset -c 1 {}",
            self.rig.softtimers(&format!(
                "forward --udp 127.0.0.1:0 --to {} --rules {} --json --duration 20s --trust 127.0.0.0/8 {flags}",
                to, self.rules
            ))
        );
        let mut words = words.split_whitespace();
        let mut command = std::process::Command::new(words.next().context("a program")?);
        announced(command.args(words).stdin(std::process::Stdio::null()), "listening on ")
    }

    fn sender(&self, address: &str, rate: f64, time: Duration) -> Result<Killed> {
        if self.to.is_none() {
            let offer = Offer { burst: 16, ..Offer::steady(rate, time.as_millis() as u64) };
            return self.rig.generator(0, &offer);
        }
        let words = self.rig.softtimers(&format!(
            "send {address} --no-handshake --rate {:.0}pps --quantum 16 --catch-up all --size 64 --cpu 0 --duration {}ms --json",
            rate.max(1.0),
            time.as_millis()
        ));
        let mut words = words.split_whitespace();
        let mut command = std::process::Command::new(words.next().context("a program")?);
        start(command.args(words).stdin(std::process::Stdio::null()))
    }

    /// Measures the datagrams a second that it relays in a flood.
    fn capacity(&self) -> Result<f64> {
        let (relay, address) = self.started("")?;
        let sender = self.sender(address.split(',').next().unwrap_or(&address), 2e6, WINDOW)?;
        sender.object()?;
        let report = relay.ended()?;
        let out = figures::at(&report, "out").context("out")?;
        ensure!(out > 0.0, "nothing was relayed");
        Ok(out / WINDOW.as_secs_f64())
    }

    fn trial(&self, limit: u32, load: f64, capacity: f64, round: &mut Round) -> Result<()> {
        let rate = load * capacity;
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
        let offered = figures::at(&sent, "achieved_pps");
        round.put(&row, OFFERED, offered.map(|pps| pps / 1e3));
        round.put(&row, MULTIPLE, offered.map(|pps| pps / capacity));
        let span = (WINDOW + SETTLED * 2).as_secs_f64();
        round.put(&row, RELAYED, figures::at(&report, "out").map(|out| out / span / 1e3));
        round.put(&row, KEPT, 100.0 * with / alone);
        round.put(&row, CPU, figures::at(&report, "cpu_share").map(|share| 100.0 * share));
        round.put(&row, DELAYED, figures::at(&report, "cpu_limit_delayed"));
        eprintln!("{:7.1} s  {row}: {:.1}% kept", now(), 100.0 * with / alone);
        Ok(())
    }
}

/// A file of rules of which only the last matches, until it is dropped.
struct Walk(PathBuf);

impl Walk {
    fn write() -> Result<Self> {
        let place = std::env::temp_dir().join(format!("softtimers-rig-{}.rules", std::process::id()));
        let rule = |at| format!("from 10.{}.{}.0/24 reject\n", at / 250, at % 250);
        let rules: String = (0..RULES).map(rule).collect();
        std::fs::write(&place, rules + "accept\n")?;
        Ok(Walk(place))
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Measures the pieces a second of a computation on the relay's CPU, by the clock.
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

/// 1,500 rules cost a datagram some ten microseconds.
const RULES: u32 = 1_500;
const OFFERED: &str = "offered kpps";
const MULTIPLE: &str = "x capacity";
const RELAYED: &str = "relayed kpps";
const KEPT: &str = "kept %";
const CPU: &str = "relay's CPU %";
const DELAYED: &str = "polls delayed by the limit";
const ALONE: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_millis(1_000);
const SETTLED: Duration = Duration::from_millis(300);
