//! The kernel's route of a packet, and its entry for the neighbour there.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;

use super::{ACKNOWLEDGE, RTMSG, ask, attribute, attributes, half, message, number, socket};

/// A route as the kernel answers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// `RTN_UNICAST`, `RTN_LOCAL` and the like.
    pub(crate) kind: u8,
    pub(crate) interface: Option<u32>,
    /// The router, if it is not the destination itself.
    pub(crate) gateway: Option<IpAddr>,
    /// The route's own MTU, if it has one.
    pub(crate) mtu: Option<u32>,
    /// Whether packets are encapsulated.
    pub(crate) is_encapsulated: bool,
}

/// The route of UDP between these addresses, which are of one family.
pub(crate) fn route(from: SocketAddr, to: SocketAddr) -> Result<Answer, Errno> {
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
    answers.first().and_then(|answer| Answer::parse(answer)).ok_or(Errno::NETUNREACH)
}

impl Answer {
    fn parse(answer: &[u8]) -> Option<Self> {
        let mut route = Answer {
            kind: *answer.get(7)?,
            interface: None,
            gateway: None,
            mtu: None,
            is_encapsulated: false,
        };
        for (kind, data) in attributes(answer.get(RTMSG..)?) {
            match kind {
                libc::RTA_OIF => route.interface = Some(number(data, 0)),
                libc::RTA_GATEWAY => route.gateway = address_of(data),
                // `struct rtvia`: a family, and an address of it.
                RTA_VIA => route.gateway = data.get(2..).and_then(address_of),
                libc::RTA_METRICS => {
                    let mut metrics = attributes(data);
                    route.mtu = metrics.find(|&(kind, _)| kind == RTAX_MTU).map(|(_, mtu)| number(mtu, 0));
                }
                RTA_ENCAP_TYPE => route.is_encapsulated = half(data, 0) != 0,
                _ => {}
            }
        }
        Some(route)
    }
}

/// Returns the known Ethernet address of this neighbour at an interface, if it is a station's.
pub(crate) fn neighbour(interface: u32, neighbour: IpAddr) -> Result<Option<[u8; 6]>, Errno> {
    let family = if neighbour.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    // `struct ndmsg`: family; index; state, flags, type.
    let request = message(
        libc::RTM_GETNEIGH,
        ACKNOWLEDGE,
        &[u32::from_ne_bytes([family, 0, 0, 0]), interface, 0],
        &address(NDA_DST, neighbour),
    );
    match ask(&socket()?, &request) {
        Ok(answers) => Ok(answers.first().and_then(|answer| station(answer))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The station in a description of a neighbour.
fn station(neighbour: &[u8]) -> Option<[u8; 6]> {
    if half(neighbour, 8) & NUD_VALID == 0 {
        return None;
    }
    let mut all = attributes(neighbour.get(NDMSG..)?);
    let station = all.find(|&(kind, _)| kind == NDA_LLADDR)?.1.try_into().ok();
    station.filter(|station: &[u8; 6]| station[0] & 1 == 0 && *station != [0; 6])
}

/// Returns the IP address of a neighbour's description.
pub(super) fn neighbours_address(neighbour: &[u8]) -> Option<IpAddr> {
    let mut all = attributes(neighbour.get(NDMSG..)?);
    address_of(all.find(|&(kind, _)| kind == NDA_DST)?.1)
}

fn address(kind: u16, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => attribute(kind, &address.octets()),
        IpAddr::V6(address) => attribute(kind, &address.octets()),
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
        _ => None,
    }
}

/// From `linux/rtnetlink.h`: constants that the C library's headers lack, or have by other types.
const RTAX_MTU: u16 = 2;
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
/// From `linux/neighbour.h`.
const NDMSG: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Permanent, without resolution, reachable, being probed, stale, or about to be probed.
const NUD_VALID: u16 = 0x80 | 0x40 | 0x02 | 0x10 | 0x04 | 0x08;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_local_to_itself() {
        for [from, to] in [["127.0.0.1:7", "127.0.0.1:9"], ["[::1]:7", "[::1]:9"]] {
            let [from, to] = [from, to].map(|address| address.parse::<SocketAddr>().unwrap());
            match route(from, to) {
                Ok(answer) => {
                    assert_eq!((answer.kind, answer.gateway), (libc::RTN_LOCAL, None), "{answer:?}");
                }
                // A machine without IPv6.
                Err(error) => assert!(to.is_ipv6(), "{error}"),
            }
        }
    }

    #[test]
    fn stations_are_known_or_not() {
        let neighbour = |state: u16, station: &[u8]| {
            let mut bytes = vec![0; NDMSG];
            bytes[8..10].copy_from_slice(&state.to_ne_bytes());
            bytes.extend(address(NDA_DST, [10, 0, 0, 1].into()));
            bytes.extend(attribute(NDA_LLADDR, station));
            bytes
        };
        assert_eq!(station(&neighbour(0x02, &[2, 0, 0, 0, 0, 1])), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(neighbours_address(&neighbour(0x02, &[])), Some([10, 0, 0, 1].into()));
        // Failed, incomplete, multicast, zero, not Ethernet, truncated.
        for (state, address) in
            [(0x20, &[2; 6][..]), (0x01, &[2; 6]), (0x02, &[1; 6]), (0x02, &[0; 6]), (0x02, &[2; 4])]
        {
            assert_eq!(station(&neighbour(state, address)), None, "{state} {address:?}");
        }
        let whole = neighbour(0x02, &[2, 0, 0, 0, 0, 1]);
        (0..whole.len() - 2).for_each(|length| assert_eq!(station(&whole[..length]), None, "at {length}"));
    }

    #[test]
    fn routes_are_read() {
        let mtu = attribute(RTAX_MTU, &1_400u32.to_ne_bytes());
        let via = [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &[0xfe; 16]].concat();
        let all = [
            attribute(libc::RTA_OIF, &7u32.to_ne_bytes()),
            attribute(RTA_VIA, &via),
            attribute(libc::RTA_METRICS, &mtu),
            attribute(RTA_ENCAP_TYPE, &1u16.to_ne_bytes()),
        ];
        let bytes = [&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0][..], &all.concat()].concat();
        let answer = Answer::parse(&bytes).unwrap();
        assert_eq!((answer.kind, answer.interface, answer.mtu), (libc::RTN_UNICAST, Some(7), Some(1_400)));
        assert_eq!((answer.gateway, answer.is_encapsulated), (Some([0xfe; 16].into()), true));
        assert!(Answer::parse(&bytes[..7]).is_none());
    }
}
