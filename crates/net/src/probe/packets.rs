//! Packets below the protocols: packet sockets, and the rings of AF_XDP.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use softtimers_core::Clock;

use super::network::{self, LOOPBACK, Pair};
use super::{Outcome, Trying};
use crate::clock::Monotonic;
use crate::poller::xdp::{Port, XdpConfig, XdpDevice};
use crate::poller::{Device, Transmit};
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
    XdpSocket::new(2).needing("CAP_NET_RAW", "an AF_XDP socket")?;
    // The privilege for the next step is the probe's need, not the feature's.
    network::enter_empty()
        .map_err(|why| format!("an AF_XDP socket can be made, but not tried without {why}"))?;
    let loopback = Port { name: "loopback", index: LOOPBACK, mtu: 1_500, queues: 1, send_queues: 1 };
    let config = XdpConfig { entries: 64, ..XdpConfig::default() };
    let mut device = XdpDevice::open(&[loopback], config).map_err(|error| error.to_string())?.remove(0);
    device.transmitter().queue(&FRAME, None);
    device.poll_tx(1).trying("sending by the ring")?;
    let sent = "a frame left by the ring of loopback";
    if !wait_readable(device.as_fd(), Some(PATIENCE)).trying("waiting")? {
        return Err(format!("{sent}, but did not come back"));
    }
    let mut back = Vec::new();
    device.poll_rx(1, |packet, _| back.extend_from_slice(packet.bytes)).trying("receiving by the ring")?;
    if back.starts_with(&FRAME) {
        Ok(format!("{sent} and came back in the other, copied (in a network of its own)"))
    } else {
        Err(format!("{sent}, but another came back: {back:02x?}"))
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
