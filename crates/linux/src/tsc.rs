//! The time stamp counter of x86-64: whether this thread may read it, whether its rate is constant, and
//! reading it.

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

    /// `rdtsc` after all preceding instructions, at twice the cost.
    #[inline]
    pub fn ticks_in_order(&self) -> u64 {
        #[allow(unused_unsafe, reason = "it is safe to call from some version of Rust on")]
        // SAFETY: every x86-64 CPU has the instruction; it only waits.
        unsafe {
            std::arch::x86_64::_mm_lfence();
        }
        self.ticks()
    }
}

/// Returns whether the counter has one rate in all states of power and speed: CPUID 0x8000_0007, EDX bit 8.
pub fn is_invariant() -> bool {
    cpuid(0x8000_0000)[0] >= POWER_MANAGEMENT && cpuid(POWER_MANAGEMENT)[3] & (1 << 8) != 0
}

/// EAX, EBX, ECX and EDX of a leaf.
fn cpuid(leaf: u32) -> [u32; 4] {
    #[allow(unused_unsafe, reason = "it is safe to call from some version of Rust on")]
    // SAFETY: every x86-64 CPU has the instruction, and answers also for leaves it does not have.
    let found = unsafe { std::arch::x86_64::__cpuid(leaf) };
    [found.eax, found.ebx, found.ecx, found.edx]
}

const POWER_MANAGEMENT: u32 = 0x8000_0007;
