//! System calls of a command that wait for this process's word (seccomp's user notification): [`CallWatch`].
//!
//! ```text
//!   the command: connect ──▶ filter ──▶ waits      this process: next ─▶ looks at the call and its sockets ─▶ go_on
//!                     ◀── the call itself ◀──────────────────────────────────────────────────────────────┘
//! ```
//!
//! It takes no privilege, and stops nobody for longer than it takes to answer. **It is no means of control**: the command
//! may change the memory that a call points to after it was looked at. A call that waits fails with `ENOSYS` once nobody
//! holds the other end any more.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_long;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::ioctl::{Opcode, opcode};
use rustix::process::Pid;
use rustix::thread::set_no_new_privs;

use super::owned;

/// The calls of a thread's descendants that wait for an answer.
#[derive(Debug)]
pub struct CallWatch(OwnedFd);

/// A call that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitingCall {
    id: u64,
    /// The thread that makes it; `None` if it is not to be seen from this process's namespace.
    pub thread: Option<Pid>,
    /// The number of the call, such as [`CONNECT`].
    pub number: c_long,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Connects a socket.
pub const CONNECT: c_long = libc::SYS_connect;
/// Makes a socket listen.
pub const LISTEN: c_long = libc::SYS_listen;
/// Gives a socket an address.
pub const BIND: c_long = libc::SYS_bind;

impl CallWatch {
    /// Watches these calls of the calling thread and of the processes and threads that it starts from now on. It cannot be
    /// undone, so the thread is one that starts a command and ends. The command cannot gain privileges: set-user-id
    /// programs do not change the user any more.
    ///
    /// Calls by another interface of the CPU (32 bits) are not seen.
    ///
    /// # Errors
    /// Before Linux 5.5 (`Unsupported`), where another filter refuses it, or if one watch is there already (`EBUSY`).
    pub fn of_this_thread(calls: &[c_long]) -> io::Result<Self> {
        check_sizes()?;
        set_no_new_privs(true)?;
        let mut filter = filter(calls)?;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program and the filter it points to are valid for reads during the call.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            )
        };
        // SAFETY: with this flag the call returns a new descriptor.
        unsafe { owned(outcome) }.map(CallWatch)
    }

    /// Says whether there is nobody left whose calls could wait.
    ///
    /// # Errors
    /// If the system refuses to say.
    pub fn is_over(&self) -> io::Result<bool> {
        let mut sources = [PollFd::new(self, PollFlags::empty())];
        poll(&mut sources, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(sources[0].revents().contains(PollFlags::HUP))
    }

    /// Returns the next call that waits; `None` if its thread has been killed meanwhile. Blocks until there is one.
    ///
    /// # Errors
    /// Those of the system, such as an interruption.
    pub fn next(&self) -> io::Result<Option<WaitingCall>> {
        let mut call = MaybeUninit::<libc::seccomp_notif>::zeroed();
        // SAFETY: the kernel wants zeros, and writes no more than this structure, whose size has been compared.
        let outcome =
            unsafe { libc::syscall(libc::SYS_ioctl, self.0.as_raw_fd(), RECEIVE, call.as_mut_ptr()) };
        if outcome != 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) };
        }
        // SAFETY: zeros are a valid value of it, as is everything that the kernel writes.
        let call = unsafe { call.assume_init() };
        Ok(Some(WaitingCall {
            id: call.id,
            thread: Pid::from_raw(call.pid as i32),
            number: call.data.nr.into(),
            arguments: call.data.args,
        }))
    }

    /// Says whether a call still waits: then its thread's number is that of no other thread yet.
    pub fn waits(&self, call: &WaitingCall) -> bool {
        // SAFETY: the kernel reads the number, and writes nothing.
        unsafe { libc::syscall(libc::SYS_ioctl, self.0.as_raw_fd(), IS_VALID, &raw const call.id) == 0 }
    }

    /// Lets a call happen.
    ///
    /// # Errors
    /// Those of the system. A thread that has been killed meanwhile is none.
    pub fn go_on(&self, call: &WaitingCall) -> io::Result<()> {
        let answer = libc::seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        // SAFETY: the kernel reads the answer, and writes nothing.
        if unsafe { libc::syscall(libc::SYS_ioctl, self.0.as_raw_fd(), SEND, &raw const answer) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) }
    }
}

impl AsFd for CallWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A watch that another process of this program has begun.
impl From<OwnedFd> for CallWatch {
    fn from(descriptor: OwnedFd) -> Self {
        CallWatch(descriptor)
    }
}

/// Checks that the kernel's structures are no larger than those here.
fn check_sizes() -> io::Result<()> {
    let mut sizes = libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    // SAFETY: the kernel writes this structure.
    let outcome =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    let fits = usize::from(sizes.seccomp_notif) <= size_of::<libc::seccomp_notif>()
        && usize::from(sizes.seccomp_notif_resp) <= size_of::<libc::seccomp_notif_resp>();
    if fits { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// The program that holds these calls up, and lets all others pass.
fn filter(calls: &[c_long]) -> io::Result<Vec<libc::sock_filter>> {
    let Some(architecture) = ARCHITECTURE else { return Err(io::ErrorKind::Unsupported.into()) };
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let unless = |value: u32, over: u8| {
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        libc::sock_filter { code, jt: 0, jf: over, k: value }
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let answer = libc::BPF_RET | libc::BPF_K;
    // `struct seccomp_data` begins with the number of the call and the architecture.
    let mut all = vec![
        statement(load, 4),
        unless(architecture, 1),
        statement(libc::BPF_JMP | libc::BPF_JA, 1),
        statement(answer, libc::SECCOMP_RET_ALLOW),
        statement(load, 0),
    ];
    for &call in calls {
        let number = u32::try_from(call).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        all.extend([unless(number, 1), statement(answer, libc::SECCOMP_RET_USER_NOTIF)]);
    }
    all.push(statement(answer, libc::SECCOMP_RET_ALLOW));
    Ok(all)
}

/// `AUDIT_ARCH_…` of include/uapi/linux/audit.h.
const ARCHITECTURE: Option<u32> = match () {
    () if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) => Some(0xc000_003e),
    () if cfg!(target_arch = "aarch64") => Some(0xc000_00b7),
    () if cfg!(target_arch = "riscv64") => Some(0xc000_00f3),
    () => None,
};
const MAGIC: u8 = b'!';
// The libraries have different types for these in `ioctl`.
const RECEIVE: Opcode = opcode::read_write::<libc::seccomp_notif>(MAGIC, 0);
const SEND: Opcode = opcode::read_write::<libc::seccomp_notif_resp>(MAGIC, 1);
/// The direction is wrong, and every kernel takes it; only newer ones also take the right one.
const IS_VALID: Opcode = opcode::read::<u64>(MAGIC, 2);

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;
    use crate::skipped::skipped;

    #[cfg(target_arch = "x86_64")]
    const MKDIR: &[c_long] = &[libc::SYS_mkdir, libc::SYS_mkdirat];
    #[cfg(not(target_arch = "x86_64"))]
    const MKDIR: &[c_long] = &[libc::SYS_mkdirat];

    /// Starts a command that is watched.
    fn watched(words: &[&str]) -> Option<(CallWatch, std::process::Child)> {
        let start = || {
            let watch = CallWatch::of_this_thread(MKDIR)?;
            Ok((watch, Command::new(words[0]).args(&words[1..]).spawn()?))
        };
        match thread::scope(|scope| scope.spawn(start).join().unwrap()) {
            Ok(both) => Some(both),
            Err::<_, io::Error>(why) => {
                skipped(&format_args!("seccomp's user notification: {why}"));
                None
            }
        }
    }

    #[test]
    fn a_call_waits_until_it_may_go_on_and_then_happens() {
        let path = std::env::temp_dir().join(format!("softtimers-watch-{}", std::process::id()));
        let script = format!("(mkdir {0}); rmdir {0}", path.display());
        let Some((watch, mut child)) = watched(&["sh", "-c", &script]) else { return };
        let call = watch.next().unwrap().unwrap();
        assert!(watch.waits(&call) && !watch.is_over().unwrap() && !path.exists());
        assert!(MKDIR.contains(&call.number));
        // Made by a child of the child.
        assert_ne!(call.thread.map(Pid::as_raw_pid), i32::try_from(child.id()).ok());
        watch.go_on(&call).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(watch.is_over().unwrap() && !watch.waits(&call) && watch.go_on(&call).is_ok());
    }

    #[test]
    fn without_anybody_at_the_other_end_it_fails() {
        let script = "mkdir /tmp/softtimers-never 2>&1 | grep -q 'not implemented'";
        let Some((watch, mut child)) = watched(&["sh", "-c", script]) else { return };
        drop(watch);
        assert!(child.wait().unwrap().success());
    }
}
