//! Optional system calls, tried in a child before this process makes them.
//!
//! A seccomp filter may kill the caller of such a call: some sandboxes do so for `bpf` or `perf_event_open`.
//! That cannot be caught, so it is tested before:
//!
//! ```text
//!   this process ──clone──▶ child: the call, with arguments that no kernel accepts ──▶ ends by itself   it may be made
//!                                                                                  └─▶ SIGSYS           it is refused here
//! ```
//!
//! The result holds for the lifetime of the process, whose filters at that moment are the child's.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// A call that is tried before it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Optional {
    /// Programs and maps in the kernel.
    Bpf,
    /// Counters of events.
    PerfEventOpen,
    /// Rules for paths and connections: three calls, each tried.
    Landlock,
    /// Namespaces.
    Unshare,
}

impl Optional {
    const fn name(self) -> &'static str {
        match self {
            Optional::Bpf => "bpf",
            Optional::PerfEventOpen => "perf_event_open",
            Optional::Landlock => "landlock_create_ruleset",
            Optional::Unshare => "unshare",
        }
    }

    /// Returns the calls, and arguments for all of them that no kernel accepts.
    const fn calls(self) -> (&'static [libc::c_long], [libc::c_long; 5]) {
        // Numbers and descriptors that do not exist, and the address 0.
        match self {
            Optional::Bpf => (&[libc::SYS_bpf], [-1, 0, 0, 0, 0]),
            Optional::PerfEventOpen => (&[libc::SYS_perf_event_open], [0, 0, -1, -1, -1]),
            Optional::Landlock => (
                &[
                    libc::SYS_landlock_create_ruleset,
                    libc::SYS_landlock_add_rule,
                    libc::SYS_landlock_restrict_self,
                ],
                [-1, -1, 0, -1, 0],
            ),
            Optional::Unshare => (&[libc::SYS_unshare], [-1, 0, 0, 0, 0]),
        }
    }

    /// Checks that no filter kills callers of this call. The first time it starts a child, some 100 µs; if
    /// none can be started, the call counts as safe.
    ///
    /// # Errors
    /// `PermissionDenied`, with a message that names the call, if it would kill this process.
    pub fn check(self) -> io::Result<()> {
        let known = &KNOWN[self as usize];
        if known.load(Ordering::Relaxed) == UNKNOWN {
            known.store(if self.kills() { KILLS } else { ANSWERED }, Ordering::Relaxed);
        }
        match known.load(Ordering::Relaxed) {
            KILLS => Err(io::Error::new(io::ErrorKind::PermissionDenied, Kills(self))),
            _ => Ok(()),
        }
    }

    fn kills(self) -> bool {
        let (calls, arguments) = self.calls();
        // SAFETY: without flags it is a copy of this process with only this thread, which continues here. The
        // child makes only system calls, because another thread may hold the allocator's lock for ever, and
        // exits. Its end sends no signal, so that no handler and no other wait of the program sees it.
        let child = unsafe { libc::syscall(libc::SYS_clone, NONE, NONE, NONE, NONE, NONE) };
        match child {
            0 => attempt(calls, arguments),
            child if child > 0 => was_killed(child as libc::pid_t),
            _ => false,
        }
    }
}

/// Makes the calls in the child, and ends it.
fn attempt(calls: &[libc::c_long], [a, b, c, d, e]: [libc::c_long; 5]) -> ! {
    without_core();
    for &call in calls {
        // SAFETY: the arguments name no memory and no descriptor that exists.
        unsafe { libc::syscall(call, a, b, c, d, e) };
    }
    loop {
        // SAFETY: it ends the child, and does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    }
}

/// Forbids a core file, since the child may be killed.
fn without_core() {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for reads, and nothing is written.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core) };
}

fn was_killed(child: libc::pid_t) -> bool {
    let mut status = 0;
    loop {
        // SAFETY: the status is valid for writes, and nothing else is asked for.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
        if waited == child {
            return libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}

/// Why a call is not made.
#[derive(Debug)]
struct Kills(Optional);

impl fmt::Display for Kills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a system call filter kills callers of {}", self.0.name())
    }
}

impl std::error::Error for Kills {}

/// Returns whether the error says that the call kills its caller.
pub fn is_killed(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Kills>)
}

/// No flags, in the kernel's width.
const NONE: libc::c_long = 0;
const UNKNOWN: u8 = 0;
const ANSWERED: u8 = 1;
const KILLS: u8 = 2;

/// By [`Optional`].
static KNOWN: [AtomicU8; 4] = [const { AtomicU8::new(UNKNOWN) }; 4];

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Optional; 4] =
        [Optional::Bpf, Optional::PerfEventOpen, Optional::Landlock, Optional::Unshare];

    /// These tests do not run in such a sandbox, so each call is allowed; and the child has no effect on this
    /// process.
    #[test]
    fn trying_leaves_no_trace() {
        for optional in ALL {
            let checked = optional.check();
            assert!(checked.as_ref().err().is_none_or(is_killed), "{checked:?}");
            assert_eq!(optional.check().is_ok(), checked.is_ok(), "{optional:?}");
        }
    }

    #[test]
    fn who_dies_of_it_is_told_from_who_ends() {
        let child = |signal: Option<libc::c_int>| {
            // SAFETY: as above.
            let child = unsafe { libc::syscall(libc::SYS_clone, NONE, NONE, NONE, NONE, NONE) };
            if child == 0 {
                without_core();
                // SAFETY: it ends this copy alone.
                signal.map(|signal| unsafe { libc::kill(std::process::id() as libc::pid_t, signal) });
                attempt(&[], [0; 5])
            }
            child as libc::pid_t
        };
        assert!(was_killed(child(Some(libc::SIGSYS))));
        assert!(!was_killed(child(Some(libc::SIGKILL))));
        assert!(!was_killed(child(None)));
    }
}
