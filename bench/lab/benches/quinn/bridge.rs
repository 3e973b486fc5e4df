//! The path between two hosts of this machine, for quinn and the kernel's TCP alike: [`Bridged`].
//!
//! ```text
//!   near: g0 ═══ r0 :middle: out ═══ s0 :far
//!                   └ a bridge with the path
//! ```

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers_lab::rig::hosts::{Hosts, ip, missing};
use softtimers_measure::failure;
use softtimers_measure::processor::Processor;
use softtimers_wan::interfaces::BridgeConfig;
use softtimers_wan::{Counters, Relay, Wan, Way};

use crate::path::Line;
use crate::run::Failure;

/// Two hosts with addresses.
#[derive(Debug)]
pub(crate) struct Bridged(Hosts);

pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

impl Bridged {
    /// Creates the cables.
    pub(crate) fn lay() -> Result<Self, Box<dyn std::error::Error>> {
        missing().map_or(Ok(()), |reason| Err(failure::Failure::not_possible(reason)))?;
        let hosts = Hosts::lay()?;
        for (host, interface, address) in [("near", "g0", NEAR), ("far", "s0", FAR)] {
            ip(&["-n", &hosts.host(host), "addr", "add", &format!("{address}/24"), "dev", interface])?;
        }
        Ok(Bridged(hosts))
    }

    /// Moves the calling thread to that host.
    pub(crate) fn enter(&self, host: &str) -> Result<(), Failure> {
        let space = File::open(Path::new("/run/netns").join(self.0.host(host)))?;
        Ok(move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

/// A running bridge.
#[derive(Debug)]
pub(crate) struct Crossing {
    stop: UnixStream,
    thread: JoinHandle<Result<Counters, Failure>>,
}

impl Crossing {
    /// Joins the two hosts by this path.
    pub(crate) fn begin(
        between: &'static Bridged,
        line: Line,
        cpu: Option<Processor>,
    ) -> Result<Self, Failure> {
        let (stop, stopped) = UnixStream::pair()?;
        let (say, hear) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            between.enter("middle")?;
            let _kept = cpu.map(Processor::keep).transpose()?;
            let (up, down) = line.ways()?;
            let interfaces = ["r0".to_owned(), "out".to_owned()];
            let config = BridgeConfig::between(interfaces);
            let mut bridge = Relay::bridge(&config, Wan::builder().up(up).down(down))?;
            bridge.watch(&stopped, 1)?;
            let _ = say.send(());
            bridge.run(Some(bridge.now() + Duration::from_secs(600)))?;
            Ok(bridge.counters(Way::Up))
        });
        let begun = hear.recv_timeout(Duration::from_secs(5));
        let crossing = Crossing { stop, thread };
        if begun.is_err() {
            return Err(crossing.finish().err().unwrap_or_else(|| "the bridge did not begin".into()));
        }
        Ok(crossing)
    }

    /// Returns the path's counts of the near host's packets.
    pub(crate) fn finish(mut self) -> Result<Counters, Failure> {
        let _ = self.stop.write_all(b"x");
        self.thread.join().map_err(|_| "the bridge has panicked")?
    }
}
