//! Interfaces whose other end is a descriptor of the program.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};

/// Makes an Ethernet interface of this name: read the frames that it sends from the descriptor, and write
/// those that it receives there, both preceded by a `struct virtio_net_hdr`.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN`; `NotFound` if the kernel lacks TAP devices.
pub fn tap(name: &str) -> io::Result<OwnedFd> {
    attach(name, libc::IFF_VNET_HDR)
}

/// Makes an Ethernet interface of this name for another program to attach to. It stays until its network ends, so that
/// the kernel need not wait for all of its users when that program ends: some 20 ms.
///
/// # Errors
/// As [`tap`].
pub fn lasting_tap(name: &str) -> io::Result<()> {
    let device = attach(name, 0)?;
    // SAFETY: the argument is a number.
    let outcome = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETPERSIST as _, 1) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn attach(name: &str, flags: i32) -> io::Result<OwnedFd> {
    let device = open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: all fields are integers, arrays of them and raw pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | flags) as i16;
    // SAFETY: the request is one of the kind that this call reads and writes.
    let outcome = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if outcome == 0 { Ok(device) } else { Err(io::Error::last_os_error()) }
}
