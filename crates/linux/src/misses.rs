//! Cache misses of a CPU, by its own counters: [`MissCounter`].
//!
//! An interrupt costs more than its handler: the interrupted program misses the evicted cache lines
//! afterwards. Soft timers §5.1 counts those misses, for handlers at trigger states and for those of
//! interrupts (Tables II and III). Many virtual machines have no such counters; then this returns an error,
//! and there is no substitute.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::perf;

/// A cache whose misses a CPU may count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cache {
    /// The first-level cache of data.
    L1Data,
    /// The first-level cache of instructions.
    L1Instructions,
    /// The translations of instructions' pages.
    InstructionTlb,
}

impl Cache {
    /// All caches that can be counted.
    pub const ALL: [Cache; 3] = [Cache::L1Data, Cache::L1Instructions, Cache::InstructionTlb];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Cache::L1Data => "l1d",
            Cache::L1Instructions => "l1i",
            Cache::InstructionTlb => "itlb",
        }
    }

    /// Its number in the kernel's interface (`perf_hw_cache_id`).
    const fn number(self) -> u64 {
        match self {
            Cache::L1Data => 0,
            Cache::L1Instructions => 1,
            Cache::InstructionTlb => 4,
        }
    }
}

/// Counts the misses of a CPU's cache by all programs, from its creation on.
///
/// ```
/// use softtimers_linux::misses::{Cache, MissCounter};
///
/// match MissCounter::open(0, Cache::L1Data) {
///     Ok(counter) => println!("{} misses", counter.count()?),
///     Err(why) => println!("not here: {why}"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MissCounter(OwnedFd, Cache);

impl MissCounter {
    /// Begins to count reads that missed `cache` on CPU `cpu`. One system call; counting costs nothing.
    ///
    /// # Errors
    /// If the process lacks CAP_PERFMON (or CAP_SYS_ADMIN, and `kernel.perf_event_paranoid` is above 0), or
    /// the CPU does not count this, as many virtual ones do not: the error says which.
    pub fn open(cpu: u32, cache: Cache) -> io::Result<Self> {
        let counter = perf::cache_misses(cache.number(), cpu).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => "CAP_PERFMON missing".to_owned(),
                // The counters' driver is missing, or has no such event.
                io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
                    "the CPU offers no performance counter for it".to_owned()
                }
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("misses of {}: {why}", cache.name()))
        })?;
        Ok(MissCounter(counter, cache))
    }

    /// Returns the number of misses so far.
    ///
    /// # Errors
    /// If the kernel does not return it, or counted only a part of the time (`ResourceBusy`): a CPU with more
    /// events than counters multiplexes them, and the missing part is not extrapolated.
    pub fn count(&self) -> io::Result<u64> {
        perf::count(self.0.as_fd())
            .map_err(|error| io::Error::new(error.kind(), format!("misses of {}: {error}", self.1.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Existing counters go up; otherwise there is an error with the reason.
    #[test]
    fn misses_are_counted_or_the_reason_is_told() {
        for cache in Cache::ALL {
            match MissCounter::open(0, cache) {
                Ok(counter) => {
                    // Other programs may count, too, and take a part of the time.
                    if let (Ok(before), Ok(after)) = (counter.count(), counter.count()) {
                        assert!(after >= before);
                    }
                }
                Err(why) => {
                    assert!(why.to_string().starts_with(&format!("misses of {}: ", cache.name())), "{why}");
                    crate::skipped::skipped(&why);
                }
            }
        }
    }
}
