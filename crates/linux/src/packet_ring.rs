//! The receive ring of a packet socket (TPACKET_V2): frames are read in place.
//!
//! ```text
//!   │ slot            │ slot            │ slot            │ slot            │  status, of each: whose it is
//!     program's         program's         kernel's          kernel's
//!     ▲ next to be taken                  ▲ next to be filled
//!
//!   slot:  │ status, lengths, places, time, tag │ address │ gap │ offloads │ frame … │
//!            32 bytes                             20                10       ▲ `mac`
//! ```
//!
//! A slot belongs to one side at a time. The kernel fills it, and then sets its status; the program works on
//! the frame in place, and then clears the status. If the kernel does not own its next slot, the ring is
//! full, and the frame is dropped and counted. There are no other counters, so a poll is one load.
//!
//! Contents are not trusted: a frame that does not lie inside its slot, behind the headers, is rejected.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::mapping::Mapping;
use super::packet::{self, OFFLOAD_HEADER};

/// The consumer's side of a ring. `M` owns its memory.
#[derive(Debug)]
pub struct RxRing<M = Mapping> {
    start: NonNull<u8>,
    slot: usize,
    slots: usize,
    next: usize,
    /// Keeps the ring mapped.
    _memory: M,
}

impl RxRing {
    /// Makes `socket` fill a ring of at least `slots`, each with room for a frame of `bytes`. Call it before
    /// the socket is bound, with offload headers on.
    pub fn map(socket: BorrowedFd<'_>, slots: usize, bytes: usize) -> io::Result<Self> {
        let slot = (FRAME + bytes).next_multiple_of(libc::TPACKET_ALIGNMENT).next_power_of_two();
        let block = slot.max(BLOCK);
        let slots = slots.max(2).next_multiple_of(block / slot);
        let length = slots.checked_mul(slot).filter(|&length| u32::try_from(length).is_ok());
        let length = length.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        packet::prepare_receive_ring(socket)?;
        packet::set_receive_ring(socket, shape(slot, slots))?;
        let memory = Mapping::shared(socket, length, 0)?;
        let start = memory.start();
        // SAFETY: the mapping is page-aligned and as long as all slots, of a multiple of 16 bytes each. It moves with
        // the ring and ends with it. The kernel writes only to slots that it owns.
        Ok(unsafe { RxRing::over(memory, start, slot, slots) })
    }

    /// Makes `socket`, which fills this ring, fill a new one; frames in the old one are lost. After an error
    /// no more frames come.
    pub fn renew(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        // The kernel does not release a mapped ring. Zero bytes mean slots owned by the kernel.
        self.replace(Mapping::untouched(self.slot * self.slots)?);
        packet::set_receive_ring(socket, shape(0, 0))?;
        packet::set_receive_ring(socket, shape(self.slot, self.slots))?;
        self.replace(Mapping::shared(socket, self.slot * self.slots, 0)?);
        Ok(())
    }

    /// `memory` is as long as all slots.
    fn replace(&mut self, memory: Mapping) {
        assert_eq!(memory.len(), self.slot * self.slots);
        (self.start, self.next, self._memory) = (memory.start(), 0, memory);
    }
}

/// Returns the kernel's description of a ring of `slots` slots of `slot` bytes; an empty one for zero.
fn shape(slot: usize, slots: usize) -> libc::tpacket_req {
    let block = if slots == 0 { 0 } else { slot.max(BLOCK) };
    libc::tpacket_req {
        tp_block_size: block as u32,
        tp_block_nr: (slot * slots).checked_div(block).unwrap_or(0) as u32,
        tp_frame_size: slot as u32,
        tp_frame_nr: slots as u32,
    }
}

impl<M> RxRing<M> {
    /// Makes the ring at `start`, in memory that `memory` owns.
    ///
    /// # Safety
    ///
    /// `slots` times `slot` bytes from `start` on must be readable and writable as long as `memory` lives, wherever
    /// that is moved, and `start` and `slot` multiples of 16. Any other user must follow this ring's
    /// protocol.
    unsafe fn over(memory: M, start: NonNull<u8>, slot: usize, slots: usize) -> Self {
        RxRing { start, slot, slots, next: 0, _memory: memory }
    }

    /// Returns the number of frames that the ring has room for.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns whether a frame is there.
    pub fn is_ready(&self) -> bool {
        self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Returns the oldest frame. Dropping it returns its slot to the kernel.
    pub fn take(&mut self) -> Option<Slot<'_>> {
        let status = self.status(self.next).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let start = self.place(self.next);
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
        // SAFETY: the slot is aligned and longer than the header, and the kernel gave it to us: its status, which
        // was read with acquiring, says so, and no other code takes slots while we hold `&mut self`.
        let header = unsafe { start.cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: every slot has room for the headers, of which the kind is a part.
        let kind = unsafe { start.add(KIND) };
        let head = Head {
            status,
            length: header.tp_len,
            kept: header.tp_snaplen,
            start: header.tp_mac,
            received: Duration::new(header.tp_sec.into(), header.tp_nsec),
            tag: [header.tp_vlan_tpid, header.tp_vlan_tci],
            // SAFETY: as above; the slot is ours.
            kind: unsafe { kind.read() },
        };
        let (least, owner) = (HEADERS + OFFLOAD_HEADER, Some(start.cast::<AtomicU32>()));
        Some(Slot { start, length: self.slot, least, has_offloads: true, head, owner, _ring: PhantomData })
    }

    fn place(&self, index: usize) -> NonNull<u8> {
        // SAFETY: `index` is below the number of slots, all of which lie inside the memory.
        unsafe { self.start.add(index * self.slot) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the status is the slot's first word, aligned as the slot is, and lives as long as `self`; both
        // sides access it atomically only.
        unsafe { AtomicU32::from_ptr(self.place(index).cast::<u32>().as_ptr()) }
    }
}

// SAFETY: the pointer points into memory that the mapping owns, and is followed only through the ring.
unsafe impl Send for RxRing<Mapping> {}

/// What the kernel says of a frame, in either kind of ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    pub(crate) status: u32,
    pub(crate) length: u32,
    pub(crate) kept: u32,
    pub(crate) start: u16,
    pub(crate) received: Duration,
    pub(crate) tag: [u16; 2],
    pub(crate) kind: u8,
}

/// A frame that is ours, in a slot or in a [block](crate::packet_blocks).
#[derive(Debug)]
pub struct Slot<'r> {
    pub(crate) start: NonNull<u8>,
    /// The bytes from there on that belong to it.
    pub(crate) length: usize,
    /// Where the frame begins at least, behind the headers and room for a tag or offloads.
    pub(crate) least: usize,
    pub(crate) has_offloads: bool,
    pub(crate) head: Head,
    /// The status that returns the memory to the kernel, if nothing else in it is ours.
    pub(crate) owner: Option<NonNull<AtomicU32>>,
    pub(crate) _ring: PhantomData<&'r mut ()>,
}

impl Slot<'_> {
    /// Returns whether this machine sent the frame.
    pub fn is_outgoing(&self) -> bool {
        self.kind() == libc::PACKET_OUTGOING
    }

    /// Returns the packet type: its addressee, or that this machine sent it (`PACKET_HOST` and so on).
    pub fn kind(&self) -> u8 {
        self.head.kind
    }

    /// Returns whether the whole frame is in the socket's queue, because the slot has no room for it.
    pub fn has_copy(&self) -> bool {
        self.has(libc::TP_STATUS_COPY)
    }

    /// Returns whether the transport checksum was verified.
    pub fn is_verified(&self) -> bool {
        self.has(libc::TP_STATUS_CSUM_VALID)
    }

    fn has(&self, flag: u32) -> bool {
        self.head.status & flag != 0
    }

    /// Returns the tag that was taken out of the frame: the ethertype, and the tag's value.
    pub fn tag(&self) -> Option<[u16; 2]> {
        let [kind, value] = self.head.tag;
        let kind = if self.has(libc::TP_STATUS_VLAN_TPID_VALID) { kind } else { libc::ETH_P_8021Q as u16 };
        self.has(libc::TP_STATUS_VLAN_VALID).then_some([kind, value])
    }

    /// Returns when it came, since 1970.
    pub fn received(&self) -> Duration {
        self.head.received
    }

    /// Returns the frame's length in bytes, without that tag; [`bytes`](Slot::bytes) may be shorter.
    pub fn frame_length(&self) -> usize {
        self.head.length as usize
    }

    /// Returns the offloads that were left to the interface, if the slot is well-formed; none in a block.
    pub fn offloads(&self) -> Option<[u8; OFFLOAD_HEADER]> {
        let (start, _) = self.bounds()?;
        if !self.has_offloads {
            return Some([0; OFFLOAD_HEADER]);
        }
        let place = self.at(start - OFFLOAD_HEADER).cast::<[u8; OFFLOAD_HEADER]>();
        // SAFETY: `bounds` has checked that as many bytes before the frame lie inside the slot, behind the headers.
        // The slot is ours, and bytes need no alignment.
        Some(unsafe { place.read() })
    }

    /// Returns the part of the frame that is in the slot, with room for a tag before it in place of the
    /// offloads: its bytes begin behind that. `None` if the slot is malformed.
    pub fn bytes(&mut self) -> Option<&mut [u8]> {
        let (start, length) = self.bounds()?;
        let place = self.at(start - TAG).as_ptr();
        // SAFETY: `bounds` has checked that these bytes, of which there are `TAG` more in front, lie inside the slot,
        // behind the headers. The slot is ours until `self` is dropped, and `&mut self` is exclusive.
        Some(unsafe { std::slice::from_raw_parts_mut(place, TAG + length) })
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.length, "{offset} in a slot of {}", self.length);
        // SAFETY: the offset lies inside the slot, as just checked.
        unsafe { self.start.add(offset) }
    }

    /// Returns the offset of the frame, and the length of its captured part.
    fn bounds(&self) -> Option<(usize, usize)> {
        let (start, length) = (usize::from(self.head.start), self.head.kept as usize);
        let inside = start.checked_add(length).is_some_and(|end| end <= self.length);
        (inside && start >= self.least).then_some((start, length))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(status) = self.owner {
            // SAFETY: as in the rings' `status`; the ring outlives the slot.
            unsafe { status.as_ref() }.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
    }
}

/// Bytes of a tag, and of the room for one before each frame.
pub const TAG: usize = 4;
/// Bytes that the kernel reserves beyond its headers, so that packets behind Ethernet's header begin at 96.
pub(crate) const RESERVE: u32 = 6;

/// `struct tpacket2_hdr`, and a `struct sockaddr_ll`.
const HEADERS: usize = libc::TPACKET2_HDRLEN;
/// The kind of packet in the latter.
const KIND: usize = size_of::<libc::tpacket2_hdr>() + 10;
/// The offset of a frame, at most.
const FRAME: usize = 96;
/// Bytes that the kernel allocates at once.
const BLOCK: usize = 128 << 10;

#[cfg(test)]
mod tests;
