//! One interface of a forwarder, as a device that keeps counts: [`Port`], and its [`Ledger`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem::{replace, take};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_bpf::FastTurns;
use softtimers_net::poller::{
    Device, Drops, FrameInfo, Left, Packet, PacketDevice, Received, Sent, Transmit, XdpDevice,
};

use crate::forwarder::engine::{Counted, RunEnd};
use crate::forwarder::stats::{MadeStats, Stats};
use crate::forwarder::volume::Volume;

/// A device that drives an interface.
pub(crate) trait Wire: Device<Address = FrameInfo> + AsFd {
    /// Frames that its output took and then dropped.
    fn lost(&mut self) -> u64;

    /// The longest frame that its rings have room for, if that is bounded.
    fn room(&self) -> Option<usize>;
}

impl Wire for PacketDevice {
    fn lost(&mut self) -> u64 {
        self.transmitter().dropped()
    }

    /// Always `None`: a frame too long for a slot comes by a system call.
    fn room(&self) -> Option<usize> {
        None
    }
}

impl Wire for XdpDevice {
    fn lost(&mut self) -> u64 {
        self.transmitter().dropped()
    }

    fn room(&self) -> Option<usize> {
        Some(self.longest())
    }
}

/// An interface as one end of the forwarder.
#[derive(Debug)]
pub(crate) struct Port<D> {
    device: D,
    ledger: Rc<RefCell<Ledger>>,
    until: RunEnd,
    /// Frames that came in.
    came: u64,
    /// Frames that came in since the last count.
    received: Volume,
    /// Drops of its output at the last check.
    lost: u64,
    /// Drops before or in the ring at the last check, and how many of them are counted.
    ring: u64,
    counted_ring: u64,
    /// Reports this port's turns to the programs in the kernel.
    turns: Option<FastTurns>,
    /// Whether its last turn took frames; some of them may have come up after the turn began.
    took: bool,
}

/// Frames waiting at an output, with their arrival times, and those sent or lost since the last count.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The time of the last receive, which stands for the arrival where no device knows it.
    pub(crate) turn: Timestamp,
    waiting: VecDeque<Departure>,
    /// Frames that came in at the other interface and have left.
    forwarded: Volume,
    /// Frames lost here.
    lost: Volume,
    /// Frames made by the forwarder.
    made: MadeStats,
    latencies: Vec<u64>,
}

/// A frame that waits to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Departure {
    /// It came in at the other interface.
    Forwarded {
        /// The time of its arrival.
        arrived: Timestamp,
        /// The length in bytes.
        length: usize,
    },
    /// The forwarder made it.
    Made,
}

impl<D: Wire> Port<D> {
    /// Wraps a device from which nothing was taken yet.
    pub(crate) fn new(device: D, until: RunEnd, turns: Option<FastTurns>) -> Self {
        Port {
            device,
            ledger: Rc::default(),
            until,
            came: 0,
            received: Volume::default(),
            lost: 0,
            ring: 0,
            counted_ring: 0,
            turns,
            took: false,
        }
    }

    /// Returns the ledger of its output.
    pub(crate) fn ledger(&self) -> &Rc<RefCell<Ledger>> {
        &self.ledger
    }

    /// Sends a frame that the forwarder made, at once if the output takes it.
    pub(crate) fn send_made(&mut self, frame: &[u8]) {
        let taken = self.device.transmitter().queue(frame, None);
        self.ledger.borrow_mut().takes_made(taken);
        // A frame that cannot leave now leaves with the next one.
        let _ = self.poll_tx(BATCH);
    }

    /// Reports that a turn that [began](FastTurns::begin) then is over.
    fn tell(&mut self, began: Option<u64>) {
        // If the kernel refuses it, the turn does not count: its programs then hold frames back longer than needed, but
        // no frame is lost uncounted.
        let _ = self.turns.as_mut().zip(began).map(|(turns, began)| turns.took(began));
    }

    /// Settles the ledger with the device's counts: the oldest waiting frames were sent, the next ones lost.
    fn settle(&mut self, sent: usize) {
        let lost = self.device.lost();
        let new = lost - replace(&mut self.lost, lost);
        if sent > 0 || new > 0 {
            self.ledger.borrow_mut().have_left(sent, new);
        }
    }
}

impl<D: Wire> Counted for Port<D> {
    fn received(&self) -> u64 {
        self.came
    }

    fn count(&mut self, end: usize, stats: &mut Stats) {
        let mut ledger = self.ledger.borrow_mut();
        let counted = &mut stats.ends[end];
        counted.received += &take(&mut self.received);
        counted.sent += &take(&mut ledger.forwarded);
        counted.dropped.output += &take(&mut ledger.lost);
        counted.dropped.ring += self.ring.saturating_sub(replace(&mut self.counted_ring, self.ring));
        ledger.latencies.drain(..).for_each(|latency| stats.latency.record(latency));
        stats.interfaces.get_or_insert_default().made += &take(&mut ledger.made);
    }

    /// # Errors
    /// `ENODEV` if the interface was removed.
    fn ask(&mut self) -> io::Result<()> {
        match self.device.drops() {
            Ok(drops) => self.ring = drops.ring + drops.interface,
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => return Err(error),
            // A system without this count stays without it.
            Err(_) => {}
        }
        // Frames that came up without getting into the ring wait no longer.
        self.tell(self.turns.as_ref().map(|_| FastTurns::begin()));
        Ok(())
    }

    fn flush(&mut self) {
        while let Ok(Sent { left: Left::More, .. }) = self.poll_tx(BATCH) {}
        self.ledger.borrow_mut().abandon();
    }
}

impl<D: Wire> Device for Port<D> {
    type Address = FrameInfo;
    type Transmitter = D::Transmitter;

    fn poll_rx(
        &mut self,
        quota: usize,
        mut sink: impl FnMut(Packet<'_, FrameInfo>, &mut Self::Transmitter),
    ) -> io::Result<Received> {
        let mut done = 0;
        let began = self.turns.as_ref().map(|_| FastTurns::begin());
        loop {
            self.ledger.borrow_mut().turn = Monotonic.now();
            let (received, came) = (&mut self.received, &mut self.came);
            let turn = self.device.poll_rx((quota - done).min(BATCH), |packet, output| {
                received.count(packet.bytes.len());
                *came += 1;
                sink(packet, output);
            })?;
            done += turn.done;
            if !turn.more || done >= quota || self.until.is_reached(self.came) {
                // An empty turn reports the frames that came up during the one before.
                let took = replace(&mut self.took, done > 0);
                self.tell(began.filter(|_| took || done > 0));
                return Ok(Received { done, more: turn.more });
            }
        }
    }

    fn poll_tx(&mut self, quota: usize) -> io::Result<Sent> {
        let sent = self.device.poll_tx(quota);
        self.settle(sent.as_ref().map_or(0, |sent| sent.done));
        sent
    }

    fn transmitter(&mut self) -> &mut Self::Transmitter {
        self.device.transmitter()
    }

    fn arm(&mut self) -> io::Result<bool> {
        self.device.arm()
    }

    fn watchdog_period(&self) -> Option<Duration> {
        self.device.watchdog_period()
    }

    fn watchdog(&mut self) -> io::Result<()> {
        self.device.watchdog()
    }

    /// The frames dropped here are [counted](Counted::count) with their bytes.
    fn drops(&mut self) -> io::Result<Drops> {
        Ok(Drops { ring: self.ring, ..Drops::default() })
    }
}

impl<D: AsFd> AsFd for Port<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Ledger {
    #[inline]
    pub(crate) fn waits(&mut self, departure: Departure) {
        self.waiting.push_back(departure);
    }

    /// Records a frame that the forwarder made: waiting if the output took it, else lost.
    pub(crate) fn takes_made(&mut self, taken: bool) {
        if taken {
            self.waits(Departure::Made);
        } else {
            self.made.lost += 1;
        }
    }

    /// Counts the first `sent` as sent, and the `lost` behind them as lost. Their true order within a turn is unknown,
    /// and does not affect the sums.
    fn have_left(&mut self, sent: usize, lost: u64) {
        let now = Monotonic.now();
        for departure in self.waiting.drain(..sent.min(self.waiting.len())) {
            match departure {
                Departure::Forwarded { arrived, length } => {
                    self.forwarded.count(length);
                    self.latencies.push(now.saturating_duration_since(arrived).as_nanos() as u64);
                }
                Departure::Made => self.made.sent += 1,
            }
        }
        let lost = usize::try_from(lost).unwrap_or(usize::MAX).min(self.waiting.len());
        self.lose(lost);
    }

    /// Counts the first `number` as lost.
    fn lose(&mut self, number: usize) {
        for departure in self.waiting.drain(..number) {
            match departure {
                Departure::Forwarded { length, .. } => self.lost.count(length),
                Departure::Made => self.made.lost += 1,
            }
        }
    }

    fn abandon(&mut self) {
        self.lose(self.waiting.len());
    }
}

/// Frames between two checks whether the run is over.
const BATCH: usize = 64;
