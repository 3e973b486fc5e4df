//! Network namespaces by `ip`, which stand for hosts.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers_linux::ethtool::Offload;

/// `ip` with these arguments.
pub fn ip(words: &[&str]) -> Result<(), String> {
    run("ip", words)
}

/// A program's success, or what it says instead.
pub fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Does something in a namespace.
fn within<T: Send + 'static>(namespace: &str, what: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let path = format!("/run/netns/{namespace}");
    thread::spawn(move || {
        let namespace = File::open(path).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        what()
    })
}

/// Switches an offload of the `eth` of a namespace.
pub fn set_offload(namespace: &str, offload: Offload, is_on: bool) -> Result<(), String> {
    let set = within(namespace, move || super::offloads::set("eth", offload, is_on));
    set.join().expect("no panic").map_err(|error| format!("eth: {offload:?}: {error}"))
}

/// Three namespaces named after this process; all are deleted when it is dropped.
///
/// ```text
///   near: eth ── wa :middle: wb ── eth :far
/// ```
///
/// The cables are up, and have no addresses but these of their stations.
pub struct Hosts {
    name: String,
}

/// The stations: near's eth, wa, wb, far's eth.
pub const NEAR: &str = "02:00:00:00:01:09";
pub const WA: &str = "02:00:00:00:01:01";
pub const WB: &str = "02:00:00:00:02:01";
pub const FAR: &str = "02:00:00:00:02:09";

impl Hosts {
    fn lay(test: &str) -> Result<Self, String> {
        super::watch();
        let hosts = Hosts { name: format!("softtimers-{}-{test}", std::process::id()) };
        let [near, middle, far] = ["near", "middle", "far"].map(|host| hosts.host(host));
        for host in [&near, &middle, &far] {
            ip(&["netns", "add", host])?;
            ip(&["-n", host, "link", "set", "lo", "up"])?;
        }
        for (host, own, end, other) in [(&near, NEAR, "wa", WA), (&far, FAR, "wb", WB)] {
            let link = ["-n", host, "link", "add", "eth", "address", own, "type", "veth"];
            ip(&[&link[..], &["peer", "name", end, "address", other, "netns", &middle]].concat())?;
            ip(&["-n", host, "link", "set", "eth", "up"])?;
            ip(&["-n", &middle, "link", "set", end, "up"])?;
        }
        Ok(hosts)
    }

    pub fn host(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    /// The command in the middle, with both its outputs to be read.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host("middle"), super::PROGRAM]);
        command.args(words.split(' ').filter(|word| !word.is_empty()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Does something on a host.
    pub fn at<T: Send + 'static>(
        &self,
        host: &str,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        within(&self.host(host), what)
    }

    /// Switches an offload of the `eth` of a host.
    pub fn set_offload(&self, host: &str, offload: Offload, is_on: bool) -> Result<(), String> {
        set_offload(&self.host(host), offload, is_on)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in ["near", "middle", "far"] {
            let _ = ip(&["netns", "del", &self.host(host)]);
        }
    }
}

/// Does something with three hosts, or says why there are none.
pub fn with(test: &str, body: impl FnOnce(&Hosts)) {
    match Hosts::lay(test) {
        Ok(hosts) => body(&hosts),
        Err(reason) => super::skipped(&format!("no three hosts: {reason}")),
    }
}
