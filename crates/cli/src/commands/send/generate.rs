//! What carries the datagrams of `send`: a socket, or a program in the kernel.

use std::fmt;
use std::net::SocketAddrV4;
use std::str::FromStr;

use clap::{Args, ValueEnum};

/// A driver, and what only the second one needs.
#[derive(Args, Debug, Clone)]
pub struct DriverArgs {
    /// What carries the datagrams: a socket, or a program in the kernel, out of one end of a virtual cable
    ///
    /// xdp reaches millions a second, to load a forwarder beyond its capacity. It takes one processor whole, needs
    /// --iface and --to-mac, CAP_BPF and CAP_NET_ADMIN, and at the cable's other end an XDP program or
    /// `ethtool -K PEER gro on`. No `softtimers recv` is asked.
    #[arg(long, value_enum, default_value_t)]
    pub driver: Driver,

    /// The end of a virtual cable (veth) that the datagrams leave by (--driver xdp only)
    #[arg(long, value_name = "NAME")]
    pub iface: Option<String>,

    /// The Ethernet address that they go to: 02:00:00:00:00:01 (--driver xdp only)
    #[arg(long, value_name = "MAC")]
    pub to_mac: Option<MacAddress>,

    /// The Ethernet address that they come from (--driver xdp only) [default: that of --iface]
    #[arg(long, value_name = "MAC")]
    pub from_mac: Option<MacAddress>,

    /// The address that they come from (--driver xdp only) [default: that of --iface, or 198.18.0.1; port 9]
    #[arg(long, value_name = "IP:PORT")]
    pub from: Option<SocketAddrV4>,
}

/// What carries the datagrams.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// A UDP socket of this process
    #[default]
    Socket,
    /// An XDP program, run over live frames
    Xdp,
}

/// An address of Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Whether it is neither nobody's nor a group's.
    pub fn is_one_station(&self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let byte = |part: &str| {
            let digits = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(MacAddress).ok_or_else(|| "six bytes such as 02:00:00:00:00:01 are allowed".to_owned())
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back() {
        let address = MacAddress([2, 0, 0xab, 0xcd, 0, 0xff]);
        assert_eq!(address.to_string(), "02:00:ab:cd:00:ff");
        assert_eq!(address.to_string().parse(), Ok(address));
        assert_eq!("02:00:AB:cd:00:FF".parse(), Ok(address));
        for text in [
            "",
            "02",
            "02:00:ab:cd:00",
            "02:00:ab:cd:00:ff:00",
            "2:0:a:c:0:f",
            "+2:00:ab:cd:00:ff",
            "0g:00:ab:cd:00:ff",
        ] {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
    }
}
