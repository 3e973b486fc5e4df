//! The command that runs while `probe` measures: [`Companion`].
//!
//! Its output goes to stderr, since stdout is for data. At the end of the run it is asked to end, and then killed; a
//! command that has changed its user goes on.
//!
//! It runs as the user who asked for the run: under `sudo` as its caller, with their groups and without capabilities.
//! It is started before the run drops its own privileges, so that does not affect it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde::Serialize;
use softtimers_measure::failure::Failure;

use softtimers_run::privileges::user::as_caller;

/// A running command. Dropped without [`end`](Companion::end), it goes on.
#[derive(Debug)]
pub(super) struct Companion {
    words: Vec<OsString>,
    child: Child,
    /// Readable when it has ended; `None` on an old kernel.
    ended: Option<OwnedFd>,
}

/// The end of the command.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Ended {
    pub(crate) name: String,
    /// The exit code; `null` if a signal ended it.
    pub(crate) exit_code: Option<i32>,
    /// The signal that ended it; `null` if it exited.
    pub(crate) signal: Option<i32>,
    /// Whether it was asked to end, because the run ended first.
    pub(crate) asked: bool,
}

impl Ended {
    /// Returns the failure of the command, if it failed.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let name = &self.name;
        match (self.exit_code, self.signal) {
            _ if self.asked => None,
            (Some(0), _) => None,
            (Some(code), _) => Some(Failure::check(format_args!("{name} ended with exit status {code}"))),
            (None, signal) => {
                Some(Failure::check(format_args!("{name} was ended by signal {}", signal.unwrap_or(0))))
            }
        }
    }
}

impl Companion {
    /// Starts the command.
    ///
    /// # Errors
    /// A usage failure if there is no such command.
    pub(super) fn start(words: &[OsString]) -> Result<Self, Failure> {
        let name = words[0].to_string_lossy().into_owned();
        let broke = |error: io::Error| Failure::usage(format_args!("-- {name}: {error}"));
        let stdout = io::stderr().as_fd().try_clone_to_owned().map_err(broke)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdout(Stdio::from(stdout));
        let child = as_caller(|| command.spawn()).map_err(broke)?;
        let ended = id(&child).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        Ok(Companion { words: words.to_vec(), child, ended })
    }

    /// Readable when it has ended.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ended.as_ref().map(AsFd::as_fd)
    }

    /// Says whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> Result<bool, Failure> {
        self.status().map(|status| status.is_some())
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child.try_wait().map_err(|error| Failure::broke_off("waiting for the command", &error))
    }

    /// Asks it to end if it has not, and returns how it ended.
    pub(super) fn end(mut self) -> Result<Ended, Failure> {
        let asked = self.status()?.is_none();
        if asked && let Some(id) = id(&self.child) {
            // It may have ended meanwhile, which is fine.
            let _ = kill_process(id, Signal::TERM);
            for _ in 0..PATIENCE {
                if self.status()?.is_some() {
                    break;
                }
                let sources: Vec<BorrowedFd<'_>> = self.descriptor().into_iter().collect();
                wait(&sources, NAP).map_err(|error| Failure::broke_off("waiting for the command", &error))?;
            }
            let killed = self.child.kill();
            if killed.is_err() && self.status()?.is_none() {
                // It has changed its user, whose processes this one may not kill.
                let name = self.words[0].to_string_lossy().into_owned();
                return Ok(Ended { name, exit_code: None, signal: None, asked });
            }
        }
        let status =
            self.child.wait().map_err(|error| Failure::broke_off("waiting for the command", &error))?;
        let name = self.words[0].to_string_lossy().into_owned();
        Ok(Ended { name, exit_code: status.code(), signal: status.signal(), asked })
    }
}

/// Sleeps until one of `sources` is readable, or for `most`.
pub(super) fn wait(sources: &[BorrowedFd<'_>], most: Duration) -> io::Result<()> {
    let mut sources: Vec<PollFd<'_>> =
        sources.iter().map(|source| PollFd::new(source, PollFlags::IN)).collect();
    match poll(&mut sources, Timespec::try_from(most).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn id(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Waits before a command that was asked to end is killed: two seconds.
const PATIENCE: usize = 20;
const NAP: Duration = Duration::from_millis(100);
