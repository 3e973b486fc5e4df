//! [`UdpSocket::bind_group`]: several sockets at one address, each for a part of the flows.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::AsFd;

use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use softtimers_linux::packet::{Instruction, attach_filter, detach_filter};

use super::UdpSocket;

impl UdpSocket {
    /// Makes sockets that are bound to the same address, one for each thread. The kernel gives all datagrams
    /// of one sender's address and port to the same one of them, by a hash (`SO_REUSEPORT`), so they stay in
    /// order.
    ///
    /// Which one depends on their number. So none gets a datagram before all are bound, and all must be kept
    /// until the last is no longer needed. Other processes of this user could join them later.
    ///
    /// # Errors
    /// `AddrInUse` if another socket has the address, even if it shares it; otherwise the system's error.
    pub fn bind_group(address: SocketAddr, number: usize) -> io::Result<Vec<Self>> {
        if number < 2 {
            return Ok(vec![UdpSocket::bind(address)?]);
        }
        // Bound without sharing, so it detects other sockets, and finds a free port, which the others then
        // share.
        let first = deaf(address, false)?;
        set_socket_reuseport(&first, true)?;
        let address = first.local_addr()?;
        let mut group = vec![first];
        for _ in 1..number {
            group.push(deaf(address, true)?);
        }
        group.iter().try_for_each(|socket| detach_filter(socket.as_fd()))?;
        Ok(group)
    }
}

/// Makes a socket at this address that gets no datagrams yet.
fn deaf(address: SocketAddr, shares: bool) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseport(&socket, shares)?;
    attach_filter(socket.as_fd(), &[NOTHING])?;
    bind(&socket, &address)?;
    Ok(net::UdpSocket::from(socket).into())
}

/// Keeps no byte: `BPF_RET | BPF_K`.
const NOTHING: Instruction = Instruction { operation: 0x06, holds: 0, fails: 0, constant: 0 };

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_flow_stays_with_one_socket_and_nobody_shares_unasked() {
        let group = UdpSocket::bind_group("127.0.0.1:0".parse().unwrap(), 4).unwrap();
        let address = group[0].local_addr().unwrap();
        let taken = UdpSocket::bind_group(address, 2).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        // 96 clients, so that each socket has some: 4 (3/4)⁹⁶ is less than 10⁻¹¹.
        let clients: Vec<_> = (0..96).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for number in 0..4u8 {
            clients.iter().for_each(|client| _ = client.send_to(&[number], address).unwrap());
        }
        let mut of = HashMap::new();
        for (place, socket) in group.iter().enumerate() {
            socket.set_nonblocking(true).unwrap();
            let mut next = HashMap::new();
            while let Ok((_, from)) = socket.recv_from(&mut [0; 1]) {
                assert_eq!(*of.entry(from).or_insert(place), place);
                *next.entry(from).or_insert(0) += 1;
            }
            assert!(next.values().all(|&datagrams| datagrams == 4), "all of a flow: {next:?}");
            assert!(!next.is_empty(), "socket {place} has no client");
        }
        assert_eq!(of.len(), 96);
        assert_eq!(UdpSocket::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().len(), 1);
    }
}
