//! Notices of the kernel about interfaces: [`Notices`].
//!
//! The messages are those of the answers to requests, so the same functions read them. A socket has room for
//! some hundred of them; others are lost, and the kernel reports the loss.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, bind, recvfrom};

use super::{HEADER, Link, half, number, socket, split};

/// A socket that receives notices.
#[derive(Debug)]
pub(crate) struct Notices {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// A change reported by the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// The present state of the interface with this index.
    Link(u32, Link),
    /// The interface of this index was removed.
    Removed(u32),
    /// It has another address, or one less.
    Addresses(u32),
    /// Notices were lost for want of room.
    Lost,
}

impl Notices {
    /// Listens for changes of interfaces and their addresses from now on.
    pub(crate) fn of_interfaces() -> Result<Self, Errno> {
        let socket = socket()?;
        bind(&socket, &SocketAddrNetlink::new(0, INTERFACES))?;
        Ok(Notices { socket, buffer: vec![0; LONGEST_MESSAGE] })
    }

    /// Reads the changes of one message of the kernel; returns `false` if there is none.
    pub(crate) fn next(&mut self, mut each: impl FnMut(Notice)) -> Result<bool, Errno> {
        let (length, whole, from) = match recvfrom(&self.socket, &mut self.buffer[..], FLAGS) {
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::NOBUFS) => {
                each(Notice::Lost);
                return Ok(true);
            }
            outcome => outcome?,
        };
        // Another program may write to this socket; ignore its messages.
        let kernel = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
        if kernel.is_none_or(|kernel| kernel.pid() != 0) {
            return Ok(true);
        }
        if whole > length {
            each(Notice::Lost);
            return Ok(true);
        }
        let mut rest = &self.buffer[..length];
        while let Some((message, after)) = split(rest, number(rest, 0) as usize, HEADER) {
            Notice::parse(half(message, 4), &message[HEADER..]).into_iter().for_each(&mut each);
            rest = after;
        }
        Ok(true)
    }
}

impl Notice {
    fn parse(kind: u16, body: &[u8]) -> Option<Self> {
        // `struct ifinfomsg` and `struct ifaddrmsg` have the interface's number here.
        let index = number(body, 4);
        match kind {
            libc::RTM_NEWLINK if body.first() == Some(&(libc::AF_UNSPEC as u8)) => {
                Some(Notice::Link(index, Link::parse(body)))
            }
            libc::RTM_DELLINK if body.first() == Some(&(libc::AF_UNSPEC as u8)) => {
                Some(Notice::Removed(index))
            }
            libc::RTM_NEWADDR | libc::RTM_DELADDR => Some(Notice::Addresses(index)),
            _ => None,
        }
    }
}

impl AsFd for Notices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const INTERFACES: u32 = (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
const FLAGS: RecvFlags = RecvFlags::DONTWAIT.union(RecvFlags::TRUNC);
/// Longer than any message of the kernel (`NLMSG_GOODSIZE`, at most one page).
const LONGEST_MESSAGE: usize = 32 << 10;
