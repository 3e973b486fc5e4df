//! The kernel's route of a datagram.

use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;

use super::{ACKNOWLEDGE, RTMSG, ask, attribute, attributes, message, number, socket};

/// Returns the interface by which UDP between these addresses, which are of one family, leaves; `None` if the route names
/// none.
pub(crate) fn interface_to(from: SocketAddr, to: SocketAddr) -> Result<Option<u32>, Errno> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let bits = if to.is_ipv4() { 32 } else { 128 };
    let mut asked = vec![
        address(libc::RTA_DST, to.ip()),
        address(libc::RTA_SRC, from.ip()),
        attribute(RTA_IP_PROTO, &[libc::IPPROTO_UDP as u8]),
        attribute(RTA_SPORT, &from.port().to_be_bytes()),
        attribute(RTA_DPORT, &to.port().to_be_bytes()),
    ];
    if let SocketAddr::V6(to) = to
        && to.scope_id() != 0
    {
        asked.push(attribute(libc::RTA_OIF, &to.scope_id().to_ne_bytes()));
    }
    // `struct rtmsg`: family, lengths of both prefixes, type of service; table, protocol, scope, type; flags.
    let head = u32::from_ne_bytes([family, bits, bits, 0]);
    let request = message(libc::RTM_GETROUTE, ACKNOWLEDGE, &[head, 0, 0], &asked.concat());
    let answers = ask(&socket()?, &request)?;
    let answer = answers.first().and_then(|answer| answer.get(RTMSG..)).ok_or(Errno::NETUNREACH)?;
    Ok(attributes(answer).find(|&(kind, _)| kind == libc::RTA_OIF).map(|(_, data)| number(data, 0)))
}

fn address(kind: u16, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => attribute(kind, &address.octets()),
        IpAddr::V6(address) => attribute(kind, &address.octets()),
    }
}

/// From `linux/rtnetlink.h`: constants that the C library's headers lack.
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnetlink::LOOPBACK;

    #[test]
    fn this_machine_is_reached_by_loopback() {
        for [from, to] in [["127.0.0.1:7", "127.0.0.1:9"], ["[::1]:7", "[::1]:9"]] {
            let [from, to] = [from, to].map(|address| address.parse::<SocketAddr>().unwrap());
            match interface_to(from, to) {
                Ok(interface) => assert_eq!(interface, Some(LOOPBACK)),
                // A machine without IPv6.
                Err(error) => assert!(to.is_ipv6(), "{error}"),
            }
        }
    }
}
