//! Sends many frames with one system call.
//!
//! Frames have very different lengths: joined ones have a thousand times as many bytes as the shortest. So
//! they are packed one after the other, and short ones use few cache lines and pages, where slots for the
//! longest would use one of each for every frame.
//!
//! ```text
//!   bytes     │ free │ frame │ frame      │ frame │ free        │ unused │
//!                    ▲ begin                      ▲ end           no frame is split at the end
//!   vectors   │ ──▶  │ ──▶   │ ──▶                                              first, waiting
//! ```

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::mmsg::{empty_header, sendmmsg};
use super::packet::OFFLOAD_HEADER;

/// Waiting frames, each behind its offload header.
pub struct FrameQueue {
    /// Headers point to the vectors of the same indices, and these into `bytes`: pointers are made for each
    /// call, since any reference to the memory invalidates pointers derived before.
    headers: Vec<libc::mmsghdr>,
    /// Where each waiting frame lies, and its length.
    vectors: Vec<libc::iovec>,
    /// The offset in `bytes` at which each of them begins.
    begins: Vec<usize>,
    bytes: Box<[u8]>,
    first: usize,
    waiting: usize,
    /// Behind the newest frame.
    end: usize,
}

impl FrameQueue {
    /// Makes room for `frames`, at least one, with `bytes` in all, at least [`LONGEST_FRAME`]. Unused memory takes no
    /// pages.
    pub fn new(frames: usize, bytes: usize) -> Self {
        let vectors = vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; frames];
        let mut header = empty_header();
        header.msg_hdr.msg_iovlen = 1;
        let headers = vec![header; frames];
        let bytes = vec![0; bytes.max(LONGEST_FRAME)].into_boxed_slice();
        FrameQueue { headers, vectors, begins: vec![0; frames], bytes, first: 0, waiting: 0, end: 0 }
    }

    /// Queues a copy of `frame`; `false` if there is no room.
    pub fn push(&mut self, offloads: &[u8; OFFLOAD_HEADER], frame: &[u8]) -> bool {
        let Some(begin) = self.room(SPACE + frame.len()) else { return false };
        let slot = wrapped(self.first + self.waiting, self.vectors.len());
        let place = &mut self.bytes[begin..][..SPACE + frame.len()];
        place[SPACE - OFFLOAD_HEADER..SPACE].copy_from_slice(offloads);
        place[SPACE..].copy_from_slice(frame);
        self.vectors[slot].iov_len = OFFLOAD_HEADER + frame.len();
        self.begins[slot] = begin;
        self.end = begin + (SPACE + frame.len()).next_multiple_of(SPACE);
        self.waiting += 1;
        true
    }

    /// Returns the offset at which `length` bytes have room, if they do.
    fn room(&self, length: usize) -> Option<usize> {
        if self.waiting == self.vectors.len() {
            return None;
        }
        let all = self.bytes.len();
        if self.waiting == 0 {
            return (length <= all).then_some(0);
        }
        let begin = self.begins[self.first];
        if self.end <= begin {
            // It continues at the front, where the newest frame is.
            return (length <= begin - self.end).then_some(self.end);
        }
        if length <= all.saturating_sub(self.end) {
            return Some(self.end);
        }
        (length <= begin).then_some(0)
    }

    /// Offers the longest contiguous run of frames to the kernel, at most `most`, and removes those that it
    /// took. Without an error that is at least one, if one was waiting.
    pub fn send(&mut self, socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        let run = self.waiting.min(self.vectors.len() - self.first).min(most);
        let run = self.first..self.first + run;
        let headers = &mut self.headers[run.clone()];
        let bytes = self.bytes.as_mut_ptr();
        let places = self.vectors[run.clone()].iter_mut().zip(&self.begins[run]);
        for (header, (vector, begin)) in headers.iter_mut().zip(places) {
            vector.iov_base = bytes.wrapping_add(begin + SPACE - OFFLOAD_HEADER).cast();
            header.msg_hdr.msg_iov = vector;
        }
        let (start, length) = (headers.as_mut_ptr(), headers.len() as libc::c_uint);
        // The type of flags differs between C libraries.
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: `start` is valid for `length` headers. Each points to a vector, and that to bytes, which
        // this value owns, which were not used since the pointers were made, and which have the length in the
        // vector.
        let taken = unsafe { sendmmsg(socket.as_raw_fd(), start, length, flags) };
        let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
        self.discard(taken);
        Ok(taken)
    }

    /// Removes the `count` oldest, or all if there are fewer; returns their number.
    pub fn discard(&mut self, count: usize) -> usize {
        let count = count.min(self.waiting);
        self.waiting -= count;
        // An empty queue starts over, in recently used cache lines.
        self.first = if self.waiting == 0 { 0 } else { wrapped(self.first + count, self.vectors.len()) };
        count
    }

    /// Returns whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns the number of frames that wait.
    pub fn len(&self) -> usize {
        self.waiting
    }
}

fn wrapped(index: usize, length: usize) -> usize {
    if index >= length { index - length } else { index }
}

impl fmt::Debug for FrameQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameQueue")
            .field("waiting", &self.waiting)
            .field("capacity", &self.vectors.len())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

// SAFETY: the raw pointers point into memory that the same value owns, and only the kernel follows them, in
// `send`, under `&mut self`.
unsafe impl Send for FrameQueue {}

// SAFETY: as above; `&self` reads lengths, and follows no raw pointer.
unsafe impl Sync for FrameQueue {}

/// Bytes that precede a frame; frames begin at multiples of it.
const SPACE: usize = 16;
/// The longest frame that Linux joins, with the bytes that precede it.
pub const LONGEST_FRAME: usize = 65_536 + 128;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use softtimers_core::Random;

    use super::*;

    impl FrameQueue {
        /// The frames as the kernel would see them.
        fn frames(&self) -> Vec<Vec<u8>> {
            let index = |n| wrapped(self.first + n, self.vectors.len());
            let place = |at: usize| self.begins[at] + SPACE..self.begins[at] + 6 + self.vectors[at].iov_len;
            (0..self.waiting).map(|n| self.bytes[place(index(n))].to_vec()).collect()
        }
    }

    /// Compared with a list: frames of any length come out as they went in, and those that fit are taken.
    #[test]
    fn frames_are_neither_overwritten_nor_cut() {
        let mut random = Random::stream(11, 0);
        for (frames, longest) in [(1, 65_000), (7, 40_000), (64, 3_000), (5, 20)] {
            let (mut queue, mut model) = (FrameQueue::new(frames, 0), VecDeque::new());
            let mut number = 0u8;
            for _ in 0..2_000 {
                if random.below(2) == 0 {
                    let frame = vec![number; 1 + random.below(longest) as usize];
                    number = number.wrapping_add(1);
                    let taken = queue.push(&[9; OFFLOAD_HEADER], &frame);
                    let bytes: usize = model.iter().map(|frame: &Vec<u8>| frame.len() + 32).sum();
                    assert!(
                        taken || model.len() == frames || bytes + 2 * longest as usize > LONGEST_FRAME / 2
                    );
                    if taken {
                        model.push_back(frame);
                    }
                } else {
                    let count = random.below(4) as usize;
                    assert_eq!(queue.discard(count), model.drain(..count.min(model.len())).count());
                }
                assert_eq!(queue.len(), model.len());
                assert!(queue.frames().iter().eq(model.iter()));
            }
        }
    }
}
