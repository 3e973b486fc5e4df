//! An interface of this machine, and its present use.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::hold::Hold;
use crate::rtnetlink::{self, Link};

/// An Ethernet interface, as it was when it was looked up.
#[derive(Clone, Debug)]
pub struct Interface {
    name: String,
    index: u32,
    link: Link,
    /// Keeps other forwarders off it while this one, or a clone, exists.
    _hold: Option<Arc<Hold>>,
}

impl Interface {
    /// Looks up the interface of this name.
    ///
    /// # Errors
    /// `NotFound` if there is none, `InvalidInput` if its frames are not Ethernet's.
    pub fn named(name: &str) -> io::Result<Self> {
        let interface = Interface::to_listen(name)?;
        if interface.is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an Ethernet interface"));
        }
        Ok(interface)
    }

    /// Looks up the interface of this name, to capture from it: also the loopback interface, whose frames
    /// have Ethernet headers, and pass it twice, outgoing and incoming.
    ///
    /// # Errors
    /// As [`named`](Interface::named).
    pub fn to_listen(name: &str) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such interface");
        // The call truncates a name that is too long, perhaps to that of another interface.
        let fits = !name.is_empty() && name.len() < libc::IFNAMSIZ;
        if !fits {
            return Err(missing());
        }
        let index = name_to_index(&socket, name).map_err(|error| match error {
            Errno::NODEV => missing(),
            error => error.into(),
        })?;
        let link = rtnetlink::link(index)?;
        if ![libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&link.kind) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an Ethernet interface"));
        }
        Ok(Interface { name: name.to_owned(), index, link, _hold: None })
    }

    /// The interface's name, such as `eth0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index, by which the kernel names it.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The longest packet that it sends, in bytes without Ethernet's header.
    pub fn mtu(&self) -> u32 {
        self.link.mtu
    }

    /// Returns whether the interface was switched on.
    pub fn is_up(&self) -> bool {
        self.link.is_up
    }

    /// Returns whether the interface has a carrier, according to its driver.
    pub fn has_carrier(&self) -> bool {
        self.link.has_carrier
    }

    /// Looks the interface up again. An [`InterfaceWatch`](super::InterfaceWatch) reports when that is
    /// necessary.
    ///
    /// # Errors
    /// `ENODEV` if it was removed; otherwise the system's error.
    pub(super) fn looked_up_again(&self) -> io::Result<Self> {
        Ok(Interface { link: rtnetlink::link(self.index)?, ..self.clone() })
    }

    /// Keeps other forwarders off it from now on, for as long as this value or a clone of it exists.
    ///
    /// # Errors
    /// The process that does so already, if it is known; otherwise the system's error.
    pub(super) fn hold(self) -> io::Result<Result<Self, Option<u32>>> {
        Ok(match Hold::take(self.index)? {
            Some(hold) => Ok(Interface { _hold: Some(Arc::new(hold)), ..self }),
            None => Err(Hold::holder(self.index)),
        })
    }

    pub(super) fn with(&self, link: Link) -> Self {
        Interface { link, ..self.clone() }
    }

    /// Returns whether it is the loopback interface.
    pub fn is_loopback(&self) -> bool {
        self.link.kind == libc::ARPHRD_LOOPBACK
    }

    /// Its own address of Ethernet.
    pub fn hardware_address(&self) -> [u8; 6] {
        self.link.address
    }

    /// Returns whether it is part of a bridge, a bond or the like.
    pub(super) fn is_enslaved(&self) -> bool {
        self.link.master.is_some()
    }

    /// Returns the names of the interfaces on top of this one, such as VLANs: their frames pass through it.
    /// Misses those that were moved into another network.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn upper_interfaces(&self) -> io::Result<Vec<String>> {
        Ok(rtnetlink::upon(self.index)?)
    }

    /// Returns whether it now sends frames that an XDP program redirects to it. A virtual cable does while
    /// its other end has its own program, or GRO.
    ///
    /// # Errors
    /// The system's error: `NotFound` before Linux 6.3.
    pub fn takes_redirected(&self) -> io::Result<bool> {
        Ok(rtnetlink::redirects::takes(self.index)?)
    }

    /// Returns this machine's present addresses there, including link-local IPv6 ones, which every interface
    /// has that is switched on.
    ///
    /// # Errors
    /// The system's error.
    pub fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(rtnetlink::addresses(self.index)?)
    }

    /// Returns whether this machine's default route, of either family, now leaves there.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn has_default_route(&self) -> io::Result<bool> {
        Ok(rtnetlink::has_default_route(self.index)?)
    }
}

/// Compares the interfaces, and no holds.
impl PartialEq for Interface {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.index, &self.link) == (&other.name, other.index, &other.link)
    }
}

impl Eq for Interface {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ethernet_is_refused() {
        assert_eq!(Interface::named("lo").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        for name in ["", "nosuch0", "an interface with a name beyond all bounds"] {
            assert_eq!(Interface::named(name).unwrap_err().kind(), io::ErrorKind::NotFound, "{name}");
        }
    }
}
