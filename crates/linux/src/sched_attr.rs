//! The scheduling attributes of the calling thread: class, nice value, slice.
//!
//! One record holds them all and is set as a whole, so changing one of them means reading the others first
//! and writing them back.

use std::io;

/// The kernel's `struct sched_attr` as of its first version; later kernels accept it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice in nanoseconds for ordinary threads, from Linux 6.12; zero before.
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl Attributes {
    /// Reads the attributes of the calling thread.
    pub(crate) fn read() -> io::Result<Self> {
        let mut attributes = Attributes::default();
        // SAFETY: the record is valid for writes of the `SIZE` bytes that are announced, of which the
        // kernel writes no more, and any bytes make valid integers. 0 is the calling thread, the last
        // argument a set of no flags.
        let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
        if outcome == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets the attributes of the calling thread.
    pub(crate) fn write(&self) -> io::Result<()> {
        let attributes = Attributes { size: SIZE, ..*self };
        // SAFETY: the record is valid for reads of the `SIZE` bytes that its first field announces. 0
        // is the calling thread, the last argument a set of no flags.
        let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns whether the thread runs before all ordinary ones.
    pub(crate) fn is_real_time(&self) -> bool {
        is_real_time(self.policy)
    }

    /// Returns the slice in nanoseconds, for a thread that shares its CPU by EEVDF (`SCHED_OTHER` and
    /// `SCHED_BATCH`) on a kernel with settable slices.
    pub(crate) fn slice(&self) -> Option<u64> {
        (self.is_fair() && self.runtime > 0).then_some(self.runtime)
    }

    /// Returns whether the thread is of a class that shares its CPU by EEVDF and may have slices.
    pub(crate) fn is_fair(&self) -> bool {
        [libc::SCHED_OTHER, libc::SCHED_BATCH].into_iter().any(|class| class as u32 == self.policy)
    }

    /// Returns the attributes with another slice in nanoseconds; zero is the system's.
    pub(crate) fn with_slice(self, nanos: u64) -> Self {
        Attributes { runtime: nanos, ..self }
    }

    /// Returns the attributes with the class FIFO, at its lowest priority.
    pub(crate) fn first_in_first_out(self) -> Self {
        Attributes { policy: libc::SCHED_FIFO as u32, priority: 1, runtime: 0, ..self }
    }

    /// Returns the attributes with the class idle, which runs only on an otherwise idle CPU.
    #[cfg(test)]
    pub(crate) fn idle(self) -> Self {
        Attributes { policy: libc::SCHED_IDLE as u32, runtime: 0, ..self }
    }

    /// Returns the attributes with a nice value higher by `more`.
    #[cfg(test)]
    pub(crate) fn nicer(self, more: i32) -> Self {
        Attributes { nice: (self.nice + more).min(19), ..self }
    }
}

/// Returns only the class of the calling thread, which also works in sandboxes that refuse the record.
pub(crate) fn policy() -> io::Result<u32> {
    // SAFETY: 0 is the calling thread; no memory is involved. The C library's function of this name is
    // a stub in musl.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    match u32::try_from(policy) {
        Ok(policy) => Ok(policy & !libc::SCHED_RESET_ON_FORK as u32),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Returns whether threads of this class run before all ordinary ones: `SCHED_FIFO`, `SCHED_RR`,
/// `SCHED_DEADLINE`.
pub(crate) fn is_real_time(policy: u32) -> bool {
    [libc::SCHED_FIFO, libc::SCHED_RR, SCHED_DEADLINE].into_iter().any(|class| class as u32 == policy)
}

const SIZE: u32 = size_of::<Attributes>() as u32;
/// Not in libc for every C library.
const SCHED_DEADLINE: i32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc` shows the same nice value and class of this thread.
    #[test]
    fn they_are_those_of_this_thread() {
        let attributes = Attributes::read().unwrap();
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        assert_eq!(fields[16].parse(), Ok(attributes.nice));
        assert_eq!(fields[38].parse(), Ok(attributes.policy));
        assert_eq!(attributes.size, SIZE);
        assert_eq!(policy().unwrap(), attributes.policy);
    }

    #[test]
    fn writing_back_what_was_read_changes_nothing() {
        let before = Attributes::read().unwrap();
        before.write().unwrap();
        assert_eq!(Attributes::read().unwrap(), before);
    }
}
