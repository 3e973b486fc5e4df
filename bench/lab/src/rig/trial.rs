//! One trial: a forwarder, and the generator that loads it. [`Rig`].

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use softtimers_measure::ticks::Ticks;

use super::Arguments;
use super::hosts::{Hosts, station};
use softtimers_trials::command::{self, Killed, Program, announced, pause, start};

/// The measured programs, as built.
#[derive(Debug)]
pub(super) struct Programs {
    command: Program,
    /// This program, which also generates, and receives between interfaces.
    own: PathBuf,
    bridge: PathBuf,
}

/// Builds them as users do.
///
/// # Errors
/// If they do not build.
pub(super) fn build() -> Result<Programs> {
    let bridge = command::build(&["--package", "softtimers-net", "--example", "bridge"], "examples/bridge")?;
    Ok(Programs { command: Program::build()?, own: std::env::current_exe()?, bridge })
}

/// The hosts, and the programs that run on them.
#[derive(Debug)]
pub struct Rig {
    programs: Programs,
    pub(super) hosts: Hosts,
    pub(super) arguments: Arguments,
    /// A process on the router, whose `/proc` has the router's counters.
    holder: Killed,
}

/// The amount to send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    Packets(u64),
    Time(Duration),
}

/// The generator's requested traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// The rate in packets a second.
    pub(super) rate: f64,
    /// Packets back to back.
    pub(super) burst: u32,
    /// Bytes of each datagram.
    pub(super) payload: u32,
    pub(super) amount: Amount,
}

/// The traffic that the generator sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    pub(super) sent: u64,
    pub(super) pps: f64,
}

/// Counters of the router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counters {
    /// The time in seconds.
    at: f64,
    came: u64,
    left: u64,
}

impl Offer {
    /// Returns an offer of `rate` packets a second for `millis` milliseconds.
    pub(super) fn steady(rate: f64, millis: u64) -> Self {
        Offer { rate, burst: 1, payload: LEAST_PAYLOAD, amount: Amount::Time(Duration::from_millis(millis)) }
    }

    /// Returns its duration at this rate.
    pub(super) fn length(&self) -> Duration {
        match self.amount {
            Amount::Packets(number) => Duration::from_secs_f64(number as f64 / self.rate),
            Amount::Time(time) => time,
        }
    }
}

impl Rig {
    /// # Errors
    /// If the router cannot be entered.
    pub(super) fn new(programs: Programs, hosts: Hosts, arguments: Arguments) -> Result<Self> {
        let holder = start(&mut hosts.command("middle", &["sleep", "3600"]))?;
        Ok(Rig { programs, hosts, arguments, holder })
    }

    /// Returns one of two values, by the effort.
    pub(super) fn either<T>(&self, usual: T, quick: T) -> T {
        if self.arguments.asked.quick { quick } else { usual }
    }

    /// Returns the number of rounds, where `usual` is the default.
    pub(super) fn rounds(&self, usual: u32) -> usize {
        self.either(self.arguments.rounds.unwrap_or(usual), 1) as usize
    }

    /// Runs a receiver of [`receivers`](crate::receivers) under `offers` (by interface), and returns its findings.
    ///
    /// # Errors
    /// If either fails.
    pub(super) fn received(&self, words: &str, offers: &[(usize, Offer)]) -> Result<(Value, Vec<Offered>)> {
        let path = self.programs.own.to_string_lossy().into_owned();
        let words: Vec<&str> =
            [&*path, "receive"].into_iter().chain(words.split(' ')).chain(["--cpu", "1"]).collect();
        let (child, _) = announced(&mut self.hosts.command("middle", &words), "ready")?;
        let receiver = child.id();
        let before = Shares::read(receiver);
        let generators = offers.iter().map(|(place, offer)| self.generator(*place, offer));
        let generators = generators.collect::<Result<Vec<_>>>()?;
        let offered = generators.into_iter().map(finish).collect::<Result<Vec<_>>>()?;
        // A process that has ended keeps its counters until it is waited for.
        let meanwhile = Shares::read(receiver).zip(before).and_then(|(after, before)| after.since(&before));
        let mut found = child.object()?;
        if let (Some([others, interrupts, steal]), Some(found)) = (meanwhile, found.as_object_mut()) {
            found.insert("others_share".to_owned(), others.into());
            found.insert("interrupts_share".to_owned(), interrupts.into());
            found.insert("steal_share".to_owned(), steal.into());
        }
        let rates: Vec<_> = offered.iter().map(|offered| format!("{:.0}", offered.pps / 1e3)).collect();
        eprintln!("{:7.1} s  {} kpps ▸ {}", now(), rates.join(", "), words[2..].join(" "));
        Ok((found, offered))
    }

    /// Returns the generator at a cable of the near host.
    pub(super) fn generator(&self, place: usize, offer: &Offer) -> Result<Killed> {
        let (rate, burst, payload) = (offer.rate.round().max(1.0), offer.burst, offer.payload);
        let amount = match offer.amount {
            Amount::Packets(number) => format!("--count {number}"),
            Amount::Time(time) => format!("--duration {}us", time.as_micros()),
        };
        let words = format!(
            "{} generate {DESTINATION}:{DESTINATION_PORT} --iface g{place} --to-mac {} --from {SENDER}:9 --rate {rate}pps \
             --quantum {burst} --size {payload} --cpu 0 {amount}",
            self.programs.own.display(),
            station(&format!("r{place}"))
        );
        let words: Vec<&str> = words.split(' ').collect();
        start(&mut self.hosts.command("near", &words))
    }

    /// Starts a program on the router's second CPU, waits until it has printed these words on stderr; until
    /// [`Killed::ended`].
    pub(super) fn started(&self, command: &str, ready: &str) -> Result<Killed> {
        let words: Vec<&str> = "taskset -c 1".split(' ').chain(command.split_whitespace()).collect();
        let (child, _) = announced(&mut self.hosts.command("middle", &words), ready)?;
        if ready.is_empty() {
            pause(Duration::from_millis(200));
        }
        Ok(child)
    }

    /// Returns the command `softtimers` with these words.
    pub(super) fn softtimers(&self, words: &str) -> String {
        let path = self.programs.command.path().display();
        format!("{path} --with-parent {} {words}", std::process::id())
    }

    /// Returns the command of the library's example of a bridge.
    pub(super) fn bridge(&self) -> String {
        format!("{} r0 out", self.programs.bridge.display())
    }

    /// Says whether this program is installed.
    pub(super) fn has(&self, program: &str) -> bool {
        command::works(Command::new(program).arg("--version"))
    }

    /// Starts a program that uses all of the receiver's CPU.
    pub(super) fn computation(&self) -> Result<Killed> {
        let words = ["taskset", "-c", "1", "sh", "-c", "while :; do :; done"];
        start(&mut self.hosts.command("middle", &words))
    }

    /// Runs this load to its end.
    ///
    /// # Errors
    /// If the generator fails.
    pub(super) fn offered(&self, offer: &Offer) -> Result<Offered> {
        finish(self.generator(0, offer)?)
    }

    /// Loads the current forwarder, and reads the router's counters meanwhile; returns what was offered, and the rate
    /// that left in the middle of that time.
    ///
    /// # Errors
    /// If the generator fails.
    pub(super) fn load(&self, offer: &Offer) -> Result<(Offered, f64)> {
        let mut samples = vec![self.counters()?];
        let mut generator = self.generator(0, offer)?;
        while generator.runs()? {
            pause(Duration::from_millis(5));
            samples.push(self.counters()?);
        }
        let (offered, left) = (finish(generator)?, rate(&samples).unwrap_or(0.0));
        eprintln!("{:7.1} s  {:.0} kpps ▸ {:.0} forwarded", now(), offered.pps / 1e3, left / 1e3);
        Ok((offered, left))
    }

    fn counters(&self) -> Result<Counters> {
        let holder = self.holder.id();
        let text = std::fs::read_to_string(format!("/proc/{holder}/net/dev"))?;
        let column = |interface: &str, column: usize| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().nth(column)?.parse().ok()).unwrap_or(0)
        };
        Ok(Counters { at: now(), came: column("r0", 1), left: column("out", 9) })
    }
}

/// The ticks of the receiver's CPU so far, with those of the receiver, and of the kernel's thread for packets in excess
/// of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shares {
    all: Ticks,
    own: u64,
}

impl Shares {
    fn read(process: u32) -> Option<Self> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let stat = |process: &str| read(&format!("/proc/{process}/stat"));
        let names = std::fs::read_dir("/proc").ok()?.flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut numbers = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let kernel =
            numbers.find_map(|process| stat(&process).filter(|stat| stat.contains(" (ksoftirqd/1) ")));
        let kernel = kernel.and_then(|stat| ticks(&stat)).unwrap_or(0);
        Some(Shares { all: Ticks::now(Some(1))?, own: ticks(&stat(&process.to_string())?)? + kernel })
    }

    /// Returns the shares of the CPU since then: an upper bound for others; interrupts, in whatever context; the host.
    fn since(&self, before: &Self) -> Option<[f64; 3]> {
        let passed = self.all.since(before.all);
        // An interrupt is also charged to the thread that it interrupts, so leaving interrupts out would hide as much
        // of others. One on an idle CPU is charged to no thread, and the kernel does not say how many there were: they
        // count as others, so that a trial may be called disturbed wrongly, but never the other way round.
        let others = (passed.programs + passed.interrupts).saturating_sub(self.own - before.own);
        let [others, interrupts, steal] =
            [others, passed.interrupts, passed.steal].map(|ticks| passed.share(ticks));
        Some([others?, interrupts?, steal?])
    }
}

/// Returns the rate of packets that left, from the second sample with packets to the last one.
fn rate(samples: &[Counters]) -> Option<f64> {
    let grows: Vec<usize> =
        (1..samples.len()).filter(|&number| samples[number].came > samples[number - 1].came).collect();
    let (first, last) = (samples.get(*grows.first()?)?, samples.get(*grows.last()?)?);
    (last.at > first.at).then(|| (last.left - first.left) as f64 / (last.at - first.at))
}

/// Returns the seconds of a clock that never goes back.
#[expect(clippy::disallowed_methods, reason = "rates of the kernel's counters")]
pub(super) fn now() -> f64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// Returns a process's CPU time in seconds.
pub(super) fn used(process: &Killed) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.id()))?;
    ticks(&text).map(|ticks| ticks as f64 / TICKS).context("/proc/PID/stat")
}

/// Returns the CPU time of all threads of a process in seconds, to the nanosecond; in ticks where the kernel does not
/// keep that counter.
pub(crate) fn busy(process: u32) -> Result<f64> {
    let (mut nanos, mut exact) = (0u64, false);
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may have ended meanwhile.
        let text = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        if let Some(ran) = text.split_whitespace().next().and_then(|ran| ran.parse::<u64>().ok()) {
            (nanos, exact) = (nanos + ran, true);
        }
    }
    if exact {
        return Ok(nanos as f64 / 1e9);
    }
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    ticks(&text).map(|ticks| ticks as f64 / TICKS).context("/proc/PID/stat")
}

/// Returns the ticks in user and kernel mode, from a line of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<u64> {
    // The name is in parentheses and may contain anything, including parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

pub(super) fn finish(generator: Killed) -> Result<Offered> {
    let report = generator.object().context("the generator")?;
    let sent = report["sent"].as_u64().context("sent")?;
    Ok(Offered { sent, pps: report["achieved_pps"].as_f64().unwrap_or(0.0) })
}

/// The destination of the load, which no host has.
pub(super) const DESTINATION: &str = "198.18.2.2";
/// The discard port.
pub(super) const DESTINATION_PORT: u16 = 9;
const SENDER: &str = "198.18.1.2";
/// Room for the content of the command's datagrams.
const LEAST_PAYLOAD: u32 = 32;
/// The kernel's ticks per second: the same on all machines that Linux runs on today.
const TICKS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_time_in_which_packets_came() {
        let sample = |at: f64, came, left| Counters { at, came, left };
        let samples = [
            sample(0.0, 5, 5),
            sample(1.0, 5, 5),
            sample(2.0, 100, 60),
            sample(3.0, 200, 110),
            sample(4.0, 300, 160),
            sample(5.0, 300, 190),
        ];
        assert_eq!(rate(&samples), Some(50.0));
        assert_eq!((rate(&samples[..2]), rate(&[])), (None, None));
    }

    #[test]
    fn a_process_has_used_what_it_did_in_programs_and_in_the_kernel() {
        let line = "12 (a) b (c) S 1 2 3 0 -1 4 5 6 7 8 150 50 9 9 20 0 1 0 100";
        assert_eq!((ticks(line), ticks("12 (a")), (Some(200), None));
    }

    #[test]
    fn others_have_what_is_busy_and_not_the_receivers() {
        let at = |machine: &str, own| {
            let all = Ticks::parse(&format!("cpu0 9 9 9 9 9 9 9 9\ncpu1 {machine} 0 0\n"), Some(1)).unwrap();
            Shares { all, own }
        };
        let before = at("100 0 100 50 0 0 0 0", 170);
        let after = at("120 10 120 90 0 0 5 5", 200);
        assert_eq!(after.since(&before), Some([0.25, 0.05, 0.05]));
        // An interrupt on an idle CPU: charged to no thread, so perhaps to others.
        let idle = at("100 0 100 140 0 4 6 0", 170);
        assert_eq!(idle.since(&before), Some([0.1, 0.1, 0.0]));
        assert_eq!(before.since(&before), None);
    }
}
