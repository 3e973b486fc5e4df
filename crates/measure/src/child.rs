//! Other processes of this program, or of the command `softtimers`: the parts of a trial, and the clients of an echo
//! server. None outlives what it is for: not a trial that breaks off, which drops it, and not a parent that is killed,
//! for each child asks the kernel to end with its parent.
//!
//! ```text
//!   parent ──fork──▶ child ──exec──▶ asks for the signal ──▶ looks whether the parent is still there
//!      └ killed up to here: no signal will come ┘                        └ no: it ends by itself
//! ```

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use serde::de::DeserializeOwned;
use softtimers::{Clock, Monotonic};

use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::units::show_duration;

/// Ends this process with its parent, the process `parent`, however that ends.
///
/// # Errors
/// A check failure if the parent is gone already or the system refuses.
pub fn end_with(parent: u32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::broke_off("asking to end with the parent", &error.into()))?;
    // It may have ended before we asked, and then no signal comes.
    let lives = getppid().map(Pid::as_raw_pid) == i32::try_from(parent).ok();
    if lives { Ok(()) } else { Err(Failure::check(format_args!("process {parent} is not the parent"))) }
}

/// Returns this program as a child that ends with this process, without arguments so far.
///
/// # Errors
/// If the system does not tell where this program is.
pub fn command() -> io::Result<Command> {
    std::env::current_exe().map(|program| command_of(&program))
}

/// Returns another program as such a child, which calls [`end_with`] for `--with-parent PID`, as `softtimers` does.
pub fn command_of(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--with-parent", &std::process::id().to_string()]).stdin(Stdio::null());
    command
}

/// A running child that is killed and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Process {
    /// Starts this program with `words`; `what` names the child in messages.
    ///
    /// # Errors
    /// A check failure if the system refuses.
    pub fn start(what: String, words: &[String]) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| not_started(&what, &error))?;
        Process::start_program(&program, what, words)
    }

    /// Starts `program`, which takes `--with-parent PID` as `softtimers` does, with `words`.
    ///
    /// # Errors
    /// A check failure if the system refuses.
    pub fn start_program(program: &Path, what: String, words: &[String]) -> Result<Self, Failure> {
        let mut command = command_of(program);
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| not_started(&what, &error))?;
        match child.stderr.take() {
            Some(stderr) => Ok(Process { what, child, stderr: BufReader::new(stderr) }),
            None => {
                end(&mut child);
                Err(Failure::check(format_args!("{what}: no stderr")))
            }
        }
    }

    /// Waits for the first line on its stderr that begins with `prefix`, and returns the rest of the line.
    ///
    /// # Errors
    /// A check failure with what it says instead.
    pub fn announced(mut self, prefix: &str) -> Result<(Self, String), Failure> {
        let mut line = String::new();
        self.stderr
            .read_line(&mut line)
            .map_err(|error| Failure::broke_off(format_args!("{}: reading its stderr", self.what), &error))?;
        match line.trim().strip_prefix(prefix) {
            Some(rest) => {
                let rest = rest.to_owned();
                Ok((self, rest))
            }
            None if line.is_empty() => Err(self.ended_without(&line)),
            None => Err(Failure::check(format_args!("{}: {}", self.what, unsigned(&line)))),
        }
    }

    /// Asks it to end with its report, as Ctrl-C does.
    pub fn interrupt(&self) {
        // Fails for one that has ended, and where a filter refuses it: that one ends by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
    }

    /// Waits for its end and reads its object.
    ///
    /// # Errors
    /// A check failure if it fails, or prints no such object.
    pub fn finish<T: DeserializeOwned>(mut self) -> Result<T, Failure> {
        let mut object = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut object).map_err(|error| {
                Failure::broke_off(format_args!("{}: reading its stdout", self.what), &error)
            })?;
        }
        let said = self.stderr.by_ref().lines().map_while(Result::ok).last().unwrap_or_default();
        match self.child.wait() {
            Ok(status) if status.success() => serde_json::from_str(&object)
                .map_err(|error| Failure::check(format_args!("{}: no object: {error}", self.what))),
            _ => Err(self.ended_without(&said)),
        }
    }

    /// Waits for the end of one that prints its object at once: if it is still silent after `patience`, it is
    /// killed.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and if it is still silent.
    pub fn finish_within<T: DeserializeOwned>(self, patience: Duration) -> Result<T, Failure> {
        self.speaks_within(patience, None)?;
        self.finish()
    }

    /// Waits until it has printed something or ended; `false` if `interrupt` was readable before.
    ///
    /// # Errors
    /// A check failure if it is still silent after `patience`.
    pub fn speaks_within(&self, patience: Duration, interrupt: Option<&Interrupt>) -> Result<bool, Failure> {
        let deadline = Monotonic.now() + patience;
        while let Some(stdout) = &self.child.stdout {
            let left = deadline.saturating_duration_since(Monotonic.now());
            let mut waited_for = vec![PollFd::new(stdout, PollFlags::IN)];
            waited_for.extend(interrupt.map(|interrupt| PollFd::new(interrupt, PollFlags::IN)));
            // A time-out that does not fit the kernel's type is none.
            match poll(&mut waited_for, left.try_into().ok().as_ref()) {
                Ok(0) => {
                    return Err(Failure::check(format_args!(
                        "{} was silent for {}",
                        self.what,
                        show_duration(patience)
                    )));
                }
                Ok(_) => return Ok(!waited_for[0].revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(Failure::broke_off(format_args!("waiting for {}", self.what), &error.into()));
                }
            }
        }
        Ok(true)
    }

    /// Why it ended before it should: its last words, or how it was ended.
    fn ended_without(&mut self, said: &str) -> Failure {
        let status = self.child.wait();
        let impossible = status.as_ref().is_ok_and(|status| status.code() == Some(Exit::NotPossible as i32));
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let colon = if said.is_empty() { "" } else { ": " };
        let message = format!("{} ended with {status}{colon}{}", self.what, unsigned(said));
        if impossible { Failure::not_possible(message) } else { Failure::check(message) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn not_started(what: &str, error: &io::Error) -> Failure {
    Failure::broke_off(format_args!("{what}: starting the process"), error)
}

fn end(child: &mut Child) {
    // Fails for one that is gone, which is what is wanted, and where a filter refuses it: then it ends with this process.
    let _ = child.kill().and_then(|()| child.wait());
}

/// A line of stderr without the program's name.
fn unsigned(line: &str) -> &str {
    let line = line.trim();
    line.strip_prefix("softtimers: ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_told_without_the_name() {
        assert_eq!(unsigned("softtimers: address in use\n"), "address in use");
    }
}
