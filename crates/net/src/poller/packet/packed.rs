//! [`PackedDevice`]: an interface to capture from, with frames packed one behind the other.
//!
//! ```text
//!   interface ─▶ filter ─▶ block, until it is full or its time is over ─▶ handler
//!                            └ the next one is not free: counted by the kernel ([`Drops::ring`])
//! ```
//!
//! A frame of 60 bytes takes 144 of the ring, where a [slot](super::PacketDevice) for any frame takes 2 KiB:
//! the same memory buffers 14 times as long, and one wake-up serves a block. The cost is delay, because a
//! frame cannot be read before its block is handed over. So it is for recording frames, not for forwarding:
//! it sends nothing.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::param::page_size;
use rustix::time::{ClockId, clock_getres};
use softtimers::RealtimeOffset;
use softtimers_linux::packet;
use softtimers_linux::packet_blocks::{BLOCK_HEADER, BlockRing, PACKET_HEADER, Packed};
use softtimers_linux::packet_ring::TAG;

use super::body::{Body, Listening};
use super::config::invalid;
use super::tagged;
use crate::packet::{Filter, Interface};
use crate::poller::device::{Device, Drops, Left, Packet, Received, Sent, Transmit};
use crate::poller::frame::{FrameInfo, FrameKind};

/// The settings of a [`PackedDevice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedConfig {
    /// The size of a block in bytes: a power of two of at least 4 KiB, and of at least a page. It bounds the
    /// longest frame; longer ones are [truncated](PackedConfig::longest).
    pub block: usize,
    /// The number of blocks, at least two.
    pub blocks: usize,
    /// The longest time until a block with a frame in it is handed over, in whole milliseconds of at least one. Kernels before
    /// 6.18 count in ticks of 1 to 10 ms, and take up to one more.
    ///
    /// Without a reader, each such time uses up a block, however little is in it.
    pub retire: Duration,
    /// Puts the interface into promiscuous mode as long as the device is open.
    pub promiscuous: bool,
    /// Includes frames that this machine sends.
    pub outgoing: bool,
}

impl PackedConfig {
    /// Returns the longest frame for which a block has room, in bytes.
    pub const fn longest(block: usize) -> usize {
        block.saturating_sub(BLOCK_HEADER + PACKET_HEADER)
    }

    /// Returns how much later a block may be handed over here: zero since Linux 6.18, otherwise a tick.
    pub fn lateness() -> Duration {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if version(&release).is_some_and(|version| version >= PRECISE) {
            return Duration::ZERO;
        }
        clock_getres(ClockId::MonotonicCoarse).try_into().unwrap_or(LONGEST_TICK)
    }

    fn check(&self) -> io::Result<u32> {
        let PackedConfig { block, blocks, retire, .. } = *self;
        let least = page_size().max(LEAST_BLOCK);
        if !block.is_power_of_two() || !(least..=MOST_BLOCK).contains(&block) {
            return Err(invalid(format!(
                "blocks of {block} bytes, not a power of two from {least} to {MOST_BLOCK}"
            )));
        }
        if blocks < 2 {
            return Err(invalid(format!("{blocks} blocks, not two at least")));
        }
        match u32::try_from(retire.as_millis()) {
            Ok(millis @ 1..) => Ok(millis),
            _ => Err(invalid(format!("{retire:?} until a block is handed over, not 1 ms at least"))),
        }
    }
}

/// An interface's ring of blocks, for a [`Poller`](crate::poller::Poller).
#[derive(Debug)]
pub struct PackedDevice {
    body: Body,
    ring: BlockRing,
    output: NoOutput,
    /// Frames that came into the ring.
    came: u64,
}

/// The output of a device that has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoOutput;

impl PackedDevice {
    /// Opens a device for the frames of this interface that `filter` keeps, truncated as it says.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; `InvalidInput` for an invalid ring size, or a filter that
    /// the kernel rejects; `OutOfMemory` if the kernel has no room for the ring; what else the system says.
    pub fn open(interface: &Interface, config: &PackedConfig, filter: &Filter) -> io::Result<Self> {
        let retire = config.check()?;
        let PackedConfig { promiscuous, outgoing, .. } = *config;
        let mut ring = None;
        let body =
            Body::open(interface, Listening { promiscuous, outgoing, filter: Some(filter) }, |socket| {
                ring = Some(BlockRing::map(socket, config.blocks, config.block, retire)?);
                Ok(())
            })?;
        Ok(PackedDevice { body, ring: ring.ok_or(Errno::INVAL)?, output: NoOutput, came: 0 })
    }

    /// Returns the number of times that the interface was found switched off.
    pub fn outages(&self) -> u64 {
        self.body.presence.outages
    }

    /// Returns whether the interface was removed: the device is then useless.
    pub fn is_gone(&self) -> bool {
        self.body.presence.is_gone()
    }

    /// Accepts no more frames. Earlier ones are still handed over, in time: see [`waiting`](Self::waiting).
    ///
    /// # Errors
    /// The system's error.
    pub fn close(&self) -> io::Result<()> {
        self.body.close()
    }

    /// Returns the number of frames that are in the ring, of which some may not be handed over yet. A system call.
    ///
    /// # Errors
    /// The system's error.
    pub fn waiting(&mut self) -> io::Result<u64> {
        self.count()?;
        Ok(self.came.saturating_sub(self.body.losses.looked))
    }

    fn count(&mut self) -> io::Result<()> {
        let [came, dropped] = packet::take_counters(self.body.socket.as_fd())?;
        self.came += u64::from(came.wrapping_sub(dropped));
        self.body.drops.ring += u64::from(dropped);
        Ok(())
    }

    fn look_for_silence(&mut self) -> io::Result<()> {
        self.body.look_for_removal()?;
        self.count()
    }
}

impl Device for PackedDevice {
    type Address = FrameInfo;
    type Transmitter = NoOutput;

    /// # Errors
    /// `ENODEV` once, if the interface was removed.
    fn poll_rx(
        &mut self,
        quota: usize,
        mut sink: impl FnMut(Packet<'_, FrameInfo>, &mut NoOutput),
    ) -> io::Result<Received> {
        self.body.presence.tell()?;
        let Self { body, ring, output, .. } = self;
        let Body { realtime, drops, losses, outgoing, .. } = body;
        let (mut done, mut looked) = (0, 0);
        while looked < quota {
            let Some(mut packed) = ring.take() else { break };
            if looked == 0 {
                realtime.refresh();
            }
            looked += 1;
            losses.tagged += u64::from(packed.tag().is_some());
            let kind = FrameKind::of_kernel(packed.kind());
            if kind == FrameKind::Outgoing && !*outgoing {
                continue;
            }
            match packet(&mut packed, kind, realtime) {
                Some(packet) => {
                    done += 1;
                    sink(packet, output);
                }
                None => drops.ring += 1,
            }
        }
        body.took(looked);
        Ok(Received { done, more: looked == quota && self.ring.is_ready() })
    }

    fn poll_tx(&mut self, _: usize) -> io::Result<Sent> {
        Ok(Sent { done: 0, left: Left::Nothing })
    }

    fn transmitter(&mut self) -> &mut NoOutput {
        &mut self.output
    }

    fn arm(&mut self) -> io::Result<bool> {
        let ring = &self.ring;
        Ok(self.body.arm(|| ring.is_ready()))
    }

    fn watchdog_period(&self) -> Option<Duration> {
        self.body.watchdog_period()
    }

    /// Finds out whether the interface was removed.
    ///
    /// # Errors
    /// `ENODEV` once, if it was.
    fn watchdog(&mut self) -> io::Result<()> {
        self.look_for_silence()
    }

    /// # Errors
    /// `ENODEV` once, if the interface was removed and nothing else has told it.
    fn drops(&mut self) -> io::Result<Drops> {
        self.look_for_silence()?;
        Ok(self.body.drops())
    }
}

impl AsFd for PackedDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.body.socket.as_fd()
    }
}

impl Transmit for NoOutput {
    type Address = FrameInfo;

    fn queue(&mut self, _: &[u8], _: Option<FrameInfo>) -> bool {
        false
    }
}

/// Returns the frame, with its tag; `None` if it is malformed.
fn packet<'a>(
    packed: &'a mut Packed<'_>,
    kind: FrameKind,
    realtime: &RealtimeOffset,
) -> Option<Packet<'a, FrameInfo>> {
    let (tag, length, received) = (packed.tag(), packed.frame_length(), packed.received());
    let verified = packed.is_verified();
    let bytes = packed.bytes()?;
    let truncated = bytes.len() - TAG < length;
    let length = (length + if tag.is_some() { TAG } else { 0 }) as u32;
    let from = FrameInfo { verified, length, received: Some(received), kind, ..FrameInfo::default() };
    Some(Packet { bytes: tagged(bytes, tag)?, from, arrived: Some(realtime.monotonic(received)), truncated })
}

/// Returns the first two numbers of a release; `None` if it does not begin with numbers.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Linux hands blocks over by a timer of its own kind since then, whatever its tick.
const PRECISE: (u32, u32) = (6, 18);
const LONGEST_TICK: Duration = Duration::from_millis(10);
const LEAST_BLOCK: usize = 4_096;
/// The largest contiguous allocation of the kernel on all machines.
const MOST_BLOCK: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_that_cannot_be_are_refused() {
        let fits = PackedConfig {
            block: 1 << 17,
            blocks: 2,
            retire: Duration::from_millis(1),
            promiscuous: false,
            outgoing: false,
        };
        assert_eq!(fits.check().unwrap(), 1);
        for wrong in [
            PackedConfig { block: 100_000, ..fits },
            PackedConfig { block: 2_048, ..fits },
            PackedConfig { block: page_size() / 2, ..fits },
            PackedConfig { blocks: 1, ..fits },
            PackedConfig { retire: Duration::from_micros(999), ..fits },
        ] {
            assert_eq!(wrong.check().unwrap_err().kind(), io::ErrorKind::InvalidInput, "{wrong:?}");
        }
        assert_eq!((version("6.18.44-x"), version("7"), version("a.b")), (Some((6, 18)), None, None));
        assert!(PackedConfig::lateness() <= LONGEST_TICK);
    }
}
