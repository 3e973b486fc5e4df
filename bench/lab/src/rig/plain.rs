//! `forward`: plain forwarding, by `softtimers forward` in each mode, the library's example `bridge`, the kernel's own
//! `ip_forward` on the same CPU, and with `--peer DRIVER=COMMAND` a forwarder of the reader's.
//! A peak says little without that of another program on the same driver, and one from another half minute is useless
//! on a machine whose speed drifts: the highest of seven figures, each measured once, was 1.11 of the bridge's in one
//! run and 0.90 in the next. So all take the same loads in turn; and anyone with another forwarder can name it. The
//! command forwards from `r0` to `out` in the router, on CPU 1, until SIGTERM.

use anyhow::{Result, ensure};
use serde_json::Value;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;

use super::hosts::ip;
use super::trial::{DESTINATION, Offer, Rig};
use crate::bench::Done;
use crate::figures::{self, Figure};

/// A program of the reader's, and its driver.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Peer {
    driver: &'static str,
    command: String,
}

impl Peer {
    /// # Errors
    /// If it is not `packet=COMMAND` or `xdp=COMMAND`.
    pub(super) fn from_words(words: &str) -> Result<Self> {
        let (driver, command) = words.split_once('=').unwrap_or((words, ""));
        let driver = DRIVERS.into_iter().find(|known| *known == driver);
        ensure!(
            driver.is_some() && !command.trim().is_empty(),
            "--peer `{words}`: packet=COMMAND or xdp=COMMAND is wanted, a program that forwards from r0 to out"
        );
        Ok(Peer { driver: driver.unwrap_or_default(), command: command.trim().to_owned() })
    }

    fn name(&self) -> String {
        format!("{}, {}", self.command, self.driver)
    }
}

/// The measured forwarder.
enum By {
    /// The command with these flags.
    Softtimers(String),
    /// Another program than ours.
    Program(String),
    /// Only the kernel.
    Kernel,
}

const DRIVERS: [&str; 2] = ["packet", "xdp"];
const BRIDGE: &str = "example bridge, packet";
const KERNEL: &str = "kernel, ip_forward";
const PEAK: &str = "peak kpps";
const MOST_OFFERED: &str = "offered at most kpps";
const FIGURES: [Figure; 6] = [
    (PEAK, 0, "", 0.0),
    (MOST_OFFERED, 0, "", 0.0),
    ("at the highest, of the peak", 2, "", 0.0),
    ("p50 µs", 0, "latency_ns.p50", 1e-3),
    ("p99 µs", 0, "latency_ns.p99", 1e-3),
    ("CPU %", 0, "cpu_share", 100.0),
];

pub(super) fn forward(rig: &Rig) -> Done<Vec<Table>> {
    let ours = |driver: &str, mode: &str| format!("forward, {driver}, {mode}");
    let mut contenders = Vec::new();
    for driver in DRIVERS {
        for mode in &["hybrid", "naive", "poll", "interrupt", "hip"][..rig.either(5, 2)] {
            let flags = format!("--driver {driver} --mode {mode}");
            contenders.push((ours(driver, mode), By::Softtimers(flags)));
        }
    }
    contenders.push((BRIDGE.to_owned(), By::Program(rig.bridge())));
    contenders.push((KERNEL.to_owned(), By::Kernel));
    let peers = &rig.arguments.peers;
    contenders.extend(peers.iter().map(|peer| (peer.name(), By::Program(peer.command.clone()))));
    let paired = Paired::new(rig.rounds(7)).beside_others();
    let measured = paired.contest(&[()], &mut contenders, |(), (name, by), round| {
        let (points, report) = by.loaded(rig)?;
        let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let (peak, last) = (most(|point| point.1), points.last().map_or(0.0, |point| point.1));
        ensure!(peak > 0.0, "{name} forwards nothing");
        round.put(name, PEAK, peak / 1e3);
        round.put(name, MOST_OFFERED, most(|point| point.0) / 1e3);
        round.put(name, "at the highest, of the peak", last / peak);
        figures::put(round, name, &report, &FIGURES);
        Ok(())
    })?;
    let rows = contenders.iter().map(|(name, _)| name);
    let mut table = figures::table("forward", &measured, rows, &FIGURES);
    let bridge = (BRIDGE.to_owned(), DRIVERS[0]);
    for (name, driver) in [bridge].into_iter().chain(peers.iter().map(|peer| (peer.name(), peer.driver))) {
        let figure = format!("forward, {driver}, hybrid: peak, against that of {name}, in pairs");
        table.bar(Bar::at_least(figure, 0.95, measured.ratio(PEAK, &ours(driver, "hybrid"), &name)));
    }
    for driver in DRIVERS {
        if let Some(ratio) = measured.ratio(PEAK, &ours(driver, "hybrid"), KERNEL) {
            table.note(format!("{driver}: peak {:.2} of ip_forward's", ratio.median));
        }
    }
    Ok(vec![table])
}

impl By {
    /// Measures the offered and delivered rate at each load; also returns the forwarder's report, which only ours has.
    fn loaded(&self, rig: &Rig) -> Result<(Vec<(f64, f64)>, Value)> {
        let rates: &[f64] = rig.either(&[300e3, 600e3, 1e6, 2.5e6, 4e6], &[300e3, 3e6]);
        let loads = || -> Result<Vec<(f64, f64)>> {
            let load =
                |&rate: &f64| rig.load(&Offer::steady(rate, 400)).map(|(offered, left)| (offered.pps, left));
            rates.iter().map(load).collect()
        };
        match self {
            By::Softtimers(flags) => {
                let words = rig.softtimers(&format!("forward r0 out --json --duration 60s {flags}"));
                let forwarder = rig.started(&words, "forwarding between")?;
                Ok((loads()?, forwarder.ended()?))
            }
            By::Program(command) => {
                let forwarder = rig.started(command, "")?;
                let points = loads()?;
                // It prints no object.
                let _ = forwarder.ended();
                Ok((points, Value::Null))
            }
            By::Kernel => Ok((with_ip_forward(rig, loads)?, Value::Null)),
        }
    }
}

/// Runs `body` while the kernel routes, on the forwarder's CPU, to a station that it believes to be there (livelock
/// §6.1).
fn with_ip_forward<T>(rig: &Rig, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let middle = rig.hosts.host("middle");
    let on = |words: &str| {
        let words: Vec<&str> = ["-n", &middle].into_iter().chain(words.split(' ')).collect();
        ip(&words)
    };
    on("address add 198.18.1.1/24 dev r0")?;
    on("address add 198.18.2.1/24 dev out")?;
    on(&format!("neighbour replace {DESTINATION} lladdr 02:00:00:00:02:77 dev out nud permanent"))?;
    let set = |values: [&str; 2]| {
        let script = format!(
            "echo {} > /proc/sys/net/ipv4/ip_forward; echo {} > /sys/class/net/r0/queues/rx-0/rps_cpus",
            values[0], values[1]
        );
        rig.hosts.at("middle", &["sh", "-c", &script])
    };
    // CPU 1 does the work on a packet after it has been received.
    set(["1", "2"])?;
    let done = body();
    set(["0", "0"])?;
    on("address flush dev r0")?;
    on("address flush dev out")?;
    done
}

#[cfg(test)]
mod tests {
    use super::Peer;

    #[test]
    fn a_peer_has_a_driver_and_a_command() {
        let peer = Peer::from_words("xdp=./sketch -m xsk -o a=b").unwrap();
        assert_eq!((peer.driver, peer.command.as_str()), ("xdp", "./sketch -m xsk -o a=b"));
        for bad in ["", "xdp", "xdp=", "packet= ", "udp=./sketch", "./sketch"] {
            let error = Peer::from_words(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("packet=COMMAND"), "{error}");
        }
    }
}
