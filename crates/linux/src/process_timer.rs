//! A POSIX timer that signals the process: the program's own handler runs, or a thread that waits for the signal wakes.

use std::io;

use softtimers_core::Timestamp;

use super::posix_timer::Id;

/// A kernel timer that sends this process a signal; deleted when dropped.
#[derive(Debug)]
pub struct ProcessTimer {
    id: Id,
}

impl ProcessTimer {
    /// Creates a disarmed timer.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid signal number, or one that cannot be handled; or if the kernel refuses
    /// another timer.
    pub fn new(signal: i32) -> io::Result<Self> {
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

    /// Signals once, at `due`: at once if that is past. Replaces the previous setting.
    pub fn arm_at(&self, due: Timestamp) -> io::Result<()> {
        self.id.arm_at(due)
    }

    /// Disarms the timer; a signal that is pending still comes.
    pub fn disarm(&self) -> io::Result<()> {
        self.id.disarm()
    }
}

impl Drop for ProcessTimer {
    fn drop(&mut self) {
        self.id.delete();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_signal_or_not_the_programs_is_refused() {
        for signal in [i32::MIN, -1, 0, libc::SIGKILL, libc::SIGSTOP, 32, 33, 65, i32::MAX] {
            let refused = ProcessTimer::new(signal).map_err(|error| error.kind());
            assert_eq!(refused.err(), Some(io::ErrorKind::InvalidInput), "{signal}");
        }
    }
}
