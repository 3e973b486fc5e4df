//! The policy of a fast path, and its layout in the kernel's maps: [`FastPolicy`].

use std::net::IpAddr;

use super::FastPath;

/// The policy for forwarding in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FastPolicy {
    /// Both interfaces.
    pub sides: [FastSide; 2],
    /// The rules; the first that matches decides. A frame that matches none of the first [`FastPath::RULES`] is not forwarded by
    /// the kernel; without any rule, all is accepted.
    pub rules: Vec<FastRule>,
    /// Packets to these addresses are not forwarded by the kernel.
    pub own: Vec<IpAddr>,
    /// While frames wait for a [turn](super::FastTurns) in user space, each CPU forwards at most this many
    /// frames, and drops the others.
    pub quota: u32,
}

/// An interface of the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastSide {
    /// Its index.
    pub interface: u32,
    /// The largest packet that it sends.
    pub mtu: u32,
    /// Its MAC address.
    pub station: [u8; 6],
    /// The MAC address of the next hop there.
    pub next_hop: [u8; 6],
    /// Whether it sends frames that a program at [XDP](super::FastHook::Xdp) redirects to it, according to
    /// its driver.
    pub takes_redirected: bool,
}

/// A rule; `None` holds for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FastRule {
    /// The interface that the frame came in at: 0 or 1.
    pub side: Option<u8>,
    /// The EtherType.
    pub kind: Option<u16>,
    /// The protocol.
    pub protocol: Option<u8>,
    /// The source: an address and a prefix length.
    pub from: Option<(IpAddr, u8)>,
    /// The first and the last source port.
    pub from_ports: Option<[u16; 2]>,
    /// The destination.
    pub to: Option<(IpAddr, u8)>,
    /// The first and the last destination port.
    pub to_ports: Option<[u16; 2]>,
    /// The least and the greatest length.
    pub lengths: Option<[u16; 2]>,
    /// User space decides.
    pub screened: bool,
    /// It is dropped.
    pub rejects: bool,
}

impl FastPolicy {
    /// `struct policy`.
    pub(super) fn bytes(&self) -> [u8; POLICY] {
        let rules = self.rules.len().min(FastPath::RULES);
        let mut bytes = [0; POLICY];
        let mut at = 0;
        let mut put = |value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        };
        put(&(rules as u32).to_ne_bytes());
        put(&self.quota.to_ne_bytes());
        for FastSide { interface, mtu, station, next_hop, takes_redirected } in self.sides {
            put(&interface.to_ne_bytes());
            put(&mtu.to_ne_bytes());
            put(&station);
            put(&u16::from(takes_redirected).to_ne_bytes());
            put(&next_hop);
            put(&[0; 2]);
        }
        self.rules[..rules].iter().for_each(|rule| rule.put(&mut put));
        bytes
    }
}

impl FastRule {
    /// `struct rule`.
    fn put(&self, put: &mut impl FnMut(&[u8])) {
        let Self { side, kind, protocol, from, from_ports, to, to_ports, lengths, screened, rejects } = *self;
        let family = |net: Option<(IpAddr, u8)>| match net {
            None => 0,
            Some((IpAddr::V4(_), _)) => 4,
            Some((IpAddr::V6(_), _)) => 6,
        };
        let has_ports = u8::from(from_ports.is_some()) | u8::from(to_ports.is_some()) << 1;
        let (screened, rejects, has_protocol) = (screened.into(), rejects.into(), protocol.is_some().into());
        let side = side.map_or(0, |side| side + 1);
        put(&[
            side,
            screened,
            rejects,
            family(from),
            family(to),
            has_protocol,
            protocol.unwrap_or(0),
            has_ports,
        ]);
        put(&kind.unwrap_or(0).to_ne_bytes());
        for span in [from_ports, to_ports, lengths] {
            span.unwrap_or([0, u16::MAX]).iter().for_each(|number| put(&number.to_ne_bytes()));
        }
        put(&[0; 2]);
        for net in [from, to] {
            let (address, bits) = net.unwrap_or((IpAddr::from([0; 4]), 0));
            let (address, width) = octets(address);
            put(&address);
            // An IPv4 address also occupies the first bits, followed by zeros.
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(width))).unwrap_or(0);
            put(&mask.to_be_bytes());
        }
    }
}

/// An address in network order at the beginning of the array, and its length in bits.
fn octets(address: IpAddr) -> ([u8; 16], u8) {
    match address {
        IpAddr::V6(v6) => (v6.octets(), 128),
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            (bytes, 32)
        }
    }
}

/// `struct own`.
pub(super) fn owner(policy: u32, address: IpAddr) -> [u32; 5] {
    let (bytes, _) = octets(address);
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [policy, word(0), word(4), word(8), word(12)]
}

/// The size of `struct policy`.
pub(super) const POLICY: usize = 8 + 2 * 24 + FastPath::RULES * 88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_the_layout_of_the_program() {
        let side =
            FastSide { interface: 7, mtu: 1_500, station: [2; 6], next_hop: [4; 6], takes_redirected: true };
        let net = Some((IpAddr::from([10, 1, 0, 0]), 16));
        let rule = FastRule {
            side: Some(1),
            protocol: Some(17),
            from: net,
            to_ports: Some([53, 54]),
            ..FastRule::default()
        };
        let policy = FastPolicy { sides: [side; 2], rules: vec![rule; 70], own: vec![], quota: 9 };
        let bytes = policy.bytes();
        assert_eq!(bytes[..8], [64u32.to_ne_bytes(), 9u32.to_ne_bytes()].concat());
        assert_eq!(
            bytes[8..24],
            [&7u32.to_ne_bytes()[..], &1_500u32.to_ne_bytes(), &[2; 6], &1u16.to_ne_bytes()].concat()
        );
        let rule = &bytes[56..56 + 88];
        assert_eq!(rule[..8], [2, 0, 0, 4, 0, 1, 17, 2]);
        assert_eq!(rule[14..18], [&53u16.to_ne_bytes()[..], &54u16.to_ne_bytes()].concat());
        assert_eq!(rule[24..40], [&[10, 1][..], &[0; 14]].concat());
        assert_eq!(rule[40..56], [&[0xff; 2][..], &[0; 14]].concat());
        assert_eq!(rule[56..], [0; 32]);
    }
}
