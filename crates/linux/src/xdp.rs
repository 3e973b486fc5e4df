//! AF_XDP: sockets whose frames lie in memory that program and kernel share.
//!
//! ```text
//!            fill ──▶ ┌────────┐ ──▶ received          memory, in chunks: see `umem`
//!                     │ kernel │                       each ring has one producer and one consumer: see `ring`
//!         to send ──▶ └────────┘ ──▶ completed
//! ```

pub mod ring;
pub mod umem;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XdpRingOffset, XdpStatistics, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with, sockopt};

use super::mapping::Mapping;
use super::sockopt::set_number;
use ring::{Consumer, Layout, Producer};
use umem::Umem;

/// A socket with its four rings.
#[derive(Debug)]
pub struct XdpSocket {
    /// The descriptor of the socket.
    pub fd: OwnedFd,
    /// Chunks for the kernel to fill, by their addresses.
    pub fill: Producer<1>,
    /// Chunks that it has filled, as [descriptors](ring::Descriptor).
    pub received: Consumer<2>,
    /// Chunks for it to send, as [descriptors](ring::Descriptor).
    pub to_send: Producer<2>,
    /// Chunks that it has sent, by their addresses.
    pub completed: Consumer<1>,
}

impl XdpSocket {
    /// Creates an unbound socket with rings of `entries` each, a power of two.
    pub fn new(entries: u32) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None::<Protocol>)?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, entries)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, entries)?;
        sockopt::set_xdp_rx_ring_size(&fd, entries)?;
        sockopt::set_xdp_tx_ring_size(&fd, entries)?;
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let map = |of: XdpRingOffset, page, size| map(fd.as_fd(), of, page, entries as usize * size);
        let (address, descriptor) = (8, 16);
        let (fill, fill_at) = map(offsets.fr, XDP_UMEM_PGOFF_FILL_RING, address)?;
        let (completed, completed_at) = map(offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, address)?;
        let (received, received_at) = map(offsets.rx, XDP_PGOFF_RX_RING, descriptor)?;
        let (to_send, to_send_at) = map(offsets.tx, XDP_PGOFF_TX_RING, descriptor)?;
        Ok(XdpSocket {
            fd,
            fill: Producer::new(fill, fill_at, entries),
            received: Consumer::new(received, received_at, entries),
            to_send: Producer::new(to_send, to_send_at, entries),
            completed: Consumer::new(completed, completed_at, entries),
        })
    }

    /// Registers this memory. The kernel keeps the pages as long as a socket uses them.
    pub fn register(&self, umem: &Umem) -> io::Result<()> {
        let memory = XdpUmemReg {
            addr: umem.address(),
            len: umem.len() as u64,
            chunk_size: umem.chunk_size() as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        Ok(sockopt::set_xdp_umem_reg(&self.fd, memory)?)
    }

    /// Binds it to a queue of an interface, in the mode that every driver can, with its own memory.
    pub fn bind_copying(&self, interface: u32, queue: u32) -> io::Result<()> {
        let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        self.bind(&SocketAddrXdp::new(flags, interface, queue))
    }

    /// Binds it to another queue or interface, with the memory and in the mode of `first`.
    pub fn bind_sharing(&self, first: BorrowedFd<'_>, interface: u32, queue: u32) -> io::Result<()> {
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, queue);
        self.bind(&SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first })
    }

    fn bind(&self, address: &impl SocketAddrArg) -> io::Result<()> {
        Ok(bind(&self.fd, address)?)
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sets how many frames one wake-up sends (Linux 6.17; 32 before).
pub fn set_send_budget(socket: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set_number(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, frames as i32)
}

/// Makes the kernel send the frames in the ring.
pub fn wake_sender(socket: BorrowedFd<'_>) -> io::Result<()> {
    send(socket, &[], SendFlags::DONTWAIT)?;
    Ok(())
}

/// Makes the kernel check for chunks to fill.
pub fn wake_receiver(socket: BorrowedFd<'_>) -> io::Result<()> {
    match recv(socket, &mut [0; 0], RecvFlags::DONTWAIT) {
        Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::NETDOWN | Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the socket's counts of dropped frames and bad descriptors.
pub fn statistics(socket: BorrowedFd<'_>) -> io::Result<XdpStatistics> {
    Ok(sockopt::xdp_statistics(socket)?)
}

/// Maps a ring's memory, and returns its layout.
fn map(
    socket: BorrowedFd<'_>,
    offsets: XdpRingOffset,
    page: u64,
    length: usize,
) -> io::Result<(Mapping, Layout)> {
    let entries = offsets.desc as usize;
    let layout = Layout {
        producer: offsets.producer as usize,
        consumer: offsets.consumer as usize,
        // Linux 5.4; sharing memory between interfaces takes more than that.
        flags: offsets.flags.ok_or(io::ErrorKind::Unsupported)? as usize,
        entries,
    };
    Ok((Mapping::shared(socket, entries + length, page)?, layout))
}

const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
