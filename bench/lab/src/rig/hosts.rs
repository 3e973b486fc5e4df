//! The namespaces and their cables: [`Hosts`]. None of them outlives this process, however it ends.
//!
//! A shell holds the other end of a pipe. When this process has ended (normally, by Ctrl-C, or `kill -9`), the pipe
//! ends, and the shell deletes the namespaces; signals for us do not reach it. If it is killed as well, the next run
//! finds the leftovers by their names, which contain the number of a process that has ended.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use softtimers_measure::failure::Failure;

use crate::bench::Done;
use softtimers_trials::command::{output, works};

/// Three namespaces, deleted when it is dropped.
#[derive(Debug)]
pub struct Hosts {
    name: String,
    sweeper: Child,
}

/// Returns why there can be no rig here, if so.
pub fn missing() -> Option<String> {
    let id = Command::new("id").arg("-u").output();
    if !id.is_ok_and(|id| id.stdout.trim_ascii() == b"0") {
        return Some("the rig needs root: namespaces, packet sockets, programs in the kernel".to_owned());
    }
    if std::thread::available_parallelism().is_ok_and(|number| number.get() < 2) {
        return Some("the rig needs two CPUs: one sends, one forwards".to_owned());
    }
    let tools = [("ip", "-V"), ("ethtool", "--version"), ("taskset", "--version")];
    let (tool, _) = tools.into_iter().find(|(tool, flag)| !works(Command::new(tool).arg(flag)))?;
    Some(format!("the rig needs `{tool}`"))
}

impl Hosts {
    /// Creates the hosts and their cables.
    ///
    /// # Errors
    /// If that is not possible here, or the watcher cannot be started.
    pub fn lay() -> Done<Self> {
        sweep()?;
        let name = format!("{PREFIX}{}", std::process::id());
        // Processes first: their attachments keep a namespace alive.
        let script = "trap '' INT TERM HUP; cat > /dev/null; \
             for host in near middle far; do \
               for process in $(ip netns pids $0-$host 2> /dev/null); do kill -9 $process; done; \
               ip netns del $0-$host 2> /dev/null; \
             done; true";
        let mut sweeper = Command::new("sh");
        sweeper.args(["-c", script, &name]).stdin(Stdio::piped()).process_group(0);
        let hosts = Hosts { name, sweeper: sweeper.spawn().context("sh")? };
        hosts.connect().map_err(|error| Failure::not_possible(format_args!("no three hosts: {error:#}")))?;
        Ok(hosts)
    }

    fn connect(&self) -> Result<()> {
        for host in ["near", "middle", "far"] {
            ip(&["netns", "add", &self.host(host)])?;
        }
        let cables = (0..SOURCES).map(|number| ("near", format!("g{number}"), format!("r{number}")));
        for (host, end, other) in cables.chain([("far", "s0".to_owned(), "out".to_owned())]) {
            let (host, middle) = (self.host(host), self.host("middle"));
            let station = station(&other);
            ip(&[
                "-n", &host, "link", "add", &end, "type", "veth", "peer", "name", &other, "address",
                &station, "netns", &middle,
            ])?;
            for (host, end) in [(&host, &end), (&middle, &other)] {
                // Without IPv6 addresses the kernel sends nothing unmeasured.
                ip(&["-n", host, "link", "set", end, "addrgenmode", "none", "up"])?;
            }
            // Otherwise it accepts no frames from programs.
            self.at("middle", &["ethtool", "-K", &other, "gro", "on"])?;
        }
        Ok(())
    }

    /// Returns the name of a host's namespace.
    pub fn host(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    /// Returns a program to run on a host.
    pub fn command(&self, host: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host(host)]).args(words).stdin(Stdio::null());
        command
    }

    /// Runs a program on a host to its end.
    ///
    /// # Errors
    /// If it fails.
    pub fn at(&self, host: &str, words: &[&str]) -> Result<()> {
        output(&mut self.command(host, words)).map(drop)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.sweeper.stdin.take());
        let _ = self.sweeper.wait();
    }
}

/// Returns the station of an interface of the router.
pub fn station(interface: &str) -> String {
    let number = interface.strip_prefix('r').and_then(|number| number.parse().ok()).unwrap_or(99u8);
    format!("02:00:00:00:01:{number:02x}")
}

/// Deletes the leftovers of other runs whose process has ended.
fn sweep() -> Result<()> {
    let list = output(Command::new("ip").args(["netns", "list"]))?;
    for name in list.lines().filter_map(|line| line.split(' ').next()) {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            ip(&["netns", "del", name])?;
        }
    }
    Ok(())
}

/// Runs `ip` with these words.
pub fn ip(words: &[&str]) -> Result<()> {
    output(Command::new("ip").args(words)).map(drop)
}

/// Returns the threads of the kernel and of programs: name and number.
///
/// # Errors
/// If the system does not list them.
pub fn threads() -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let number = entry.file_name().to_string_lossy().into_owned();
        if number.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(name) = std::fs::read_to_string(entry.path().join("comm"))
        {
            found.push((name.trim().to_owned(), number));
        }
    }
    Ok(found)
}

/// The number of cables between the near host and the router.
pub const SOURCES: usize = 4;
const PREFIX: &str = "softtimers-rig-";
