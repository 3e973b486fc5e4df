//! Packets below the protocols: packet sockets, and the rings of AF_XDP.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use softtimers_core::Clock;

use super::network::{self, LOOPBACK, Pair};
use super::{Outcome, Trying, programs};
use crate::clock::Monotonic;
use crate::sys::packet::LinkAddress;
use crate::sys::wait::wait_readable;
use crate::sys::xdp::XdpSocket;

/// A packet socket sees a datagram that a UDP socket sends.
pub(super) fn af_packet() -> Outcome {
    // Of no protocol, so that it gets nothing before it is bound to loopback.
    let socket =
        socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC, None::<Protocol>)
            .needing("CAP_NET_RAW", "a packet socket")?;
    bind(&socket, &LinkAddress { interface: LOOPBACK, protocol: libc::ETH_P_IP as u16 })
        .trying("a packet socket on loopback")?;
    let pair = Pair::new()?;
    let mark = Monotonic.now().as_nanos().to_ne_bytes();
    pair.sender.send(&mark).trying("sending")?;
    let until = Monotonic.now() + PATIENCE;
    let mut packet = [0; 256];
    // Others use loopback too: theirs are passed over, for as long as we have patience.
    while Monotonic.now() < until && wait_readable(socket.as_fd(), Some(PATIENCE)).trying("waiting")? {
        let (length, _) = recv(&socket, &mut packet, RecvFlags::DONTWAIT).trying("receiving")?;
        if packet[..length].ends_with(&mark) {
            return Ok("a packet socket on loopback saw a datagram go by".to_owned());
        }
    }
    Err("a packet socket was made, but did not see a datagram on loopback".to_owned())
}

/// A frame goes out by one ring and, by a program on the interface, comes back in the other.
pub(super) fn af_xdp() -> Outcome {
    // In the machine's network first: what is allowed in one's own proves nothing.
    XdpSocket::new().needing("CAP_NET_RAW", "an AF_XDP socket")?;
    // The privilege for the next step is the probe's need, not the feature's.
    network::enter_empty()
        .map_err(|why| format!("an AF_XDP socket can be made, but not tried without {why}"))?;
    let socket = XdpSocket::new().trying("an AF_XDP socket")?;
    socket.bind_copying(LOOPBACK, 0).trying("binding an AF_XDP socket to loopback, copying")?;
    let redirect = programs::Redirect::to(socket.as_fd(), LOOPBACK);
    socket.send(&FRAME).trying("sending by the ring")?;
    let sent = "a frame left by the ring of loopback";
    // Held until the frame is back.
    let _redirect = redirect.map_err(|why| format!("{sent}, but none can be received: {why}"))?;
    if !wait_readable(socket.as_fd(), Some(PATIENCE)).trying("waiting")? {
        return Err(format!("{sent}, but did not come back"));
    }
    match socket.receive() {
        Some(frame) if frame.starts_with(&FRAME) => {
            Ok(format!("{sent} and came back in the other, copied (in a network of its own)"))
        }
        other => Err(format!("{sent}, but another came back: {other:02x?}")),
    }
}

/// To nobody, from nobody, of the first ethertype that is free for experiments.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    (frame[12], frame[13]) = (0x88, 0xb5);
    frame[59] = 0x5a;
    frame
};
/// Loopback delivers during the send; this is for a loaded machine.
const PATIENCE: Duration = Duration::from_millis(100);
