//! Metadata of a frame: [`FrameInfo`], and [`FrameKind`].

use std::time::Duration;

use crate::packet::Offload;

/// The address type of link-layer devices: metadata of a frame that was received, or of one to be sent.
///
/// A forwarder passes it on unchanged, with the frame. One that moves parts of the frame, for example with a
/// tag, must adjust [`Offload::checksum`]; one that makes frames passes `None`, or the default, for complete
/// frames.
///
/// Tags are always in the frame, even if the interface had taken them out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameInfo {
    /// The work left to the interface: fill in a checksum, segment the frame. Devices do what their interface
    /// cannot, so a forwarder need not check.
    pub offload: Offload,
    /// Whether its transport checksum was verified already.
    pub verified: bool,
    /// The frame's length on the wire in bytes, including its tag, if a filter or a device has truncated it;
    /// otherwise zero.
    pub length: u32,
    /// When the kernel received it, since 1970, if known: the source of
    /// [`Packet::arrived`](super::Packet::arrived).
    pub received: Option<Duration>,
    /// Its addressee, or that this machine sent it.
    pub kind: FrameKind,
}

/// The addressee of a frame, by the kernel's classification, or that this machine sent it.
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
    /// Describes a frame with this pending offload.
    #[cfg(feature = "xdp")]
    pub(super) fn with_offload(offload: Offload) -> Self {
        FrameInfo { offload, ..FrameInfo::default() }
    }
}
