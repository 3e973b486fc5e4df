//! [`Hold`]: one forwarder for each interface and network namespace.
//!
//! Two programs that forward between the same interfaces each pass on every frame, so that each arrives twice. The lock
//! is the name of an abstract Unix socket: such a name belongs to a network namespace as an interface does, needs neither
//! a file nor a privilege, and ends with the process that has it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Keeps other forwarders off an interface until it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    _name: UnixListener,
}

impl Hold {
    /// Takes the interface of this index; `None` if it is taken.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn take(interface: u32) -> io::Result<Option<Self>> {
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(name(interface))?) {
            Ok(listener) => Ok(Some(Hold { _name: listener })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the process that has taken the interface, if this one can see it.
    pub(super) fn holder(interface: u32) -> Option<u32> {
        let ask = || -> rustix::io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            connect(&socket, &SocketAddrUnix::new_abstract_name(name(interface).as_bytes())?)?;
            Ok(socket)
        };
        let holder = ask().and_then(|socket| socket_peercred(socket.as_fd())).ok()?;
        // The process of a namespace that this one cannot see has no number here.
        u32::try_from(holder.pid.as_raw_nonzero().get()).ok().filter(|&process| process > 0)
    }
}

fn name(interface: u32) -> String {
    format!("softtimers/forwards/{interface}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_one_holder_at_a_time() {
        // No interface has this index.
        let index = 0x7fff_0000 | (std::process::id() & 0xffff);
        assert_eq!(Hold::holder(index), None);
        let first = Hold::take(index).unwrap();
        assert!(first.is_some() && Hold::take(index).unwrap().is_none());
        assert_eq!(Hold::holder(index), Some(std::process::id()));
        assert!(Hold::take(index + 0x1_0000).unwrap().is_some(), "another interface is free");
        drop(first);
        assert!(Hold::take(index).unwrap().is_some());
    }
}
