//! [`PacedUdpSocket`]: datagrams leave evenly, and each send or receive is a trigger state.

use std::io;
use std::net::SocketAddr;

use softtimers_core::TriggerState;
use tokio::net::UdpSocket;

use crate::driver::Driver;
use crate::pacer::Pacer;

/// A UDP socket whose sends wait for their [`Pacer`].
///
/// The kernel could pace such a socket only with a queueing discipline that few machines have; this one needs
/// none.
///
/// ```
/// use softtimers_tokio::{PaceConfig, PacedUdpSocket, Pacer};
/// use tokio::net::UdpSocket;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let receiver = UdpSocket::bind("127.0.0.1:0").await?;
/// let socket = UdpSocket::bind("127.0.0.1:0").await?;
/// socket.connect(receiver.local_addr()?).await?;
///
/// let pacer = Pacer::new(PaceConfig::bits_per_second(50_000_000)?)?;
/// let mut paced = PacedUdpSocket::new(socket, pacer);
/// for _ in 0..10 {
///     paced.send(&[0; 1_200]).await?; // every 192 µs
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct PacedUdpSocket {
    socket: UdpSocket,
    pacer: Pacer,
    driver: Driver,
}

impl PacedUdpSocket {
    /// Makes a socket that sends at the rate of `pacer`.
    ///
    /// # Panics
    /// As [`Driver::current`].
    #[track_caller]
    pub fn new(socket: UdpSocket, pacer: Pacer) -> Self {
        PacedUdpSocket { socket, pacer, driver: Driver::current() }
    }

    /// Sends a datagram to the connected peer when its time has come.
    ///
    /// Cancel-safe: if dropped before it is ready, no datagram is sent or counted.
    ///
    /// # Errors
    /// As tokio's `UdpSocket::send`. A datagram that the kernel refuses uses no scheduled time.
    pub async fn send(&mut self, datagram: &[u8]) -> io::Result<usize> {
        self.pacer.ready().await;
        let sent = self.socket.send(datagram).await;
        self.departed(sent)
    }

    /// Sends a datagram to `target` when its time has come; as [`send`](Self::send).
    ///
    /// # Errors
    /// As tokio's `UdpSocket::send_to`.
    pub async fn send_to(&mut self, datagram: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.pacer.ready().await;
        let sent = self.socket.send_to(datagram, target).await;
        self.departed(sent)
    }

    fn departed(&mut self, sent: io::Result<usize>) -> io::Result<usize> {
        if let Ok(bytes) = sent {
            // A datagram has at most 65,507 bytes; an empty one takes a scheduled time too.
            self.pacer.departed_together(1, u32::try_from(bytes.max(1)).unwrap_or(u32::MAX));
        }
        self.driver.trigger(TriggerState::Send);
        sent
    }

    /// Receives a datagram from the connected peer. Not paced; a trigger state.
    ///
    /// # Errors
    /// As tokio's `UdpSocket::recv`.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = self.socket.recv(buffer).await;
        self.driver.trigger(TriggerState::SyscallExit);
        received
    }

    /// Receives a datagram and returns its sender. Not paced; a trigger state.
    ///
    /// # Errors
    /// As tokio's `UdpSocket::recv_from`.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let received = self.socket.recv_from(buffer).await;
        self.driver.trigger(TriggerState::SyscallExit);
        received
    }

    /// Returns the socket, for everything else. Datagrams sent on it directly are not paced.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Returns the pacer, with its counts of departures and of skipped times.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Returns the pacer, to change its rate or restart it.
    pub fn pacer_mut(&mut self) -> &mut Pacer {
        &mut self.pacer
    }

    /// Returns its socket and its pacer.
    pub fn into_parts(self) -> (UdpSocket, Pacer) {
        (self.socket, self.pacer)
    }
}
