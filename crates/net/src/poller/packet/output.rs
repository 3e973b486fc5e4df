//! [`PacketOutput`]: frames that wait to leave by an interface.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use softtimers_linux::frame_queue::FrameQueue;
use softtimers_linux::{packet, sockopt};

use super::{PacketConfig, is_link_error};
use crate::packet::Interface;
use crate::poller::device::{Left, Transmit};
use crate::poller::frame::FrameInfo;

/// Frames that wait to be sent, at most the number in the [configuration](super::PacketConfig::output), of
/// 2,048 bytes on average.
pub struct PacketOutput {
    /// Not the receiving socket: that is watched, and each sent frame would notify it.
    socket: OwnedFd,
    queue: FrameQueue,
    /// Frames dropped because they cannot be sent.
    dropped: u64,
    /// Attempts in a row at which no frame was taken.
    stuck: u32,
}

/// The result of a turn.
pub(super) struct Outcome {
    pub(super) done: usize,
    pub(super) left: Left,
    pub(super) is_link_down: bool,
}

impl PacketOutput {
    pub(super) fn open(interface: &Interface, config: &PacketConfig) -> io::Result<Self> {
        let socket = packet::frames(interface.index(), 0, |socket| {
            packet::set_offload_headers(socket.as_fd())?;
            sockopt::request_send_buffer(socket.as_fd(), SEND_BUFFER)
        })?;
        let queue = FrameQueue::new(config.output, config.output * 2_048);
        Ok(PacketOutput { socket, queue, dropped: 0, stuck: 0 })
    }

    /// Returns the number of frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of frames that were taken from a handler and then dropped: too long for the
    /// interface, or it was switched off, or took none in many attempts.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn send(&mut self, quota: usize) -> Outcome {
        let (mut done, mut is_link_down) = (0, false);
        let left = loop {
            if self.queue.is_empty() {
                break Left::Nothing;
            }
            if done >= quota {
                break Left::More;
            }
            match self.queue.send(self.socket.as_fd(), quota - done) {
                Ok(taken) => {
                    done += taken;
                    self.stuck = 0;
                }
                Err(error) if is_full(&error) => {
                    self.stuck += 1;
                    if self.stuck < MOST_ATTEMPTS {
                        break Left::Blocked;
                    }
                    self.drop_frames(usize::MAX);
                }
                // No frame can leave now, and later it would be stale.
                Err(error) if is_link_error(&error) => {
                    is_link_down = true;
                    self.drop_frames(usize::MAX);
                }
                // Only about this frame: too long, too short, or malformed headers.
                Err(_) => self.drop_frames(1),
            }
        };
        Outcome { done, left, is_link_down }
    }

    fn drop_frames(&mut self, count: usize) {
        self.dropped += self.queue.discard(count) as u64;
        self.stuck = 0;
    }
}

impl Transmit for PacketOutput {
    type Address = FrameInfo;

    fn queue(&mut self, bytes: &[u8], to: Option<FrameInfo>) -> bool {
        match to.unwrap_or_default().offload.encode(bytes) {
            Ok(offloads) => self.queue.push(&offloads, bytes),
            // It cannot be segmented.
            Err(_) => false,
        }
    }
}

impl fmt::Debug for PacketOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketOutput")
            .field("waiting", &self.queue.len())
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

/// Returns whether there is no room for now, in the socket or in the interface's queue.
fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::AGAIN | Errno::NOBUFS))
}

/// Failed attempts after which waiting frames count as stale, for example without a cable: at least some
/// milliseconds.
const MOST_ATTEMPTS: u32 = 64;
/// The send buffer: an output's frames, with the kernel's overhead.
const SEND_BUFFER: usize = 4 << 20;
