//! Internet addresses as the bytes of `struct sockaddr_in` and `sockaddr_in6`.
//!
//! ```text
//!            0        2      4            8                  24         28
//!   v4       │ family │ port │ address    │
//!   v6       │ family │ port │ flow label │ address          │ scope id │
//! ```
//!
//! Port and address are in network order, the rest in the machine's; flow labels pass unchanged, as
//! `std` does it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for an internet address.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct AddressBuffer(pub(crate) [u8; V6]);

impl AddressBuffer {
    pub(crate) const EMPTY: Self = Self([0; V6]);

    /// Writes `address`; returns how many bytes it takes.
    pub(crate) fn encode(&mut self, address: SocketAddr) -> usize {
        let bytes = &mut self.0;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                bytes[8..V4].fill(0);
                V4
            }
            SocketAddr::V6(v6) => {
                bytes[..2].copy_from_slice(&AF_INET6.to_ne_bytes());
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
                V6
            }
        }
    }
}

/// The address in the bytes the kernel wrote; `None` if they hold no internet address.
pub fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        AF_INET => {
            let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some(SocketAddrV4::new(Ipv4Addr::from(octets), port).into())
        }
        AF_INET6 => {
            let flow = u32::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
            let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(octets), port, flow, scope).into())
        }
        _ => None,
    }
}

const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;
const V4: usize = size_of::<libc::sockaddr_in>();
const V6: usize = size_of::<libc::sockaddr_in6>();

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> [SocketAddr; 3] {
        [
            "127.0.0.1:9".parse().unwrap(),
            "255.254.253.252:65535".parse().unwrap(),
            SocketAddrV6::new("fe80::1:2".parse().unwrap(), 4_660, 0x0dea_dbee, 7).into(),
        ]
    }

    #[test]
    fn addresses_survive_the_round_trip() {
        let mut buffer = AddressBuffer([0xff; V6]);
        for address in addresses() {
            let length = buffer.encode(address);
            assert_eq!(decode(&buffer.0[..length]), Some(address));
        }
    }

    #[test]
    fn short_and_foreign_addresses_are_none() {
        let mut buffer = AddressBuffer::EMPTY;
        assert_eq!(decode(&buffer.0), None, "unspecified family");
        for address in addresses() {
            let length = buffer.encode(address);
            let needed = if address.is_ipv4() { 8 } else { V6 };
            for cut in 0..length {
                assert_eq!(decode(&buffer.0[..cut]).is_some(), cut >= needed, "{address} cut to {cut}");
            }
        }
    }
}
