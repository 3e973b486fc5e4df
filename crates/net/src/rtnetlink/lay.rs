//! Virtual cables, addresses and routes, for a network that the process has made itself.

use std::ffi::CStr;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::{ACKNOWLEDGE, IFLA_INFO_KIND, acknowledged, attribute, message};

/// Makes a virtual cable: one end here, of the name `here`, the other in the network `network`, of the name `there`.
pub(crate) fn add_cable(here: &CStr, there: &CStr, network: BorrowedFd<'_>) -> Result<(), Errno> {
    let name = |name: &CStr| attribute(libc::IFLA_IFNAME, name.to_bytes_with_nul());
    let network = attribute(libc::IFLA_NET_NS_FD, &network.as_raw_fd().to_ne_bytes());
    // `struct ifinfomsg` of the other end, all zero, and its attributes.
    let peer = attribute(VETH_INFO_PEER, &[&[0; 16], &*name(there), &*network].concat());
    let kind = attribute(IFLA_INFO_KIND, b"veth\0");
    let info = attribute(libc::IFLA_LINKINFO, &[kind, attribute(IFLA_INFO_DATA, &peer)].concat());
    change(libc::RTM_NEWLINK, &[0, 0, 0, 0], &[name(here), info])
}

/// Gives an interface an address.
pub(crate) fn add_address(interface: u32, address: IpAddr, prefix: u8) -> Result<(), Errno> {
    let (family, octets) = parts(address);
    // `struct ifaddrmsg`: family, length of the prefix, flags, scope; index. IPv4 ignores the flag.
    let head = u32::from_ne_bytes([family, prefix, libc::IFA_F_NODAD as u8, 0]);
    let address = |kind| attribute(kind, &octets);
    change(libc::RTM_NEWADDR, &[head, interface], &[address(libc::IFA_LOCAL), address(libc::IFA_ADDRESS)])
}

/// Adds a default route by this neighbour.
pub(crate) fn add_default_route(by: IpAddr) -> Result<(), Errno> {
    let (family, octets) = parts(by);
    // `struct rtmsg`: family, lengths of both prefixes, type of service; table, protocol, scope, type; flags.
    let head = u32::from_ne_bytes([family, 0, 0, 0]);
    let table = u32::from_ne_bytes([
        libc::RT_TABLE_MAIN,
        libc::RTPROT_BOOT,
        libc::RT_SCOPE_UNIVERSE,
        libc::RTN_UNICAST,
    ]);
    change(libc::RTM_NEWROUTE, &[head, table, 0], &[attribute(libc::RTA_GATEWAY, &octets)])
}

/// Returns the family of an address, and its bytes.
fn parts(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(ip) => (libc::AF_INET as u8, ip.octets().into()),
        IpAddr::V6(ip) => (libc::AF_INET6 as u8, ip.octets().into()),
    }
}

fn change(kind: u16, body: &[u32], attributes: &[Vec<u8>]) -> Result<(), Errno> {
    let flags = ACKNOWLEDGE | (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    acknowledged(&message(kind, flags, body, &attributes.concat()))
}

/// From `linux/if_link.h` and `linux/veth.h`.
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
