//! The receive ring of a packet socket in blocks (TPACKET_V3): frames packed one behind the other.
//!
//! ```text
//!   │ block                              │ block                    │ block      │  status, of each: whose it is
//!     program's                            kernel's: is being filled  kernel's
//!     ▲ next to be walked
//!
//!   block:  │ status, packets, place of the first │ packet │ packet │ … │
//!   packet: │ distance to the next, lengths, place, time, tag │ address │ gap │ frame … │
//!             48 bytes                                           20        14  ▲ `mac`
//! ```
//!
//! The kernel hands a block over when it is full, or at the latest when its timer comes round; it then opens
//! the next one. If the kernel does not own that yet, the ring is full: frames are dropped and counted. A
//! frame of 60 bytes takes 144, and a poll is one load. A block must not be read until it is handed over, so
//! a frame is later than in a ring of [slots](crate::packet_ring), by at most the timer's period.
//!
//! Contents are not trusted: a frame that does not lie inside its block, behind the headers, is rejected.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::mapping::Mapping;
use super::packet;
use super::packet_ring::{Head, Slot, TAG};

/// The consumer's side of a ring of blocks. `M` owns its memory.
#[derive(Debug)]
pub struct BlockRing<M = Mapping> {
    start: NonNull<u8>,
    block: usize,
    blocks: usize,
    /// The block that is being read, or the next one.
    next: usize,
    walk: Option<Walk>,
    /// Keeps the ring mapped.
    _memory: M,
}

/// The rest of a block.
#[derive(Clone, Copy, Debug)]
struct Walk {
    /// The offset of the next packet in the block.
    at: usize,
    /// Packets from there on, at least one.
    left: u32,
}

impl BlockRing {
    /// Makes `socket` fill a ring of `blocks` blocks of `block` bytes, a power of two and whole pages, and
    /// hand over each at the latest after `retire` milliseconds. Call it before the socket is bound.
    pub fn map(socket: BorrowedFd<'_>, blocks: usize, block: usize, retire: u32) -> io::Result<Self> {
        let length = blocks.checked_mul(block).filter(|&length| u32::try_from(length).is_ok());
        let length = length.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        packet::set_block_ring(
            socket,
            libc::tpacket_req3 {
                tp_block_size: block as u32,
                tp_block_nr: blocks as u32,
                // Meaningless for this kind of ring, but it must divide a block.
                tp_frame_size: block as u32,
                tp_frame_nr: blocks as u32,
                tp_retire_blk_tov: retire.max(1),
                tp_sizeof_priv: 0,
                tp_feature_req_word: 0,
            },
        )?;
        let memory = Mapping::shared(socket, length, 0)?;
        let start = memory.start();
        // SAFETY: the mapping is page-aligned and as long as all blocks, of whole pages each. It moves with the ring and ends
        // with it. The kernel writes only to blocks that it owns.
        Ok(unsafe { BlockRing::over(memory, start, block, blocks) })
    }
}

impl<M> BlockRing<M> {
    /// Makes the ring at `start`, in memory that `memory` owns.
    ///
    /// # Safety
    ///
    /// `blocks` times `block` bytes from `start` on must be readable and writable as long as `memory` lives, wherever that is
    /// moved, and `start` and `block` multiples of 16, `block` no shorter than the header of one. Any other
    /// user must follow this ring's protocol.
    unsafe fn over(memory: M, start: NonNull<u8>, block: usize, blocks: usize) -> Self {
        BlockRing { start, block, blocks, next: 0, walk: None, _memory: memory }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns whether a frame is there.
    pub fn is_ready(&self) -> bool {
        self.walk.is_some() || self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Returns the oldest frame. Dropping the last one of a block returns the block to the kernel.
    pub fn take(&mut self) -> Option<Slot<'_>> {
        let walk = self.walk.take().or_else(|| self.begin())?;
        let start = self.place();
        let status = self.status();
        let found = packet_head(start, self.block, walk.at);
        let left = walk.left - 1;
        let next = found.and_then(|(next, ..)| walk.at.checked_add(next));
        // A malformed packet ends the block, and so does one whose offset leads out of the block or does not
        // advance.
        let next = next.filter(|&next| left > 0 && next > walk.at && next < self.block);
        let owner = next.is_none().then_some(NonNull::from(status));
        match next {
            Some(at) => self.walk = Some(Walk { at, left }),
            None => self.next = if self.next + 1 == self.blocks { 0 } else { self.next + 1 },
        }
        // A malformed one has no bytes.
        let (_, start, head) = found.unwrap_or((0, start, Head::default()));
        let (length, least) = (if found.is_some() { self.block - walk.at } else { 0 }, HEADERS + TAG);
        Some(Slot { start, length, least, has_offloads: false, head, owner, _ring: PhantomData })
    }

    /// Begins the next non-empty block that was handed over.
    fn begin(&mut self) -> Option<Walk> {
        // The kernel never hands over an empty block; if it did, that must not block the others.
        for _ in 0..self.blocks {
            if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return None;
            }
            // SAFETY: the record is aligned and inside the block, and the kernel gave it to us: its status, which was read with
            // acquiring, says so, and no other code reads blocks while we hold `&mut self`.
            let header = unsafe { self.record().cast::<libc::tpacket_hdr_v1>().read() };
            if header.num_pkts > 0 {
                return Some(Walk { at: header.offset_to_first_pkt as usize, left: header.num_pkts });
            }
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = if self.next + 1 == self.blocks { 0 } else { self.next + 1 };
        }
        None
    }

    /// The block that is being read, or the next one.
    fn place(&self) -> NonNull<u8> {
        // SAFETY: `next` is below the number of blocks, all of which lie inside the memory.
        unsafe { self.start.add(self.next * self.block) }
    }

    /// Its record, behind two words.
    fn record(&self) -> NonNull<u8> {
        // SAFETY: a block is longer than its header, of which the record is a part.
        unsafe { self.place().add(RECORD) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is the record's first word, aligned as the block is, and lives as long as `self`; both sides
        // access it atomically only.
        unsafe { AtomicU32::from_ptr(self.record().cast::<u32>().as_ptr()) }
    }
}

// SAFETY: the pointer points into memory that the mapping owns, and is followed only through the ring.
unsafe impl Send for BlockRing<Mapping> {}

/// Reads the header of the packet at an offset of a block that is ours, and returns the distance to the next packet, and
/// where this one begins; `None` if it does not lie inside.
fn packet_head(block: NonNull<u8>, length: usize, at: usize) -> Option<(usize, NonNull<u8>, Head)> {
    at.checked_add(HEADERS).filter(|&end| end <= length)?;
    // SAFETY: as just checked, the header lies inside the block.
    let start = unsafe { block.add(at) };
    // SAFETY: as above; the block is ours, and any bytes make a header.
    let header = unsafe { start.cast::<libc::tpacket3_hdr>().read_unaligned() };
    // SAFETY: the kind is a part of the headers.
    let kind = unsafe { start.add(KIND) };
    let head = Head {
        status: header.tp_status,
        length: header.tp_len,
        kept: header.tp_snaplen,
        start: header.tp_mac,
        received: Duration::new(header.tp_sec.into(), header.tp_nsec),
        tag: [header.hv1.tp_vlan_tpid, header.hv1.tp_vlan_tci as u16],
        // SAFETY: as above; the block is ours.
        kind: unsafe { kind.read() },
    };
    Some((header.tp_next_offset as usize, start, head))
}

/// The bytes that a block has before its first packet.
pub const BLOCK_HEADER: usize = size_of::<libc::tpacket_block_desc>();
/// The most bytes that a frame with an Ethernet header takes in a block beside its own: those before it, and
/// the gap to the next.
pub const PACKET_HEADER: usize = FRAME - 14 + 8;

/// The offset of a block's record, behind a version and private data, which is unused.
const RECORD: usize = 8;
/// `struct tpacket3_hdr`, and a `struct sockaddr_ll`.
const HEADERS: usize = libc::TPACKET3_HDRLEN;
/// The kind of packet in the latter.
const KIND: usize = size_of::<libc::tpacket3_hdr>() + 10;
/// The offset in a packet of the data behind Ethernet's header.
const FRAME: usize = 96;

#[cfg(test)]
mod tests;
