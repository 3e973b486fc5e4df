//! Receives many datagrams with one system call, into preallocated memory.
//!
//! ```text
//!   headers[i] ──▶ vectors[i] ──▶ payload[i × size ..]      what was sent
//!        ├───────▶ addresses[i]                              who sent it
//!        └───────▶ controls[i]                               when it came, what was dropped
//! ```
//!
//! The arrows are raw pointers that the kernel follows. They are set once: the vectors they point
//! into never grow, and moving a `Vec` leaves its elements where they are. They are derived from the vectors'
//! own pointers, and so is every access between two calls: a mutable reference to a whole vector would
//! invalidate the pointers derived before.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::control::ControlBuffer;
use super::mmsg::{empty_header, recvmmsg};
use super::sockaddr::AddressBuffer;

/// The buffers of a batch, with the datagrams of the last receive.
pub struct RecvBuffers {
    headers: Vec<libc::mmsghdr>,
    /// Only the kernel reads these, through `headers`.
    _vectors: Vec<libc::iovec>,
    addresses: Vec<AddressBuffer>,
    controls: Vec<ControlBuffer>,
    payload: Vec<u8>,
    max_datagram: usize,
    filled: usize,
    /// The number of headers that a receive may have changed since they were last prepared.
    touched: usize,
}

/// One received datagram, as the kernel described it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The datagram, truncated to its buffer.
    pub payload: &'a [u8],
    /// Its sender, for [`sockaddr::decode`](crate::sockaddr::decode).
    pub address: &'a [u8],
    /// Its control messages, for [`Control::parse`](crate::control::Control::parse).
    pub control: &'a [u8],
    /// Whether the datagram was longer than its buffer.
    pub truncated: bool,
}

impl RecvBuffers {
    /// Makes room for `capacity` datagrams of at most `max_datagram` bytes each; both at least one.
    pub fn new(capacity: usize, max_datagram: usize) -> Self {
        let mut payload = vec![0; capacity * max_datagram];
        let mut addresses = vec![AddressBuffer::EMPTY; capacity];
        let mut controls = vec![ControlBuffer::EMPTY; capacity];
        let bytes: *mut u8 = payload.as_mut_ptr();
        let vector = |index| libc::iovec {
            iov_base: bytes.wrapping_add(index * max_datagram).cast(),
            iov_len: max_datagram,
        };
        let mut vectors: Vec<_> = (0..capacity).map(vector).collect();
        let (vector, address) = (vectors.as_mut_ptr(), addresses.as_mut_ptr());
        let control = controls.as_mut_ptr();
        let header = |index| {
            let mut header = empty_header();
            header.msg_hdr.msg_iov = vector.wrapping_add(index);
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = address.wrapping_add(index).cast();
            header.msg_hdr.msg_control = control.wrapping_add(index).cast();
            header
        };
        let headers = (0..capacity).map(header).collect();
        let (filled, touched) = (0, capacity);
        Self { headers, _vectors: vectors, addresses, controls, payload, max_datagram, filled, touched }
    }

    /// Receives the available datagrams, up to the capacity, and returns how many. Waits only for the first
    /// one, and only on a blocking socket.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.receive_at_most(socket, self.capacity())
    }

    /// Receives at most `most` datagrams, as [`receive`](Self::receive) does.
    pub fn receive_at_most(&mut self, socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        self.receive_with(socket, libc::MSG_WAITFORONE, most)
    }

    /// Receives from the socket's error queue, without waiting: ICMP errors, and times of transmission.
    pub fn receive_errors(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.receive_with(socket, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT, self.capacity())
    }

    fn receive_with(&mut self, socket: BorrowedFd<'_>, flags: libc::c_int, most: usize) -> io::Result<usize> {
        self.prepare();
        let room = self.headers.len().min(most) as libc::c_uint;
        let headers = self.headers.as_mut_ptr();
        // The type of flags differs between C libraries.
        let flags = flags as _;
        // SAFETY: `headers` is valid for at least `room` headers. Each one points to an i/o vector, a payload
        // buffer, an address buffer and a control buffer that this value owns, that no reference
        // uses during the call (we hold `&mut self`), and whose lengths the header states.
        let filled = unsafe { recvmmsg(socket.as_raw_fd(), headers, room, flags, ptr::null_mut()) };
        match usize::try_from(filled) {
            Ok(filled) => {
                self.filled = filled;
                self.touched = self.headers.len().min(filled + 1);
                Ok(filled)
            }
            Err(_) => {
                self.touched = 1;
                Err(io::Error::last_os_error())
            }
        }
    }

    /// The datagram at `index` of the last receive.
    pub fn message(&self, index: usize) -> Option<Message<'_>> {
        let header = self.headers[..self.filled].get(index)?;
        let length = (header.msg_len as usize).min(self.max_datagram);
        let address = &self.addresses[index].0;
        let control = &self.controls[index].0;
        // The type of this length differs between C libraries.
        let control_length: usize = header.msg_hdr.msg_controllen as _;
        Some(Message {
            payload: &self.payload[index * self.max_datagram..][..length],
            address: &address[..address.len().min(header.msg_hdr.msg_namelen as usize)],
            control: &control[..control.len().min(control_length)],
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }

    /// The payload of that datagram, to be changed in place.
    pub fn payload_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let length = (self.headers[..self.filled].get(index)?.msg_len as usize).min(self.max_datagram);
        let start = self.payload.as_mut_ptr().wrapping_add(index * self.max_datagram);
        // SAFETY: `index` is below the capacity, so these bytes lie inside the payload, and `&mut self` is
        // exclusive. A reference to all of it would invalidate the pointers of the headers.
        Some(unsafe { std::slice::from_raw_parts_mut(start, length) })
    }

    /// Returns whether the last receive returned no datagram.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns the number of datagrams of the last receive.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Returns the most datagrams of one receive.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Returns the number of bytes of a datagram that are kept.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    /// Restores the buffer lengths that the kernel shortened last time.
    fn prepare(&mut self) {
        for header in &mut self.headers[..self.touched] {
            header.msg_hdr.msg_namelen = size_of::<AddressBuffer>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = size_of::<ControlBuffer>() as _;
            header.msg_hdr.msg_flags = 0;
        }
        self.filled = 0;
        self.touched = 0;
    }
}

impl fmt::Debug for RecvBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBuffers")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("max_datagram", &self.max_datagram)
            .finish_non_exhaustive()
    }
}

// SAFETY: the raw pointers in the headers point only into vectors that the same value owns, and only the
// kernel follows them, during `receive`, under `&mut self`.
unsafe impl Send for RecvBuffers {}

// SAFETY: as above; `&self` reads lengths and the owned vectors, and follows no raw pointer.
unsafe impl Sync for RecvBuffers {}
