//! What is known of a frame beside its bytes: [`FrameInfo`].

use std::time::Duration;

use crate::packet::Offload;

/// What a device of the link layer knows of a frame that it received, and what it is to know of one to be sent:
/// the address type of such devices.
///
/// A forwarder passes it on as it came, with the frame. One that changes where things are, by a tag for one,
/// changes [`Offload::checksum`] with them; one that makes frames gives `None`, or the default: all is in them.
///
/// Tags are always in the frame, also where the interface had taken them out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameInfo {
    /// What was left for the interface to do: fill in a checksum, cut it up. Devices do what their interface
    /// cannot, so a forwarder need not look.
    pub offload: Offload,
    /// Somebody has checked its transport's checksum already.
    pub verified: bool,
    /// How long it was on the wire, its tag included, where a filter or a device has cut it; zero where nobody did.
    pub length: u32,
    /// When the kernel received it, since 1970, if it says so: what [`Packet::arrived`](super::Packet::arrived) was made of.
    pub received: Option<Duration>,
}

impl FrameInfo {
    /// Of a frame that waits for this to be done.
    pub fn with_offload(offload: Offload) -> Self {
        FrameInfo { offload, ..FrameInfo::default() }
    }
}
