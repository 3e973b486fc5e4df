//! Errors of the kernel's BPF: [`Error`].

use std::fmt;
use std::fs;
use std::io;

use aya::EbpfError;

/// The reason why a program could not be loaded or attached, or its maps could not be read.
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
        /// The first release that supports them.
        needed: (u32, u32),
        /// The kernel's release string.
        release: String,
    },
    /// The kernel refused the program: its verifier rejects it, or the kernel lacks an option.
    Refused {
        /// The name of the program.
        program: String,
        /// The kernel's reason, in one line.
        why: String,
    },
    /// Another program has the only place that an interface has for one.
    InUse {
        /// The interface.
        interface: String,
    },
    /// No trigger state could be attached to.
    NothingAttached,
    /// The interface has no queue that keeps departure times: they need `fq`.
    NoFq {
        /// The interface.
        interface: String,
        /// The kind of its queue, or kinds.
        queue: String,
    },
    /// A map could not be read or written.
    Map(String),
    /// A system call failed.
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
            Error::InUse { interface } => {
                write!(f, "{interface} is in use: it has an XDP program (bpftool net show dev {interface})")
            }
            Error::NothingAttached => f.write_str("none of the kernel's trigger states could be attached to"),
            Error::NoFq { interface, queue } => write!(
                f,
                "{interface}: its queue is {queue}, which keeps no departure times: tc qdisc replace dev {interface} root fq"
            ),
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

/// A map's value, by its index.
pub(crate) fn map_error(error: impl std::error::Error) -> Error {
    Error::Map(line(&error))
}

impl From<EbpfError> for Error {
    fn from(error: EbpfError) -> Self {
        refused("maps", &error)
    }
}

/// Returns the missing privilege, if that is the reason, otherwise the kernel's message.
pub(crate) fn refused(program: &str, error: &dyn std::error::Error) -> Error {
    let missing = missing_capabilities();
    if missing.is_empty() {
        Error::Refused { program: program.to_owned(), why: line(error) }
    } else {
        Error::Privilege { missing: missing.join(" and ") }
    }
}

/// Says whether the kernel answered that the place is taken.
pub(crate) fn is_busy(error: &(dyn std::error::Error + 'static)) -> bool {
    let busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
    error.downcast_ref().is_some_and(busy) || error.source().is_some_and(is_busy)
}

/// Returns the missing capabilities of those that BPF programs at tracepoints need. CAP_SYS_ADMIN includes
/// both.
fn missing_capabilities() -> Vec<&'static str> {
    const SYS_ADMIN: u64 = 1 << 21;
    const NEEDED: [(&str, u64); 2] = [("CAP_BPF", 1 << 39), ("CAP_PERFMON", 1 << 38)];
    // If that cannot be read, perhaps for lack of descriptors, assume that none is missing.
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return vec![] };
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    if effective & SYS_ADMIN != 0 {
        return vec![];
    }
    NEEDED.iter().filter(|(_, bit)| effective & bit == 0).map(|(name, _)| *name).collect()
}

/// Returns an error with its causes in one line; a verifier's log is cut to its end.
pub(crate) fn line(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines[..] {
        [first, .., last] if lines.len() > 2 => format!("{first} … {last}"),
        _ => lines.join(": "),
    }
}
