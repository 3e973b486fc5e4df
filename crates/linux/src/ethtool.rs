//! An interface's driver: its queues and its offloads, as `ethtool` shows and sets them.

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
    ask(socket, name, &mut channels)?;
    let [.., receive, send, _other, combined] = channels;
    Ok(Queues { receive: receive + combined, send: send + combined })
}

/// Work that an interface does for the kernel, or has the kernel put off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Generic receive offload: segments that arrive are joined. A veth takes frames of programs only with it.
    Gro,
    /// TCP segmentation offload: the interface cuts what the kernel sends.
    Tso,
    /// Checksums of what is sent are left to the interface.
    SendChecksums,
}

/// Switches an offload of an interface on or off. `socket` is any socket of its network namespace.
///
/// # Errors
/// Needs `CAP_NET_ADMIN` in the namespace. `Unsupported` if the driver cannot switch it; the kernel does not say so where
/// another feature keeps it as it is.
pub fn set_offload(socket: BorrowedFd<'_>, name: &str, offload: Offload, is_on: bool) -> io::Result<()> {
    let command = match offload {
        Offload::Gro => SET_GRO,
        Offload::Tso => SET_TSO,
        Offload::SendChecksums => SET_SEND_CHECKSUMS,
    };
    // `struct ethtool_value`.
    ask(socket, name, &mut [command, u32::from(is_on)])
}

/// Hands a request to the driver, which writes its answer there. Of the structures that the commands above need each is a
/// row of `u32`, the command first.
fn ask<const N: usize>(socket: BorrowedFd<'_>, name: &str, words: &mut [u32; N]) -> io::Result<()> {
    let mut request = Request { name: [0; libc::IFNAMSIZ], data: (&raw mut *words).cast(), rest: [0; 16] };
    if name.len() >= request.name.len() {
        return Err(io::ErrorKind::NotFound.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let request = ptr::from_mut(&mut request);
    // SAFETY: the request is at least as long as the kernel's `struct ifreq` and points to a whole structure of the
    // command that it begins with; both outlive the call.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, request) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
const SET_SEND_CHECKSUMS: u32 = 0x17;
const SET_TSO: u32 = 0x1f;
const SET_GRO: u32 = 0x2c;
