//! Packets below the protocols: packet sockets.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use softtimers::Monotonic;
use softtimers_core::Clock;
use softtimers_linux::packet::bind_to;
use softtimers_linux::wait::wait_readable;

use super::Outcome;
use super::pair::Pair;
use crate::rtnetlink::LOOPBACK;
use crate::trying::Trying;

/// A packet socket sees a datagram that a UDP socket sends.
pub(super) fn af_packet() -> Outcome {
    // Of no protocol, so that it gets nothing before it is bound to loopback.
    let socket =
        socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC, None::<Protocol>)
            .needing("CAP_NET_RAW", "a packet socket")?;
    bind_to(&socket, LOOPBACK, libc::ETH_P_IP as u16).trying("a packet socket on loopback")?;
    let pair = Pair::new()?;
    let mark = Monotonic.now().as_nanos().to_ne_bytes();
    pair.sender.send(&mark).trying("sending")?;
    let until = Monotonic.now() + ARRIVAL_TIME_LIMIT;
    let mut packet = [0; 256];
    // Other programs use loopback too: skip their packets, until the time-out.
    while Monotonic.now() < until
        && wait_readable(socket.as_fd(), Some(ARRIVAL_TIME_LIMIT)).trying("waiting")?
    {
        let (length, _) = recv(&socket, &mut packet, RecvFlags::DONTWAIT).trying("receiving")?;
        if packet[..length].ends_with(&mark) {
            return Ok("a packet socket on loopback saw a datagram go by".to_owned());
        }
    }
    Err("a packet socket was made, but did not see a datagram on loopback".to_owned())
}

/// Loopback delivers during the send; this is for a loaded machine.
const ARRIVAL_TIME_LIMIT: Duration = Duration::from_millis(100);
