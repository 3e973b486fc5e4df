//! Link-layer sockets: addresses and options that rustix lacks.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, socket_with};

use super::sockaddr::AddressBuffer;
use super::sockopt::{get_numbers, set_flag, set_number};

/// All packets of `protocol` (an ethertype) on the interface with this index.
struct LinkAddress {
    interface: u32,
    protocol: u16,
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

/// Binds a packet socket to all packets of `protocol` (an ethertype) on the interface with this index.
pub fn bind_to(socket: &OwnedFd, interface: u32, protocol: u16) -> io::Result<()> {
    Ok(bind(socket, &LinkAddress { interface, protocol })?)
}

/// Returns whether the address of a received frame (a `struct sockaddr_ll`) says that this machine sent it.
pub fn is_outgoing(address: &[u8]) -> bool {
    address.get(10) == Some(&libc::PACKET_OUTGOING)
}

/// Makes a non-blocking socket for whole frames on one interface. It gets those of `protocol`, none if that
/// is zero, and none from before it is bound. `prepare` makes the settings that are needed before the first
/// frame can arrive.
pub fn frames(
    interface: u32,
    protocol: u16,
    prepare: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None::<Protocol>)?;
    prepare(&socket)?;
    bind_to(&socket, interface, protocol)?;
    Ok(socket)
}

/// Precedes each frame, in both directions, by a `struct virtio_net_hdr` with the offloads that the interface
/// must do.
pub fn set_offload_headers(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_flag(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, true)
}

/// An instruction of classic BPF: `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// `code`: what is done.
    pub operation: u16,
    /// `jt`: instructions to skip if a comparison holds.
    pub holds: u8,
    /// `jf`: instructions to skip if it does not.
    pub fails: u8,
    /// `k`: the operand.
    pub constant: u32,
}

/// Attaches a filter program, which decides how much of each frame, or datagram with its header, the kernel
/// keeps. The kernel checks the program, and refuses an invalid one.
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel only reads it.
    let record = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    let (pointer, size) = ((&raw const record).cast(), size_of_val(&record) as libc::socklen_t);
    // SAFETY: `record` is valid for reads of its size, and names `length` instructions, laid out as the kernel's, which
    // are valid for reads as well.
    let outcome = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, pointer, size)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Removes a filter: the socket gets everything again.
pub fn detach_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
}

/// Asks for tags that were taken out of frames.
pub fn set_auxiliary(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_flag(socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, true)
}

/// Excludes frames that this machine sends (Linux 4.20).
pub fn ignore_outgoing(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)
}

/// Puts the interface into promiscuous mode, until the socket closes.
pub fn hear_all(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_record(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Prepares a socket for a ring whose slots hold frames of up to a size; longer frames are also in the
/// socket's queue, if that has room. Turns on offload headers.
pub(crate) fn prepare_receive_ring(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
    set_offload_headers(socket)?;
    set_number(socket, libc::SOL_PACKET, libc::PACKET_RESERVE, super::packet_ring::RESERVE as i32)?;
    set_number(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, 1)
}

/// Makes the interface fill a ring (`tpacket_rcv`); an empty one stops that.
pub(crate) fn set_receive_ring(socket: BorrowedFd<'_>, ring: libc::tpacket_req) -> io::Result<()> {
    set_record(socket, libc::PACKET_RX_RING, &ring)
}

/// Makes the interface fill a ring of blocks.
pub(crate) fn set_block_ring(socket: BorrowedFd<'_>, ring: libc::tpacket_req3) -> io::Result<()> {
    set_number(socket, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as i32)?;
    set_record(socket, libc::PACKET_RX_RING, &ring)
}

/// Joins the sockets of a group, which share an interface's frames: each gets some. Without a group a new one is
/// made. The socket must be bound, and its interface up.
pub fn join_group(socket: BorrowedFd<'_>, mode: u32, group: Option<u16>) -> io::Result<()> {
    let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let join = |flags: u32| {
        let value = (mode | unique | flags) << 16 | u32::from(group.unwrap_or(0));
        set_number(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, value as i32)
    };
    // Since Linux 5.11 a group has its own setting for frames that this machine sends.
    join(libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING).or_else(|_| join(0))
}

/// The group that a socket is in.
pub fn group(socket: BorrowedFd<'_>) -> io::Result<u16> {
    let mut value = [0];
    get_numbers(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &mut value)?;
    Ok(value[0] as u16)
}

/// Returns the number of frames for the ring since the last call, and of those for which it had no room.
pub fn take_counters(socket: BorrowedFd<'_>) -> io::Result<[u32; 2]> {
    // `struct tpacket_stats`: packets, and drops. A ring of blocks has a third, which counts how often it was
    // full; it is truncated.
    let mut counters = [0; 2];
    get_numbers(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut counters)?;
    Ok(counters)
}

/// Returns whether the interface that a socket was bound to is still there.
pub fn is_bound(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut address = AddressBuffer::EMPTY;
    let mut length = size_of_val(&address.0) as libc::socklen_t;
    // SAFETY: the buffer is valid for writes of `length` bytes.
    let outcome = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address.0).cast(), &mut length) };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    // `struct sockaddr_ll`: family, protocol, index.
    let index = address.0.get(4..8).and_then(<[u8]>::first_chunk).map(|index| i32::from_ne_bytes(*index));
    Ok(index.is_some_and(|index| index > 0))
}

/// Sets an option of packet sockets that is a record of numbers.
fn set_record<T: Copy>(socket: BorrowedFd<'_>, option: libc::c_int, record: &T) -> io::Result<()> {
    let (record, length) = (std::ptr::from_ref(record).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `record` is valid for reads of its size, which is the length given.
    let outcome = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, record, length) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The size of a `struct virtio_net_hdr`, in bytes.
pub const OFFLOAD_HEADER: usize = 10;
