//! Counters of the kernel's software events, and of a processor's caches.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Counts the page faults of the calling thread in user mode, from now on.
pub(crate) fn page_faults() -> io::Result<OwnedFd> {
    let flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
    open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, flags, Of::ThisThread)
}

/// Counts the misses of reads of a cache, by its number in the kernel's interface, on a processor, whoever runs there.
pub(crate) fn cache_misses(cache: u64, cpu: u32) -> io::Result<OwnedFd> {
    let config = cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
    open(PERF_TYPE_HW_CACHE, config, EXCLUDE_HYPERVISOR, Of::Processor(cpu))
}

enum Of {
    ThisThread,
    Processor(u32),
}

fn open(kind: u64, config: u64, flags: u64, of: Of) -> io::Result<OwnedFd> {
    // `struct perf_event_attr` of the first version: type and size, config, …, flags at 40.
    let mut attributes = [0u64; 8];
    // Type and size are 32 bits each, the type first: on little-endian machines, its low half.
    attributes[0] = kind | (size_of_val(&attributes) as u64) << 32;
    attributes[1] = config;
    attributes[5] = flags;
    let (process, processor) = match of {
        Of::ThisThread => (0, -1),
        Of::Processor(cpu) => (-1, libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?),
    };
    let no_group = -1;
    // SAFETY: the attributes are valid for reads of the size they state, and are not kept.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            process,
            processor,
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
const PERF_TYPE_HW_CACHE: u64 = 3;
const PERF_COUNT_HW_CACHE_OP_READ: u64 = 0;
const PERF_COUNT_HW_CACHE_RESULT_MISS: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
