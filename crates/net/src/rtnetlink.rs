//! Queries of the kernel's network configuration, for the probes and the packet sockets.
//!
//! ```text
//!   length u32 │ type u16 │ flags u16 │ sequence u32 │ port u32 ║ body ║ attributes, each
//!                                                                       length u16 │ type u16 │ data
//! ```

#[cfg(feature = "packet")]
pub(crate) mod lay;
pub(crate) mod napi;
#[cfg(feature = "packet")]
mod notices;
pub(crate) mod queues;
#[cfg(feature = "packet")]
pub(crate) mod redirects;
#[cfg(feature = "packet")]
pub(crate) mod routes;

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use softtimers_linux::namespace;
use softtimers_linux::wait::wait_readable;

#[cfg(feature = "packet")]
pub(crate) use notices::{Notice, Notices};
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socket_with};

use crate::trying::Trying;

/// Moves the calling thread into an empty network, whose loopback is up.
pub(crate) fn enter_empty_network() -> Result<(), String> {
    namespace::unshare_network().needing("CAP_SYS_ADMIN", "a network namespace to try it in")?;
    set_up(LOOPBACK)
}

/// The index of `lo`, in every network.
pub(crate) const LOOPBACK: u32 = 1;

/// Switches an interface on.
pub(crate) fn set_up(interface: u32) -> Result<(), String> {
    const UP: u32 = libc::IFF_UP as u32;
    // `struct ifinfomsg`: family and type, index, flags, which flags to change.
    let body = [0, interface, UP, UP];
    acknowledged(&message(libc::RTM_NEWLINK, ACKNOWLEDGE, &body, &[])).trying("switching loopback on")
}

/// Sets the longest packet of an interface.
#[cfg(test)]
pub(crate) fn set_mtu(interface: u32, mtu: u32) -> Result<(), Errno> {
    let attributes = attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
    acknowledged(&message(libc::RTM_NEWLINK, ACKNOWLEDGE, &[0, interface, 0, 0], &attributes))
}

/// Gives an interface a root queue of this kind.
pub(crate) fn add_queue(interface: u32, kind: &str, options: &[u8]) -> Result<(), String> {
    let attributes =
        [attribute(libc::TCA_KIND, kind.as_bytes()), attribute(libc::TCA_OPTIONS, options)].concat();
    let flags = ACKNOWLEDGE | (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    // `struct tcmsg`: family, index, handle, parent, information.
    let body = [0, interface, 0, ROOT, 0];
    match acknowledged(&message(libc::RTM_NEWQDISC, flags, &body, &attributes)) {
        Err(Errno::NOENT) => Err(format!("this kernel has no {kind}")),
        outcome => outcome.needing("CAP_NET_ADMIN", &format!("a queue of the kind {kind}")),
    }
}

/// The names of the interfaces that have a queue of one of these kinds.
pub(crate) fn interfaces_with(kinds: &[&str]) -> Result<Vec<String>, String> {
    let socket = socket().trying("a netlink socket")?;
    let mut names: Vec<String> = Vec::new();
    for queue in queues::all().trying("asking for queues")? {
        if kinds.contains(&&*queue.kind) {
            let name = index_to_name(&socket, queue.interface);
            names.extend(name.ok().filter(|name| !names.contains(name)));
        }
    }
    Ok(names)
}

/// The kernel's description of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// The type of hardware, `ARPHRD_…`.
    pub(crate) kind: u16,
    pub(crate) is_up: bool,
    /// Whether it has a carrier.
    pub(crate) has_carrier: bool,
    pub(crate) mtu: u32,
    /// The bridge or bond that it belongs to.
    pub(crate) master: Option<u32>,
    /// The Ethernet address; otherwise zeroes.
    pub(crate) address: [u8; 6],
}

/// An interface by its index.
pub(crate) fn link(interface: u32) -> Result<Link, Errno> {
    described(interface).map(|described| Link::parse(&described))
}

impl Link {
    /// Parses the kernel's description: `struct ifinfomsg`, and attributes.
    fn parse(described: &[u8]) -> Self {
        let word = |wanted| attribute_of(described, wanted).map(|data| number(data, 0));
        let flag = |flag: i32| number(described, 8) & flag as u32 != 0;
        Link {
            kind: half(described, 2),
            is_up: flag(libc::IFF_UP),
            has_carrier: flag(IFF_LOWER_UP),
            mtu: word(libc::IFLA_MTU).unwrap_or(0),
            master: word(libc::IFLA_MASTER),
            address: attribute_of(described, libc::IFLA_ADDRESS)
                .and_then(|data| data.try_into().ok())
                .unwrap_or_default(),
        }
    }
}

/// Frames that an interface received, and then dropped or missed.
pub(crate) fn dropped(interface: u32) -> Result<u64, Errno> {
    let [dropped, missed] = statistics(interface, [RX_DROPPED, RX_MISSED])?;
    Ok(dropped + missed)
}

/// Returns the number of frames that an interface missed, for want of room of its own.
pub(crate) fn missed(interface: u32) -> Result<u64, Errno> {
    statistics(interface, [RX_MISSED]).map(|[missed]| missed)
}

/// Words of `struct rtnl_link_stats64`.
fn statistics<const N: usize>(interface: u32, words: [usize; N]) -> Result<[u64; N], Errno> {
    let answer = described(interface)?;
    let all = attribute_of(&answer, libc::IFLA_STATS64).ok_or(Errno::OPNOTSUPP)?;
    Ok(words.map(|word| {
        all.get(word * 8..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_ne_bytes(*word))
    }))
}

/// The number of the XDP program that an interface runs, wherever it is hooked in.
pub(crate) fn xdp_program(interface: u32) -> Result<Option<u32>, Errno> {
    let answer = described(interface)?;
    let mut found = attributes(attribute_of(&answer, IFLA_XDP).unwrap_or_default())
        .filter(|(kind, _)| IFLA_XDP_PROG_IDS.contains(kind))
        .map(|(_, data)| number(data, 0));
    Ok(found.find(|&program| program != 0))
}

/// The kernel's answer about an interface: `struct ifinfomsg`, and attributes.
fn described(interface: u32) -> Result<Vec<u8>, Errno> {
    let request = message(libc::RTM_GETLINK, ACKNOWLEDGE, &[0, interface, 0, 0], &[]);
    ask(&socket()?, &request)?.into_iter().next().ok_or(Errno::NODEV)
}

fn attribute_of(interface: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut all = attributes(interface.get(IFINFOMSG..).unwrap_or_default());
    all.find(|&(kind, _)| kind == wanted).map(|(_, data)| data)
}

/// The addresses that this machine has on an interface.
pub(crate) fn addresses(interface: u32) -> Result<Vec<IpAddr>, Errno> {
    // `struct ifaddrmsg`: family, prefix length, flags, scope; index.
    let request = message(libc::RTM_GETADDR, libc::NLM_F_DUMP as u16, &[0, 0], &[]);
    let answers = ask(&socket()?, &request)?;
    let here = answers.iter().filter(|answer| number(answer, 4) == interface);
    // The local address; IPv6 has no other.
    let local = |answer: &Vec<u8>| {
        let mut found = None;
        for (kind, data) in attributes(answer.get(IFADDRMSG..).unwrap_or_default()) {
            let address = match data.len() {
                4 => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
                16 => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
                _ => None,
            };
            match kind {
                libc::IFA_LOCAL => return address,
                libc::IFA_ADDRESS => found = address,
                _ => {}
            }
        }
        found
    };
    Ok(here.filter_map(local).collect())
}

/// Returns the interfaces of this network on top of another one: VLAN, macvlan and the like. Their frames
/// pass through it.
pub(crate) fn upon(interface: u32) -> Result<Vec<String>, Errno> {
    let request = message(libc::RTM_GETLINK, libc::NLM_F_DUMP as u16, &[0; 4], &[]);
    let lies_there = |answer: &&Vec<u8>| {
        let is_cable = attributes(attribute_of(answer, libc::IFLA_LINKINFO).unwrap_or_default())
            .any(|(kind, name)| kind == IFLA_INFO_KIND && name.starts_with(b"veth\0"));
        // The lower interface may be in another network, with other indices.
        attribute_of(answer, libc::IFLA_LINK).is_some_and(|lower| number(lower, 0) == interface)
            && attribute_of(answer, libc::IFLA_LINK_NETNSID).is_none()
            && !is_cable
    };
    let name = |answer: &Vec<u8>| {
        let name = std::str::from_utf8(attribute_of(answer, libc::IFLA_IFNAME)?).ok()?;
        Some(name.trim_end_matches('\0').to_owned())
    };
    Ok(ask(&socket()?, &request)?.iter().filter(lies_there).filter_map(name).collect())
}

/// Returns whether a default route, of either family, leaves by an interface.
pub(crate) fn has_default_route(interface: u32) -> Result<bool, Errno> {
    // `struct rtmsg`: family, lengths of both prefixes, type of service; table, protocol, scope, type; flags.
    let request = message(libc::RTM_GETROUTE, libc::NLM_F_DUMP as u16, &[0; 3], &[]);
    let leaves_here = |route: &Vec<u8>| {
        let unicast = route.get(7) == Some(&libc::RTN_UNICAST);
        route.get(1) == Some(&0) && unicast && {
            let mut attributes = attributes(route.get(RTMSG..).unwrap_or_default());
            attributes.any(|(kind, data)| kind == libc::RTA_OIF && number(data, 0) == interface)
        }
    };
    Ok(ask(&socket()?, &request)?.iter().any(leaves_here))
}

/// Sends a request for a change, and waits for the kernel's acknowledgement.
fn acknowledged(request: &[u8]) -> Result<(), Errno> {
    ask(&socket()?, request).map(drop)
}

fn socket() -> Result<OwnedFd, Errno> {
    // Without a protocol it is `NETLINK_ROUTE`.
    socket_of(None)
}

fn socket_of(protocol: Option<Protocol>) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
}

/// Sends a request and collects the bodies of the answers, up to the acknowledgement or the end of the
/// list.
fn ask(socket: &OwnedFd, request: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    send(socket, request, SendFlags::empty())?;
    let mut answers = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    for _ in 0..MOST_PARTS {
        let readable = wait_readable(socket.as_fd(), Some(ANSWER_TIME_LIMIT));
        if !readable.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))? {
            return Err(Errno::TIMEDOUT);
        }
        let (length, _) = recv(socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT)?;
        let mut rest = &buffer[..length];
        while let Some((answer, after)) = split(rest, number(rest, 0) as usize, HEADER) {
            let body = &answer[HEADER..];
            match libc::c_int::from(half(answer, 4)) {
                libc::NLMSG_DONE => return Ok(answers),
                libc::NLMSG_ERROR => match number(body, 0) as i32 {
                    0 => return Ok(answers),
                    error => return Err(Errno::from_raw_os_error(error.wrapping_neg())),
                },
                _ => answers.push(body.to_vec()),
            }
            rest = after;
        }
    }
    Err(Errno::MSGSIZE)
}

fn message(kind: u16, flags: u16, body: &[u32], attributes: &[u8]) -> Vec<u8> {
    let length = HEADER + size_of_val(body) + attributes.len();
    let mut bytes = (length as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // This socket has one user, so neither a sequence number nor a port is needed.
    bytes.extend([0; 8]);
    bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
    bytes.extend(attributes);
    bytes
}

fn attribute(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + data.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (attribute, rest) = split(bytes, half(bytes, 0).into(), 4)?;
        bytes = rest;
        Some((half(attribute, 2), &attribute[4..]))
    })
}

/// Splits off a part of `length` bytes and its padding; `None` if it is truncated or shorter than `least`.
fn split(bytes: &[u8], length: usize, least: usize) -> Option<(&[u8], &[u8])> {
    let part = bytes.get(..length).filter(|_| length >= least)?;
    Some((part, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The word at `at`; zero beyond the end.
fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_ne_bytes(*word))
}

/// The half word at `at`; zero beyond the end.
fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |half| u16::from_ne_bytes(*half))
}

/// `struct nlmsghdr`, `tcmsg`, `ifinfomsg`, `ifaddrmsg`, `rtmsg`.
const HEADER: usize = 16;
const TCMSG: usize = 20;
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
const RTMSG: usize = 12;
const RX_DROPPED: usize = 6;
const RX_MISSED: usize = 15;
/// The driver's carrier, which other flags follow a little later.
const IFF_LOWER_UP: i32 = 1 << 16;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_XDP: u16 = 43;
/// `IFLA_XDP_PROG_ID`, and where there are several `IFLA_XDP_DRV_PROG_ID`, `…SKB…`, `…HW…`.
const IFLA_XDP_PROG_IDS: std::ops::RangeInclusive<u16> = 4..=7;
const ACKNOWLEDGE: u16 = libc::NLM_F_ACK as u16;
/// `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;
/// The kernel answers before the send returns.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(1);
/// Parts of an answer, each of many interfaces.
const MOST_PARTS: usize = 1_000;

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn attributes_are_found_and_cut_ones_are_not() {
        let kind = attribute(libc::TCA_KIND, b"fq\0");
        let both = [attribute(77, &[1, 2, 3, 4, 5]), kind].concat();
        assert_eq!(attributes(&both).last(), Some((libc::TCA_KIND, &b"fq\0"[..])));
        for length in 0..both.len() - 1 {
            assert!(attributes(&both[..length]).all(|(kind, _)| kind == 77), "at {length}");
        }
        assert_eq!(attributes(&[0, 0, 0, 0]).count(), 0, "no length, no progress");
        assert_eq!(attributes(&[255; 40]).count(), 0);
    }

    #[test]
    fn loopback_is_described() {
        let loopback = link(LOOPBACK).unwrap();
        assert_eq!((loopback.kind, loopback.master), (libc::ARPHRD_LOOPBACK, None));
        assert_eq!(has_default_route(LOOPBACK), Ok(false));
        let addresses = addresses(LOOPBACK).unwrap();
        assert!(!loopback.is_up || addresses.iter().any(IpAddr::is_loopback), "{addresses:?}");
        assert!(link(u32::MAX / 2).is_err());
    }

    #[test]
    fn the_machine_is_asked_without_privileges() {
        assert_eq!(interfaces_with(&["no such queue"]), Ok(vec![]));
    }

    /// Every kernel has pfifo, whose options are its limit; and none has a queue of the other name.
    #[test]
    fn a_queue_that_is_added_is_found() {
        let inside = std::thread::spawn(|| {
            enter_empty_network()?;
            let unknown = add_queue(LOOPBACK, "sundial", &[]);
            assert_eq!(unknown, Err("this kernel has no sundial".to_owned()));
            assert_eq!(interfaces_with(&["pfifo"]), Ok(vec![]));
            add_queue(LOOPBACK, "pfifo", &10u32.to_ne_bytes())?;
            assert_eq!(interfaces_with(&["fq", "pfifo"]), Ok(vec!["lo".to_owned()]));
            Ok::<(), String>(())
        });
        if let Err(why) = inside.join().unwrap() {
            crate::skipped::skipped(&why);
        }
    }
}
