//! The rings of AF_XDP.

use std::os::fd::AsFd;
use std::time::Duration;

use softtimers_linux::wait::wait_readable;
use softtimers_linux::xdp::XdpSocket;

use super::Outcome;
use crate::poller::xdp::{Port, XdpDevice};
use crate::poller::{Device, Transmit};
use crate::rtnetlink::{self, LOOPBACK};
use crate::trying::Trying;

/// A frame goes out by one ring and, by a program on the interface, comes back in the other.
pub(super) fn af_xdp() -> Outcome {
    // In the machine's network first: permission in an own network proves nothing.
    XdpSocket::new(2).needing("CAP_NET_RAW", "an AF_XDP socket")?;
    // The privilege for the next step is the probe's need, not the feature's.
    rtnetlink::enter_empty_network()
        .map_err(|why| format!("an AF_XDP socket can be made, but not tried without {why}"))?;
    let loopback = Port { name: "loopback", index: LOOPBACK, mtu: 1_500, queues: 1, send_queues: 1 };
    let mut device = XdpDevice::open(&[loopback], 64).map_err(|error| error.to_string())?.remove(0);
    device.transmitter().queue(&FRAME, None);
    device.poll_tx(1).trying("sending by the ring")?;
    let sent = "a frame left by the ring of loopback";
    if !wait_readable(device.as_fd(), Some(ARRIVAL_TIME_LIMIT)).trying("waiting")? {
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

/// Without destination or source, of the first ethertype for experiments.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    (frame[12], frame[13]) = (0x88, 0xb5);
    frame[59] = 0x5a;
    frame
};
/// Loopback delivers during the send; this is for a loaded machine.
const ARRIVAL_TIME_LIMIT: Duration = Duration::from_millis(100);
