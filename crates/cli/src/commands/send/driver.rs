//! What carries the datagrams of `send`: a socket, or a program in the kernel.

use std::net::SocketAddrV4;

use clap::{Args, ValueEnum};
use softtimers_load::generate::MacAddress;

/// A driver, and what only the second one needs.
#[derive(Args, Debug, Clone)]
pub(crate) struct DriverArgs {
    /// What carries the datagrams: a socket, or a program in the kernel, out of one end of a virtual cable
    ///
    /// xdp reaches millions a second, to load a forwarder beyond its capacity. It takes one processor whole, needs
    /// --iface and --to-mac, CAP_BPF and CAP_NET_ADMIN, and at the cable's other end an XDP program or
    /// `ethtool -K PEER gro on`. No `softtimers recv` is asked.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) driver: Driver,

    /// The end of a virtual cable (veth) that the datagrams leave by (--driver xdp only)
    #[arg(long, value_name = "NAME")]
    pub(crate) iface: Option<String>,

    /// The Ethernet address that they go to: 02:00:00:00:00:01 (--driver xdp only)
    #[arg(long, value_name = "MAC")]
    pub(crate) to_mac: Option<MacAddress>,

    /// The Ethernet address that they come from (--driver xdp only) [default: that of --iface]
    #[arg(long, value_name = "MAC")]
    pub(crate) from_mac: Option<MacAddress>,

    /// The address that they come from (--driver xdp only) [default: that of --iface, or 198.18.0.1; port 9]
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) from: Option<SocketAddrV4>,
}

/// What carries the datagrams.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Driver {
    /// A UDP socket of this process
    #[default]
    Socket,
    /// An XDP program, run over live frames
    Xdp,
}
