//! Sockets of the link layer: their addresses and options, which rustix lacks.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, socket_with};

use super::sockopt::{set_flag, set_number};

/// All packets of `protocol` (an ethertype) on the interface with this index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkAddress {
    pub(crate) interface: u32,
    pub(crate) protocol: u16,
}

// SAFETY: `f` gets a pointer to a whole `sockaddr_ll` with its length, which lives until it returns.
unsafe impl SocketAddrArg for LinkAddress {
    unsafe fn with_sockaddr<R>(&self, f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as libc::sa_family_t,
            sll_protocol: self.protocol.to_be(),
            sll_ifindex: self.interface as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        f((&raw const address).cast(), size_of_val(&address) as SocketAddrLen)
    }
}

/// Whether the address of a received frame (a `struct sockaddr_ll`) says that this machine sent it.
pub(crate) fn is_outgoing(address: &[u8]) -> bool {
    address.get(10) == Some(&libc::PACKET_OUTGOING)
}

/// A non-blocking socket for whole frames on one interface. It gets those of `protocol`, of none if that is
/// zero, and none of before it is bound.
pub(crate) fn frames(interface: u32, protocol: u16, prepare: Prepare) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None::<Protocol>)?;
    prepare(&socket)?;
    bind(&socket, &LinkAddress { interface, protocol })?;
    Ok(socket)
}

/// What is set before the first frame can come.
pub(crate) type Prepare = fn(&OwnedFd) -> io::Result<()>;

/// Has each frame, either way, preceded by what the interface was to do to it: a `struct virtio_net_hdr`.
pub(crate) fn set_offload_headers(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_flag(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, true)
}

/// Asks for tags that were taken out of frames.
pub(crate) fn set_auxiliary(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_flag(socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, true)
}

/// Has frames that this machine sends not come back (Linux 4.20).
pub(crate) fn ignore_outgoing(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)
}

/// Has the interface take frames for others as well, until the socket closes.
pub(crate) fn hear_all(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: `request` is valid for reads of its size, which is the length given.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            size_of_val(&request) as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Of a `struct virtio_net_hdr`.
pub(crate) const OFFLOAD_HEADER: usize = 10;
