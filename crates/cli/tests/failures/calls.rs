//! System calls that can be refused: all that the program makes, and some more.
//!
//! Not those without which no program comes to its first line: the loader maps its libraries, and Rust's runtime ends
//! the process itself if it cannot set up its signals. Of a call that both make, the program's own are told by an argument.
//! Nor those that never fail on any kernel, so that no caller can be told: libraries take their errors for their own
//! defects. They are `futex` when it waits, `getpid`, `getppid` and `gettid`.

use libc::*;

use super::fault::Call;

macro_rules! calls {
    ($($name:literal $number:ident),* $(,)?) => { &[$(($name, Call::any($number))),*] };
}

/// Those that nobody makes before the program does.
const WHOLE: &[(&str, Call)] = calls![
    "accept4" SYS_accept4, "bind" SYS_bind, "capget" SYS_capget, "capset" SYS_capset,
    "clock_getres" SYS_clock_getres, "clock_nanosleep" SYS_clock_nanosleep, "connect" SYS_connect,
    "chown" SYS_fchown, "dup" SYS_dup, "dup3" SYS_dup3, "epoll_create1" SYS_epoll_create1,
    "epoll_ctl" SYS_epoll_ctl, "epoll_pwait" SYS_epoll_pwait, "epoll_pwait2" SYS_epoll_pwait2,
    "eventfd2" SYS_eventfd2, "fallocate" SYS_fallocate, "fchmod" SYS_fchmod, "fcntl" SYS_fcntl,
    "fdatasync" SYS_fdatasync, "fsync" SYS_fsync, "ftruncate" SYS_ftruncate,
    "getcwd" SYS_getcwd, "getdents64" SYS_getdents64, "getgroups" SYS_getgroups, "getpeername" SYS_getpeername,
    "getpriority" SYS_getpriority, "getrusage" SYS_getrusage,
    "getsockname" SYS_getsockname, "getsockopt" SYS_getsockopt, "ioctl" SYS_ioctl,
    "io_uring_enter" SYS_io_uring_enter, "io_uring_register" SYS_io_uring_register,
    "io_uring_setup" SYS_io_uring_setup, "kill" SYS_kill, "landlock_add_rule" SYS_landlock_add_rule,
    "landlock_create_ruleset" SYS_landlock_create_ruleset, "landlock_restrict_self" SYS_landlock_restrict_self,
    "listen" SYS_listen, "lseek" SYS_lseek, "madvise" SYS_madvise, "membarrier" SYS_membarrier,
    "memfd_create" SYS_memfd_create, "mkdirat" SYS_mkdirat, "mlock" SYS_mlock, "mremap" SYS_mremap,
    "nanosleep" SYS_nanosleep, "perf_event_open" SYS_perf_event_open, "pidfd_open" SYS_pidfd_open,
    "pipe2" SYS_pipe2, "ppoll" SYS_ppoll, "prctl" SYS_prctl, "pwrite64" SYS_pwrite64, "pwritev" SYS_pwritev,
    "readlinkat" SYS_readlinkat, "recvfrom" SYS_recvfrom, "recvmmsg" SYS_recvmmsg, "recvmsg" SYS_recvmsg,
    "renameat2" SYS_renameat2, "rt_sigprocmask" SYS_rt_sigprocmask, "rt_sigtimedwait" SYS_rt_sigtimedwait,
    "sched_get_priority_max" SYS_sched_get_priority_max, "sched_getaffinity" SYS_sched_getaffinity,
    "sched_getattr" SYS_sched_getattr, "sched_getparam" SYS_sched_getparam,
    "sched_getscheduler" SYS_sched_getscheduler, "sched_setaffinity" SYS_sched_setaffinity,
    "sched_setattr" SYS_sched_setattr, "sched_setscheduler" SYS_sched_setscheduler,
    "sched_yield" SYS_sched_yield, "seccomp" SYS_seccomp, "sendmmsg" SYS_sendmmsg, "sendmsg" SYS_sendmsg,
    "sendto" SYS_sendto, "setgroups" SYS_setgroups, "setns" SYS_setns, "setpriority" SYS_setpriority,
    "setresgid" SYS_setresgid, "setresuid" SYS_setresuid, "setrlimit" SYS_setrlimit,
    "setsockopt" SYS_setsockopt, "shutdown" SYS_shutdown, "signalfd4" SYS_signalfd4, "socket" SYS_socket,
    "socketpair" SYS_socketpair, "statx" SYS_statx, "tgkill" SYS_tgkill, "timer_create" SYS_timer_create,
    "timer_delete" SYS_timer_delete, "timer_settime" SYS_timer_settime, "timerfd_create" SYS_timerfd_create,
    "timerfd_settime" SYS_timerfd_settime, "uname" SYS_uname, "unlinkat" SYS_unlinkat, "unshare" SYS_unshare,
    "userfaultfd" SYS_userfaultfd, "wait4" SYS_wait4, "waitid" SYS_waitid, "writev" SYS_writev,
    "bpf" SYS_bpf, "clone3" SYS_clone3,
];

#[cfg(target_arch = "x86_64")]
const OLD: &[(&str, Call)] = calls![
    "epoll_wait" SYS_epoll_wait, "getrlimit" SYS_getrlimit, "mkdir" SYS_mkdir, "readlink" SYS_readlink,
    "rename" SYS_rename, "unlink" SYS_unlink, "vfork" SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[(&str, Call)] = &[];

/// Those of the program, of calls that others make before it.
const PARTS: &[(&str, Call)] = &[
    // The loader reads the beginnings of libraries.
    ("read", Call::without(SYS_read, 2, 832)),
    // A line on stderr is to be seen.
    ("write", Call::without(SYS_write, 0, 2)),
    ("openat to write", Call::with(SYS_openat, 2, O_ACCMODE as u64, O_WRONLY as u64)),
    ("openat to make", Call::with(SYS_openat, 2, O_CREAT as u64, O_CREAT as u64)),
    ("mmap of a ring", SHARED),
    ("a thread", THREAD),
    ("a process", Call::with(SYS_clone, 0, CLONE_THREAD as u64, 0)),
];

/// Memory that is somebody else's, too: rings of the kernel.
pub(crate) const SHARED: Call = Call::with(SYS_mmap, 3, MAP_TYPE as u64, MAP_SHARED as u64);
/// `clone` as a thread; `clone3` keeps its flags where no filter looks, so it must be gone.
pub(crate) const THREAD: Call = Call::with(SYS_clone, 0, CLONE_THREAD as u64, CLONE_THREAD as u64);
pub(crate) const PROCESS: Call = Call::with(SYS_clone, 0, CLONE_THREAD as u64, 0);
pub(crate) const CLONE3: Call = Call::any(SYS_clone3);

/// Rings and other memory of the kernel.
pub(crate) const MEMORY: &[(&str, Call)] = &[
    ("mmap of a ring", SHARED),
    ("a packet ring", Call::with(SYS_setsockopt, 1, u32::MAX as u64, SOL_PACKET as u64)),
    ("an AF_XDP ring", Call::with(SYS_setsockopt, 1, u32::MAX as u64, SOL_XDP as u64)),
    ("io_uring_setup", Call::any(SYS_io_uring_setup)),
    ("perf_event_open", Call::any(SYS_perf_event_open)),
    ("bpf", Call::any(SYS_bpf)),
    ("epoll_ctl", Call::any(SYS_epoll_ctl)),
    ("socket", Call::any(SYS_socket)),
    ("poll", Call::any(SYS_ppoll)),
    ("sendmmsg", Call::any(SYS_sendmmsg)),
    ("recvmmsg", Call::any(SYS_recvmmsg)),
];

/// The calls that return a descriptor.
pub(crate) const DESCRIPTORS: &[(&str, Call)] = calls![
    "accept4" SYS_accept4, "bpf" SYS_bpf, "epoll_create1" SYS_epoll_create1, "eventfd2" SYS_eventfd2,
    "io_uring_setup" SYS_io_uring_setup, "memfd_create" SYS_memfd_create, "perf_event_open" SYS_perf_event_open,
    "pidfd_open" SYS_pidfd_open, "pipe2" SYS_pipe2, "signalfd4" SYS_signalfd4, "socket" SYS_socket,
    "socketpair" SYS_socketpair, "timerfd_create" SYS_timerfd_create, "userfaultfd" SYS_userfaultfd,
];

/// The calls that a container's runtime may answer by killing, and the program can do without.
pub(crate) const OPTIONAL: &[(&str, Call)] = calls![
    "bpf" SYS_bpf, "io_uring_setup" SYS_io_uring_setup, "landlock_create_ruleset" SYS_landlock_create_ruleset,
    "perf_event_open" SYS_perf_event_open, "unshare" SYS_unshare, "userfaultfd" SYS_userfaultfd,
];

/// All that may be refused.
pub(crate) fn all() -> impl Iterator<Item = &'static (&'static str, Call)> {
    WHOLE.iter().chain(OLD).chain(PARTS)
}
