//! Sending many datagrams by one system call, out of memory that is made once.
//!
//! Datagrams are copied into a ring of slots, so that those the kernel did not take stay where they
//! are and the next attempt begins with them.
//!
//! ```text
//!   slot    0     1     2     3     4     5
//!         │ ··· │ ··· │ C   │ D   │ E   │ ··· │     first = 2, waiting = 3
//!                       └─ taken by the next call: the slots up to the end of the ring
//! ```

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::recvmmsg::empty_header;
use super::sockaddr::AddressBuffer;

/// The ring. Pointers between its vectors are made for each call and mean nothing afterwards.
pub(crate) struct SendBuffers {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    addresses: Vec<AddressBuffer>,
    payload: Vec<u8>,
    max_datagram: usize,
    first: usize,
    waiting: usize,
}

impl SendBuffers {
    /// Room for `capacity` datagrams of at most `max_datagram` bytes each; both at least one.
    pub(crate) fn new(capacity: usize, max_datagram: usize) -> Self {
        Self {
            headers: vec![empty_header(); capacity],
            vectors: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; capacity],
            addresses: vec![AddressBuffer::EMPTY; capacity],
            payload: vec![0; capacity * max_datagram],
            max_datagram,
            first: 0,
            waiting: 0,
        }
    }

    /// Copies a datagram into the ring, which must have room for it in number and in length.
    ///
    /// # Panics
    ///
    /// If it has not.
    pub(crate) fn push(&mut self, payload: &[u8], to: Option<SocketAddr>) {
        assert!(self.waiting < self.capacity() && payload.len() <= self.max_datagram);
        let slot = (self.first + self.waiting) % self.capacity();
        self.payload[slot * self.max_datagram..][..payload.len()].copy_from_slice(payload);
        self.vectors[slot].iov_len = payload.len();
        let address_length = to.map_or(0, |address| self.addresses[slot].encode(address));
        self.headers[slot].msg_hdr.msg_namelen = address_length as libc::socklen_t;
        self.waiting += 1;
    }

    /// Offers the longest contiguous run of waiting datagrams to the kernel; returns how many of how
    /// many it took. Without an error it took at least one, if one was waiting.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<Taken> {
        let offered = self.waiting.min(self.capacity() - self.first);
        self.connect(offered);
        let run = &mut self.headers[self.first..][..offered];
        let (headers, length) = (run.as_mut_ptr(), run.len() as libc::c_uint);
        // SAFETY: `headers` is valid for `length` headers. `connect` made each one point to an i/o
        // vector and perhaps an address that this value owns, whose lengths are stated beside the
        // pointers, and that nobody has used since; control data is absent.
        let taken = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, length, 0) };
        let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
        self.discard(taken);
        Ok(Taken { taken, offered })
    }

    /// Makes the first `count` headers from `first` on point to their datagrams.
    fn connect(&mut self, count: usize) {
        let headers = self.headers[self.first..].iter_mut().take(count);
        let vectors = self.vectors[self.first..].iter_mut();
        let addresses = self.addresses[self.first..].iter_mut();
        let payload = self.payload.chunks_exact_mut(self.max_datagram).skip(self.first);
        for (((header, vector), address), payload) in headers.zip(vectors).zip(addresses).zip(payload) {
            vector.iov_base = payload.as_mut_ptr().cast();
            let header = &mut header.msg_hdr;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_name =
                if header.msg_namelen == 0 { ptr::null_mut() } else { (&raw mut address.0).cast() };
        }
    }

    /// Forgets the first `count` waiting datagrams.
    pub(crate) fn discard(&mut self, count: usize) {
        let count = count.min(self.waiting);
        self.waiting -= count;
        // An empty ring starts over, which makes the next run the longest possible.
        self.first = if self.waiting == 0 { 0 } else { (self.first + count) % self.capacity() };
    }

    /// How many datagrams wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    pub(crate) fn max_datagram(&self) -> usize {
        self.max_datagram
    }
}

/// How much of a run the kernel took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) taken: usize,
    pub(crate) offered: usize,
}

// SAFETY: the raw pointers in the headers are made and followed inside `send`, under `&mut self`.
unsafe impl Send for SendBuffers {}

// SAFETY: as above; `&self` reads lengths, and follows no raw pointer.
unsafe impl Sync for SendBuffers {}
