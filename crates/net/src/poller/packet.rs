//! An interface as a device, by AF_PACKET, with frames handled in place. Needs `CAP_NET_RAW`.
//!
//! A packet socket gets a copy of each frame that arrives, for any destination, in a ring that it shares with
//! the kernel. Checking for one is a load, and it is changed in place; one system call sends a batch. So an
//! empty turn costs some nanoseconds, and one that forwards a quota two system calls.
//!
//! ```text
//!   interface ──▶ ring ── up to the quota ──▶ handler ──▶ PacketOutput ── sendmmsg ──▶ interface
//!                  └ full: counted by the kernel             └ full: dropped, counted
//!                    ([`Drops::ring`])
//! ```
//!
//! Frames are as on the wire, with the tags that the kernel had taken out. [`FrameInfo`] describes the
//! sender's offloads, checksums and segmentation: passed on with the frame, they are done by the output
//! interface, or by the kernel. Joined frames of up to 64 KiB, which do not fit a slot, cost a system call
//! each.
//!
//! The machine itself gets these frames too, as without the device; configure it not to handle them. Frames
//! that it sends by the interface, through this device or otherwise, do not come back.
//!
//! # When the link goes down
//! That is only [counted](PacketDevice::outages): frames come again when it is up again. Frames that wait to
//! be sent meanwhile are dropped and counted, rather than sent when stale. When the interface is removed, the
//! next turn, or the next call of [drops](Device::drops), fails with `ENODEV`, once, and no frame comes
//! afterwards; a sleeping poller checks once a second.
//!
//! # Several CPUs
//! Use one poller for each, with a share of the interface's frames: [`PacketDevice::sharded`]. Frames of one
//! flow go to one share, so they stay in order.
//!
//! ```no_run
//! use softtimers_poll::{DelayBound, DelayBoundConfig, SourceConfig};
//! use softtimers_net::packet::Interface;
//! use softtimers_net::poller::{PacketConfig, PacketDevice, Poller};
//!
//! let config = PacketConfig { promiscuous: true, ..PacketConfig::default() };
//! let mut poller = Poller::new()?;
//! let mut port = |name: &str| {
//!     let device = PacketDevice::open(&Interface::named(name)?, &config)?;
//!     poller.add(device, SourceConfig::new(DelayBound::new(DelayBoundConfig::default())))
//! };
//! let (left, right) = (port("eth0")?, port("eth1")?);
//! loop {
//!     poller.wait(None, |frame, outputs| {
//!         let to = if outputs.from() == left { right } else { left };
//!         outputs.send(to, frame.bytes, Some(frame.from));
//!     })?;
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), std::io::Error>(())
//! ```

mod blocks;
mod body;
mod config;
mod output;
mod presence;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use softtimers::RealtimeOffset;
use softtimers_linux::packet::{self, OFFLOAD_HEADER};
use softtimers_linux::packet_blocks::BlockRing;
use softtimers_linux::packet_ring::{RxRing, Slot, TAG};
use softtimers_linux::sockopt;

use super::device::{Device, Drops, Packet, Received, Sent};
use super::frame::{FrameInfo, FrameKind};
use crate::packet::{Filter, Interface, Offload};

pub use blocks::Blocks;
use body::{Body, Listening};
pub use config::PacketConfig;
pub use output::PacketOutput;

/// An interface's ring and its output, for a [`Poller`](super::Poller).
#[derive(Debug)]
pub struct PacketDevice {
    body: Body,
    ring: Ring,
    output: PacketOutput,
    /// For frames that have no room in a slot.
    long: Vec<u8>,
    /// Frames that came into the ring.
    came: u64,
    /// Slots read at the last query of drops.
    looked_before: u64,
    renewals: u64,
}

#[derive(Debug)]
enum Ring {
    Slots(RxRing),
    Blocks(BlockRing),
}

impl Ring {
    fn take(&mut self) -> Option<Slot<'_>> {
        match self {
            Ring::Slots(ring) => ring.take(),
            Ring::Blocks(ring) => ring.take(),
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Ring::Slots(ring) => ring.is_ready(),
            Ring::Blocks(ring) => ring.is_ready(),
        }
    }
}

impl PacketDevice {
    /// Opens a device for all frames of this interface, from now on.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; `InvalidInput` for an invalid ring size; `OutOfMemory` if
    /// the kernel has no room for the ring; what else the system says.
    pub fn open(interface: &Interface, config: &PacketConfig) -> io::Result<Self> {
        PacketDevice::open_with(interface, config, None)
    }

    /// Opens a device for the frames of this interface that `filter` keeps, truncated as it says: others are
    /// not copied and cause no wake-up. [`FrameInfo::length`] has the length of a truncated frame.
    ///
    /// The filter sees frames without the tags that the interface has taken out, as in other programs.
    ///
    /// # Errors
    /// As [`open`](PacketDevice::open); also `InvalidInput` for a filter that the kernel rejects.
    pub fn filtered(interface: &Interface, config: &PacketConfig, filter: &Filter) -> io::Result<Self> {
        PacketDevice::open_with(interface, config, Some(filter))
    }

    fn open_with(interface: &Interface, config: &PacketConfig, filter: Option<&Filter>) -> io::Result<Self> {
        config.check()?;
        let PacketConfig { promiscuous, outgoing, .. } = *config;
        let mut ring = None;
        let body = Body::open(interface, Listening { promiscuous, outgoing, filter }, |socket| {
            if let Some(blocks) = config.blocks {
                ring = Some(Ring::Blocks(blocks.map(socket)?));
                return Ok(());
            }
            ring = Some(Ring::Slots(RxRing::map(socket, config.slots, config.max_frame)?));
            // The kernel grants what it likes.
            sockopt::request_recv_buffer(socket, LONG_FRAMES).map(drop)
        })?;
        Ok(PacketDevice {
            body,
            ring: ring.ok_or(Errno::INVAL)?,
            output: PacketOutput::open(interface, config)?,
            long: Vec::new(),
            came: 0,
            looked_before: 0,
            renewals: 0,
        })
    }

    /// Opens `shares` devices for the frames of this interface, each to be driven by its own thread. A flow's
    /// frames, of both directions, stay together and in order, by a hash of addresses and ports. The first share reports
    /// [`Drops::interface`].
    ///
    /// # Errors
    /// As [`open`](PacketDevice::open); `InvalidInput` for no shares or more than 256, for a ring of
    /// [blocks](PacketConfig::blocks), and with some kernels for an interface that is switched off.
    pub fn sharded(interface: &Interface, config: &PacketConfig, shares: usize) -> io::Result<Vec<Self>> {
        // Frames of an open block, which came before all were set up, could not be discarded below.
        if !(1..=256).contains(&shares) || config.blocks.is_some() {
            return Err(config::invalid(format!("{shares} shares of an interface, not 1 to 256 with slots")));
        }
        let mut devices: Vec<Self> = Vec::with_capacity(shares);
        for _ in 0..shares {
            let mut device = PacketDevice::open(interface, config)?;
            let group = devices.first().map(|first| packet::group(first.as_fd())).transpose()?;
            packet::join_group(device.as_fd(), libc::PACKET_FANOUT_HASH, group)?;
            if group.is_some() {
                device.body.losses.leave_to_another();
            }
            devices.push(device);
        }
        // Discard frames that came before all were set up, some of them several times.
        for device in &mut devices {
            (0..device.slots()).map_while(|_| device.ring.take().map(drop)).for_each(drop);
            let _ = packet::take_counters(device.as_fd());
        }
        Ok(devices)
    }

    /// Returns the number of times that the interface was found switched off.
    pub fn outages(&self) -> u64 {
        self.body.presence.outages
    }

    /// Returns whether the interface was removed: the device is then useless.
    pub fn is_gone(&self) -> bool {
        self.body.presence.is_gone()
    }

    /// Returns the number of frames that the ring has room for; zero for a ring of blocks, where it depends on the frames.
    pub fn slots(&self) -> usize {
        if let Ring::Slots(ring) = &self.ring { ring.slots() } else { 0 }
    }

    /// Returns the number of frames in the ring, by the kernel's counts: frames in an open block are among them.
    ///
    /// # Errors
    /// The system's error.
    pub fn waiting(&mut self) -> io::Result<u64> {
        self.count()?;
        Ok(self.came.saturating_sub(self.body.losses.looked))
    }

    /// Reads the kernel's counters, and returns the number of frames dropped since then.
    fn count(&mut self) -> io::Result<u32> {
        let [came, dropped] = packet::take_counters(self.body.socket.as_fd())?;
        self.came += u64::from(came.wrapping_sub(dropped));
        self.body.drops.ring += u64::from(dropped);
        Ok(dropped)
    }

    /// Returns how often the ring was rebuilt. A frame that Linux cannot describe, segmented by another
    /// protocol, stops a ring of this kind: all later frames are dropped, and counted ([`Drops::ring`]), and
    /// the slot for that frame is never released (seen with Linux 6.18; `tpacket_rcv` keeps the slot's owner
    /// bit). Virtual machines can send such frames. It causes no wake-up; a [`Poller`](super::Poller) detects
    /// it within two seconds of the first lost frame ([`Device::watchdog`]), [`Device::drops`] sooner, at the
    /// latest at its second call.
    pub fn renewals(&self) -> u64 {
        self.renewals
    }

    /// Accepts no more frames, whatever the filter was. Earlier ones stay in the ring.
    ///
    /// # Errors
    /// The system's error.
    pub fn close(&self) -> io::Result<()> {
        self.body.close()
    }

    /// Checks for events without a wake-up: the interface was removed, or the ring has stopped, so that frames
    /// were dropped although it was empty all the time.
    fn look_for_silence(&mut self) -> io::Result<()> {
        self.body.look_for_removal()?;
        let dropped = self.count()?;
        let Ring::Slots(ring) = &mut self.ring else { return Ok(()) };
        let looked = self.body.losses.looked;
        let untouched = std::mem::replace(&mut self.looked_before, looked) == looked;
        if dropped > 0 && untouched && !ring.is_ready() {
            self.renewals += 1;
            ring.renew(self.body.socket.as_fd())?;
            // Frames that another CPU was still writing came, and are lost with the old ring.
            self.body.drops.ring += std::mem::replace(&mut self.came, looked).saturating_sub(looked);
        }
        Ok(())
    }
}

impl Device for PacketDevice {
    type Address = FrameInfo;
    type Transmitter = PacketOutput;

    /// # Errors
    /// `ENODEV` once, if the interface was removed.
    fn poll_rx(
        &mut self,
        quota: usize,
        mut sink: impl FnMut(Packet<'_, FrameInfo>, &mut PacketOutput),
    ) -> io::Result<Received> {
        self.body.presence.tell()?;
        let Self { body, ring, output, long, .. } = self;
        let Body { socket, realtime, outgoing, drops, losses, .. } = body;
        let (mut done, mut looked, mut is_link_down) = (0, 0, false);
        while looked < quota {
            let Some(mut slot) = ring.take() else { break };
            if looked == 0 {
                realtime.refresh();
            }
            looked += 1;
            let copied = slot.has_copy() && {
                let copy = fetch(socket.as_fd(), long, &slot);
                is_link_down |= copy.is_link_down;
                copy.is_whole
            };
            if slot.is_outgoing() && !*outgoing {
                continue;
            }
            losses.tagged += u64::from(slot.tag().is_some());
            let whole = copied.then_some(&mut long[..]);
            match packet(&mut slot, whole, realtime) {
                Some(packet) => {
                    done += 1;
                    sink(packet, output);
                }
                None => drops.ring += 1,
            }
        }
        let more = looked == quota && ring.is_ready();
        body.took(looked);
        if is_link_down {
            body.presence.link_is_down(body.socket.as_fd());
        }
        Ok(Received { done, more })
    }

    fn poll_tx(&mut self, quota: usize) -> io::Result<Sent> {
        let sent = self.output.send(quota);
        if sent.is_link_down {
            self.body.presence.link_is_down(self.body.socket.as_fd());
        }
        Ok(Sent { done: sent.done, left: sent.left })
    }

    fn transmitter(&mut self) -> &mut PacketOutput {
        &mut self.output
    }

    /// The kernel checks the newest frame when the wake-up is enabled, and another CPU may still be writing
    /// that one when an older one is there. So this checks the oldest once more.
    fn arm(&mut self) -> io::Result<bool> {
        let ring = &self.ring;
        Ok(self.body.arm(|| ring.is_ready()))
    }

    /// A second: a poller wakes up this often for this device alone.
    fn watchdog_period(&self) -> Option<Duration> {
        self.body.watchdog_period()
    }

    /// Rebuilds a [ring that has stopped](PacketDevice::renewals). One system call.
    ///
    /// # Errors
    /// `ENODEV` once, if the interface was removed and that was not reported yet: it goes down first, with a
    /// wake-up, and is then removed without one.
    fn watchdog(&mut self) -> io::Result<()> {
        self.look_for_silence()
    }

    /// The interface's drops are those that it counts as dropped or missed since the device was opened. It
    /// also counts frames with tags that the machine itself does not use; those that came through the ring
    /// are subtracted, and the same share of those that the ring dropped. Takes some ten microseconds. Also
    /// does the [watchdog](Device::watchdog)'s check.
    ///
    /// # Errors
    /// `ENODEV` once, if the interface was removed and that was not reported yet.
    fn drops(&mut self) -> io::Result<Drops> {
        self.look_for_silence()?;
        Ok(Drops { output: self.output.dropped(), ..self.body.drops() })
    }
}

impl AsFd for PacketDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.body.socket.as_fd()
    }
}

/// Returns the frame in a slot, or its copy behind its offload header; `None` if both are malformed.
fn packet<'a>(
    slot: &'a mut Slot<'_>,
    whole: Option<&'a mut [u8]>,
    realtime: &RealtimeOffset,
) -> Option<Packet<'a, FrameInfo>> {
    let (tag, length) = (slot.tag(), slot.frame_length());
    let received = slot.received();
    let arrived = Some(realtime.monotonic(received));
    let (verified, kind) = (slot.is_verified(), FrameKind::of_kernel(slot.kind()));
    let offloads = slot.offloads()?;
    let bytes = match whole {
        Some(long) => long.get_mut(OFFLOAD_HEADER - TAG..OFFLOAD_HEADER + length)?,
        None => slot.bytes()?,
    };
    let truncated = bytes.len() - TAG < length;
    let offload = Offload::parse(&offloads);
    let offload = if tag.is_some() { offload.shifted(TAG as u16) } else { offload };
    let bytes = tagged(bytes, tag)?;
    let length = (length + if tag.is_some() { TAG } else { 0 }) as u32;
    let from = FrameInfo { offload, verified, length, received: Some(received), kind };
    Some(Packet { bytes, from, arrived, truncated })
}

/// Returns the frame behind the room for a tag, with its tag if it has one; `None` if it is too short.
fn tagged(bytes: &mut [u8], tag: Option<[u16; 2]>) -> Option<&mut [u8]> {
    let Some([kind, value]) = tag else { return bytes.get_mut(TAG..) };
    bytes.get(..TAG + ADDRESSES)?;
    bytes.copy_within(TAG..TAG + ADDRESSES, 0);
    bytes[ADDRESSES..ADDRESSES + 2].copy_from_slice(&kind.to_be_bytes());
    bytes[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&value.to_be_bytes());
    Some(bytes)
}

/// The copy in the socket's queue of a slot's frame.
struct Copy {
    is_whole: bool,
    is_link_down: bool,
}

/// Fetches the copy of a slot's frame, behind its offloads. It must be fetched even if it is not needed: the
/// next slot's copy is behind it.
fn fetch(socket: BorrowedFd<'_>, long: &mut Vec<u8>, slot: &Slot<'_>) -> Copy {
    long.resize(OFFLOAD_HEADER + LONGEST_FRAME, 0);
    let mut is_link_down = false;
    // The first attempt may fetch an error instead.
    for _ in 0..2 {
        match recv(socket, &mut long[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                return Copy { is_whole: length == OFFLOAD_HEADER + slot.frame_length(), is_link_down };
            }
            Err(error) => is_link_down |= is_link_error(&error.into()),
        }
    }
    Copy { is_whole: false, is_link_down }
}

/// Returns whether the error means that the interface is switched off or removed.
fn is_link_error(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::NETDOWN | Errno::NODEV | Errno::NXIO))
}

/// The longest frame that Linux joins, with Ethernet's header and tags.
const LONGEST_FRAME: usize = 65_536 + 64;
/// Room for some sixty of the longest.
const LONG_FRAMES: usize = 4 << 20;
/// Both addresses of Ethernet's header; a tag is behind them.
const ADDRESSES: usize = 12;

#[cfg(test)]
mod tests;
