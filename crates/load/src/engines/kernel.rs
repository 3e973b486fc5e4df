//! Hands datagrams over ahead of their release times, which a queue of the kernel keeps.
//!
//! This is the loop of `loop` with another due time: that of the next hand-over. Without such a queue on the route, all
//! datagrams would leave at once, and no call would report it. So the route is tried first, and the run is refused
//! unless release times are seen to be kept.

use std::net::SocketAddr;

use softtimers_measure::failure::Failure;
use softtimers_net::kernel::release_times;

use super::engine::Engine;
use super::time_outs::five_lines;
use crate::session::Handling;
use crate::wire::{Datagram, Hello};

/// A queue of the kernel.
pub(super) const KERNEL: Engine = Engine {
    handling: Handling { ahead: true, queued: false },
    check,
    ..Engine::new(
        "kernel",
        "The kernel, given each datagram up to 10 ms ahead of its time: needs the queue fq on the way (SO_TXTIME)",
        five_lines,
    )
};

/// Checks that release times are kept on the route.
fn check(destination: SocketAddr) -> Result<(), Failure> {
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
