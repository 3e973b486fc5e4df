//! AF_XDP, as far as it takes to see it work: one socket with its memory and four rings.
//!
//! ```text
//!            fill ──▶ ┌────────┐ ──▶ received          memory, in chunks:
//!                     │ kernel │                       [ to fill │ to send ]
//!         to send ──▶ └────────┘ ──▶ completed
//! ```
//!
//! Each ring has two counters that only grow, the producer's and the consumer's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, send, socket_with, sockopt};

use super::mapping::Mapping;

/// A socket that can hold one frame each way.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    fd: OwnedFd,
    memory: Mapping,
    received: Ring,
    to_send: Ring,
    /// Kept mapped; the kernel takes the one chunk from it and gives the other back to it.
    _fill: Ring,
    _completed: Ring,
}

impl XdpSocket {
    /// With a chunk offered for receiving; not yet bound.
    pub(crate) fn new() -> io::Result<Self> {
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None::<Protocol>)?;
        let memory = Mapping::untouched(CHUNKS * CHUNK)?;
        sockopt::set_xdp_umem_reg(
            &fd,
            XdpUmemReg {
                addr: memory.address(),
                len: memory.len() as u64,
                chunk_size: CHUNK as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, ENTRIES)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, ENTRIES)?;
        sockopt::set_xdp_rx_ring_size(&fd, ENTRIES)?;
        sockopt::set_xdp_tx_ring_size(&fd, ENTRIES)?;
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let ring = |offsets, page, entry| Ring::map(fd.as_fd(), offsets, page, entry);
        let received = ring(offsets.rx, XDP_PGOFF_RX_RING, DESCRIPTOR)?;
        let to_send = ring(offsets.tx, XDP_PGOFF_TX_RING, DESCRIPTOR)?;
        let fill = ring(offsets.fr, XDP_UMEM_PGOFF_FILL_RING, size_of::<u64>())?;
        let completed = ring(offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, size_of::<u64>())?;
        fill.push(&(FILL_CHUNK as u64).to_ne_bytes());
        Ok(Self { fd, memory, received, to_send, _fill: fill, _completed: completed })
    }

    /// Binds it to a queue of an interface, in the mode that every driver can.
    pub(crate) fn bind_copying(&self, interface: u32, queue: u32) -> io::Result<()> {
        Ok(bind(&self.fd, &SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, interface, queue))?)
    }

    /// Sends a frame of at most a chunk; meant to be called once.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        assert!(frame.len() <= CHUNK, "a frame of {} bytes", frame.len());
        self.memory.copy_in(SEND_CHUNK, frame);
        let mut descriptor = [0; DESCRIPTOR];
        descriptor[..8].copy_from_slice(&(SEND_CHUNK as u64).to_ne_bytes());
        descriptor[8..12].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        self.to_send.push(&descriptor);
        send(&self.fd, &[], SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// The start of the frame that came first, if one came.
    pub(crate) fn receive(&self) -> Option<[u8; 64]> {
        let descriptor: [u8; DESCRIPTOR] = self.received.first()?;
        let (address, _) = descriptor.split_first_chunk()?;
        let address = usize::try_from(u64::from_ne_bytes(*address)).ok()?;
        (address <= self.memory.len() - 64).then(|| self.memory.copy_out(address))
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A ring of [`ENTRIES`].
#[derive(Debug)]
struct Ring {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
}

impl Ring {
    fn map(fd: BorrowedFd<'_>, offsets: XdpRingOffset, page: u64, entry: usize) -> io::Result<Self> {
        let entries = offsets.desc as usize;
        Ok(Self {
            memory: Mapping::shared(fd, entries + ENTRIES as usize * entry, page)?,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            entries,
        })
    }

    /// Adds an entry to a ring that we produce, and that is not full.
    fn push<const N: usize>(&self, entry: &[u8; N]) {
        let produced = self.memory.load(self.producer);
        self.memory.copy_in(self.entries + (produced % ENTRIES) as usize * N, entry);
        self.memory.store(self.producer, produced.wrapping_add(1));
    }

    /// The oldest entry of a ring that we consume.
    fn first<const N: usize>(&self) -> Option<[u8; N]> {
        let consumed = self.memory.load(self.consumer);
        let place = self.entries + (consumed % ENTRIES) as usize * N;
        (consumed != self.memory.load(self.producer)).then(|| self.memory.copy_out(place))
    }
}

const ENTRIES: u32 = 2;
/// The least that every kernel takes.
const CHUNK: usize = 4096;
const CHUNKS: usize = 2;
const FILL_CHUNK: usize = 0;
const SEND_CHUNK: usize = CHUNK;
/// `struct xdp_desc`: address, length, options.
const DESCRIPTOR: usize = 16;
