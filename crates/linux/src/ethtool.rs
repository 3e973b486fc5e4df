//! Facts about an interface from its driver.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The number of queues that an interface has now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queues {
    /// Queues that the interface receives by.
    pub receive: u32,
    /// Queues that it sends by.
    pub send: u32,
}

/// Returns the queues of an interface. `socket` is any socket of its network namespace.
///
/// # Errors
/// `Unsupported` for an interface without multiple queues, which has one in each direction.
pub fn queues(socket: BorrowedFd<'_>, name: &str) -> io::Result<Queues> {
    // `struct ethtool_channels`: the command, the most of each kind, and how many there are.
    let mut channels = [0u32; 9];
    channels[0] = GET_CHANNELS;
    let mut request = Request { name: [0; libc::IFNAMSIZ], data: (&raw mut channels).cast(), rest: [0; 16] };
    if name.len() >= request.name.len() {
        return Err(io::ErrorKind::NotFound.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let request = ptr::from_mut(&mut request);
    // SAFETY: the request is at least as long as the kernel's `struct ifreq` and points to a whole
    // `struct ethtool_channels`; both outlive the call.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, request) };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    let [.., receive, send, _other, combined] = channels;
    Ok(Queues { receive: receive + combined, send: send + combined })
}

/// `struct ifreq`.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut libc::c_void,
    rest: [u8; 16],
}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET_CHANNELS: u32 = 0x3c;
