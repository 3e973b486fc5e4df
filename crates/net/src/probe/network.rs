//! Two UDP sockets on loopback, and a network with nothing in it.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use super::Trying;
use crate::rtnetlink;
use crate::sys::control::Control;
use crate::sys::namespace;
use crate::sys::recvmmsg::RecvBuffers;
use crate::sys::wait::wait_readable;

/// A sender, connected to a receiver.
pub(crate) struct Pair {
    pub(crate) sender: UdpSocket,
    pub(crate) receiver: UdpSocket,
}

impl Pair {
    pub(crate) fn new() -> Result<Self, String> {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).trying("a UDP socket on loopback");
        let pair = Self { sender: bind()?, receiver: bind()? };
        pair.receiver.set_nonblocking(true).trying("a non-blocking socket")?;
        let to = pair.receiver.local_addr().trying("a socket's address")?;
        pair.sender.connect(to).trying("a socket on loopback")?;
        Ok(pair)
    }

    /// The lengths of the next `count` datagrams, with what the kernel says about each; fewer if one
    /// does not arrive within `patience`.
    pub(crate) fn received(&self, count: usize, patience: Duration) -> Result<Vec<(usize, Control)>, String> {
        let mut buffers = RecvBuffers::new(8, 2_048);
        let mut all = Vec::new();
        while all.len() < count && wait_readable(self.receiver.as_fd(), Some(patience)).trying("waiting")? {
            let received = buffers.receive(self.receiver.as_fd()).trying("receiving")?;
            let messages = (0..received).filter_map(|index| buffers.message(index));
            all.extend(messages.map(|message| (message.payload.len(), Control::parse(message.control))));
        }
        Ok(all)
    }
}

/// Moves the calling thread into an empty network, whose loopback is up.
pub(crate) fn enter_empty() -> Result<(), String> {
    namespace::unshare_network().needing("CAP_SYS_ADMIN", "a network namespace to try it in")?;
    rtnetlink::set_up(LOOPBACK)
}

/// The index of `lo`, in every network.
pub(crate) const LOOPBACK: u32 = 1;
