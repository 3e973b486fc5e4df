//! A UDP socket as a device: no privileges, one system call per turn.
//!
//! ```text
//!   kernel's receive buffer ── recvmmsg, up to the quota ──▶ handler ──▶ UdpOutput ── sendmmsg ──▶
//!       └ runs over: counted by the kernel ([`Drops::ring`])                 └ full: dropped, counted
//! ```
//!
//! The receive buffer is the ring: it absorbs bursts while others have their turn, and excess packets cost
//! this process nothing. Its size is the longest burst that is not lost ([`UdpSocket::request_recv_buffer`]).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::device::{Device, Drops, Left, Packet, Received, Sent, Transmit};
use crate::udp::{RecvBatch, SendBatch, Stopped, UdpSocket, is_about_an_earlier_datagram};

/// A UDP socket and its buffers, for a [`Poller`](super::Poller).
#[derive(Debug)]
pub struct UdpDevice {
    socket: UdpSocket,
    batch: RecvBatch,
    output: UdpOutput,
    drops: Unwrapped,
    refusals: u64,
    /// The error that ended a turn after some datagrams; the next turn returns it.
    failure: Option<io::Error>,
}

/// Datagrams that wait to be sent.
#[derive(Debug)]
pub struct UdpOutput {
    batch: SendBatch,
    /// Datagrams that the system would not send.
    failed: u64,
}

impl UdpDevice {
    /// Makes a device with room for 64 datagrams in each direction, of at most 2,048 bytes. The socket
    /// becomes non-blocking and counts drops.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        UdpDevice::with_room(socket, 64, 2_048)
    }

    /// Makes a device with room for `datagrams` in a receive, at most 1,024, and for four times as many
    /// waiting to be sent; of at most `bytes` each, up to 65,535. Longer ones are truncated when received.
    ///
    /// # Errors
    /// The system's error.
    pub fn with_room(socket: UdpSocket, datagrams: usize, bytes: usize) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let output = UdpOutput { batch: SendBatch::new(datagrams.saturating_mul(4), bytes), failed: 0 };
        let drops = Unwrapped { last: socket.drops().unwrap_or(0), total: 0 };
        Ok(UdpDevice {
            socket,
            batch: RecvBatch::new(datagrams, bytes),
            output,
            drops,
            refusals: 0,
            failure: None,
        })
    }

    /// Asks the kernel for the arrival time of each datagram ([`Packet::arrived`]); otherwise policies assume
    /// arrivals spread evenly over the time since the last look.
    ///
    /// # Errors
    /// The system's error.
    pub fn with_timestamps(self) -> io::Result<Self> {
        self.socket.set_timestamps(true)?;
        Ok(self)
    }

    /// Returns the device's socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Returns the number of ICMP answers met while receiving: our datagrams to closed ports.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }
}

impl Device for UdpDevice {
    type Address = SocketAddr;
    type Transmitter = UdpOutput;

    /// # Errors
    /// The system's error. Datagrams taken before it make up a turn, and the next one returns the error.
    fn poll_rx(
        &mut self,
        quota: usize,
        mut sink: impl FnMut(Packet<'_, SocketAddr>, &mut UdpOutput),
    ) -> io::Result<Received> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let mut done = 0;
        while done < quota {
            let asked = (quota - done).min(self.batch.capacity());
            let received = match self.socket.recv_at_most(&mut self.batch, asked) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Received { done, more: false });
                }
                Err(error) if is_about_an_earlier_datagram(&error) => {
                    self.refusals += 1;
                    return Ok(Received { done, more: true });
                }
                Err(error) if done == 0 => return Err(error),
                Err(error) => {
                    self.failure = Some(error);
                    return Ok(Received { done, more: true });
                }
            };
            for index in 0..received {
                let Some(datagram) = self.batch.get(index) else { break };
                let (from, arrived, truncated) = (datagram.from, datagram.received, datagram.truncated);
                let Some(bytes) = self.batch.payload_mut(index) else { break };
                sink(Packet { bytes, from, arrived, truncated }, &mut self.output);
            }
            done += received;
            if received < asked {
                return Ok(Received { done, more: false });
            }
        }
        Ok(Received { done, more: true })
    }

    fn poll_tx(&mut self, quota: usize) -> io::Result<Sent> {
        let UdpOutput { batch, failed } = &mut self.output;
        let mut done = 0;
        loop {
            let outcome = self.socket.send_at_most(batch, quota - done);
            done += outcome.sent;
            let left = match outcome.stopped {
                None if batch.is_empty() => Left::Nothing,
                None => Left::More,
                Some(Stopped::WouldBlock | Stopped::NoBuffers) => Left::Blocked,
                // Only about this datagram: no route to its address, too long for the path.
                Some(Stopped::Error(_)) => {
                    *failed += u64::from(batch.discard_first());
                    continue;
                }
            };
            return Ok(Sent { done, left });
        }
    }

    fn transmitter(&mut self) -> &mut UdpOutput {
        &mut self.output
    }

    /// The kernel checks the receive buffer when the wake-up is enabled.
    fn arm(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn drops(&mut self) -> io::Result<Drops> {
        let ring = self.drops.at(self.socket.drops()?);
        Ok(Drops { ring, output: self.output.failed, ..Drops::default() })
    }
}

impl AsFd for UdpDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl UdpOutput {
    /// Returns the number of datagrams that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.batch.len()
    }
}

impl Transmit for UdpOutput {
    type Address = SocketAddr;

    fn queue(&mut self, bytes: &[u8], to: Option<SocketAddr>) -> bool {
        self.batch.push(bytes, to).is_ok()
    }
}

/// A total that the kernel counts modulo 2³².
#[derive(Debug)]
struct Unwrapped {
    last: u32,
    total: u64,
}

impl Unwrapped {
    fn at(&mut self, now: u32) -> u64 {
        self.total += u64::from(now.wrapping_sub(self.last));
        self.last = now;
        self.total
    }
}
