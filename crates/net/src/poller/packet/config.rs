//! The settings of an interface's device: [`PacketConfig`].

use std::io;

use super::Blocks;

/// The settings of an interface's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// The least number of frames that the ring has room for, from 2 to 65,536: the longest burst that
    /// survives while other devices have their turns.
    pub slots: usize,
    /// The length of frames for which the ring has room, from 64 to 65,536 bytes: usually the interface's greatest
    /// length and 22 bytes of header and tags. Longer ones cost a system call.
    pub max_frame: usize,
    /// The number of frames that may wait to be sent, from 1 to 65,536.
    pub output: usize,
    /// Puts the interface into promiscuous mode as long as the device is open. Necessary for a link-layer
    /// forwarder.
    pub promiscuous: bool,
    /// Includes frames that this machine sends: for programs that only listen. A forwarder would forward its
    /// own again.
    pub outgoing: bool,
    /// Packs frames into blocks in the place of slots.
    pub blocks: Option<Blocks>,
}

impl Default for PacketConfig {
    /// Returns the defaults: 4,096 slots for frames of up to 1,952 bytes, which is 8 MiB; 1,024 frames
    /// waiting to be sent.
    fn default() -> Self {
        PacketConfig {
            slots: 4_096,
            max_frame: 1_952,
            output: 1_024,
            promiscuous: false,
            outgoing: false,
            blocks: None,
        }
    }
}

impl PacketConfig {
    pub(super) fn check(&self) -> io::Result<()> {
        for (what, value, least, most) in [
            ("slots", self.slots, 2, 65_536),
            ("bytes of a frame", self.max_frame, 64, 65_536),
            ("frames that wait", self.output, 1, 65_536),
        ] {
            if !(least..=most).contains(&value) {
                return Err(invalid(format!("{value} {what}, not {least} to {most}")));
            }
        }
        Ok(())
    }
}

pub(super) fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
