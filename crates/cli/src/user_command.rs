//! A command of the user's under a run: it gets the signals that the run gets, and its end is the run's end.
//!
//! stdin, stdout and the terminal are the command's, so the run reports to stderr.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use rustix::process::{Pid, Resource, Rlimit, getpgrp, setrlimit};
use rustix::termios::tcgetpgrp;

use crate::run::privileges::user::as_caller;

/// The terminal that sends signals itself, and this process's group.
#[derive(Debug)]
pub(crate) struct Terminal(Option<File>, Pid);

impl Terminal {
    /// Looks the terminal up, while files may be opened.
    pub(crate) fn of_this_process() -> Self {
        Terminal(as_caller(|| File::open("/dev/tty")).ok(), getpgrp())
    }

    /// Says whether keys reach this process's group now.
    pub(crate) fn has_keys(&self) -> bool {
        self.0.as_ref().is_some_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == self.1))
    }
}

/// Ends like the command: by the same signal, or with its exit code.
pub(crate) fn pass_on(status: ExitStatus) -> ExitCode {
    let Some(signal) = status.signal() else {
        return ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    };
    // One core file is enough.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // A filter suppressed the signal.
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}
