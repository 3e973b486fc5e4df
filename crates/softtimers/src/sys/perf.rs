//! Counters of the kernel's software events.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Counts the page faults of the calling thread in user mode, from now on.
pub(crate) fn page_faults() -> io::Result<OwnedFd> {
    // `struct perf_event_attr` of the first version: type and size, config, …, flags at 40.
    let mut attributes = [0u64; 8];
    // Type and size are 32 bits each, the type first: on little-endian machines, its low half.
    attributes[0] = PERF_TYPE_SOFTWARE | (size_of_val(&attributes) as u64) << 32;
    attributes[1] = PERF_COUNT_SW_PAGE_FAULTS;
    attributes[5] = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
    let (this_thread, any_processor, no_group) = (0, -1, -1);
    // SAFETY: the attributes are valid for reads of the size they state, and are not kept.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            this_thread,
            any_processor,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    // SAFETY: the call makes a descriptor, which nobody else knows yet.
    unsafe { super::owned(fd) }
}

/// What a counter has counted.
pub(crate) fn count(counter: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value = [0; size_of::<u64>()];
    rustix::io::read(counter, &mut value)?;
    Ok(u64::from_ne_bytes(value))
}

const PERF_TYPE_SOFTWARE: u64 = 1;
const PERF_COUNT_SW_PAGE_FAULTS: u64 = 2;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
