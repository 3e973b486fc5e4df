//! Why the kernel would not: [`Error`].

use std::fmt;
use std::io;

/// Why a program could not be loaded or attached, or its maps not be read.
#[derive(Debug)]
pub enum Error {
    /// The process lacks these capabilities.
    Privilege {
        /// Their names, joined by ` and `.
        missing: String,
    },
    /// The kernel offers no description of its types (`CONFIG_DEBUG_INFO_BTF`, `/sys/kernel/btf/vmlinux`).
    NoBtf(String),
    /// The kernel is older than the programs.
    TooOld {
        /// The first that has what they need.
        needed: (u32, u32),
        /// What this one calls itself.
        release: String,
    },
    /// The kernel refused the program: its verifier says no, or it lacks an option.
    Refused {
        /// The program.
        program: String,
        /// What the kernel said, a line.
        why: String,
    },
    /// No trigger state could be attached to.
    NothingAttached,
    /// A map could not be read or written.
    Map(String),
    /// The system.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Privilege { missing } => write!(f, "{missing} missing"),
            Error::NoBtf(why) => {
                write!(f, "the kernel does not describe its types: /sys/kernel/btf/vmlinux: {why}")
            }
            Error::TooOld { needed: (major, minor), release } => {
                write!(f, "Linux {major}.{minor} or newer is needed; this is {release}")
            }
            Error::Refused { program, why } => {
                write!(f, "the kernel refuses the BPF program {program}: {why}")
            }
            Error::NothingAttached => f.write_str("none of the kernel's trigger states could be attached to"),
            Error::Map(why) => write!(f, "a BPF map: {why}"),
            Error::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::System(error)
    }
}
