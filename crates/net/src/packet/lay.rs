//! Interfaces made and set up, in a network that this process has made: virtual cables, addresses, a route.
//!
//! Needs `CAP_NET_ADMIN` over that network, which a process has that made it in its own user namespace.

use std::ffi::CString;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use super::Interface;
use crate::rtnetlink::{self, lay};

/// Makes a virtual cable (veth) with one end in this network and the other in `network`.
///
/// # Errors
/// The system's error: `EEXIST` for a name that is taken, `EPERM` without the capability, `EOPNOTSUPP` if the kernel
/// has no such cables.
pub fn cable(here: &str, there: &str, network: BorrowedFd<'_>) -> io::Result<()> {
    let [here, there] = [here, there].map(CString::new);
    Ok(lay::add_cable(&here?, &there?, network)?)
}

/// Makes an interface whose other end is a program's, which attaches to it by its name. It stays when that program ends.
///
/// # Errors
/// As [`cable`], and `NotFound` without `/dev/net/tun`.
pub fn tap(name: &str) -> io::Result<()> {
    softtimers_linux::tap::lasting_tap(name)
}

/// Switches an interface on; `lo` is one.
///
/// # Errors
/// `NotFound` if there is none; otherwise the system's error.
pub fn switch_on(name: &str) -> io::Result<()> {
    rtnetlink::set_up(Interface::to_listen(name)?.index()).map_err(io::Error::other)
}

/// Gives an interface an address in a network whose prefix has this length. One of IPv6 is used at once, without a probe
/// for another host that has it.
///
/// # Errors
/// As [`switch_on`].
pub fn give_address(name: &str, address: IpAddr, prefix: u8) -> io::Result<()> {
    Ok(lay::add_address(Interface::to_listen(name)?.index(), address, prefix)?)
}

/// Sets the default route to `gateway`, a neighbour on an interface that is on.
///
/// # Errors
/// The system's error.
pub fn default_route(gateway: IpAddr) -> io::Result<()> {
    Ok(lay::add_default_route(gateway)?)
}
