//! The outside network, by a program that connects to it: [`Gateway`].
//!
//! pasta and slirp4netns attach to an interface in a given network, and turn its traffic into ordinary connections of
//! their own. They must run outside, so this process starts a helper, which starts them, before it leaves:
//!
//! ```text
//!   wan ──stdin: the words of a gateway──▶ helper ──starts──▶ pasta, slirp4netns
//!       ◀─stdout: how it ended ──────────     └── stdin ends: kills it
//! ```

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use softtimers_measure::failure::Failure;
use softtimers_net::packet::{Interface, lay};
use softtimers_wan::inside::{ENDS, FAR, FAR_V6, NAME_SERVER, NEAR, NEAR_V6};

use super::{myself, wait_for};
use crate::run::output::say;

/// The helper, and in the end its gateway.
#[derive(Debug)]
pub(super) struct Gateway {
    helper: Child,
    orders: Option<ChildStdin>,
    ends: BufReader<ChildStdout>,
    /// The name of the running program.
    pub(super) name: &'static str,
    /// Its process, which may outlive the helper.
    process: Option<OwnedFd>,
    /// Without it, programs inside would try in vain.
    outside_has_v6: bool,
}

/// A gateway program.
struct Kind {
    name: &'static str,
    words: fn(process: u32, loopback: bool, v6: bool) -> Vec<String>,
    /// Whether it carries IPv6 from and to the addresses here.
    has_v6: bool,
}

/// The programs, the faster one first.
const KINDS: [Kind; 2] = [
    Kind { name: "pasta", words: pasta, has_v6: true },
    Kind { name: "slirp4netns", words: slirp4netns, has_v6: false },
];

fn pasta(process: u32, loopback: bool, v6: bool) -> Vec<String> {
    let words = format!(
        "pasta --foreground --quiet {} --no-dhcp --ns-ifname {} --address {NEAR} --netmask 24 --gateway {FAR} \
         --dns-forward {NAME_SERVER} --tcp-ports none --udp-ports none --tcp-ns none --udp-ns none {} \
         --userns /proc/{process}/ns/user --netns /proc/{process}/ns/net {}",
        if v6 {
            format!("--no-ra --no-dhcpv6 --address {NEAR_V6} --gateway {FAR_V6}")
        } else {
            "--ipv4-only".to_owned()
        },
        ENDS[1],
        if loopback { "" } else { "--no-map-gw" },
        // Otherwise it becomes nobody, who may not enter root's namespaces.
        if geteuid().is_root() { "--runas 0" } else { "" },
    );
    words.split_ascii_whitespace().map(str::to_owned).collect()
}

fn slirp4netns(process: u32, loopback: bool, _: bool) -> Vec<String> {
    let words = format!(
        "slirp4netns --exit-fd=0 --mtu=1500 {} --netns-type=path --userns-path=/proc/{process}/ns/user /proc/{process}/ns/net {}",
        if loopback { "" } else { "--disable-host-loopback" },
        ENDS[1],
    );
    words.split_ascii_whitespace().map(str::to_owned).collect()
}

impl Gateway {
    /// Starts the helper outside.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn helper() -> Result<Self, Failure> {
        let broke_off = |error: io::Error| Failure::broke_off("starting the gateway's helper", &error);
        // Keys of the terminal belong to the command, and must not end its network.
        let mut helper = myself("gateway");
        helper.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut helper = helper.spawn().map_err(broke_off)?;
        let (orders, ends) = (helper.stdin.take(), helper.stdout.take());
        let ends = ends.ok_or_else(|| broke_off(io::ErrorKind::BrokenPipe.into()))?;
        let (ends, outside_has_v6) = (BufReader::new(ends), outside_has_v6());
        Ok(Gateway { helper, orders, ends, name: "", process: None, outside_has_v6 })
    }

    /// Asks the helper to run the first program, which takes its time, while the networks are set up.
    pub(super) fn order(&mut self, loopback: bool) -> io::Result<()> {
        self.order_one(&KINDS[0], loopback)
    }

    /// Waits until the first gateway that works has attached to this network; the first was `ordered`.
    ///
    /// Returns whether it carries IPv6, too.
    ///
    /// # Errors
    /// A message that names what is missing, or why none of them works.
    pub(super) fn bring_up(&mut self, ordered: io::Result<()>, loopback: bool) -> Result<bool, Failure> {
        let (mut tried, mut ordered) = (Vec::new(), Some(ordered));
        for kind in &KINDS {
            let Kind { name, has_v6, .. } = *kind;
            let has_v6 = has_v6 && self.outside_has_v6;
            let order = ordered.take().unwrap_or_else(|| self.order_one(kind, loopback));
            match order.and_then(|()| self.await_interface()).and_then(|()| lay::switch_on(ENDS[1])) {
                Ok(()) => {
                    self.name = name;
                    tried
                        .iter()
                        .for_each(|why| say(format_args!("softtimers: {why}; {name} is taken instead")));
                    return Ok(has_v6);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tried.push(format!("{name}: {error}")),
            }
        }
        Err(Failure::not_possible(match tried.is_empty() {
            true => {
                "the outside takes pasta (of the package passt) or slirp4netns, and neither is installed; \
                     --peer CMD2 needs neither"
                    .to_owned()
            }
            false => format!("no gateway to the outside: {}; --peer CMD2 needs none", tried.join("; ")),
        }))
    }

    /// Readable once the running program has ended.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ends.get_ref().as_fd()
    }

    /// Has it end, which takes the kernel its time; dropping waits for that.
    pub(super) fn dismiss(&mut self) {
        drop(self.orders.take());
    }

    /// Returns how it has ended; to be called when that is known.
    pub(super) fn last_words(&mut self) -> String {
        let mut line = String::new();
        match self.ends.read_line(&mut line) {
            Ok(0) => "its helper has ended, too".to_owned(),
            Ok(_) => line.trim().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    fn order_one(&mut self, kind: &Kind, loopback: bool) -> io::Result<()> {
        let words = (kind.words)(std::process::id(), loopback, kind.has_v6 && self.outside_has_v6);
        self.process = None;
        let Some(orders) = &mut self.orders else { return Ok(()) };
        orders.write_all((words.join(" ") + "\n").as_bytes())
    }

    fn await_interface(&mut self) -> io::Result<()> {
        for _ in 0..LOOKS {
            // One that the gateway has made itself is off.
            let is_attached = |end: Interface| end.has_carrier() || !end.is_up();
            if self.process.is_some() && Interface::named(ENDS[1]).is_ok_and(is_attached) {
                return Ok(());
            }
            let mut ends = [PollFd::new(self.ends.get_ref(), PollFlags::IN)];
            if poll(&mut ends, Some(&BETWEEN_LOOKS)).is_ok_and(|ready| ready > 0) {
                let mut line = String::new();
                self.ends.read_line(&mut line)?;
                let line = line.trim();
                if let Some(process) = line.strip_prefix(STARTED).and_then(|id| id.parse().ok()) {
                    // One that has ended already says why in its next line.
                    self.process =
                        Pid::from_raw(process).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
                    continue;
                }
                return Err(match line {
                    MISSING => io::ErrorKind::NotFound.into(),
                    line => io::Error::other(line.to_owned()),
                });
            }
        }
        Err(io::Error::other(format!("no interface after {} s", GATEWAY_PATIENCE.as_secs())))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.dismiss();
        // The helper reaps the gateway, and ends with its stdin.
        let _ = self.helper.wait();
        // Unless the helper was killed: then pasta would stay.
        if let Some(process) = &self.process {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// Says whether this thread's network has a default route of IPv6.
fn outside_has_v6() -> bool {
    let routes = fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
    routes.lines().any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // A route to nowhere is one of lo.
        fields.get(1) == Some(&"00") && fields.last() != Some(&"lo")
    })
}

/// The helper's answer for a program that is not installed.
const MISSING: &str = "missing";
/// Its answer for a running program, before the process id.
const STARTED: &str = "started ";
const GATEWAY_PATIENCE: Duration = Duration::from_secs(5);
const LOOKS: u32 = 5_000;
const BETWEEN_LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// The helper: runs the programs that stdin names, one at a time, until stdin ends.
///
/// # Errors
/// None on a working system.
pub(super) fn serve() -> io::Result<()> {
    let mut orders = BufReader::new(io::stdin());
    let mut running: Option<Child> = None;
    loop {
        let mut line = String::new();
        if let Some(child) = &mut running {
            let ended = watch(child)?;
            if let Some(why) = ended {
                running = None;
                tell(&why)?;
                continue;
            }
        }
        let read = orders.read_line(&mut line)?;
        if let Some(mut child) = running.take() {
            let _ = child.kill().and_then(|()| child.wait());
        }
        if read == 0 {
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        // slirp4netns ends with its stdin if this helper is killed; pasta is killed by the process that asked for it.
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => {
                tell(&format!("{STARTED}{}", child.id()))?;
                running = Some(child);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => tell(MISSING)?,
            Err(error) => tell(&error.to_string())?,
        }
    }
}

fn tell(what: &str) -> io::Result<()> {
    // The process that asked may be gone.
    let _ = writeln!(io::stdout(), "{}", what.replace('\n', " "));
    Ok(())
}

/// Reads a gateway's output until it ends, and returns its last words; or until stdin has something.
fn watch(child: &mut Child) -> io::Result<Option<String>> {
    let mut said = Vec::new();
    let stdin = io::stdin();
    let Some(mut stderr) = child.stderr.take() else { return Ok(Some(last_words(child, &said))) };
    loop {
        let ready = wait_for(&[stdin.as_fd(), stderr.as_fd()])?;
        if ready[0] {
            child.stderr = Some(stderr);
            return Ok(None);
        }
        let mut some = [0; 1_024];
        let read = stderr.read(&mut some)?;
        if read == 0 {
            return Ok(Some(last_words(child, &said)));
        }
        said.extend(&some[..read]);
        let old = said.len().saturating_sub(MOST_WORDS);
        said.drain(..old);
    }
}

/// Returns what a gateway's process printed before it ended.
fn last_words(child: &mut Child, said: &[u8]) -> String {
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    let said = String::from_utf8_lossy(said);
    match said.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{status}: {}", line.trim()),
        None => status,
    }
}

/// The part of a gateway's output that is kept.
const MOST_WORDS: usize = 4_096;
