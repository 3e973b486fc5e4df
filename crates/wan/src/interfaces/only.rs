//! The packets that take the path, where not all do: [`Only`], by words as tcpdump's.
//!
//! Rate and queue are those of the flows that are picked; the others meet a wire, as beside a filter of tc.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;

use super::mark::Headers;

/// A choice of packets: `udp port 443`, `host 192.0.2.7 and not tcp port 22`, `src net 10.0.0.0/8 or icmp`.
///
/// A part of tcpdump's language, with its meaning: `ip`, `ip6`, `tcp`, `udp`, `icmp`, `icmp6`, `port N`, `portrange N-M`,
/// `host ADDRESS`, `net PREFIX`, the last four with `src` or `dst` in front; joined by `and` and `or`, which bind alike, from
/// the left; `not` binds closer. Unlike there, no fragment has ports, so those of a packet take one way.
///
/// ```
/// use softtimers_wan::interfaces::Only;
///
/// assert!("udp port 443 or host 2001:db8::1".parse::<Only>().is_ok());
/// assert!("udp prot 443".parse::<Only>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Only {
    text: String,
    terms: Vec<Term>,
}

/// A condition, and how it joins those before it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Term {
    or: bool,
    not: bool,
    is_v4: Option<bool>,
    protocols: Vec<u8>,
    /// Whether the source may match, and the destination.
    ends: [bool; 2],
    what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    All,
    Ports(RangeInclusive<u16>),
    Net(IpNet),
}

impl Only {
    /// Says whether a frame takes the path; one without IP does not.
    pub(super) fn takes(&self, frame: &[u8]) -> bool {
        let Some(headers) = Headers::of(frame) else { return false };
        self.terms.iter().fold(false, |before, term| {
            let holds = term.holds(&headers) != term.not;
            if term.or { before || holds } else { before && holds }
        })
    }
}

impl Term {
    fn holds(&self, headers: &Headers<'_>) -> bool {
        let of_protocol = self.is_v4.is_none_or(|is_v4| is_v4 == headers.is_v4)
            && (self.protocols.is_empty() || self.protocols.contains(&headers.protocol));
        of_protocol && (0..2).any(|end| self.ends[end] && self.what.holds(headers, end))
    }
}

impl What {
    fn holds(&self, headers: &Headers<'_>, end: usize) -> bool {
        match self {
            What::All => true,
            What::Ports(ports) => headers.ports.is_some_and(|all| {
                let port = [all[end * 2], all[end * 2 + 1]];
                ports.contains(&u16::from_be_bytes(port))
            }),
            What::Net(net) => {
                let (source, destination) = headers.addresses.split_at(headers.addresses.len() / 2);
                let bytes = if end == 0 { source } else { destination };
                let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
                v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
                    .is_ok_and(|ip| net.contains(&ip))
            }
        }
    }
}

impl FromStr for Only {
    type Err = OnlyError;

    fn from_str(text: &str) -> Result<Self, OnlyError> {
        let mut words = text.split_whitespace().peekable();
        let (mut terms, mut or) = (Vec::new(), true);
        loop {
            let mut term = Term {
                or,
                not: words.next_if_eq(&"not").is_some(),
                is_v4: None,
                protocols: Vec::new(),
                ends: [true; 2],
                what: What::All,
            };
            let family = words.next_if(|word| protocol(word).is_some());
            (term.is_v4, term.protocols) = family.and_then(protocol).unwrap_or_default();
            let end = words.next_if(|word| matches!(*word, "src" | "dst"));
            term.ends = [end != Some("dst"), end != Some("src")];
            let next = words.peek().copied();
            if end.is_some() || family.is_none() || !matches!(next, None | Some("and" | "or")) {
                let word = words.next().ok_or(OnlyError::Ends)?;
                let value = |of: Option<&str>| of.ok_or(OnlyError::Ends).map(str::to_owned);
                term.what = match word {
                    "port" | "portrange" => ports(&value(words.next())?, word == "portrange")?,
                    "host" | "net" => net(&value(words.next())?, word == "net")?,
                    _ => return Err(OnlyError::Word(word.into())),
                };
                // With ports, one of the protocols that have them.
                if matches!(term.what, What::Ports(_)) && term.protocols.is_empty() {
                    term.protocols = vec![6, 17];
                }
            }
            terms.push(term);
            or = match words.next() {
                None => return Ok(Only { text: text.to_owned(), terms }),
                Some(word @ ("and" | "or")) => word == "or",
                Some(word) => return Err(OnlyError::Word(word.into())),
            };
        }
    }
}

/// Returns what a word says of the network's and the transport's protocol.
fn protocol(word: &str) -> Option<(Option<bool>, Vec<u8>)> {
    Some(match word {
        "ip" => (Some(true), vec![]),
        "ip6" => (Some(false), vec![]),
        "tcp" => (None, vec![6]),
        "udp" => (None, vec![17]),
        "icmp" => (Some(true), vec![1]),
        "icmp6" => (Some(false), vec![58]),
        _ => return None,
    })
}

fn ports(text: &str, are_range: bool) -> Result<What, OnlyError> {
    let (first, last) = text.split_once('-').filter(|_| are_range).unwrap_or((text, text));
    let port = |text: &str| text.parse().map_err(|_| OnlyError::Word(text.into()));
    Ok(What::Ports(port(first)?..=port(last)?))
}

fn net(text: &str, is_prefix: bool) -> Result<What, OnlyError> {
    let address = text.parse::<IpAddr>().map(IpNet::from).ok();
    let prefix = || text.parse::<IpNet>().ok().filter(|_| is_prefix);
    address.or_else(prefix).map(What::Net).ok_or_else(|| OnlyError::Word(text.into()))
}

/// Prints the words as given.
impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why words choose no packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OnlyError {
    /// This word is none that fits there.
    Word(String),
    /// Something is missing at the end.
    Ends,
}

impl fmt::Display for OnlyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnlyError::Word(word) => write!(f, "`{word}`: ")?,
            OnlyError::Ends => f.write_str("something is missing: ")?,
        }
        f.write_str("words as tcpdump's: ip, ip6, tcp, udp, icmp, icmp6; [src|dst] port N, portrange N-M, host IP, net PREFIX; and, or, not")
    }
}

impl std::error::Error for OnlyError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of IPv4 from 10.0.0.1:1000 to 10.0.1.2 and this port.
    fn frame(protocol: u8, port: u16) -> Vec<u8> {
        let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, protocol, 0, 0]].concat();
        frame.extend([10, 0, 0, 1, 10, 0, 1, 2, 3, 232]);
        frame.extend(port.to_be_bytes());
        frame
    }

    fn v6(next: u8) -> Vec<u8> {
        let addresses =
            ["2001:db8::1", "2001:db8::2"].map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets());
        [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, next, 64], &addresses.concat(), &[0, 53, 1, 187]]
            .concat()
    }

    fn takes(words: &str, frame: &[u8]) -> bool {
        words.parse::<Only>().unwrap_or_else(|error| panic!("{words}: {error}")).takes(frame)
    }

    #[test]
    fn packets_are_chosen_as_by_tcpdump() {
        let quic = frame(17, 443);
        for (words, taken) in [
            ("udp", true),
            ("tcp", false),
            ("udp port 443", true),
            ("port 443", true),
            ("port 1000", true),
            ("src port 443", false),
            ("dst port 443", true),
            ("udp dst portrange 400-500", true),
            ("portrange 444-999", false),
            ("host 10.0.1.2", true),
            ("src host 10.0.1.2", false),
            ("net 10.0.0.0/16", true),
            ("src net 10.0.1.0/24", false),
            ("net 192.0.2.0/24 or udp", true),
            ("not udp", false),
            ("not tcp port 443", true),
            ("ip and udp", true),
            ("ip6 or icmp", false),
            // From the left, as there: (tcp or udp) and port 53; then (… and …) or udp.
            ("tcp or udp and port 53", false),
            ("udp and port 53 or udp", true),
        ] {
            assert_eq!(takes(words, &quic), taken, "{words}");
        }
        assert!(takes("icmp", &frame(1, 443)) && !takes("port 443", &frame(1, 443)));
        assert!(takes("ip6 host 2001:db8::2 and dst port 443", &v6(6)) && !takes("icmp", &v6(58)));
        assert!(takes("net 2001:db8::/32", &v6(17)) && !takes("net 10.0.0.0/8", &v6(17)));
        let mut piece = quic.clone();
        piece[20] = 0x20;
        assert!(takes("udp", &piece) && !takes("udp port 443", &piece));
        assert!(!takes("udp", &[2; 60]));
        (0..quic.len()).for_each(|length| _ = takes("udp port 443 or host ::1", &quic[..length]));
    }

    #[test]
    fn other_words_are_refused() {
        for (words, wrong) in [
            ("", "something is missing"),
            ("udp and", "something is missing"),
            ("port", "something is missing"),
            ("src", "something is missing"),
            ("udp prot 443", "`prot`"),
            ("port 65536", "`65536`"),
            ("port 1-2", "`1-2`"),
            ("host 10.0.0.0/8", "`10.0.0.0/8`"),
            ("host example.org", "`example.org`"),
            ("udp port 443 tcp", "`tcp`"),
            ("greater 100", "`greater`"),
        ] {
            let refused = words.parse::<Only>().unwrap_err().to_string();
            assert!(refused.starts_with(wrong), "{words}: {refused}");
        }
        assert_eq!("udp  port 53".parse::<Only>().unwrap().to_string(), "udp  port 53");
    }
}
