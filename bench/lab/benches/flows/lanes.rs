//! The datagrams of the peers: the command's wire format, numbered per flow.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use softtimers::Timestamp;
use softtimers_load::wire::Datagram;
use softtimers_net::udp::SendBatch;
use softtimers_net::udp::UdpSocket;

use crate::Load;

pub(crate) struct Lanes {
    pub(crate) socket: UdpSocket,
    numbered: Vec<u64>,
    load: Load,
    packet: Vec<u8>,
    batch: SendBatch,
    turns: u64,
}

impl Lanes {
    pub(crate) fn to(address: SocketAddr, load: &Load) -> Result<Self> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        Ok(Lanes {
            socket,
            numbered: vec![0; load.flows as usize],
            load: *load,
            packet: vec![0; load.bytes as usize],
            batch: SendBatch::new(IN_ONE_TURN, load.bytes as usize),
            turns: 0,
        })
    }

    /// Turns `packet` into the next datagram of a flow, scheduled at `scheduled`.
    pub(crate) fn number(&mut self, flow: u32, scheduled: Timestamp, packet: &mut [u8]) {
        let sequence = &mut self.numbered[flow as usize];
        let interval = self.load.interval(flow);
        Datagram::Data { flow, sequence: *sequence, scheduled, interval, token: None }.write(packet);
        *sequence += 1;
    }

    /// Adds the next datagram of a flow to this turn's batch.
    pub(crate) fn stage(&mut self, flow: u32, scheduled: Timestamp) -> Result<()> {
        if self.batch.is_full() {
            self.flush()?;
        }
        let mut packet = std::mem::take(&mut self.packet);
        self.number(flow, scheduled, &mut packet);
        self.batch.push(&packet, None)?;
        self.packet = packet;
        Ok(())
    }

    /// Sends the batch.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.turns += 1;
        let outcome = self.socket.send_batch(&mut self.batch);
        // Loopback accepts all of it; otherwise a peer would have to handle a full queue.
        if let Some(stopped) = outcome.stopped {
            bail!("sending: {stopped}");
        }
        Ok(())
    }

    pub(crate) fn sent(&self) -> u64 {
        self.numbered.iter().sum()
    }

    /// Returns the mean number of datagrams in a turn; `None` if each leaves by itself.
    pub(crate) fn per_turn(&self) -> Option<f64> {
        (self.turns > 0).then(|| self.sent() as f64 / self.turns as f64)
    }
}

/// The same as in the command's engines.
pub(crate) const IN_ONE_TURN: usize = 64;
