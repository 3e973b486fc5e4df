//! A POSIX timer that signals the process: the program's own handler is told, or whoever waits for the signal.

use std::io;

use softtimers_core::Timestamp;

use super::posix_timer::Id;

/// A kernel timer that sends this process a signal; deleted when dropped.
#[derive(Debug)]
pub(crate) struct ProcessTimer {
    id: Id,
}

impl ProcessTimer {
    /// A disarmed timer.
    ///
    /// # Errors
    /// `InvalidInput` for a number that is no signal, or one that nobody can handle; or if the kernel refuses another
    /// timer.
    pub(crate) fn new(signal: i32) -> io::Result<Self> {
        let taken =
            [libc::SIGKILL, libc::SIGSTOP].contains(&signal) || (32..libc::SIGRTMIN()).contains(&signal);
        if taken || !(1..=libc::SIGRTMAX()).contains(&signal) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("signal {signal}; one that a program can handle, from 1 to {}", libc::SIGRTMAX()),
            ));
        }
        Ok(ProcessTimer { id: Id::of_process(signal)? })
    }

    /// Signals once, at `due`: at once if that is past. Replaces what was armed.
    pub(crate) fn arm_at(&self, due: Timestamp) -> io::Result<()> {
        self.id.arm_at(due)
    }

    /// Signals no more.
    pub(crate) fn disarm(&self) -> io::Result<()> {
        self.id.disarm()
    }
}

impl Drop for ProcessTimer {
    fn drop(&mut self) {
        self.id.delete();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::Command;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Signals of [`counted_signal`] so far.
    pub(crate) static COUNTED: AtomicU64 = AtomicU64::new(0);

    extern "C" fn count(_: libc::c_int) {
        COUNTED.fetch_add(1, Ordering::Relaxed);
    }

    /// A signal whose handler counts it.
    pub(crate) fn counted_signal() -> i32 {
        let signal = libc::SIGRTMIN() + 9;
        let handler = count as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler adds to an atomic, which is allowed in one.
        let before = unsafe { libc::signal(signal, handler) };
        assert_ne!(before, libc::SIG_ERR);
        signal
    }

    /// Runs the body of a test in a process of its own, which is this one's program with that test alone. A signal to
    /// the process comes to whichever thread runs just then, and would end what another test waits in.
    pub(crate) fn alone(test: &str, body: impl FnOnce()) {
        const INSIDE: &str = "SOFTTIMERS_TEST_ALONE";
        if std::env::var_os(INSIDE).is_some() {
            return body();
        }
        let itself = std::env::current_exe().unwrap();
        let ran =
            Command::new(itself).args(["--exact", test, "--nocapture"]).env(INSIDE, "").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && said.contains("1 passed"), "{}: {said}", ran.status);
    }

    #[test]
    fn what_is_no_signal_or_not_the_programs_is_refused() {
        for signal in [i32::MIN, -1, 0, libc::SIGKILL, libc::SIGSTOP, 32, 33, 65, i32::MAX] {
            let refused = ProcessTimer::new(signal).map_err(|error| error.kind());
            assert_eq!(refused.err(), Some(io::ErrorKind::InvalidInput), "{signal}");
        }
    }
}
