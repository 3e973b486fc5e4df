//! [`NapiDevice`]: a UDP socket whose receive queue is polled with it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use softtimers_core::Clock;
use softtimers_linux::clock::Monotonic;

use super::{Driven, Queue};
use crate::poller::{Device, Drops, Packet, Received, Sent, UdpDevice, UdpOutput};

/// A UDP socket whose looks poll the receive queue of its interface: a device for a [`Poller`](crate::poller::Poller).
///
/// The poller's policy decides between polls and interrupts. It begins with interrupts, since the first packet names the
/// queue. Where there is none to be polled it stays so: [`driven`](Self::driven) has the reason.
///
/// Receive times of the kernel are those of polls.
#[derive(Debug)]
pub struct NapiDevice {
    device: UdpDevice,
    max_delay: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It is not looked for.
    Left,
    /// No packet has come.
    Unknown,
    Found(Queue),
    FellBack(io::Error),
}

impl NapiDevice {
    /// Makes a device of `device`. A packet that nobody polls for is received by the kernel after `max_delay`: give at least
    /// the policy's longest delay, such as [`BACKUP`](super::BACKUP).
    pub fn new(device: UdpDevice, max_delay: Duration) -> Self {
        NapiDevice { device, max_delay, state: State::Unknown }
    }

    /// Makes a device that leaves its queue alone, for a program that chooses at run time.
    pub fn by_interrupts(device: UdpDevice) -> Self {
        NapiDevice { device, max_delay: Duration::ZERO, state: State::Left }
    }

    /// Returns how packets are received now.
    pub fn driven(&self) -> Driven {
        match &self.state {
            State::FellBack(error) => Driven::FellBack(io::Error::new(error.kind(), error.to_string())),
            State::Found(queue) if queue.is_polled() => Driven::Polls,
            _ => Driven::Interrupts,
        }
    }

    /// Returns the queue, once it is known.
    pub fn queue(&self) -> Option<&Queue> {
        match &self.state {
            State::Found(queue) => Some(queue),
            _ => None,
        }
    }

    /// Returns the socket's device.
    pub fn device(&self) -> &UdpDevice {
        &self.device
    }

    fn find(&mut self) {
        let found = Queue::of(&self.device, self.max_delay)
            .and_then(|queue| Queue::prepare(&self.device).map(|()| queue));
        self.state = found.map_or_else(State::FellBack, State::Found);
    }

    /// Keeps the reason if a change was not possible: packets go on to come by interrupts.
    fn changed(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            self.state = State::FellBack(error);
        }
    }
}

impl Device for NapiDevice {
    type Address = std::net::SocketAddr;
    type Transmitter = UdpOutput;

    fn poll_rx(
        &mut self,
        quota: usize,
        sink: impl FnMut(Packet<'_, Self::Address>, &mut UdpOutput),
    ) -> io::Result<Received> {
        let received = self.device.poll_rx(quota, sink)?;
        match &mut self.state {
            State::Unknown if received.done > 0 => self.find(),
            State::Found(queue) => {
                let outcome = queue.busy(Monotonic.now());
                self.changed(outcome);
            }
            _ => {}
        }
        Ok(received)
    }

    fn poll_tx(&mut self, quota: usize) -> io::Result<Sent> {
        self.device.poll_tx(quota)
    }

    fn transmitter(&mut self) -> &mut UdpOutput {
        self.device.transmitter()
    }

    fn arm(&mut self) -> io::Result<bool> {
        if let State::Found(queue) = &mut self.state {
            let outcome = queue.idle(&self.device);
            self.changed(outcome);
        }
        self.device.arm()
    }

    fn drops(&mut self) -> io::Result<Drops> {
        self.device.drops()
    }
}

impl AsFd for NapiDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
