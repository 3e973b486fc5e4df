//! Addresses as typed, and which of them a tool that sends fast may not send to.
//!
//! A broadcast or multicast address turns one datagram into many, on a network whose owner was not asked, so both are
//! refused. A directed broadcast (192.168.1.255) is an address like any other: only the kernel, which knows the
//! netmask, can tell, and it does when a socket is connected.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, ToSocketAddrs, UdpSocket};

use ipnet::IpNet;
use rustix::net::netdevice::name_to_index;

use softtimers_measure::failure::Failure;

/// Resolves `text`: `IP:PORT`, `[IP6]:PORT`, `[IP6%ZONE]:PORT` or `NAME:PORT`; for a name, its first address. A zone is
/// the name or the number of an interface.
///
/// # Errors
/// A usage failure if `text` is not an address, its name or zone is unknown, or a link-local address has no zone.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, Failure> {
    let found = match numeric(text) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => named(text),
        Err(problem) => Err(problem),
    };
    let allowed = "write IP:PORT, [IP6]:PORT or NAME:PORT, such as 127.0.0.1:9000";
    let address =
        found.map_err(|problem| Failure::usage(format_args!("address '{text}': {problem}; {allowed}")))?;
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            Err(Failure::usage(format_args!(
                "address '{text}': no zone; a link-local address is one of each link, so write the interface too, such as \
                 [{}%eth0]:{}",
                v6.ip(),
                v6.port()
            )))
        }
        _ => Ok(address),
    }
}

/// Parses an address that needs no resolver; `None` if this may be a name.
///
/// # Errors
/// The problem with a zone.
pub(crate) fn numeric(text: &str) -> Result<Option<SocketAddr>, String> {
    if let Ok(address) = text.parse() {
        return Ok(Some(address));
    }
    let parts = text.strip_prefix('[').and_then(|rest| rest.split_once('%'));
    let parts = parts.and_then(|(ip, rest)| Some((ip.parse().ok()?, rest.rsplit_once("]:")?)));
    let Some((ip, (zone, port))) = parts else { return Ok(None) };
    let Ok(port) = port.parse() else { return Ok(None) };
    let missing = || format!("no interface '{zone}'");
    // The call would cut a longer name, perhaps to that of another interface.
    if zone.is_empty() || zone.len() > LONGEST_INTERFACE_NAME {
        return Err(missing());
    }
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    let index = name_to_index(&socket, zone).map_err(|_| missing())?;
    Ok(Some(SocketAddrV6::new(ip, port, 0, index).into()))
}

/// Asks the resolver for the first address of `NAME:PORT`.
fn named(text: &str) -> Result<SocketAddr, String> {
    let refuse = |problem: &str| Err(problem.to_owned());
    let Some((name, port)) = text.rsplit_once(':') else { return refuse("no port") };
    let Ok(port) = port.parse::<u16>() else { return refuse("the port is not a number from 0 to 65535") };
    if name.is_empty() {
        return refuse("no host");
    }
    match (name, port).to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(address)) => Ok(address),
        Ok(None) | Err(_) => refuse("unknown host"),
    }
}

/// Parses a network: `ADDRESS/BITS`, or a single address.
///
/// # Errors
/// Names the fault, and what is allowed.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let one = text.parse().ok().map(|address: IpAddr| IpNet::from(address.to_canonical()));
    let network = one.or_else(|| text.parse().ok()).ok_or_else(|| {
        "a network such as 192.0.2.0/24 or 2001:db8::/32, or one address, is allowed".to_owned()
    })?;
    if network.trunc() != network {
        let (network, bits) = (network.trunc(), network.prefix_len());
        return Err(format!("has bits beyond the first {bits}, which are the network's; {network} has none"));
    }
    Ok(network)
}

/// Refuses destinations that are not allowed or not possible, as far as the address shows.
///
/// # Errors
/// A usage failure for a broadcast, multicast or unspecified address and for port 0.
pub(crate) fn check_destination(address: SocketAddr) -> Result<(), Failure> {
    let ip = address.ip().to_canonical();
    let problem = if ip.is_multicast() {
        "a multicast address"
    } else if ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        "a broadcast address"
    } else if ip.is_unspecified() {
        "an unspecified address"
    } else if address.port() == 0 {
        "no port to send to"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format_args!("address {address}: {problem}; one host's address and port are allowed")))
}

/// Finds one host to send to, to which there is a route.
///
/// # Errors
/// A usage failure that names the address and what is allowed.
pub(crate) fn destination(text: &str) -> Result<SocketAddr, Failure> {
    let destination = resolve(text)?;
    check_destination(destination)?;
    check_route(destination)?;
    Ok(destination)
}

/// Refuses addresses that no socket can listen on.
///
/// # Errors
/// A usage failure for a broadcast or multicast address.
pub(crate) fn check_local(address: SocketAddr) -> Result<(), Failure> {
    let ip = address.ip().to_canonical();
    if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(Failure::usage(format_args!(
            "address {address}: no address of one host; allowed are this machine's own, and 0.0.0.0 or [::] for all of them"
        )));
    }
    Ok(())
}

/// Asks the kernel whether datagrams can go there. Nothing is sent.
///
/// # Errors
/// A usage failure for the broadcast address of one of this machine's networks, and where there is no route.
pub(crate) fn check_route(address: SocketAddr) -> Result<(), Failure> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(address)).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Failure::usage(format_args!(
            "address {address}: a broadcast address, or forbidden here ({error}); one host's address and port are allowed"
        )),
        _ => Failure::usage(format_args!("address {address}: cannot be reached ({error})")),
    })
}

/// Returns the failure to bind `address`, and what would be allowed.
pub(crate) fn bind_failure(address: SocketAddr, error: &io::Error) -> Failure {
    let port = address.port();
    match error.kind() {
        ErrorKind::AddrInUse => Failure::usage(format_args!(
            "address {address}: port {port} is in use; choose another, or 0 for any free one"
        )),
        ErrorKind::PermissionDenied => Failure::usage(format_args!(
            "address {address}: no permission for port {port}; choose 1024 or above, or grant CAP_NET_BIND_SERVICE"
        )),
        ErrorKind::AddrNotAvailable => Failure::usage(format_args!(
            "address {address}: not an address of this machine; 0.0.0.0 and [::] stand for all of them"
        )),
        _ => Failure::usage(format_args!("address {address}: cannot be listened on ({error})")),
    }
}

/// Says whether an address can be reached from this machine only.
pub(crate) fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// One byte of the kernel's sixteen ends it.
const LONGEST_INTERFACE_NAME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(result: Result<impl std::fmt::Debug, Failure>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn addresses_are_numbers_or_names() {
        assert_eq!(resolve("127.0.0.1:9").unwrap(), SocketAddr::from(([127, 0, 0, 1], 9)));
        assert_eq!(resolve("[::1]:9").unwrap().to_string(), "[::1]:9");
        assert!(resolve("localhost:9").unwrap().ip().is_loopback());
    }

    /// The loopback interface is the first one of every network namespace.
    #[test]
    fn zones_are_names_or_numbers_of_interfaces() {
        for text in ["[fe80::1%lo]:9", "[fe80::1%1]:9"] {
            let SocketAddr::V6(address) = resolve(text).unwrap() else { panic!("{text}") };
            assert_eq!((address.to_string().as_str(), address.scope_id()), ("[fe80::1%1]:9", 1));
            assert_eq!(numeric(text), Ok(Some(address.into())));
        }
        for zone in ["nosuch0", "", "lo-and-much-longer-than-a-name"] {
            let message = refused(resolve(&format!("[fe80::1%{zone}]:9")));
            assert!(message.contains(&format!("no interface '{zone}'; write IP:PORT")), "{message}");
        }
        for text in ["[fe80::1]:9", "[febf:ffff::1%0]:9"] {
            let message = refused(resolve(text));
            assert!(message.contains("no zone;") && message.contains("%eth0]:9"), "{message}");
        }
        for text in ["[fe80::1%lo]", "[fe80::1%lo:9", "[x%lo]:9", "[fe80::1%lo]:70000"] {
            assert_eq!(numeric(text), Ok(None), "{text}");
            assert!(resolve(text).is_err(), "{text}");
        }
    }

    #[test]
    fn networks_are_addresses_that_begin_alike() {
        for (text, network) in [
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("2001:db8::1", "2001:db8::1/128"),
        ] {
            assert_eq!(super::network(text).unwrap().to_string(), network);
        }
        for text in ["", "192.0.2", "192.0.2.0/33", "192.0.2.0/", "localhost", "::/129"] {
            assert!(super::network(text).unwrap_err().contains("is allowed"), "{text}");
        }
        assert!(super::network("2001:db8::1/32").unwrap_err().ends_with("2001:db8::/32 has none"));
    }

    #[test]
    fn what_is_no_address_is_named() {
        assert_eq!(
            refused(resolve("127.0.0.1")),
            "address '127.0.0.1': no port; write IP:PORT, [IP6]:PORT or NAME:PORT, such as 127.0.0.1:9000"
        );
        assert!(refused(resolve("localhost:99999")).contains("'localhost:99999': the port is not"));
        assert!(refused(resolve(":9")).contains("no host"));
        assert!(refused(resolve("nosuch.invalid:9")).contains("unknown host"));
        assert!(refused(resolve("")).contains("no port"));
    }

    #[test]
    fn one_host_only() {
        for (text, problem) in [
            ("255.255.255.255:9", "a broadcast"),
            ("[::ffff:255.255.255.255]:9", "a broadcast"),
            ("224.0.0.1:9", "a multicast"),
            ("[ff02::1]:9", "a multicast"),
            ("0.0.0.0:9", "an unspecified"),
            ("[::]:9", "an unspecified"),
            ("127.0.0.1:0", "no port"),
        ] {
            let message = refused(check_destination(text.parse().unwrap()));
            assert!(message.contains(problem) && message.contains("are allowed"), "{message}");
        }
        assert_eq!(check_destination("192.0.2.1:9".parse().unwrap()), Ok(()));
        assert!(check_local("224.0.0.1:9".parse().unwrap()).is_err());
        assert_eq!(check_local("0.0.0.0:0".parse().unwrap()), Ok(()));
    }

    #[test]
    fn the_kernel_knows_directed_broadcasts() {
        assert_eq!(check_route("127.0.0.1:9".parse().unwrap()), Ok(()));
        // The loopback network has one too.
        let message = refused(check_route("127.255.255.255:9".parse().unwrap()));
        assert!(message.contains("127.255.255.255:9: a broadcast address"), "{message}");
    }

    #[test]
    fn failed_binds_say_what_would_work() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let message = |kind: ErrorKind| bind_failure(address, &kind.into()).to_string();
        assert!(message(ErrorKind::AddrInUse).contains("port 80 is in use"));
        assert!(message(ErrorKind::PermissionDenied).contains("1024 or above"));
        assert!(message(ErrorKind::AddrNotAvailable).contains("not an address of this machine"));
        let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
        let error = UdpSocket::bind(foreign).unwrap_err();
        assert!(bind_failure(foreign, &error).to_string().contains("not an address of this machine"));
    }
}
