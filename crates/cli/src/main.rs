//! The command `softtimers`. Everything it does is in the library beside it: start at
//! [`softtimers_cli::command`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    softtimers_cli::command::run(std::env::args_os()).into()
}
