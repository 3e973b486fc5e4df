//! The guard: a process that outlives a run that is killed, for a moment.
//!
//! It waits for the end of its stdin, whose other end the run holds. Then it does what the kernel leaves undone:
//!
//! - A cgroup is a directory, which nothing removes by itself: it ends what is left in the group, and removes it. It keeps
//!   the run's rights for that.
//! - Watched calls of a command would fail from then on: it lets them happen, until the command and its children have ended.
//!
//! It is in a process group of its own, so that keys do not reach it.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::Pid;
use softtimers_linux::call_watch::CallWatch;

/// `softtimers pace-guard`.
#[derive(Args, Debug, Clone)]
pub(crate) struct GuardArgs {
    /// The cgroup; without it, stdout is a watch of calls
    #[arg(value_name = "DIRECTORY")]
    pub(crate) group: Option<PathBuf>,
}

/// A running guard. Dropped, it does its work, which is waited for.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Guard {
    /// Starts the guard of a group.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn of_group(group: &Path) -> io::Result<Self> {
        Guard::start(Some(group.as_os_str()), Stdio::null())
    }

    /// Starts the guard of watched calls.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn of_calls(calls: OwnedFd) -> io::Result<Self> {
        Guard::start(None, calls.into())
    }

    fn start(group: Option<&OsStr>, stdout: Stdio) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("pace-guard").args(group);
        command.process_group(0).stdin(Stdio::piped()).stdout(stdout);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        Ok(Guard { child, stdin })
    }

    pub(super) fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Waits for the end of stdin, then does the run's last work.
pub(crate) fn run(args: &GuardArgs) -> ExitCode {
    let _ = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
    let done = match &args.group {
        Some(group) => remove(group),
        None => io::stdout().as_fd().try_clone_to_owned().and_then(|calls| let_happen(&calls.into())),
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Empties and removes a group.
fn remove(group: &Path) -> io::Result<()> {
    // Linux 5.14; before, the processes go on, in the group. A directory that is no cgroup gets no file.
    let kill = OpenOptions::new().write(true).open(group.join("cgroup.kill"));
    let _ = kill.and_then(|mut kill| kill.write_all(b"1"));
    for _ in 0..ATTEMPTS {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::park_timeout(BETWEEN_ATTEMPTS);
            }
            done => return done,
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Lets all calls happen until there is nobody left to make one.
fn let_happen(calls: &CallWatch) -> io::Result<()> {
    loop {
        let mut sources = [PollFd::new(calls, PollFlags::IN)];
        // A guard that is stopped and continued goes on.
        retry_on_intr(|| poll(&mut sources, None))?;
        if !sources[0].revents().contains(PollFlags::IN) {
            // There is nobody left.
            return Ok(());
        }
        match calls.next() {
            Ok(Some(call)) => calls.go_on(&call)?,
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Two seconds: killed processes may have memory to give back.
const ATTEMPTS: usize = 1_000;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);
