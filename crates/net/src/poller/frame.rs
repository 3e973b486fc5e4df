//! Metadata of a frame: [`FrameInfo`], and [`FrameKind`].

use std::time::Duration;

use crate::packet::Offload;

/// The address of a device of the link layer: the knowledge about a frame that it received, or about one to be sent.
///
/// A forwarder passes it on as it came, with the frame. One that changes where things are, by a tag for one,
/// changes [`Offload::checksum`] with them; one that makes frames gives `None`, or the default: all is in them.
///
/// Tags are always in the frame, also where the interface had taken them out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameInfo {
    /// The work left for the interface to do: fill in a checksum, cut the frame. Devices do what their interface
    /// cannot, so a forwarder need not look.
    pub offload: Offload,
    /// Somebody has checked its transport's checksum already.
    pub verified: bool,
    /// The frame's length on the wire in bytes, its tag included, where a filter or a device has cut it; zero where
    /// nobody did.
    pub length: u32,
    /// When the kernel received it, since 1970, if it says so: what [`Packet::arrived`](super::Packet::arrived) was made of.
    pub received: Option<Duration>,
    /// Whom it was meant for, or that this machine sent it.
    pub kind: FrameKind,
}

/// Whom a frame was meant for, as the kernel sees it, or that this machine sent it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FrameKind {
    /// The device does not know.
    #[default]
    Unknown,
    /// This machine.
    Host,
    /// Everybody.
    Broadcast,
    /// A group.
    Multicast,
    /// Another machine: an interface that is promiscuous takes such frames.
    Other,
    /// This machine sent it.
    Outgoing,
}

impl FrameKind {
    /// The kernel's `PACKET_HOST` and so on.
    pub(super) fn of_kernel(kind: u8) -> Self {
        match kind {
            libc::PACKET_HOST => FrameKind::Host,
            libc::PACKET_BROADCAST => FrameKind::Broadcast,
            libc::PACKET_MULTICAST => FrameKind::Multicast,
            libc::PACKET_OTHERHOST => FrameKind::Other,
            libc::PACKET_OUTGOING => FrameKind::Outgoing,
            _ => FrameKind::Unknown,
        }
    }
}

impl FrameInfo {
    /// Describes a frame that waits for this to be done.
    #[cfg(feature = "xdp")]
    pub(super) fn with_offload(offload: Offload) -> Self {
        FrameInfo { offload, ..FrameInfo::default() }
    }
}
