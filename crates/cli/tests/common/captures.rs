//! Writes recordings, byte by byte as their formats prescribe.
#![allow(dead_code, unreachable_pub, missing_docs)]

/// A packet: nanoseconds since 1970, and its length on the wire.
pub type Packet = (u64, u32);

/// The byte order of a file's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    pub big_endian: bool,
}

pub const LITTLE: Order = Order { big_endian: false };
pub const BIG: Order = Order { big_endian: true };

impl Order {
    pub fn two(self, number: u16) -> [u8; 2] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    pub fn four(self, number: u32) -> [u8; 4] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn eight(self, number: i64) -> [u8; 8] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }
}

/// A capture of Ethernet frames, of which at most `kept` bytes each are in the file.
pub fn pcap(order: Order, nanoseconds: bool, kept: u32, packets: &[Packet]) -> Vec<u8> {
    let magic = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut file = order.four(magic).to_vec();
    file.extend([order.two(2), order.two(4)].concat());
    file.extend([order.four(0), order.four(0), order.four(kept), order.four(ETHERNET.into())].concat());
    for &(nanos, length) in packets {
        let fraction = (nanos % 1_000_000_000) as u32;
        let fraction = if nanoseconds { fraction } else { fraction / 1_000 };
        let included = length.min(kept);
        let seconds = (nanos / 1_000_000_000) as u32;
        file.extend([seconds, fraction, included, length].map(|number| order.four(number)).concat());
        file.extend(vec![0xee; included as usize]);
    }
    file
}

/// An interface of a pcapng section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface {
    pub link: u16,
    /// `if_tsresol`, if it is stated, and what it means: units in a second.
    pub resolution: Option<(u8, u64)>,
    /// `if_tsoffset` in seconds.
    pub offset: i64,
    /// `if_fcslen`, if it is stated.
    pub check_sequence: Option<u8>,
}

pub const MICROSECONDS: Interface =
    Interface { link: ETHERNET, resolution: None, offset: 0, check_sequence: None };
pub const NANOSECONDS: Interface = Interface { resolution: Some((9, 1_000_000_000)), ..MICROSECONDS };

/// One section: interfaces, then packets, each of the next interface in turn, with a block between them that
/// is to be passed over.
pub fn pcapng(order: Order, interfaces: &[Interface], kept: u32, packets: &[Packet]) -> Vec<u8> {
    let mut file = section(order);
    for interface in interfaces {
        file.extend(described(order, *interface));
    }
    for (number, &(nanos, length)) in packets.iter().enumerate() {
        let id = number % interfaces.len();
        let interface = interfaces[id];
        let per_second = i128::from(interface.resolution.map_or(1_000_000, |(_, units)| units));
        let nanos = i128::from(nanos) - i128::from(interface.offset) * 1_000_000_000;
        let units = u64::try_from(nanos * per_second / 1_000_000_000).expect("after 1970");
        let included = length.min(kept);
        let header = [id as u32, (units >> 32) as u32, units as u32, included, length];
        let mut body = header.map(|number| order.four(number)).concat();
        body.extend(vec![0xee; included.next_multiple_of(4) as usize]);
        file.extend(block(order, 6, &body));
        file.extend(block(order, 0x0bad, b"unknown!"));
    }
    file
}

pub fn section(order: Order) -> Vec<u8> {
    let body = [&order.four(0x1a2b_3c4d)[..], &order.two(1), &order.two(0), &order.eight(-1)].concat();
    block(order, 0x0a0d_0d0a, &body)
}

pub fn described(order: Order, interface: Interface) -> Vec<u8> {
    let mut body = [&order.two(interface.link)[..], &order.two(0), &order.four(0)].concat();
    if let Some((resolution, _)) = interface.resolution {
        body.extend(option(order, 9, &[resolution]));
    }
    if let Some(length) = interface.check_sequence {
        body.extend(option(order, 13, &[length]));
    }
    if interface.offset != 0 {
        body.extend(option(order, 14, &order.eight(interface.offset)));
    }
    body.extend(option(order, 0, &[]));
    block(order, 1, &body)
}

/// Code, length, value, and what is missing to a multiple of four.
pub fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    [&order.two(code)[..], &order.two(value.len() as u16), value, &padding].concat()
}

/// Type, length, body, length.
pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = order.four(body.len() as u32 + 12);
    [&order.four(kind)[..], &length, body, &length].concat()
}

/// Lines of `t_us,len`.
pub fn csv(packets: &[Packet]) -> Vec<u8> {
    let line = |&(nanos, length): &Packet| format!("{}.{:03},{length}\n", nanos / 1_000, nanos % 1_000);
    let lines: String = packets.iter().map(line).collect();
    format!("# made by a test\nt_us,len\n{lines}").into_bytes()
}

pub const ETHERNET: u16 = 1;
