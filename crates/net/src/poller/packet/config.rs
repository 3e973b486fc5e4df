//! How an interface is opened: [`PacketConfig`], and [`Spread`].

use std::io;

/// The settings of an interface's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// The least number of frames that the ring has room for, from 2 to 65,536: the longest burst that is not lost
    /// while others have their turn.
    pub slots: usize,
    /// The length of frames for which the ring has room, from 64 to 65,536 bytes: usually the interface's greatest
    /// length and 22 bytes of header and tags. Longer ones cost a system call.
    pub max_frame: usize,
    /// The number of frames that may wait to be sent, from 1 to 65,536.
    pub output: usize,
    /// Take frames for others as well, as long as the device is open. A forwarder of the link layer must.
    pub promiscuous: bool,
    /// Frames that this machine sends, too: for who only listens. A forwarder would take its own for others'.
    pub outgoing: bool,
    /// Send past the interface's queue (its qdisc), which is cheaper, and neither shaped nor seen by packet sockets of
    /// others.
    pub bypass_queue: bool,
}

impl Default for PacketConfig {
    /// 4,096 slots for frames of up to 1,952 bytes, which is 8 MiB; 1,024 that wait to be sent.
    fn default() -> Self {
        PacketConfig {
            slots: 4_096,
            max_frame: 1_952,
            output: 1_024,
            promiscuous: false,
            outgoing: false,
            bypass_queue: false,
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

/// The division of an interface's frames among several devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// By addresses and ports, the same for both directions: frames of one flow stay together, and in order.
    #[default]
    Flow,
    /// By the CPU on which the kernel received it: for interfaces that spread frames by themselves, to several
    /// queues.
    Processor,
    /// In turn, for equal shares; flows are torn apart.
    RoundRobin,
    /// To the first whose ring has room.
    Overflow,
}

impl Spread {
    pub(super) fn mode(self) -> u32 {
        match self {
            Spread::Flow => libc::PACKET_FANOUT_HASH,
            Spread::Processor => libc::PACKET_FANOUT_CPU,
            Spread::RoundRobin => libc::PACKET_FANOUT_LB,
            Spread::Overflow => libc::PACKET_FANOUT_ROLLOVER,
        }
    }
}
