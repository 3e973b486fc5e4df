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
use super::packet_ring::TAG;

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
    pub fn take(&mut self) -> Option<Packed<'_>> {
        let walk = self.walk.take().or_else(|| self.begin())?;
        let start = self.place();
        let status = self.status();
        let head = packet_head(start, self.block, walk.at);
        let left = walk.left - 1;
        let next = head.and_then(|head| walk.at.checked_add(head.tp_next_offset as usize));
        // A malformed packet ends the block, and so does one whose offset leads out of the block or does not
        // advance.
        let next = next.filter(|&next| left > 0 && next > walk.at && next < self.block);
        let ended = next.is_none().then_some(NonNull::from(status));
        match next {
            Some(at) => self.walk = Some(Walk { at, left }),
            None => self.next = if self.next + 1 == self.blocks { 0 } else { self.next + 1 },
        }
        Some(Packed { start, length: self.block, at: walk.at, head, ended, _ring: PhantomData })
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

/// Reads the header of the packet at an offset of a block that is ours; `None` if it does not lie inside.
fn packet_head(block: NonNull<u8>, length: usize, at: usize) -> Option<libc::tpacket3_hdr> {
    at.checked_add(HEADERS).filter(|&end| end <= length)?;
    // SAFETY: as just checked, the header lies inside the block.
    let head = unsafe { block.add(at) };
    // SAFETY: as above; the block is ours, and any bytes make a header.
    Some(unsafe { head.cast::<libc::tpacket3_hdr>().read_unaligned() })
}

/// A frame in a block that is ours.
#[derive(Debug)]
pub struct Packed<'r> {
    /// The block.
    start: NonNull<u8>,
    length: usize,
    /// The offset of the packet in it.
    at: usize,
    /// `None` if it is malformed.
    head: Option<libc::tpacket3_hdr>,
    /// The status of the block, if nothing follows in it.
    ended: Option<NonNull<AtomicU32>>,
    _ring: PhantomData<&'r mut ()>,
}

impl Packed<'_> {
    /// Returns the packet type: its addressee, or that this machine sent it (`PACKET_HOST` and so on).
    pub fn kind(&self) -> u8 {
        if self.head.is_none() {
            return libc::PACKET_HOST;
        }
        // SAFETY: the headers of the packet, of which this is a part, lie inside the block.
        let kind = unsafe { self.start.add(self.at + KIND) };
        // SAFETY: as above; the block is ours.
        unsafe { kind.read() }
    }

    /// Returns the tag that was taken out of the frame: the ethertype, and the tag's value.
    pub fn tag(&self) -> Option<[u16; 2]> {
        let head = self.head?;
        let has = |flag| head.tp_status & flag != 0;
        let kind = if has(libc::TP_STATUS_VLAN_TPID_VALID) {
            head.hv1.tp_vlan_tpid
        } else {
            libc::ETH_P_8021Q as u16
        };
        has(libc::TP_STATUS_VLAN_VALID).then_some([kind, head.hv1.tp_vlan_tci as u16])
    }

    /// Returns whether the transport checksum was verified.
    pub fn is_verified(&self) -> bool {
        self.head.is_some_and(|head| head.tp_status & libc::TP_STATUS_CSUM_VALID != 0)
    }

    /// Returns when it came, since 1970.
    pub fn received(&self) -> Duration {
        self.head.map_or(Duration::ZERO, |head| Duration::new(head.tp_sec.into(), head.tp_nsec))
    }

    /// Returns the frame's length in bytes, without that tag; [`bytes`](Self::bytes) may be shorter.
    pub fn frame_length(&self) -> usize {
        self.head.map_or(0, |head| head.tp_len as usize)
    }

    /// Returns the captured part of the frame, with room for a tag before it: its bytes begin behind that.
    /// `None` if it is malformed.
    pub fn bytes(&mut self) -> Option<&mut [u8]> {
        let head = self.head?;
        let (mac, kept) = (usize::from(head.tp_mac), head.tp_snaplen as usize);
        let begin = self.at + mac.checked_sub(TAG).filter(|&gap| gap >= HEADERS)?;
        let end = begin.checked_add(TAG)?.checked_add(kept)?;
        if end > self.length {
            return None;
        }
        // SAFETY: as just checked, these bytes lie inside the block.
        let place = unsafe { self.start.add(begin) };
        // SAFETY: as above, behind the headers of their packet. The block is ours until its last packet is
        // dropped, and `&mut self` is exclusive.
        Some(unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), end - begin) })
    }
}

impl Drop for Packed<'_> {
    fn drop(&mut self) {
        if let Some(status) = self.ended {
            // SAFETY: as in `BlockRing::status`; the ring outlives the packet.
            let status = unsafe { status.as_ref() };
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
    }
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
