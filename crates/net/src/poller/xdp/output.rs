//! Frames that leave by an AF_XDP socket.
//!
//! A frame is copied into a chunk of the output and waits there until its turn.
//!
//! ```text
//!   queue ─▶ waiting ── poll_tx: lend, publish, wake once ──▶ send ring ─▶ kernel ─▶ completed ─▶ free chunks
//!            └────────────────── together at most as many as the ring has entries ──────────┘
//! ```

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use softtimers_linux::xdp::ring::{Consumer, Descriptor, Producer};
use softtimers_linux::xdp::umem::{Borrower, Chunk, Umem};
use softtimers_linux::xdp::wake_sender;

use crate::packet::Offload;
use crate::poller::{FrameInfo, Left, Sent, Transmit};

/// Frames that wait to be sent, and those that the kernel has not completed.
#[derive(Debug)]
pub struct XdpOutput {
    umem: Arc<Umem>,
    socket: OwnedFd,
    ring: Borrower,
    to_send: Producer<2>,
    completed: Consumer<1>,
    /// Chunks with frames at their begins, and the frames' lengths.
    waiting: VecDeque<(Chunk, u32)>,
    /// Free chunks, so that the memory's lock is rarely taken.
    spare: Vec<Chunk>,
    /// Lent, and not completed.
    flying: usize,
    /// The most that wait or fly.
    room: usize,
    failed: u64,
}

/// The outcome of waking the kernel.
struct Woken {
    /// Frames that the interface dropped instead of sending them.
    dropped: u64,
    is_down: bool,
}

impl XdpOutput {
    pub(super) fn new(
        umem: Arc<Umem>,
        socket: OwnedFd,
        to_send: Producer<2>,
        completed: Consumer<1>,
        room: usize,
    ) -> Self {
        let ring = umem.borrower();
        XdpOutput {
            umem,
            socket,
            ring,
            to_send,
            completed,
            waiting: VecDeque::with_capacity(room),
            spare: Vec::with_capacity(SPARE),
            flying: 0,
            room,
            failed: 0,
        }
    }

    /// Returns the number of frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of frames that the interface did not take: it is down, or its queue was full.
    pub fn dropped(&self) -> u64 {
        self.failed
    }

    pub(super) fn send(&mut self, quota: usize) -> io::Result<Sent> {
        self.reclaim();
        let before = self.publish(quota);
        let Woken { dropped, is_down } = self.wake()?;
        let left = self.to_send.waiting() as usize;
        self.failed += dropped;
        self.reclaim();
        Ok(Sent {
            done: (before - left).saturating_sub(dropped as usize),
            left: match left {
                // Frames in the ring leave with the next queued frame. Constant retries would cost a fifth of
                // a CPU as long as the interface is switched off.
                _ if is_down => Left::Nothing,
                0 if self.waiting.is_empty() => Left::Nothing,
                0 => Left::More,
                _ => Left::Blocked,
            },
        })
    }

    /// Takes back the chunks of sent frames.
    fn reclaim(&mut self) {
        if self.flying == 0 || self.completed.is_empty() {
            return;
        }
        while let Some([address]) = self.completed.pop() {
            if let Some((chunk, _)) = self.umem.returned(address, &mut self.ring) {
                self.flying -= 1;
                self.spare.push(chunk);
            }
        }
        self.completed.release();
        if self.spare.len() > SPARE {
            self.umem.give(self.spare.drain(SPARE / 2..));
        }
    }

    /// Puts frames into the ring until `quota` are there. Returns how many are.
    fn publish(&mut self, quota: usize) -> usize {
        let mut there = self.to_send.waiting() as usize;
        while there < quota {
            let Some((chunk, length)) = self.waiting.pop_front() else { break };
            let address = self.umem.lend(chunk, &self.ring);
            // There is room: no more fly than the ring has entries.
            self.to_send.push(Descriptor { address, length });
            self.flying += 1;
            there += 1;
        }
        self.to_send.publish();
        there
    }

    /// Makes the kernel send the frames in the ring.
    fn wake(&mut self) -> io::Result<Woken> {
        let (mut dropped, mut is_down) = (0, false);
        let mut left = self.to_send.waiting();
        while left > 0 && self.to_send.wants_wake_up() {
            let outcome = wake_sender(self.socket.as_fd());
            let before = std::mem::replace(&mut left, self.to_send.waiting());
            match outcome.as_ref().map_err(Errno::from_io_error) {
                // The kernel stops at a frame that the interface does not take.
                Err(Some(Errno::BUSY)) => dropped += u64::from(left < before),
                // No buffer or memory is free, or the kernel's own quota is used up.
                Ok(()) | Err(Some(Errno::AGAIN | Errno::NOBUFS | Errno::INTR)) => {}
                Err(Some(Errno::NETDOWN)) => {
                    is_down = true;
                    self.discard();
                }
                Err(_) => outcome?,
            }
            if left == before {
                break;
            }
        }
        Ok(Woken { dropped, is_down })
    }

    /// Drops waiting frames while the interface is switched off: they would be stale later. Frames already in
    /// the ring stay there, at most a quota.
    fn discard(&mut self) {
        self.failed += self.waiting.len() as u64;
        self.umem.give(self.waiting.drain(..).map(|(chunk, _)| chunk));
    }

    /// Returns whether another frame has room.
    fn has_room(&mut self) -> bool {
        if self.waiting.len() + self.flying >= self.room {
            self.reclaim();
        }
        self.waiting.len() + self.flying < self.room
    }

    fn copy(&mut self, bytes: &[u8], mut offload: Offload) -> bool {
        if !(SHORTEST_FRAME..=self.umem.chunk_size()).contains(&bytes.len()) || !self.has_room() {
            return false;
        }
        if self.spare.is_empty() {
            self.umem.take(SPARE / 2, &mut self.spare);
        }
        let Some(mut chunk) = self.spare.pop() else { return false };
        let whole = self.umem.bytes(&mut chunk, 0, bytes.len()).is_some_and(|room| {
            room.copy_from_slice(bytes);
            offload.complete_checksum(room).is_ok()
        });
        if !whole {
            self.spare.push(chunk);
            return false;
        }
        self.waiting.push_back((chunk, bytes.len() as u32));
        true
    }
}

impl Transmit for XdpOutput {
    type Address = FrameInfo;

    fn queue(&mut self, bytes: &[u8], to: Option<FrameInfo>) -> bool {
        let offload = to.unwrap_or_default().offload;
        if offload.segments.is_none() {
            return self.copy(bytes, offload);
        }
        // All of its frames, or none of them.
        let mut frames = Vec::new();
        let cut = offload.cut(bytes, &mut |frame| frames.push(frame.to_vec()));
        let room = self.room - self.waiting.len() - self.flying;
        cut.is_ok() && frames.len() <= room && frames.iter().all(|frame| self.copy(frame, Offload::default()))
    }
}

/// Ethernet's header: the kernel sends no shorter frame.
const SHORTEST_FRAME: usize = 14;
/// A turn's worth of chunks, twice: the most that are kept. The memory has them in addition to those of the
/// rings, or the smallest ring would run dry.
pub(super) const SPARE: usize = 128;
