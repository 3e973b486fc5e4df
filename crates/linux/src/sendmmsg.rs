//! Sends many datagrams with one system call, from preallocated memory.
//!
//! Datagrams are copied into a ring of slots, so that those the kernel did not take stay in place and the
//! next attempt begins with them. Each attempt decides again which of them leave as segments of one send: the
//! vectors of neighbours lie side by side, and a header that covers several joins them.
//!
//! ```text
//!   slot      0     1     2     3     4     5     6
//!           │ ··· │ ··· │ C   │ C   │ C   │ D   │ ··· │   first = 2, waiting = 4
//!                         └───── one ─────┘ └ one         sends of the next call, and at most to the end
//!                           UDP_SEGMENT                   of the ring
//! ```
//!
//! The order of a place names its slot, so two datagrams change places without being copied.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use softtimers_core::Timestamp;
use softtimers_core::queue::Quantum;

use super::control::ControlBuffer;
use super::mmsg::{empty_header, sendmmsg};
use super::sockaddr::AddressBuffer;

/// The ring. Pointers between its vectors are made for each call and invalid afterwards.
pub struct SendBuffers {
    /// One for each send of a call, from the front on; likewise the control buffers.
    headers: Vec<libc::mmsghdr>,
    controls: Vec<ControlBuffer>,
    /// One for each place of the ring; likewise the orders.
    vectors: Vec<libc::iovec>,
    orders: Vec<Order>,
    /// One slot for each place; the place's order says which.
    payload: Vec<u8>,
    max_datagram: usize,
    first: usize,
    waiting: usize,
}

/// A datagram's slot, destination and time.
#[derive(Clone, Copy)]
struct Order {
    /// No two places have the same.
    slot: usize,
    address: AddressBuffer,
    /// Zero for the connected address.
    address_length: usize,
    release: Option<Timestamp>,
    /// The length of the datagram in bytes, including those that sends leave out.
    length: usize,
}

impl Order {
    fn none(slot: usize) -> Self {
        Self { slot, address: AddressBuffer::EMPTY, address_length: 0, release: None, length: 0 }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.release == other.release && self.address() == other.address()
    }

    fn address(&self) -> &[u8] {
        &self.address.0[..self.address_length]
    }
}

impl SendBuffers {
    /// Makes room for `capacity` datagrams of at most `max_datagram` bytes each; both at least one.
    pub fn new(capacity: usize, max_datagram: usize) -> Self {
        Self {
            headers: vec![empty_header(); capacity],
            controls: vec![ControlBuffer::EMPTY; capacity],
            vectors: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; capacity],
            orders: (0..capacity).map(Order::none).collect(),
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
    pub fn push(&mut self, payload: &[u8], to: Option<SocketAddr>, release: Option<Timestamp>) {
        assert!(self.waiting < self.capacity() && payload.len() <= self.max_datagram);
        let place = self.place(self.waiting);
        let order = &mut self.orders[place];
        self.payload[order.slot * self.max_datagram..][..payload.len()].copy_from_slice(payload);
        order.length = payload.len();
        order.address_length = to.map_or(0, |address| order.address.encode(address));
        order.release = release;
        self.waiting += 1;
    }

    /// Changes each waiting datagram in place.
    pub fn edit(&mut self, mut each: impl FnMut(&mut [u8])) {
        for waiting in 0..self.waiting {
            let Order { slot, length, .. } = self.orders[self.place(waiting)];
            each(&mut self.payload[slot * self.max_datagram..][..length]);
        }
    }

    /// Lets two of the waiting datagrams, counted from the first, change places.
    ///
    /// # Panics
    ///
    /// If fewer wait.
    pub fn swap(&mut self, one: usize, other: usize) {
        assert!(one.max(other) < self.waiting);
        let [one, other] = [one, other].map(|waiting| self.place(waiting));
        self.orders.swap(one, other);
    }

    /// Returns the place in the ring that is `behind` after the first.
    fn place(&self, behind: usize) -> usize {
        (self.first + behind) % self.capacity()
    }

    /// Offers the longest contiguous run of waiting datagrams to the kernel, those that are alike as
    /// segments of one send if it may `join` them. Without an error it took at least one, if one was
    /// waiting.
    pub fn send(&mut self, socket: BorrowedFd<'_>, most: usize, join: bool) -> Result<Taken, Refused> {
        let (sends, offered) = self.connect(most, join);
        let run = &mut self.headers[..sends];
        let (headers, length) = (run.as_mut_ptr(), run.len() as libc::c_uint);
        // SAFETY: `headers` is valid for `length` headers. `connect` made each one point to i/o
        // vectors, and perhaps to an address and to control data, that this value owns, whose lengths
        // are stated beside the pointers, and that were not used since.
        let taken = unsafe { sendmmsg(socket.as_raw_fd(), headers, length, 0) };
        let Ok(taken) = usize::try_from(taken) else {
            let joined = sends > 0 && datagrams(&self.headers[0]) > 1;
            return Err(Refused { error: io::Error::last_os_error(), joined });
        };
        let sends = self.headers[..taken].iter().map(datagrams);
        let segments = sends.clone().filter(|&datagrams| datagrams > 1).sum();
        let taken = sends.sum();
        self.discard(taken);
        Ok(Taken { taken, offered, segments })
    }

    /// Makes headers point to at most `most` waiting datagrams, up to the end of the ring. Returns the number
    /// of headers and of datagrams.
    fn connect(&mut self, most: usize, join: bool) -> (usize, usize) {
        let end = self.first + self.waiting.min(self.capacity() - self.first).min(most);
        let payload = self.payload.as_mut_ptr();
        for (vector, order) in self.vectors.iter_mut().zip(&self.orders).take(end).skip(self.first) {
            vector.iov_base = payload.wrapping_add(order.slot * self.max_datagram).cast();
            vector.iov_len = order.length;
        }
        // Split, never borrowed again as a whole: that would invalidate the pointers of the headers before.
        let (mut vectors, mut orders) =
            (&mut self.vectors[self.first..end], &mut self.orders[self.first..end]);
        let mut sends = 0;
        for (header, control) in self.headers.iter_mut().zip(&mut self.controls) {
            let datagrams = if join { alike(vectors, orders) } else { vectors.len().min(1) };
            if datagrams == 0 {
                break;
            }
            let (joined, other_vectors) = vectors.split_at_mut(datagrams);
            let (its_orders, other_orders) = orders.split_at_mut(datagrams);
            (vectors, orders) = (other_vectors, other_orders);
            let segment = (datagrams > 1).then_some(joined[0].iov_len as u16);
            let (header, order) = (&mut header.msg_hdr, &mut its_orders[0]);
            header.msg_iov = joined.as_mut_ptr();
            // The types of these lengths differ between C libraries.
            header.msg_iovlen = datagrams as _;
            header.msg_namelen = order.address_length as libc::socklen_t;
            header.msg_name = pointer(&mut order.address.0[..order.address_length]);
            let length = control.write(segment, order.release);
            header.msg_controllen = length as _;
            header.msg_control = pointer(&mut control.0[..length]);
            sends += 1;
        }
        (sends, end - self.first)
    }

    /// Removes the first `count` waiting datagrams.
    pub fn discard(&mut self, count: usize) {
        let count = count.min(self.waiting);
        self.waiting -= count;
        // An empty ring starts over, which makes the next run the longest possible.
        self.first = if self.waiting == 0 { 0 } else { (self.first + count) % self.capacity() };
    }

    /// Returns whether no datagram waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns the number of datagrams that wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Returns the number of datagrams that can wait.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Returns the length that a datagram can have, in bytes.
    pub fn max_datagram(&self) -> usize {
        self.max_datagram
    }
}

/// The result of a send, in datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Datagrams that the kernel took.
    pub taken: usize,
    /// Datagrams that it was offered.
    pub offered: usize,
    /// Datagrams among those taken that were segments of a longer send.
    pub segments: usize,
}

/// Why it took nothing.
#[derive(Debug)]
pub struct Refused {
    /// The kernel's error.
    pub error: io::Error,
    /// Whether the failed send had several datagrams.
    pub joined: bool,
}

/// Counts the first datagrams that one send can carry as its segments: with the same destination and time,
/// and the length of the first, except that the last may be shorter.
fn alike(vectors: &[libc::iovec], orders: &[Order]) -> usize {
    let (Some(vector), Some(order)) = (vectors.first(), orders.first()) else { return 0 };
    let length = vector.iov_len;
    if length == 0 {
        return 1;
    }
    let (mut datagrams, mut bytes) = (1, length);
    for (next, its_order) in vectors.iter().zip(orders).take(MOST_SEGMENTS).skip(1) {
        bytes += next.iov_len;
        let fits = (1..=length).contains(&next.iov_len) && bytes <= MOST_SEGMENTED_BYTES;
        if !fits || !order.is_like(its_order) {
            break;
        }
        datagrams += 1;
        if next.iov_len < length {
            break;
        }
    }
    datagrams
}

fn datagrams(header: &libc::mmsghdr) -> usize {
    // The type of this length differs between C libraries.
    header.msg_hdr.msg_iovlen as _
}

/// Returns a pointer to `bytes`; null for none, as the kernel requires.
fn pointer(bytes: &mut [u8]) -> *mut libc::c_void {
    if bytes.is_empty() { ptr::null_mut() } else { bytes.as_mut_ptr().cast() }
}

impl fmt::Debug for SendBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBuffers")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("max_datagram", &self.max_datagram)
            .finish_non_exhaustive()
    }
}

// SAFETY: the raw pointers in the headers are made and followed inside `send`, under `&mut self`.
unsafe impl Send for SendBuffers {}

// SAFETY: as above; `&self` reads lengths, and follows no raw pointer.
unsafe impl Sync for SendBuffers {}

const MOST_SEGMENTS: usize = Quantum::MOST_SEGMENTS as usize;
const MOST_SEGMENTED_BYTES: usize = Quantum::MOST_SEGMENTED_BYTES as usize;

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of datagrams that each send carries.
    fn sends(buffers: &mut SendBuffers, join: bool) -> Vec<usize> {
        let (sends, _) = buffers.connect(usize::MAX, join);
        buffers.headers[..sends].iter().map(datagrams).collect()
    }

    #[test]
    fn neighbours_that_are_alike_are_joined() {
        let mut buffers = SendBuffers::new(16, 100);
        let mut push = |length: usize| buffers.push(&[0; 100][..length], None, None);
        [10, 10, 10, 4, 10, 20, 20, 0, 0, 20, 20].into_iter().for_each(&mut push);
        // The shorter one ends a send, the longer ones begin one, an empty one stands alone.
        assert_eq!(sends(&mut buffers, true), [4, 1, 2, 1, 1, 2]);
        assert_eq!(sends(&mut buffers, false), [1; 11]);
        assert_eq!(buffers.len(), 11);
    }

    #[test]
    fn only_what_goes_to_the_same_place_at_the_same_time_is() {
        let mut buffers = SendBuffers::new(16, 8);
        let [one, other] = ["127.0.0.1:9", "127.0.0.1:10"].map(|address| Some(address.parse().unwrap()));
        let [early, late] = [1, 2].map(|micros| Some(Timestamp::from_micros(micros)));
        for (to, release) in [
            (one, None),
            (one, None),
            (other, None),
            (None, None),
            (None, None),
            (None, early),
            (None, early),
            (None, late),
            (one, late),
            (one, late),
        ] {
            buffers.push(b"x", to, release);
        }
        assert_eq!(sends(&mut buffers, true), [2, 1, 2, 2, 1, 2]);
    }

    #[test]
    fn a_send_holds_what_the_kernel_takes() {
        let mut buffers = SendBuffers::new(200, 1);
        (0..200).for_each(|_| buffers.push(b"x", None, None));
        assert_eq!(sends(&mut buffers, true), [64, 64, 64, 8]);
        let mut buffers = SendBuffers::new(64, 9_000);
        (0..64).for_each(|_| buffers.push(&[0; 9_000], None, None));
        assert_eq!(sends(&mut buffers, true)[..2], [7, 7]);
        let mut buffers = SendBuffers::new(2, 65_507);
        (0..2).for_each(|_| buffers.push(&[0; 65_507], None, None));
        assert_eq!(sends(&mut buffers, true), [1, 1]);
    }

    #[test]
    fn those_that_change_places_leave_in_their_new_order() {
        let mut buffers = SendBuffers::new(4, 2);
        (0..3).for_each(|_| buffers.push(b"x", None, None));
        buffers.discard(2);
        // Two of the three are beyond the end of the ring.
        [b"a", b"b"].into_iter().for_each(|bytes| buffers.push(bytes, None, None));
        buffers.push(b"c", None, None);
        let waiting = |buffers: &mut SendBuffers| {
            let mut seen = Vec::new();
            buffers.edit(|bytes| seen.extend_from_slice(bytes));
            String::from_utf8(seen).unwrap()
        };
        assert_eq!(waiting(&mut buffers), "xabc");
        buffers.swap(0, 3);
        buffers.swap(1, 2);
        assert_eq!(waiting(&mut buffers), "cbax");
        buffers.discard(3);
        buffers.push(b"d", None, None);
        assert_eq!(waiting(&mut buffers), "xd");
        // No slot was lost, and none is used twice.
        let mut slots: Vec<usize> = buffers.orders.iter().map(|order| order.slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2, 3]);
    }

    #[test]
    fn nothing_is_joined_around_the_end_of_the_ring() {
        let mut buffers = SendBuffers::new(8, 1);
        (0..8).for_each(|_| buffers.push(b"x", None, None));
        buffers.discard(5);
        (0..5).for_each(|_| buffers.push(b"x", None, None));
        assert_eq!((sends(&mut buffers, true), buffers.len()), (vec![3], 8));
        buffers.discard(3);
        assert_eq!(sends(&mut buffers, true), [5]);
    }
}
