//! io_uring at its best for a loop that decides when to send: the descriptor is registered, one thread submits and also
//! runs the completions without an interrupt, and nothing is copied into our buffers.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, cqueue, opcode, types};
use softtimers_net::udp::UdpSocket;

pub(crate) struct Ring {
    ring: IoUring,
    /// As many packets as are handed over at once, so that none is shared.
    packets: Vec<Vec<u8>>,
    copies: bool,
    _socket: UdpSocket,
}

impl Ring {
    pub(crate) fn new(socket: UdpSocket, size: usize, copies: bool) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring: IoUring = builder.build(256)?;
        ring.submitter().register_files(&[socket.as_raw_fd()])?;
        Ok(Ring { ring, packets: vec![vec![1; size]; 64], copies, _socket: socket })
    }
}

impl Ring {
    pub(crate) fn hand_over(&mut self, count: usize) -> io::Result<()> {
        let socket = types::Fixed(0);
        for packet in &self.packets[..count] {
            let (bytes, length) = (packet.as_ptr(), packet.len() as u32);
            let entry = if self.copies {
                opcode::Send::new(socket, bytes, length).build()
            } else {
                opcode::SendZc::new(socket, bytes, length).build()
            };
            // SAFETY: the packet is not written to, and it outlives the ring: the fields are dropped in order.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        }
        // Without a copy there are two for each: sent, and buffer released.
        let completions = if self.copies { count } else { 2 * count };
        let patience = types::Timespec::new().sec(LONGEST_WAIT_S);
        let (mut pending, mut seen, mut outcome) = (count, 0, Ok(()));
        while pending > 0 {
            let wait = types::SubmitArgs::new().timespec(&patience);
            self.ring.submitter().submit_with_args(completions.saturating_sub(seen).max(1), &wait)?;
            for completion in self.ring.completion() {
                seen += 1;
                // The last one of its entry.
                pending -= usize::from(!cqueue::more(completion.flags()));
                if completion.result() < 0 {
                    outcome = Err(io::Error::from_raw_os_error(-completion.result()));
                }
            }
        }
        outcome
    }
}

/// Seconds; a failed send gives one completion less than expected.
const LONGEST_WAIT_S: u64 = 1;
