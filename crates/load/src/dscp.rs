//! The class that datagrams ask the network for: `--dscp` as it is typed.
//!
//! The differentiated services code point is the upper six bits of the byte that was IPv4's type of service, and of IPv6's
//! traffic class; the lower two are those of explicit congestion notification, and stay zero:
//!
//! ```text
//!   │ DSCP 6 │ ECN 2 │     --dscp 46 or ef: a byte of 184 (0xb8)
//! ```

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::str::FromStr;

use rustix::net::AddressFamily;
use rustix::net::sockopt::{set_ip_tos, set_ipv6_tclass, socket_domain};

/// A differentiated services code point: 0 to 63 (RFC 2474). 0 is best effort.
///
/// ```
/// use softtimers_load::dscp::Dscp;
///
/// let voice: Dscp = "ef".parse()?;
/// assert_eq!((voice.number(), voice.byte()), (46, 0xb8));
/// assert_eq!("af41".parse().ok(), Dscp::new(34));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dscp(u8);

impl Dscp {
    /// Returns the code point of this number; `None` above 63.
    pub const fn new(number: u8) -> Option<Self> {
        if number < 64 { Some(Dscp(number)) } else { None }
    }

    /// Returns the number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns the byte of the IP header: IPv4's type of service, IPv6's traffic class.
    pub const fn byte(self) -> u8 {
        self.0 << 2
    }

    /// Makes all datagrams of a UDP socket carry it.
    pub(crate) fn mark(self, socket: &impl AsFd) -> io::Result<()> {
        if self == Dscp::default() {
            return Ok(());
        }
        if socket_domain(socket)? == AddressFamily::INET6 {
            set_ipv6_tclass(socket, self.byte().into())?;
        }
        // An IPv6 socket has both: it may send to a mapped IPv4 address.
        Ok(set_ip_tos(socket, self.byte())?)
    }
}

impl FromStr for Dscp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|&(_, number)| number);
        named.or_else(|| text.parse().ok()).and_then(Dscp::new).ok_or_else(|| ALLOWED.to_owned())
    }
}

/// Prints the number.
impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const ALLOWED: &str = "a number from 0 to 63 is allowed (a type of service divided by 4), or cs0 to cs7, af11 to af43, ef, va, le";

/// The registered names.
const NAMES: [(&str, u8); 23] = [
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("va", 44),
    ("le", 1),
];

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rustix::net::sockopt::{ip_tos, ipv6_tclass};

    use super::*;

    #[test]
    fn names_and_numbers_are_code_points_and_nothing_else_is() {
        let byte = |text: &str| text.parse::<Dscp>().map(Dscp::byte);
        assert_eq!([byte("0"), byte("63"), byte("CS1"), byte("EF")], [Ok(0), Ok(252), Ok(32), Ok(184)]);
        for (number, name) in [(10, "af11"), (38, "AF43"), (1, "le"), (44, "va"), (56, "cs7")] {
            assert_eq!(name.parse(), Ok(Dscp(number)));
        }
        for text in ["", "64", "184", "0xb8", "-1", "af44", "cs8", "ef "] {
            assert_eq!(text.parse::<Dscp>(), Err(ALLOWED.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_socket_of_either_family_is_marked() {
        let dscp: Dscp = "ef".parse().unwrap();
        let four = UdpSocket::bind("127.0.0.1:0").unwrap();
        dscp.mark(&four).unwrap();
        assert_eq!(ip_tos(&four), Ok(184));
        // Without IPv6 there is no such socket to mark.
        if let Ok(six) = UdpSocket::bind("[::]:0") {
            dscp.mark(&six).unwrap();
            assert_eq!((ipv6_tclass(&six), ip_tos(&six)), (Ok(184), Ok(184)));
        }
    }
}
