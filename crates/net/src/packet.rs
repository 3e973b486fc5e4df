//! Raw frames: receives those that pass an interface, and sends frames out of one. Needs `CAP_NET_RAW`.
//!
//! A packet socket gets a copy of each frame, but not as it is on the wire. Interfaces segment long frames
//! and fill in checksums, the kernel joins received segments, and the two ends of a virtual cable omit both:
//! a TCP frame there has up to 64 KiB and no checksum. A program that measures, delays or forwards frames
//! must undo that with [`Frame::on_the_wire`]:
//!
//! ```text
//!   socket ─▶ 1 frame of 64 KiB ─▶ on_the_wire ─▶ 45 frames of 1,514 bytes, checksums and tags filled in
//! ```
//!
//! So no offload needs to be switched off at the interface, or restored.
//!
//! ```no_run
//! use softtimers_net::packet::{FrameBatch, FrameReceiver, Interface};
//!
//! let receiver = FrameReceiver::on(&Interface::named("eth0")?)?;
//! let mut batch = FrameBatch::new(64);
//! receiver.recv_batch(&mut batch)?;
//! for frame in batch.iter() {
//!     let _ = frame.on_the_wire(&mut |bytes| println!("{} bytes", bytes.len()));
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod claim;
mod filter;
mod hold;
mod interface;
pub mod lay;
mod loop_probe;
mod offload;
mod receive;
mod unit;
mod watch;
mod wire;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::writev;
use rustix::net::{SendFlags, send};

pub use claim::{ClaimError, claim};
pub use filter::Filter;
pub use interface::Interface;
pub use loop_probe::{Heard, LoopProbe};
pub use offload::{Offload, Segments};
pub use receive::{Frame, FrameBatch, FrameReceiver};
pub use unit::Unit;
pub use watch::{InterfaceChange, InterfaceWatch};
pub use wire::{Unsplit, complete_ipv4_checksum};

use softtimers_linux::packet;

/// Sends frames out of one interface. It never receives any.
#[derive(Debug)]
pub struct FrameSender {
    socket: OwnedFd,
    /// Whether each frame is preceded by its offload header.
    offloads: bool,
}

impl FrameSender {
    /// Makes a sender for this interface.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; otherwise the system's error.
    pub fn on(interface: &Interface) -> io::Result<Self> {
        Ok(FrameSender { socket: packet::frames(interface.index(), 0, |_| Ok(()))?, offloads: false })
    }

    /// Makes a sender for a receiver's interface that leaves [offloads](Self::send_offloaded) to the interface. It shares
    /// the receiver's socket: the kernel takes milliseconds to close one.
    ///
    /// # Errors
    /// If the system refuses another descriptor.
    pub fn offloading(receiver: &FrameReceiver) -> io::Result<Self> {
        Ok(FrameSender { socket: receiver.as_fd().try_clone_to_owned()?, offloads: true })
    }

    /// Sends a whole frame, from its destination's address on and without a check sequence. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no buffer; among others, `EMSGSIZE` if it is longer than the interface
    /// allows, and `ENETDOWN` while the interface is switched off.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        if self.offloads {
            return self.send_offloaded(frame, Offload::default());
        }
        send(&self.socket, frame, SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Sends a frame as it was [received](Frame::is_sendable): its checksum and its segmentation are left to
    /// the interface, or to the kernel if that cannot do it. Only for an [offloading](Self::offloading)
    /// sender.
    ///
    /// # Errors
    /// As [`send`](Self::send); `InvalidInput` for an offload that does not fit the frame, and for another
    /// sender; the kernel's error for an offload.
    pub fn send_offloaded(&self, frame: &[u8], offload: Offload) -> io::Result<()> {
        if !self.offloads {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a sender that is not offloading"));
        }
        let header = offload.encode(frame).map_err(|_| io::ErrorKind::InvalidInput)?;
        writev(&self.socket, &[IoSlice::new(&header), IoSlice::new(frame)])?;
        Ok(())
    }
}

impl AsFd for FrameSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a frame would lack its first bytes, or begin with foreign ones.
    #[test]
    fn a_sender_does_only_what_it_was_made_for() {
        let sender = |offloads| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into();
            FrameSender { socket, offloads }
        };
        let error = sender(false).send_offloaded(&[0; 60], Offload::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
