//! Hands datagrams over ahead of their release times, which a queue of the kernel keeps.
//!
//! This is the loop of `loop` with another due time: that of the next hand-over. Without such a queue on the route, all
//! datagrams would leave at once, and no call would report it. So the route is tried first, and the run is refused
//! unless release times are seen to be kept.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_measure::failure::Failure;
use softtimers_net::kernel::release_times;

use super::engine::Engine;
use super::plain_loop::{self, Wait};
use crate::session::{Handling, Session};
use crate::wire::{Datagram, Hello};

/// A queue of the kernel.
pub(super) struct Kernel;

impl Engine for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn about(&self) -> &'static str {
        "The kernel, given each datagram up to 10 ms ahead of its time: needs the queue fq on the way (SO_TXTIME)"
    }

    fn handling(&self) -> Handling {
        Handling { ahead: true, ..Handling::default() }
    }

    /// Checks that release times are kept on the route.
    fn check(&self, destination: SocketAddr) -> Result<(), Failure> {
        // A message that receivers accept from any sender, and answer without remembering it.
        let hello = Hello { nonce: 0, flow: 0, flows: 0, interval_ns: 0, token: None };
        let finding = release_times(destination, &Datagram::Hello(hello).encode());
        if finding.works {
            return Ok(());
        }
        Err(Failure::not_possible(format_args!(
            "--timer kernel: release times on the way to {destination}: {}",
            finding.how
        )))
    }

    fn drive(&self, session: &mut Session) -> io::Result<()> {
        plain_loop::run(session, |_| Ok(Kernel))
    }
}

impl Wait for Kernel {
    const CHECKS_AFTER_HANDLERS: bool = true;

    fn timeout(&mut self, left: Duration, _: Timestamp) -> io::Result<Option<Duration>> {
        Ok(Some(left))
    }
}
