//! Notices a fork: the child shares its parent's kernel objects, so that what either sets, both get.
//!
//! By a handler that fork(3) calls in the child, since asking for the process's number would be a system call each time.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between this process and the one that has loaded the program.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs in a child from that of its parent, once [`watch`] was called.
#[inline]
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on. They are those of fork(3) and what is built on it; `clone(2)` itself goes unseen.
///
/// # Errors
/// If the C library has no memory for the handler.
pub(crate) fn watch() -> io::Result<()> {
    static WATCHED: OnceLock<i32> = OnceLock::new();
    // SAFETY: the handler, in the child, does no more than an atomic addition.
    let outcome = *WATCHED.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(forked)) });
    if outcome == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(outcome)) }
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
