//! [`Blocks`]: a ring with frames packed one behind the other.
//!
//! ```text
//!   interface ─▶ filter ─▶ block, until it is full or its time is over ─▶ handler
//!                            └ the next one is not free: counted by the kernel ([`Drops::ring`](crate::poller::Drops::ring))
//! ```
//!
//! A frame of 60 bytes takes 144 of the ring, where a slot for any frame takes 2 KiB: the same memory buffers 14 times
//! as long, and one wake-up serves a block. The cost is delay, because a frame cannot be read before its block is handed
//! over. So it is for recording frames, not for forwarding.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::param::page_size;
use rustix::time::{ClockId, clock_getres};
use softtimers_linux::packet_blocks::{BLOCK_HEADER, BlockRing, PACKET_HEADER};

use super::config::invalid;

/// Blocks in the place of slots: see [`PacketConfig::blocks`](super::PacketConfig::blocks).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// The size of a block in bytes: a power of two of at least 4 KiB, and of at least a page. It bounds the
    /// longest frame; longer ones are [truncated](Blocks::longest).
    pub block: usize,
    /// The number of blocks, at least two.
    pub blocks: usize,
    /// The longest time until a block with a frame in it is handed over, in whole milliseconds of at least one. Kernels before
    /// 6.18 count in ticks of 1 to 10 ms, and take up to one more.
    ///
    /// Without a reader, each such time uses up a block, however little is in it.
    pub retire: Duration,
}

impl Blocks {
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

    pub(super) fn map(self, socket: BorrowedFd<'_>) -> io::Result<BlockRing> {
        BlockRing::map(socket, self.blocks, self.block, self.check()?)
    }

    /// Returns the milliseconds until a block is handed over.
    fn check(self) -> io::Result<u32> {
        let Blocks { block, blocks, retire } = self;
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
        let fits = Blocks { block: 1 << 17, blocks: 2, retire: Duration::from_millis(1) };
        assert_eq!(fits.check().unwrap(), 1);
        for wrong in [
            Blocks { block: 100_000, ..fits },
            Blocks { block: 2_048, ..fits },
            Blocks { block: page_size() / 2, ..fits },
            Blocks { blocks: 1, ..fits },
            Blocks { retire: Duration::from_micros(999), ..fits },
        ] {
            assert_eq!(wrong.check().unwrap_err().kind(), io::ErrorKind::InvalidInput, "{wrong:?}");
        }
        assert_eq!((version("6.18.44-x"), version("7"), version("a.b")), (Some((6, 18)), None, None));
        assert!(Blocks::lateness() <= LONGEST_TICK);
    }
}
