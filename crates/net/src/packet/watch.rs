//! [`InterfaceWatch`]: changes at interfaces while a program uses them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::Interface;
use crate::rtnetlink::{Notice, Notices};

/// Receives the kernel's notices when one of some interfaces changes: its MTU, its own address, whether it is
/// switched on and has a carrier, and the machine's addresses there.
///
/// Readable when there is something to [`take`](Self::take). Needs no privilege.
///
/// ```no_run
/// use softtimers_net::packet::{Interface, InterfaceChange, InterfaceWatch};
///
/// let interface = Interface::named("eth0")?;
/// let mut watch = InterfaceWatch::new(vec![interface])?;
/// // When it can be read:
/// for change in watch.take()? {
///     if let InterfaceChange::Now { interface, .. } = change {
///         println!("{} has an MTU of {}", interface.name(), interface.mtu());
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct InterfaceWatch {
    notices: Notices,
    interfaces: Vec<Interface>,
}

/// A change of an interface. `place` is its index among those that are watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InterfaceChange {
    /// The interface's present state.
    Now {
        /// The index of the interface among those that are watched.
        place: usize,
        /// The interface as it is now.
        interface: Interface,
    },
    /// The machine has other [addresses](Interface::addresses) there now.
    Addresses {
        /// The index of the interface among those that are watched.
        place: usize,
    },
    /// It was removed, or moved into another network.
    Removed {
        /// The index of the interface among those that are watched.
        place: usize,
    },
}

impl InterfaceWatch {
    /// Watches these from now on. They may have changed since they were looked up: call [`all`](Self::all).
    ///
    /// # Errors
    /// The system's error.
    pub fn new(interfaces: Vec<Interface>) -> io::Result<Self> {
        Ok(InterfaceWatch { notices: Notices::of_interfaces()?, interfaces })
    }

    /// Returns the present state of all of them, in order: for the start, and after lost notices.
    pub fn all(&mut self) -> Vec<InterfaceChange> {
        let mut changes = Vec::new();
        for (place, interface) in self.interfaces.iter_mut().enumerate() {
            match interface.looked_up_again() {
                Ok(now) => {
                    *interface = now.clone();
                    changes.push(InterfaceChange::Now { place, interface: now });
                    changes.push(InterfaceChange::Addresses { place });
                }
                Err(_) => changes.push(InterfaceChange::Removed { place }),
            }
        }
        changes
    }

    /// Returns the changes since the last call, in order, and nothing if there are none: it never waits. If
    /// notices were lost, it returns [all](Self::all).
    ///
    /// # Cost
    /// A system call for each message of the kernel, at most 256; the others are left for the next call.
    ///
    /// # Errors
    /// The system's error.
    pub fn take(&mut self) -> io::Result<Vec<InterfaceChange>> {
        let (mut changes, mut is_lost) = (Vec::new(), false);
        let Self { notices, interfaces } = self;
        let place = |index| interfaces.iter().position(|interface| interface.index() == index);
        let mut each = |notice| match notice {
            Notice::Lost => is_lost = true,
            Notice::Link(index, link) => changes.extend(
                place(index)
                    .map(|place| InterfaceChange::Now { place, interface: interfaces[place].with(link) }),
            ),
            Notice::Removed(index) => {
                changes.extend(place(index).map(|place| InterfaceChange::Removed { place }));
            }
            Notice::Addresses(index) => {
                changes.extend(place(index).map(|place| InterfaceChange::Addresses { place }));
            }
        };
        for _ in 0..MOST_MESSAGES {
            if !notices.next(&mut each)? {
                break;
            }
        }
        Ok(if is_lost { self.all() } else { changes })
    }
}

impl AsFd for InterfaceWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }
}

/// Messages in one call.
const MOST_MESSAGES: usize = 256;

#[cfg(test)]
mod tests {
    use softtimers_linux::sockopt;

    use super::*;
    use crate::rtnetlink;

    fn mtus(changes: &[InterfaceChange]) -> Vec<u32> {
        let mtu = |change: &InterfaceChange| match change {
            InterfaceChange::Now { interface, .. } => Some(interface.mtu()),
            _ => None,
        };
        changes.iter().filter_map(mtu).collect()
    }

    /// Each change in order; after lost notices, the final state.
    #[test]
    fn changes_are_told_and_after_too_many_the_last_state() {
        let inside = std::thread::spawn(|| {
            rtnetlink::enter_empty_network()?;
            let lo = Interface::to_listen("lo").map_err(|error| error.to_string())?;
            let mut watch = InterfaceWatch::new(vec![lo]).unwrap();
            assert_eq!(watch.take().unwrap(), []);
            for mtu in [9_000, 1_400] {
                rtnetlink::set_mtu(rtnetlink::LOOPBACK, mtu).unwrap();
            }
            let told = mtus(&watch.take().unwrap());
            assert_eq!((told.first(), told.last()), (Some(&9_000), Some(&1_400)), "{told:?}");
            assert_eq!(watch.take().unwrap(), []);

            sockopt::request_recv_buffer(watch.as_fd(), 1).unwrap();
            for mtu in 2_000..2_100 {
                rtnetlink::set_mtu(rtnetlink::LOOPBACK, mtu).unwrap();
            }
            let all = watch.take().unwrap();
            assert_eq!(mtus(&all), [2_099], "{all:?}");
            assert!(all.contains(&InterfaceChange::Addresses { place: 0 }));
            Ok::<(), String>(())
        });
        if let Err(why) = inside.join().unwrap() {
            crate::skipped::skipped(&why);
        }
    }
}
