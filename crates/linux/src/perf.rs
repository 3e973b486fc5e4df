//! Counters of a CPU's caches.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::optional::Optional;

/// Counts the read misses of a cache, by its number in the kernel's interface, by all programs on a CPU.
pub(crate) fn cache_misses(cache: u64, cpu: u32) -> io::Result<OwnedFd> {
    let config = cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
    open(PERF_TYPE_HW_CACHE, config, EXCLUDE_HYPERVISOR, cpu)
}

fn open(kind: u64, config: u64, flags: u64, cpu: u32) -> io::Result<OwnedFd> {
    Optional::PerfEventOpen.check()?;
    // `struct perf_event_attr` of the first version: type and size, config, …, read format at 32, flags at 40.
    let mut attributes = [0u64; 8];
    // Type and size are 32 bits each, the type first: on little-endian machines, its low half.
    attributes[0] = kind | (size_of_val(&attributes) as u64) << 32;
    attributes[1] = config;
    attributes[4] = FORMAT_TIME_ENABLED | FORMAT_TIME_RUNNING;
    attributes[5] = flags;
    let processor = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (all_processes, no_group) = (-1, -1);
    // SAFETY: the attributes are valid for reads of the size they state, and are not kept.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            all_processes,
            processor,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    // SAFETY: the call makes a descriptor, which has no other owner yet.
    unsafe { super::owned(fd) }
}

/// Returns the count of a counter.
///
/// # Errors
/// `ResourceBusy` if it counted only a part of the time: a CPU with more events than counters multiplexes
/// them.
pub(crate) fn count(counter: BorrowedFd<'_>) -> io::Result<u64> {
    let mut words = [0; 3 * size_of::<u64>()];
    rustix::io::read(counter, &mut words)?;
    let word = |at: usize| words[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let [count, enabled, running] = [word(0), word(8), word(16)];
    whole(count, enabled, running)
}

/// Returns the count, if it covers all the time except for the few nanoseconds between two clock reads of the
/// kernel.
fn whole(count: u64, enabled: u64, running: u64) -> io::Result<u64> {
    if enabled.saturating_sub(running) <= enabled / 1_000 {
        return Ok(count);
    }
    let share = running as f64 / enabled as f64 * 100.0;
    let why = format!("it was counted {share:.1}% of the time, because the CPU has too few counters");
    Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
}

const PERF_TYPE_HW_CACHE: u64 = 3;
const PERF_COUNT_HW_CACHE_OP_READ: u64 = 0;
const PERF_COUNT_HW_CACHE_RESULT_MISS: u64 = 1;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const FORMAT_TIME_ENABLED: u64 = 1 << 0;
const FORMAT_TIME_RUNNING: u64 = 1 << 1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_a_part_of_the_time_is_none() {
        assert_eq!(whole(7, 1_000_000, 1_000_000).unwrap(), 7);
        assert_eq!(whole(7, 1_000_000, 999_990).unwrap(), 7);
        assert_eq!(whole(0, 0, 0).unwrap(), 0);
        let why = whole(7, 1_000_000, 250_000).unwrap_err();
        assert!(why.kind() == io::ErrorKind::ResourceBusy && why.to_string().contains(" 25.0% "), "{why}");
        assert!(whole(0, 1_000_000, 0).is_err());
    }
}
