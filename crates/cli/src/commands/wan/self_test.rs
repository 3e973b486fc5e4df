//! `wan --self-test`: the capacity and precision of the emulator on this machine.
//!
//! This program's sender, relay and receiver run in a process each, at one rate after the other, until packets are lost
//! that the path should not lose:
//!
//! ```text
//!   send ──▶ wan, 50 ms and no limit ──▶ recv      50, 100, 200 … Mbit/s of 1,200-byte packets
//! ```
//!
//! The three share the machine's CPUs: a relay between other machines reaches a higher rate.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use softtimers_measure::child::Process;
use softtimers_measure::distribution::Distribution;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::units::show_duration;

use crate::run::grid::Grid;
use crate::run::output::{Output, Report, say};
use crate::run::privileges::Rights;
use crate::run::quantity::{bits, or_dash, setting, share, time};
use crate::run::screen::Tone;
use crate::run::table::Table;
use crate::run::{Command, Disturbance, Outcome, Run};

/// The findings of the self-test.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct SelfTestReport {
    /// The highest rate carried without a loss of the emulator's own; `null` if there was none.
    pub(crate) limit_bps: Option<u64>,
    /// Each rate, in the order they were tried.
    pub(crate) rates: Vec<RateReport>,
}

/// The result at one rate.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct RateReport {
    /// Requested payload bits a second.
    pub(crate) target_bps: u64,
    /// The rate that was sent, in bits a second.
    pub(crate) sent_bps: f64,
    /// Packets that the sender sent.
    pub(crate) sent: u64,
    /// Packets that came out of the relay.
    pub(crate) delivered: u64,
    /// Packets lost by the relay: unread, unsent or over its limit.
    pub(crate) own_loss: u64,
    /// How late packets came out, relative to the configured delay.
    pub(crate) lateness_ns: Distribution,
    /// The share of a CPU that the relay used.
    pub(crate) cpu_share: Option<f64>,
}

/// The settings of the self-test.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct SelfTestConfig {
    /// The time for which each rate is sent, in seconds.
    pub(crate) duration_s: f64,
    /// Bytes of each packet.
    pub(crate) size_bytes: u32,
    /// The configured delay, in nanoseconds.
    pub(crate) delay_ns: u64,
}

/// The self-test, which has no settings.
#[derive(Debug)]
pub(crate) struct SelfTest {
    pub(crate) output: Output,
}

impl Command for SelfTest {
    type Config = SelfTestConfig;
    type Report = SelfTestReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::OfChildren;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> SelfTestConfig {
        SelfTestConfig { duration_s: LENGTH.as_secs_f64(), size_bytes: SIZE, delay_ns: 50_000_000 }
    }

    fn header(&self) -> String {
        let (first, last) = (RATES[0], RATES[RATES.len() - 1]);
        format!(
            "wan self-test: {first} to {last} Mbit/s of {SIZE} B over a path of 50 ms, {} each",
            setting(LENGTH)
        )
    }

    fn example(&self) -> SelfTestReport {
        SelfTestReport { limit_bps: None, rates: vec![RateReport::default(); RATES.len()] }
    }

    /// Tries one rate after the other.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<SelfTestReport>, Failure> {
        let interrupt = run.interrupt()?;
        let mut report = SelfTestReport::default();
        let mut fallbacks = vec![];
        for megabits in RATES {
            say(format_args!("{megabits} Mbit/s for {}", show_duration(LENGTH)));
            let rate = one_rate(megabits * 1_000_000, interrupt);
            if interrupt.arrived() {
                let (tried, all) = (report.rates.len(), RATES.len());
                fallbacks.push(format!("ended by a signal after {tried} of {all} rates"));
                break;
            }
            let Some(rate) = rate? else { break };
            let (held, reached) = (rate.own_loss == 0, rate.sent_bps >= 0.99 * rate.target_bps as f64);
            if held && reached {
                report.limit_bps = Some(rate.target_bps);
            }
            report.rates.push(rate);
            if !held || !reached {
                break;
            }
        }
        Ok(Outcome { fallbacks, ..Outcome::of(report) })
    }
}

/// Tries one rate; `None` if a signal came first.
fn one_rate(target_bps: u64, interrupt: &Interrupt) -> Result<Option<RateReport>, Failure> {
    let longest = show_duration(LENGTH + MARGIN);
    let receive = ["recv", "127.0.0.1:0", "--once", "--json", "--duration", &longest];
    let (receiver, to) = start("recv", &receive)?.announced("listening on ")?;
    let relay = ["wan", "--listen", "127.0.0.1:0", "--to", &to, "--delay", "50ms", "--json", "--duration"];
    let relay_for = show_duration(LENGTH + LATE);
    let (relay, announced) =
        start("wan", &[&relay[..], &[&relay_for]].concat())?.announced("listening on ")?;
    let at = announced.split(',').next().unwrap_or_default();
    let (rate, size, length) = (format!("{target_bps}bit"), SIZE.to_string(), show_duration(LENGTH));
    let send =
        ["send", at, "--rate", &rate, "--size", &size, "--duration", &length, "--json", "--catch-up", "1ms"];
    let sender = start("send", &send)?;
    if !sender.speaks_within(LENGTH + MARGIN, Some(interrupt))? {
        return Ok(None);
    }
    let sent: Sent = sender.finish()?;
    // Packets may still be under way.
    thread::park_timeout(Duration::from_millis(500));
    relay.interrupt();
    let relayed: Relayed = relay.finish()?;
    drop(receiver);
    Ok(Some(RateReport {
        target_bps,
        sent_bps: sent.achieved_pps * f64::from(SIZE) * 8.0,
        sent: sent.sent,
        delivered: relayed.up.measured.delivered,
        own_loss: relayed.clients.recv_drops + relayed.clients.send_drops + relayed.up.measured.overflowed,
        lateness_ns: relayed.up.measured.lateness_ns,
        cpu_share: relayed.cpu_share,
    }))
}

fn start(what: &str, words: &[&str]) -> Result<Process, Failure> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    Process::start(format!("the self-test: {what}"), &words)
}

/// The keys of the sender's report that are used here.
#[derive(Deserialize)]
struct Sent {
    sent: u64,
    achieved_pps: f64,
}

/// The keys of the relay's report that are used here.
#[derive(Deserialize)]
struct Relayed {
    up: Up,
    clients: Clients,
    cpu_share: Option<f64>,
}

#[derive(Deserialize)]
struct Up {
    measured: Measured,
}

#[derive(Deserialize)]
struct Measured {
    delivered: u64,
    overflowed: u64,
    lateness_ns: Distribution,
}

#[derive(Deserialize)]
struct Clients {
    recv_drops: u64,
    send_drops: u64,
}

impl Report<SelfTest> for SelfTestReport {
    const SCHEMA: &'static str = "softtimers.wan-self-test/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let megabits = |rate: u64| bits(rate as f64);
        table.row("limit", or_dash(self.limit_bps, megabits));
        let names = ["rate", "sent", "lost here", "late p50", "late p99", "late max", "CPU"];
        let mut grid = Grid::new(names).numbered();
        for rate in &self.rates {
            let Distribution { p50, p99, max, .. } = rate.lateness_ns;
            let [p50, p99, max] = [p50, p99, max].map(|nanos| or_dash(nanos, time));
            let (sent, lost) = (rate.sent.to_string(), rate.own_loss.to_string());
            let cells =
                [megabits(rate.target_bps), sent, lost, p50, p99, max, or_dash(rate.cpu_share, share)];
            grid.toned(cells, Tone::bad_if(rate.own_loss > 0));
        }
        table.grid(grid);
        table
    }
}

/// The rates in megabits a second.
const RATES: [u64; 8] = [50, 100, 150, 200, 300, 400, 600, 800];
const LENGTH: Duration = Duration::from_secs(2);
const MARGIN: Duration = Duration::from_secs(20);
/// The latest start of a sender on a busy machine.
const LATE: Duration = Duration::from_secs(6);
const SIZE: u32 = 1_200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::snapshot::{self, Live, times};

    #[test]
    fn snapshot() {
        let rate = |target_bps, own_loss| RateReport {
            target_bps,
            sent_bps: target_bps as f64,
            sent: 10_416,
            own_loss,
            lateness_ns: times(),
            cpu_share: Some(0.31),
            ..RateReport::default()
        };
        let report = SelfTestReport {
            limit_bps: Some(50_000_000),
            rates: vec![rate(50_000_000, 0), rate(100_000_000, 12)],
        };
        let header = SelfTest { output: Output::default() }.header();
        snapshot::check("wan-self-test", &header, &Live::none(), &report);
    }
}
