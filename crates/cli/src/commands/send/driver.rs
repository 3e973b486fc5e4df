//! The driver of `send`: a socket, a packet socket, or a program in the kernel, which is deprecated and hidden.

use std::net::SocketAddrV4;

use clap::{Args, ValueEnum};
use softtimers_load::generate::MacAddress;

/// A driver, and the options of the last one.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Drivers")]
pub(crate) struct DriverArgs {
    /// Send by a socket, or by packet (frames that cost less CPU)
    ///
    /// packet writes each datagram as a frame to the interface that the route names (AF_PACKET). It needs CAP_NET_RAW, and
    /// a destination on another machine over Ethernet. Route and neighbour are the kernel's and are followed while it runs;
    /// firewall rules for output, and IPsec, do not see the frames. The receiver is asked as ever.
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub(crate) driver: Driver,

    /// End of a virtual cable (veth) that the datagrams leave by
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) iface: Option<String>,

    /// Ethernet address that they go to: 02:00:00:00:00:01 [default: the neighbour that the route names]
    #[arg(long, value_name = "MAC", hide = true)]
    pub(crate) to_mac: Option<MacAddress>,

    /// Ethernet address that they come from [default: that of --iface]
    #[arg(long, value_name = "MAC", hide = true)]
    pub(crate) from_mac: Option<MacAddress>,

    /// IPv4 address and port that they come from [default: that of --iface, or 198.18.0.1; port 9]
    #[arg(long, value_name = "IP:PORT", hide = true)]
    pub(crate) from: Option<SocketAddrV4>,
}

/// The means by which datagrams are sent.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Driver {
    /// A UDP socket of this process
    #[default]
    Socket,
    /// A packet socket (AF_PACKET): frames of this process
    Packet,
    /// An XDP program, run over live frames: deprecated
    #[value(hide = true)]
    Xdp,
}
