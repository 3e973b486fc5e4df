//! Socket options, most of which rustix lacks: times, drop counts, errors of the local queue, offloads.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, RecvFlags, TxTimeFlags, recv, sockopt};
use rustix::time::ClockId;

use super::owned;

/// Asks for a receive time with each datagram.
pub fn set_timestamps(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_flag(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, on)
}

/// Asks for the drop counter with each datagram that follows a drop.
pub fn set_drop_counter(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_flag(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, on)
}

/// Asks for `ENOBUFS` where the local queue drops a datagram, and for every ICMP error.
pub fn set_queue_errors(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    if sockopt::socket_domain(socket)? == AddressFamily::INET6 {
        set_flag(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, on)?;
    }
    // A v6 socket may also carry v4 traffic, and takes its option.
    set_flag(socket, libc::IPPROTO_IP, libc::IP_RECVERR, on)
}

/// Empties the queue of ICMP errors; returns how many there were, at most 4096.
pub fn drain_errors(socket: BorrowedFd<'_>) -> io::Result<usize> {
    for drained in 0..MAX_ERRORS {
        match recv(socket, &mut [0u8; 0], RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT) {
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(drained),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(MAX_ERRORS)
}

/// Requests a receive buffer of `bytes`, beyond the system's limit if permitted; returns the size that the
/// kernel granted.
pub fn request_recv_buffer(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    let bytes = bytes.min(i32::MAX as usize);
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(sockopt::socket_recv_buffer_size(socket)?)
}

/// Requests a send buffer of `bytes`, beyond the system's limit if permitted.
pub fn request_send_buffer(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = bytes.min(i32::MAX as usize);
    if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
    }
    Ok(())
}

/// Limits the pace of a socket, in bytes a second without headers; the greatest number is no limit. TCP paces itself then,
/// other sockets only where the interface has fq.
pub fn set_pacing_rate(socket: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
    // The option takes a word of the machine.
    let rate = usize::try_from(bytes_per_second).unwrap_or(usize::MAX);
    set_value(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)
}

/// Returns a second descriptor of what one has, by its number: `EBADF` for a number that is none.
pub fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call reads and writes no memory.
    let outcome = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: it returns a new descriptor.
    unsafe { owned(outcome.into()) }
}

/// Returns the limit of a socket's pace, in bytes a second; the greatest number is no limit.
pub fn pacing_rate(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // Of a word's length it is a word of the machine, as it is set.
    let mut words = [0u32; size_of::<usize>() / 4];
    get_numbers(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut words)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(bytes.try_into().map_or(usize::MAX, usize::from_ne_bytes) as u64)
}

/// Takes the socket's pending error.
pub fn take_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Returns the number of datagrams that the socket has dropped so far, modulo 2³².
pub fn drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut counters = [0; MEMINFO_COUNTERS];
    get_numbers(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut counters)?;
    Ok(counters[libc::SK_MEMINFO_DROPS as usize])
}

/// Makes the kernel cut each send into datagrams of `bytes` (segmentation offload); 0 turns that off.
pub fn set_segment_size(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_number(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into())
}

/// Checks that the kernel can segment sends of this socket. An older one would send one long datagram.
pub fn knows_segments(socket: BorrowedFd<'_>) -> io::Result<()> {
    get_numbers(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &mut [0])
}

/// Enables release times for sends, by the monotonic clock; permanent.
pub fn enable_release_times(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_txtime(socket, ClockId::Monotonic, TxTimeFlags::empty())?)
}

/// Asks for the time at which each packet is handed to the device, on the error queue.
pub fn set_transmit_times(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    set_number(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as libc::c_int)
}

/// Makes the kernel join datagrams of one size that came together (receive offload).
pub fn set_coalescing(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_flag(socket, libc::SOL_UDP, libc::UDP_GRO, on)
}

/// Lets a receive poll the device for `micros` before it sleeps. Needs no right on Linux 6.18; older kernels want
/// `CAP_NET_ADMIN` to raise it, as socket(7) says.
pub fn set_busy_poll(socket: BorrowedFd<'_>, micros: u16) -> io::Result<()> {
    set_number(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, micros.into())
}

/// Lets such a poll take up to `packets` of the device's. Needs `CAP_NET_ADMIN`, to raise it to any number.
pub fn set_busy_poll_budget(socket: BorrowedFd<'_>, packets: u16) -> io::Result<()> {
    set_number(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, packets.into())
}

/// Leaves the interrupts of a device that defers them deferred from one such poll to the next. Needs `CAP_NET_ADMIN`.
pub fn set_prefer_busy_poll(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_flag(socket, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, on)
}

/// Returns the NAPI id of the receive queue of the socket's packets, for polling; 0 if it cannot be polled.
pub fn napi_id(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut number = [0];
    get_numbers(socket, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID, &mut number)?;
    Ok(number[0])
}

/// Attaches `filter`, a loaded program, which decides which packets the socket gets.
pub fn attach_filter(socket: BorrowedFd<'_>, filter: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, filter.as_raw_fd())
}

pub(super) fn set_flag(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    on: bool,
) -> io::Result<()> {
    set_number(socket, level, option, on.into())
}

pub(super) fn set_number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_value(socket, level, option, value)
}

fn set_value<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: `value` is valid for reads of its size, which is the length given.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of one or several numbers.
pub(super) fn get_numbers(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    numbers: &mut [u32],
) -> io::Result<()> {
    let mut length = size_of_val(numbers) as libc::socklen_t;
    // SAFETY: `numbers` is valid for writes of `length` bytes, and any bytes make valid `u32`s.
    let outcome = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, numbers.as_mut_ptr().cast(), &mut length)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// More than a receive buffer holds, so that a flood of ICMP errors cannot keep us here.
const MAX_ERRORS: usize = 4096;

/// The number of counters since the option exists (Linux 4.12); the kernel writes no more than requested.
const MEMINFO_COUNTERS: usize = libc::SK_MEMINFO_DROPS as usize + 1;
