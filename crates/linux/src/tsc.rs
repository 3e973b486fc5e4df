//! The time stamp counter of x86-64: whether this thread may read it, and reading it.

use std::io;
use std::marker::PhantomData;

use rustix::process::{TimeStampCounterReadability, time_stamp_counter_readability};

/// The counter of a thread that may read it.
#[derive(Debug)]
pub struct TimeStampCounter {
    /// Not `Send`: the permission is per thread.
    _thread: PhantomData<*const ()>,
}

impl TimeStampCounter {
    /// Returns the counter, or `None` if `PR_SET_TSC` makes reading it a SIGSEGV in this thread.
    pub fn of_this_thread() -> io::Result<Option<Self>> {
        let permitted = time_stamp_counter_readability()? == TimeStampCounterReadability::Readable;
        Ok(permitted.then_some(TimeStampCounter { _thread: PhantomData }))
    }

    /// `rdtsc` without a fence: it may be executed some ten nanoseconds before the loads that precede
    /// it, or after ones that follow.
    #[inline]
    pub fn ticks(&self) -> u64 {
        // SAFETY: every x86-64 CPU has the instruction. It touches no memory; where it is not
        // permitted it faults, and this value exists only in a thread where it was.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}
