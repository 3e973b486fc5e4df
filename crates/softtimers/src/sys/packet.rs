//! Addresses of the link layer, which rustix lacks.

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};

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
