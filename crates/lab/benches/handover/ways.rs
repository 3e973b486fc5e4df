//! The ways that the library has.

use std::io;

use softtimers_net::UdpSocket;
use softtimers_net::udp::SendBatch;

/// One way to hand datagrams to the kernel.
pub(crate) trait Way {
    /// Hands over so many at once, and does not return before all of them have been sent.
    fn hand_over(&mut self, count: usize) -> io::Result<()>;
}

pub(crate) struct Single {
    socket: UdpSocket,
    packet: Vec<u8>,
}

impl Single {
    pub(crate) fn new(socket: UdpSocket, size: usize) -> Self {
        Single { socket, packet: vec![1; size] }
    }
}

impl Way for Single {
    fn hand_over(&mut self, count: usize) -> io::Result<()> {
        (0..count).try_for_each(|_| self.socket.send(&self.packet).map(drop))
    }
}

/// Its cost contains the copy into the batch.
pub(crate) struct Batched {
    socket: UdpSocket,
    packet: Vec<u8>,
    batch: SendBatch,
}

impl Batched {
    pub(crate) fn new(socket: UdpSocket, size: usize, segmentation: bool) -> Self {
        let mut batch = SendBatch::new(64, size);
        batch.set_segmentation(segmentation);
        Batched { socket, packet: vec![1; size], batch }
    }
}

impl Way for Batched {
    fn hand_over(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            self.batch.push(&self.packet, None).map_err(io::Error::other)?;
        }
        match self.socket.send_batch(&mut self.batch).stopped {
            None => Ok(()),
            Some(stopped) => Err(io::Error::other(stopped.to_string())),
        }
    }
}
