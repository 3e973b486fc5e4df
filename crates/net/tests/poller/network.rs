//! Networks of a test's own, by `ip`.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::skipped::skipped;

pub(crate) fn ip(words: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", said.trim())) }
}

/// A network, named after this process; deleted when it is dropped.
pub(crate) struct Network(pub(crate) String);

impl Network {
    /// Lays both cables.
    pub(crate) fn lay() -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let network = Network(format!("softtimers-{}-{number}", std::process::id()));
        ip(&format!("netns add {}", network.0))?;
        enter(&network.0);
        // Neither addresses nor what IPv6 says by itself.
        for interfaces in ["all", "default"] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{interfaces}/disable_ipv6"), "1");
        }
        for (one, other) in [("near", "in"), ("out", "far")] {
            ip(&format!("link add {one} type veth peer name {other}"))?;
            ip(&format!("link set {one} up mtu 9000"))?;
            ip(&format!("link set {other} up mtu 9000"))?;
        }
        Ok(network)
    }

    /// Gives an interface to a host of its own, with an address; its name. This thread stays where it is.
    pub(crate) fn host(&self, interface: &str, address: &str) -> String {
        let host = format!("{}-{interface}", self.0);
        ip(&format!("netns add {host}")).unwrap();
        ip(&format!("link set {interface} netns {host}")).unwrap();
        ip(&format!("-n {host} addr add {address} dev {interface}")).unwrap();
        ip(&format!("-n {host} link set {interface} up")).unwrap();
        host
    }
}

/// Takes this thread there.
pub(crate) fn enter(network: &str) {
    let namespace = File::open(format!("/run/netns/{network}")).unwrap();
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in ["near", "far"].map(|host| format!("{}-{host}", self.0)) {
            if Path::new("/run/netns").join(&host).exists() {
                let _ = ip(&format!("netns del {host}"));
            }
        }
        let _ = ip(&format!("netns del {}", self.0));
    }
}

/// Runs `test` on a thread in a network of its own.
pub(crate) fn with_network(test: impl FnOnce(&Network) + Send + 'static) {
    let inside = thread::spawn(|| Network::lay().map(|network| test(&network)));
    match inside.join() {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => skipped(&format_args!("no network of its own: {reason}")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
