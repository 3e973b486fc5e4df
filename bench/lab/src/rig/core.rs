//! The one-core layout: [`OneCore`]. All of the router's work, by the kernel or a program, is done on CPU 1; the hosts
//! have CPU 0.
//!
//! ```text
//!   near: g0 ═══ r0 :middle: out ═══ s0 :far          frames wait at r0 for a thread of the kernel on CPU 1,
//!   CPU 0           CPU 1            CPU 0            and at s0 for one on CPU 0
//! ```
//!
//! A forwarder on the second CPU that leaves the kernel's work per frame to the first one has used two. A frame that a
//! host could merge with others bypasses those threads (veth), so packets are sent by interfaces that merge nothing;
//! streams with the interfaces' defaults, and `rps_cpus` separates the same CPUs.
//!
//! A router is charged with what a computation of idle priority on its CPU loses: this includes interrupts and
//! softirqs, which no counter of the kernel has to the microsecond.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use softtimers_measure::processor::Processor;

use super::hosts::{Hosts, ip, threads};
use super::trial::{DESTINATION, now};
use softtimers_trials::command::{Killed, output, pause, start};

/// The layout, until it is dropped.
#[derive(Debug)]
pub(super) struct OneCore<'a> {
    hosts: &'a Hosts,
    /// Processes whose `/proc` have the hosts' counters.
    far: Killed,
}

/// The traffic for which the interfaces are set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Traffic {
    /// Frames that no interface merges.
    Packets,
    /// Frames that no interface merges, one after the other; the kernel receives them for the far host on the router's
    /// CPU, so that CPU 0's other work does not delay their time of arrival.
    Sparse,
    /// Streams, with the interfaces' defaults.
    Streams,
}

/// Each end of a cable, its host, and the CPU that handles frames received there.
const ENDS: [(&str, &str, usize); 4] =
    [("near", "g0", 0), ("middle", "r0", 1), ("middle", "out", 1), ("far", "s0", 0)];

impl<'a> OneCore<'a> {
    /// # Errors
    /// If the hosts cannot be entered or changed.
    pub(super) fn lay(hosts: &'a Hosts) -> Result<Self> {
        let far = start(&mut hosts.command("far", &["sleep", "3600"]))?;
        let layout = OneCore { hosts, far };
        for (host, end, address, station) in [
            ("near", "g0", format!("{NEAR}/24"), NEAR_STATION),
            ("far", "s0", format!("{FAR}/24"), FAR_STATION),
        ] {
            layout.on(host, &format!("link set {end} address {station}"))?;
            layout.on(host, &format!("address replace {address} dev {end}"))?;
        }
        let [r0, out] = ["r0", "out"].map(super::hosts::station);
        for (host, end, router, station) in [("near", "g0", NEAR_ROUTER, r0), ("far", "s0", FAR_ROUTER, out)]
        {
            layout.on(host, &format!("route replace default via {router}"))?;
            layout
                .on(host, &format!("neighbour replace {router} lladdr {station} dev {end} nud permanent"))?;
        }
        layout.take(Traffic::Packets)?;
        Ok(layout)
    }

    fn on(&self, host: &str, words: &str) -> Result<()> {
        let host = self.hosts.host(host);
        let words: Vec<&str> = ["-n", &host].into_iter().chain(words.split(' ')).collect();
        ip(&words)
    }

    fn sh(&self, host: &str, script: &str) -> Result<()> {
        self.hosts.at(host, &["sh", "-c", script])
    }

    /// Sets the interfaces up for this traffic, since a program attached to one has changed its settings.
    pub(super) fn take(&self, traffic: Traffic) -> Result<()> {
        let streams = traffic == Traffic::Streams;
        for (host, end, cpu) in ENDS {
            let tso = if streams { "on" } else { "off" };
            let gro = if streams && host != "middle" { "off" } else { "on" };
            let mask = if streams { 1 << cpu } else { 0 };
            let threaded = u8::from(traffic != Traffic::Sparse || host == "middle");
            self.sh(
                host,
                &format!(
                    "ethtool -K {end} tso {tso} gro {gro}; cd /sys/class/net/{end}; echo {threaded} > threaded; \
                     echo {mask:x} > queues/rx-0/rps_cpus"
                ),
            )?;
        }
        self.pin()
    }

    /// Pins the threads that receive for the ends to their CPUs.
    pub(super) fn pin(&self) -> Result<()> {
        for (name, thread) in threads()? {
            let Some(rest) = name.strip_prefix("napi/") else { continue };
            let end = ENDS.iter().find(|(_, end, _)| rest.starts_with(&format!("{end}-")));
            if let Some((.., cpu)) = end {
                output(std::process::Command::new("taskset").args(["-pc", &cpu.to_string(), &thread]))?;
            }
            if rest.starts_with("s0-") {
                // The hosts' work must not limit the rate.
                output(std::process::Command::new("renice").args(["-n", "-10", "-p", &thread]))?;
            }
        }
        Ok(())
    }

    /// Runs `body` while the router's kernel has addresses and a table, and routes if it `forwards`.
    pub(super) fn with_table<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        for (end, router) in [("r0", NEAR_ROUTER), ("out", FAR_ROUTER)] {
            self.on("middle", &format!("address add {router}/24 dev {end}"))?;
        }
        for (end, address, station) in
            [("out", DESTINATION, NOBODY), ("out", FAR, FAR_STATION), ("r0", NEAR, NEAR_STATION)]
        {
            let words = format!("neighbour replace {address} lladdr {station} dev {end} nud permanent");
            self.on("middle", &words)?;
        }
        self.sh("middle", "echo 1 > /proc/sys/net/ipv4/ip_forward")?;
        let done = body();
        self.sh("middle", "echo 0 > /proc/sys/net/ipv4/ip_forward")?;
        for end in ["r0", "out"] {
            self.on("middle", &format!("address flush dev {end}"))?;
        }
        done
    }

    /// Runs `body` while a program of an object file is attached to both interfaces of the router.
    pub(super) fn with_program<T>(
        &self,
        hook: Hook,
        object: &str,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let on_each = |words: [String; 2]| words.iter().try_for_each(|words| self.sh("middle", words));
        let ends = ["r0", "out"];
        on_each(ends.map(|end| match hook {
            Hook::Xdp => format!("ip link set {end} xdpdrv obj {object} sec xdp"),
            Hook::Tc => format!(
                "tc qdisc add dev {end} clsact && tc filter add dev {end} ingress bpf da obj {object} sec tc"
            ),
        }))?;
        let done = self.pin().and_then(|()| body());
        on_each(ends.map(|end| match hook {
            Hook::Xdp => format!("ip link set {end} xdpdrv off"),
            Hook::Tc => format!("tc qdisc del dev {end} clsact"),
        }))?;
        done
    }

    /// Returns the packets that the far host has received, and the time.
    pub(super) fn arrived(&self) -> Result<(f64, u64)> {
        let text = fs::read_to_string(format!("/proc/{}/net/dev", self.far.id()))?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("s0:"));
        let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        Ok((now(), packets.context("/proc/PID/net/dev")?))
    }
}

impl Drop for OneCore<'_> {
    fn drop(&mut self) {
        // The next section begins with fresh interfaces.
        for (host, end, _) in ENDS {
            let gro = if host == "middle" { "on" } else { "off" };
            let script = format!(
                "ethtool -K {end} tso on gro {gro}; cd /sys/class/net/{end}; echo 0 > threaded; \
                 echo 0 > queues/rx-0/rps_cpus"
            );
            let _ = self.sh(host, &script);
            if host != "middle" {
                let _ = self.on(host, &format!("address flush dev {end}"));
            }
        }
    }
}

/// The hook to which a program is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hook {
    Xdp,
    Tc,
}

/// A computation of idle priority on the router's CPU, until it is dropped.
#[derive(Debug)]
pub(super) struct Computation {
    pieces: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Computation {
    /// # Errors
    /// If no thread is available.
    pub(super) fn start() -> Result<Self> {
        let (pieces, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (theirs, ended) = (Arc::clone(&pieces), Arc::clone(&over));
        let thread = std::thread::Builder::new().spawn(move || compute(&theirs, &ended))?;
        let computation = Computation { pieces, over, thread: Some(thread) };
        pause(Duration::from_millis(50));
        ensure!(computation.pieces.load(Ordering::Relaxed) > 0, "the computation has not begun");
        Ok(computation)
    }

    /// Returns the work done so far, and the time.
    pub(super) fn so_far(&self) -> (f64, u64) {
        (now(), self.pieces.load(Ordering::Relaxed))
    }

    /// Measures pieces a second over this time.
    pub(super) fn rate(&self, while_: Duration) -> f64 {
        let before = self.so_far();
        pause(while_);
        rate(before, self.so_far())
    }
}

impl Drop for Computation {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns the growth per second.
pub(super) fn rate(before: (f64, u64), after: (f64, u64)) -> f64 {
    (after.1 - before.1) as f64 / (after.0 - before.0).max(1e-9)
}

fn compute(pieces: &AtomicU64, over: &AtomicBool) -> Result<()> {
    let _kept = Processor::new(1)?.keep()?;
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    output(std::process::Command::new("chrt").args(["-i", "-p", "0", &thread]))?;
    let mut word = 1u64;
    while !over.load(Ordering::Relaxed) {
        for _ in 0..200 {
            word = std::hint::black_box(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        pieces.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The near host's address, and its side of the router.
pub(super) const NEAR: &str = "198.18.1.9";
const NEAR_ROUTER: &str = "198.18.1.1";
pub(super) const NEAR_STATION: &str = "02:00:00:00:01:09";
/// The far host's address, and its side of the router.
pub(super) const FAR: &str = "198.18.2.9";
const FAR_ROUTER: &str = "198.18.2.1";
pub(super) const FAR_STATION: &str = "02:00:00:00:02:09";
/// A station that is not there: frames for it cost the far host the least.
pub(super) const NOBODY: &str = "02:00:00:00:02:77";
