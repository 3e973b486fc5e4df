//! Restricts the system calls after privileges are dropped, by a filter (seccomp): no starting of programs, no
//! mounting, tracing or loading, and no change of user.
//!
//! One list serves all commands, with the calls of threads, clocks, files and sockets: a missing call would show as an
//! error on a user's machine after hours. Such a call fails with EPERM, and kills nothing.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// Restricts this thread, and those it starts, to these system calls.
///
/// # Errors
/// Why the kernel refuses.
pub(crate) fn keep_to_list(uses_bpf: bool) -> Result<(), String> {
    let filters = filters(uses_bpf).map_err(|error| error.to_string())?;
    let Some(filters) = filters else { return Err("no list of system calls for this CPU".to_owned()) };
    // The last filter allows no further ones.
    filters.iter().try_for_each(|filter| apply_filter(filter)).map_err(|error| error.to_string())
}

/// Returns the filters; the kernel takes the strictest answer of all.
fn filters(bpf: bool) -> Result<Option<[BpfProgram; 2]>, BackendError> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(None) };
    // The flags of `clone3` are behind a pointer, which filters cannot follow. Without it the C library uses `clone`.
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let no_clone3 = BTreeMap::from([(libc::SYS_clone3, vec![])]);
    let no_clone3 = SeccompFilter::new(no_clone3, SeccompAction::Allow, unknown, arch)?;
    let calls = CALLS.iter().flat_map(|calls| *calls).chain(OF_THIS_CPU).copied();
    let mut allowed: BTreeMap<c_long, Vec<SeccompRule>> = calls.map(|call| (call, vec![])).collect();
    if bpf {
        allowed.insert(libc::SYS_bpf, vec![]);
    }
    let thread = libc::CLONE_THREAD as u64;
    let is_thread =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), thread)?;
    allowed.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_thread])?]);
    // It would type as the user at the terminal from which the command was started.
    let types = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, TIOCSTI)?;
    allowed.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![types])?]);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let allowed = SeccompFilter::new(allowed, refused, SeccompAction::Allow, arch)?;
    Ok(Some([no_clone3.try_into()?, allowed.try_into()?]))
}

const MEMORY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_membarrier,
];
/// Threads; a clone that is not a thread is refused.
const THREADS: &[c_long] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
];
const SCHEDULING: &[c_long] = &[
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_setattr,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_getcpu,
];
const TIME: &[c_long] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_setitimer,
    libc::SYS_getitimer,
];
/// Signals, and ending a command started before.
const SIGNALS: &[c_long] = &[
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    libc::SYS_kill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_wait4,
    libc::SYS_waitid,
];
/// Open files, and those that Landlock lets it open.
const FILES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_unlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_splice,
    libc::SYS_eventfd2,
    libc::SYS_umask,
];
const WAITING: &[c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
];
const SOCKETS: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
];
/// Calls about the process itself.
const PROCESS: &[c_long] = &[
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getrandom,
];
const CALLS: &[&[c_long]] = &[MEMORY, THREADS, SCHEDULING, TIME, SIGNALS, FILES, WAITING, SOCKETS, PROCESS];

/// Older names, which exist only on some architectures.
#[cfg(target_arch = "x86_64")]
const OF_THIS_CPU: &[c_long] = &[
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_arch_prctl,
    libc::SYS_access,
    // The calls of musl.
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_select,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_unlink,
    libc::SYS_readlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OF_THIS_CPU: &[c_long] = &[];

/// The same number on all of them, with another type in each C library.
const TIOCSTI: u64 = 0x5412;
