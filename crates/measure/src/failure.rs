//! The exit codes of commands, and [`Failure`], an error that knows its own.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit codes of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// The command did what was asked, and every `--assert` held.
    Ok = 0,
    /// An `--assert` or another check did not hold, or a run broke off.
    Check = 1,
    /// Usage or bad input: nothing was started.
    Usage = 2,
    /// This machine or this user lacks something that the message names.
    NotPossible = 77,
}

impl Exit {
    /// The text about exit codes for `--help`.
    pub const HELP: &str = "\
Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was started
  77  not possible on this machine; the message says what is missing";
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command stopped, in one line that names the value and what is allowed.
///
/// ```
/// use softtimers_measure::failure::{Exit, Failure};
///
/// let failure = Failure::usage("--size 70000: a datagram carries 32 to 65507 bytes");
/// assert_eq!(failure.exit(), Exit::Usage);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// The user asked for something that cannot be: exit code 2.
    pub fn usage(message: impl fmt::Display) -> Self {
        Failure::new(Exit::Usage, &message)
    }

    /// This machine cannot do it: exit code 77.
    pub fn not_possible(message: impl fmt::Display) -> Self {
        Failure::new(Exit::NotPossible, &message)
    }

    /// A check did not hold, or the run broke off: exit code 1.
    pub fn check(message: impl fmt::Display) -> Self {
        Failure::new(Exit::Check, &message)
    }

    /// A system call failed in the middle of a run: exit code 1.
    pub fn broke_off(doing: impl fmt::Display, error: &io::Error) -> Self {
        Failure::new(Exit::Check, &format_args!("{doing}: {error}"))
    }

    fn new(exit: Exit, message: &dyn fmt::Display) -> Self {
        Failure { exit, message: one_line(&message.to_string()) }
    }

    /// Makes it a failure about this flag.
    #[must_use]
    pub fn about(self, flag: &str) -> Self {
        Failure { message: format!("{flag}: {}", self.message), ..self }
    }

    /// Adds that `also` failed.
    #[must_use]
    pub fn and(self, also: &Failure) -> Self {
        Failure { message: format!("{}; {also}", self.message), ..self }
    }

    /// The exit code it asks for.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// `text` on one line, with nothing in it that moves a terminal's cursor: values typed by a user or
/// read from a file end up in messages.
pub fn one_line(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_harmless_line() {
        let failure = Failure::usage("a\nb\x1b[2J\tµ");
        assert_eq!(failure.to_string(), "a\\nb\\u{1b}[2J\\tµ");
    }

    #[test]
    fn each_kind_has_its_code() {
        let exits = [Failure::check(1), Failure::usage(1), Failure::not_possible(1)].map(|f| f.exit() as u8);
        assert_eq!(exits, [1, 2, 77]);
        let error = io::Error::other("gone");
        assert_eq!(Failure::broke_off("receiving", &error).to_string(), "receiving: gone");
    }
}
