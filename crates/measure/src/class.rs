//! The scheduling class of this thread, and whether it may spin.
//!
//! A spinner of a real-time class keeps everything else off its CPU, also what would stop it; what the
//! class gives a thread is to run as soon as it wakes, and for that it has to sleep.

use std::{fmt, fs, io};

/// A class as the kernel shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// `SCHED_OTHER`, `SCHED_BATCH` or `SCHED_IDLE`: threads that share their CPUs.
    Ordinary,
    /// `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE`, by this name.
    RealTime(&'static str),
    /// The kernel does not show it, by this error, or it is none that we know.
    Unknown(Option<i32>),
}

impl Class {
    /// That of the calling thread; a thread or process that it starts inherits it.
    pub fn current() -> Self {
        let stat = fs::read_to_string("/proc/thread-self/stat");
        stat.map_or_else(|error| Class::Unknown(error.raw_os_error()), |stat| Class::from_stat(&stat))
    }

    /// Returns whether a thread of this class may busy-poll. One whose class cannot be told may not.
    pub fn may_spin(self) -> bool {
        self == Class::Ordinary
    }

    /// After the name in parentheses, which may itself contain any, the policy is the 39th field.
    fn from_stat(stat: &str) -> Self {
        let policy = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split_whitespace().nth(38));
        match policy {
            Some("0" | "3" | "5") => Class::Ordinary,
            Some("1") => Class::RealTime("SCHED_FIFO"),
            Some("2") => Class::RealTime("SCHED_RR"),
            Some("6") => Class::RealTime("SCHED_DEADLINE"),
            _ => Class::Unknown(None),
        }
    }
}

/// Why a thread of it must not spin.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Ordinary => f.write_str("this thread is of an ordinary class"),
            Class::RealTime(name) => write!(f, "this thread is of the real-time class {name}"),
            Class::Unknown(why) => {
                f.write_str("/proc does not tell the scheduling class of this thread")?;
                why.map_or(Ok(()), |number| write!(f, " ({})", io::Error::from_raw_os_error(number)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_whatever_the_thread_is_called() {
        let stat =
            |name: &str, policy: &str| format!("7 ({name}) R {} {policy} 0 0 17 0\n", ["1"; 37].join(" "));
        assert_eq!(Class::from_stat(&stat("a b", "0")), Class::Ordinary);
        assert_eq!(Class::from_stat(&stat("1) R 1 (2", "3")), Class::Ordinary);
        assert_eq!(Class::from_stat(&stat(") ", "1")), Class::RealTime("SCHED_FIFO"));
        assert_eq!(Class::from_stat(&stat("x", "6")), Class::RealTime("SCHED_DEADLINE"));
        for stat in ["", "7 (x) R 1 2", &stat("x", "4"), &stat("x", "-1")] {
            assert_eq!(Class::from_stat(stat), Class::Unknown(None), "{stat}");
            assert!(!Class::from_stat(stat).may_spin());
        }
        assert!(!matches!(Class::current(), Class::Unknown(_)));
    }
}
