//! Two UDP sockets on loopback.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use softtimers_linux::control::Control;
use softtimers_linux::recvmmsg::RecvBuffers;
use softtimers_linux::wait::wait_readable;

use crate::trying::Trying;

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
