//! Memory shared with the kernel: rings, and pages to touch.
//!
//! The other side may write at any time, so there are no references into it: counters are atomics, and
//! everything else is copied in and out byte by byte, with checked bounds.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// A mapping that lasts as long as the value. All operations panic on accesses outside of it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps `length` bytes of `device` at `offset`, shared.
    pub(crate) fn shared(device: BorrowedFd<'_>, length: usize, offset: u64) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses an unused address, so no existing memory is replaced.
        let start = unsafe { mmap(ptr::null_mut(), length, protection, flags, device, offset) }?;
        Ok(Self::new(start.cast(), length))
    }

    /// Maps `length` zero bytes in pages of the base size; none is allocated until it is touched.
    pub(crate) fn untouched(length: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses an unused address, so no existing memory is replaced.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, flags) }?;
        // A kernel without huge pages refuses this, and does not need it. SAFETY: the range was mapped just
        // now, and the advice changes no contents.
        let _ = unsafe { madvise(start, length, Advice::LinuxNoHugepage) };
        Ok(Self::new(start.cast(), length))
    }

    fn new(start: *mut u8, length: usize) -> Self {
        Self { start: NonNull::new(start).expect("the kernel maps nothing at null"), length }
    }

    /// Returns the first byte's address, for a caller with its own protocol with the other side.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the address, to pass it to the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Loads the counter at `offset`, with acquire ordering: the other side's earlier writes are visible.
    pub(crate) fn load(&self, offset: usize) -> u32 {
        self.counter(offset).load(Ordering::Acquire)
    }

    /// Sets the counter at `offset`, with release ordering: the other side then sees earlier copies.
    pub(crate) fn store(&self, offset: usize, value: u32) {
        self.counter(offset).store(value, Ordering::Release);
    }

    /// Loads the eight bytes at `offset`, a multiple of eight, without ordering.
    pub(crate) fn word(&self, offset: usize) -> u64 {
        self.atomic_word(offset).load(Ordering::Relaxed)
    }

    /// Sets the eight bytes at `offset`, without ordering.
    pub(crate) fn set_word(&self, offset: usize, value: u64) {
        self.atomic_word(offset).store(value, Ordering::Relaxed);
    }

    /// Copies `bytes` to `offset`.
    #[cfg(test)]
    pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let start = self.range(offset, bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: `range` has checked that all of these bytes lie inside the mapping.
            let place = unsafe { start.add(at) };
            // SAFETY: as above, and a byte needs no alignment.
            unsafe { place.write_volatile(*byte) };
        }
    }

    /// The `N` bytes at `offset`.
    #[cfg(test)]
    pub(crate) fn copy_out<const N: usize>(&self, offset: usize) -> [u8; N] {
        let start = self.range(offset, N);
        std::array::from_fn(|at| {
            // SAFETY: `range` has checked that all of these bytes lie inside the mapping.
            let place = unsafe { start.add(at) };
            // SAFETY: as above; any bits make a byte.
            unsafe { place.read_volatile() }
        })
    }

    fn counter(&self, offset: usize) -> &AtomicU32 {
        let place = self.range(offset, size_of::<u32>()).cast::<u32>();
        assert!(place.is_aligned(), "a counter at offset {offset}");
        // SAFETY: the place is aligned and lies inside the mapping, which lives as long as `self`;
        // both sides access counters atomically only.
        unsafe { AtomicU32::from_ptr(place) }
    }

    fn atomic_word(&self, offset: usize) -> &AtomicU64 {
        let place = self.range(offset, size_of::<u64>()).cast::<u64>();
        assert!(place.is_aligned(), "a word at offset {offset}");
        // SAFETY: the place is aligned and lies inside the mapping, which lives as long as `self`; this side
        // accesses words atomically, the other one with plain loads and stores.
        unsafe { AtomicU64::from_ptr(place) }
    }

    /// The address of `offset`, once `length` bytes from there are known to lie inside.
    pub(super) fn range(&self, offset: usize, length: usize) -> *mut u8 {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        assert!(inside, "{length} bytes at {offset} of a mapping of {}", self.length);
        // SAFETY: the offset lies inside the mapping, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

// SAFETY: the memory belongs to the process, not to a thread, and the value is its only owner.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Unmapping a whole mapping cannot fail, and a destructor cannot return errors. SAFETY: exactly this
        // range was mapped by `self`, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_in_comes_out() {
        let mapping = Mapping::untouched(4096).unwrap();
        assert_eq!(mapping.copy_out::<8>(4088), [0; 8]);
        mapping.copy_in(4091, b"three");
        assert_eq!(&mapping.copy_out::<5>(4091), b"three");
        mapping.store(8, 0x0102_0304);
        assert_eq!((mapping.load(8), mapping.copy_out::<4>(8)), (0x0102_0304, 0x0102_0304u32.to_ne_bytes()));
    }

    #[test]
    fn nothing_outside_is_touched() {
        let mapping = Mapping::untouched(4096).unwrap();
        for (offset, length) in [(4096, 1), (4090, 7), (usize::MAX, 2)] {
            let beyond = std::panic::AssertUnwindSafe(|| mapping.copy_in(offset, &vec![0; length]));
            assert!(std::panic::catch_unwind(beyond).is_err(), "{length} at {offset}");
        }
    }
}
