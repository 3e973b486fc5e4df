//! The simulated clock of contenders that read one themselves, and the real one of the stopwatch.
//!
//! tokio calls `clock_gettime`. This program has its own, which the linker prefers to the C library's; reading the
//! clock then costs a load, which puts no contender at a disadvantage. The stopwatch asks the kernel directly (rustix).

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime as kernels};

/// Any time with room for subtractions.
const START: u64 = 1_000_000_000_000;

static NANOS: AtomicU64 = AtomicU64::new(START);

/// Sets the simulated clock, in nanoseconds since the contender was made.
pub(crate) fn set(nanos: u64) {
    NANOS.store(START + nanos, Ordering::Relaxed);
}

/// Returns the simulated clock's time, in place of the C library's function of this name.
///
/// # Safety
/// As that function: `time` must point to a `timespec` that may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(
    _clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    let nanos = NANOS.load(Ordering::Relaxed);
    let now =
        libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    // SAFETY: the caller promises that it points to a timespec.
    unsafe { time.write(now) };
    0
}

/// Returns the CPU time of this thread, in nanoseconds.
pub(crate) fn spent() -> u64 {
    nanos(kernels(ClockId::ThreadCPUTime))
}

/// Returns the real clock, in nanoseconds.
pub(crate) fn real() -> u64 {
    nanos(kernels(ClockId::Monotonic))
}

fn nanos(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Switches huge pages off in this process.
pub(crate) fn small_pages() {
    if rustix::thread::disable_transparent_huge_pages(true).is_err() {
        eprintln!("huge pages could not be switched off");
    }
}

/// Returns the resident bytes of this process.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
