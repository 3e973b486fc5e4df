//! The guard of a cgroup: a process that outlives a run that is killed, for a moment.
//!
//! A cgroup is a directory, which nothing removes by itself. The guard waits for the end of its stdin, whose other end the
//! run holds; then it ends what is left in the group, and removes it. It keeps the run's rights for that, and does nothing
//! else. It is in a process group of its own, so that keys do not reach it.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;

/// `softtimers pace-guard`.
#[derive(Args, Debug, Clone)]
pub(crate) struct GuardArgs {
    /// The cgroup
    #[arg(value_name = "DIRECTORY")]
    pub(crate) group: PathBuf,
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
    pub(super) fn start(group: &Path) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args([OsStr::new("pace-guard"), group.as_os_str()]);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        Ok(Guard { child, stdin })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Waits for the end of stdin, then empties and removes the group.
pub(crate) fn run(args: &GuardArgs) -> ExitCode {
    let _ = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
    // Linux 5.14; before, the processes go on, in the group. A directory that is no cgroup gets no file.
    let kill = OpenOptions::new().write(true).open(args.group.join("cgroup.kill"));
    let _ = kill.and_then(|mut kill| kill.write_all(b"1"));
    for _ in 0..ATTEMPTS {
        match fs::remove_dir(&args.group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::park_timeout(BETWEEN_ATTEMPTS);
            }
            Ok(()) => return ExitCode::SUCCESS,
            Err(_) => break,
        }
    }
    ExitCode::FAILURE
}

/// Two seconds: killed processes may have memory to give back.
const ATTEMPTS: usize = 1_000;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);
