//! [`Route`]: where the kernel would send a datagram; [`RouteWatch`]: when that may have changed.
//!
//! Raw frames bypass the routing table and the neighbour table (ARP, neighbour discovery). This module
//! queries the kernel's tables instead of keeping its own:
//!
//! ```text
//!   destination ─▶ route ─▶ interface, router ─▶ neighbour ─▶ station
//!        RouteWatch: one of them has changed ──▶ ask again
//! ```
//!
//! The kernel resolves and re-checks a neighbour only for its own packets. So a sender sends one through a
//! socket if the station is unknown, and occasionally otherwise.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use super::Interface;
use crate::rtnetlink::routes::{neighbour, route};
use crate::rtnetlink::{Notice, Notices};

/// The route of a datagram over Ethernet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    interface: Interface,
    next: IpAddr,
    mtu: u32,
}

impl Route {
    /// Returns the present route of UDP between these addresses, by routing tables and rules.
    ///
    /// # Errors
    /// `InvalidInput`, with the reason, if it does not leave by an Ethernet interface, or is encapsulated;
    /// `NetworkUnreachable` and the like if there is none.
    pub fn between(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let plain = |address: SocketAddr| match address {
            SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_none() => address,
            _ => SocketAddr::new(address.ip().to_canonical(), address.port()),
        };
        let (from, to) = (plain(from), plain(to));
        let invalid = |why: &str| io::Error::new(ErrorKind::InvalidInput, why.to_owned());
        let found = route(from, to)?;
        match found.kind {
            libc::RTN_UNICAST => {}
            libc::RTN_LOCAL => return Err(invalid(LOCAL)),
            libc::RTN_BROADCAST | libc::RTN_MULTICAST | RTN_ANYCAST => {
                return Err(invalid("not one station's"));
            }
            _ => return Err(io::ErrorKind::NetworkUnreachable.into()),
        }
        if found.is_encapsulated {
            return Err(invalid("its route puts packets into others"));
        }
        let interface = Interface::at(found.interface.unwrap_or(0))?;
        let mtu = found.mtu.filter(|&mtu| mtu > 0).map_or(interface.mtu(), |mtu| mtu.min(interface.mtu()));
        Ok(Route { interface, next: found.gateway.unwrap_or(to.ip()), mtu })
    }

    /// The interface that it leaves by.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns the next hop: a router, or the destination.
    pub fn next(&self) -> IpAddr {
        self.next
    }

    /// The longest packet, in bytes without Ethernet's header.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns the neighbour's Ethernet address, if the kernel knows it now.
    ///
    /// # Errors
    /// The system's error; a kernel before Linux 5.0 cannot look up a single neighbour.
    pub fn station(&self) -> io::Result<Option<[u8; 6]>> {
        Ok(neighbour(self.interface.index(), self.next)?)
    }
}

/// Receives the kernel's notices when a route or its neighbour may have changed.
///
/// Readable when there is something to [`take`](Self::take). Needs no privilege.
#[derive(Debug)]
pub struct RouteWatch {
    notices: Notices,
}

impl RouteWatch {
    /// Watches from now on: look up the route afterwards.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> io::Result<Self> {
        Ok(RouteWatch { notices: Notices::of_routes()? })
    }

    /// Returns whether this route, or another one to the same destination if it is `None`, may have changed since the last
    /// call. Never waits.
    ///
    /// # Errors
    /// The system's error.
    pub fn take(&mut self, route: Option<&Route>) -> io::Result<bool> {
        let mut changed = false;
        for _ in 0..MOST_MESSAGES {
            let more = self.notices.next(|notice| {
                changed |= match (notice, route) {
                    (Notice::Neighbour(index, address), Some(route)) => {
                        (index, address) == (route.interface.index(), route.next)
                    }
                    (Notice::Neighbour(..), None) => false,
                    _ => true,
                };
            })?;
            if !more {
                break;
            }
        }
        Ok(changed)
    }
}

impl AsFd for RouteWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }
}

const LOCAL: &str = "this machine itself: on loopback the kernel drops raw frames of IPv4 (to 127.0.0.0/8 and its own addresses)";
/// The most messages in one call; the socket stays readable if more are left.
const MOST_MESSAGES: usize = 256;
const RTN_ANYCAST: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::lay;
    use crate::rtnetlink::enter_empty_network;

    #[test]
    fn this_machine_is_no_station() {
        let address = "127.0.0.1:9".parse().unwrap();
        let error = Route::between(address, address).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidInput, LOCAL.into()));
    }

    #[test]
    fn a_route_is_asked_for_and_its_changes_are_told() {
        let inside = std::thread::spawn(|| {
            enter_empty_network()?;
            let here = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
            lay::cable("near", "far", here.as_fd()).map_err(|error| format!("a virtual cable: {error}"))?;
            let [from, to, elsewhere] =
                ["10.9.0.1:7", "10.9.0.2:9", "192.0.2.1:9"].map(|address| address.parse().unwrap());
            let mut watch = RouteWatch::new().unwrap();
            assert!(!watch.take(None).unwrap());
            assert!(Route::between(from, to).is_err());
            lay::switch_on("near").unwrap();
            lay::give_address("near", [10, 9, 0, 1].into(), 24).unwrap();
            assert!(watch.take(None).unwrap() && !watch.take(None).unwrap());
            let route = Route::between(from, to).unwrap();
            assert_eq!((route.interface().name(), route.next()), ("near", to.ip()));
            assert_eq!((route.mtu(), route.station().unwrap()), (1_500, None));

            lay::default_route([10, 9, 0, 77].into()).unwrap();
            assert!(watch.take(Some(&route)).unwrap());
            let by_router = Route::between(from, elsewhere).unwrap();
            assert_eq!(by_router.next(), IpAddr::from([10, 9, 0, 77]));
            Ok::<(), String>(())
        });
        if let Err(why) = inside.join().unwrap() {
            crate::skipped::skipped(&why);
        }
    }
}
