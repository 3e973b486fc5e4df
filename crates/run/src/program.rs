//! The front of a program: its words parsed, a mistake in one line, a failure in one line, the exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use softtimers_measure::failure::{Exit, Failure};
use softtimers_measure::interrupt::survive_file_size_limit;

use crate::mistake;
use crate::output::say;

/// Runs the command in `line`, the program's name first, and returns the exit code.
///
/// A failure is one line on stderr; stdout then has only the report of a run that finished.
pub fn run<C: Parser>(
    line: impl IntoIterator<Item = OsString>,
    dispatch: impl FnOnce(&C) -> Result<ExitCode, Failure>,
) -> ExitCode {
    let line = mistake::with_negative_values(line);
    // Without the handler such a write ends the process, as it does other programs.
    let _ = survive_file_size_limit();
    match C::try_parse_from(&line) {
        Ok(cli) => dispatch(&cli).unwrap_or_else(|failure| failed(&failure)),
        Err(error) => refused(&error, &line).into(),
    }
}

/// Prints a failure's line, and returns its exit code.
pub fn failed(failure: &Failure) -> ExitCode {
    say(format_args!("softtimers: {failure}"));
    failure.exit().into()
}

/// Prints help as it is; for a mistake, only the message and clap's tips.
fn refused(error: &clap::Error, line: &[OsString]) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Most likely the pipe is closed, which counts as success.
            let _ = error.print();
            Exit::Ok
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Exit::Usage
        }
        _ => {
            say(format_args!("softtimers: {}", mistake::message(error, line)));
            Exit::Usage
        }
    }
}
