//! Devices that a poller drives, [`Device`], and their output, [`Transmit`].

use std::io;
use std::time::Duration;

use softtimers_core::Timestamp;

/// A received packet, valid during its turn.
#[derive(Debug)]
pub struct Packet<'a, A> {
    /// The packet. It may be changed in place, as a forwarder does.
    pub bytes: &'a mut [u8],
    /// The address that it came from.
    pub from: A,
    /// When it arrived, if the device knows.
    pub arrived: Option<Timestamp>,
    /// It was longer than the device's buffer, and its end is lost.
    pub truncated: bool,
}

/// The result of a turn of receiving.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Packets that were received in this turn.
    pub done: usize,
    /// Whether the turn ended because of its quota, and there may be more; otherwise the ring was seen empty.
    pub more: bool,
}

/// The result of a turn of transmitting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Packets that left in this turn.
    pub done: usize,
    /// The packets left in the queue.
    pub left: Left,
}

/// The state in which a turn of transmitting left the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// The queue is empty.
    Nothing,
    /// The turn ended because of its quota.
    More,
    /// The output is full: it is tried again a little later.
    Blocked,
}

/// Dropped packets by stage, as running totals, from the cheapest stage to the most expensive: the further a
/// packet got, the more work was wasted on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    /// At the interface, before the kernel or the device's ring saw them.
    pub interface: u64,
    /// In the ring, or in a socket's receive buffer, before this process spent any time on them.
    pub ring: u64,
    /// By a rule, or because they could not be handled.
    pub rule: u64,
    /// At a queue between two stages.
    pub queue: u64,
    /// At the output, because its queue was full.
    pub output: u64,
}

impl Drops {
    /// Returns the sum over all stages.
    pub fn total(&self) -> u64 {
        self.interface + self.ring + self.rule + self.queue + self.output
    }

    /// Returns the sum of two counts, stage by stage.
    #[must_use]
    pub fn plus(&self, other: &Drops) -> Drops {
        Drops {
            interface: self.interface + other.interface,
            ring: self.ring + other.ring,
            rule: self.rule + other.rule,
            queue: self.queue + other.queue,
            output: self.output + other.output,
        }
    }
}

/// An output for packets, behind a bounded queue: if the output is busy and the queue full, the packet is
/// dropped here and counted, instead of waiting (livelock §6.4 keeps this queue, and no other).
pub trait Transmit {
    /// The destination of a packet.
    type Address;

    /// Queues a copy of `bytes`, to `to` or the device's default destination; returns `false` if it was
    /// dropped for want of room.
    fn queue(&mut self, bytes: &[u8], to: Option<Self::Address>) -> bool;
}

/// A source of packets that a [`Poller`](super::Poller) drives: the callbacks that a driver registers (livelock
/// §6.4: received packets, transmitted packets, enabling interrupts), with quotas.
///
/// None of them may block. An error ends the poller's round and is returned to its caller; the device itself
/// counts errors about a single packet, such as an ICMP answer.
pub trait Device {
    /// The source or the destination of a packet.
    type Address: Copy;
    /// The device's output.
    type Transmitter: Transmit<Address = Self::Address>;

    /// Takes at most `quota` packets and gives each to `sink`, with this device's own output: each is
    /// processed to completion before the next is taken, without a queue in between.
    ///
    /// # Errors
    /// An error that makes the device unusable.
    fn poll_rx(
        &mut self,
        quota: usize,
        sink: impl FnMut(Packet<'_, Self::Address>, &mut Self::Transmitter),
    ) -> io::Result<Received>;

    /// Reclaims sent packets and sends queued ones, at most `quota` packets.
    ///
    /// # Errors
    /// An error that makes the device unusable.
    fn poll_tx(&mut self, quota: usize) -> io::Result<Sent>;

    /// Returns the device's output.
    fn transmitter(&mut self) -> &mut Self::Transmitter;

    /// Called after the wake-up was enabled ("enable interrupts"): returns whether the ring is still empty. A
    /// packet that came just before the wake-up was enabled would cause no wake-up, so a device with
    /// edge-triggered wake-ups must check. One whose descriptor is readable as long as packets are there need
    /// not: the kernel checks.
    ///
    /// # Errors
    /// An error that makes the device unusable.
    fn arm(&mut self) -> io::Result<bool>;

    /// Returns the period in which to call [`watchdog`](Device::watchdog), for a device whose ring can stop,
    /// or end, without a wake-up. `None`: its wake-ups always come.
    fn watchdog_period(&self) -> Option<Duration> {
        None
    }

    /// Detects a stopped ring, and restarts it. Also called while the wake-up is enabled and the device is
    /// not polled.
    ///
    /// # Errors
    /// An error that makes the device unusable.
    fn watchdog(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the device's drops so far.
    ///
    /// # Errors
    /// If the system does not report them.
    fn drops(&mut self) -> io::Result<Drops>;
}
