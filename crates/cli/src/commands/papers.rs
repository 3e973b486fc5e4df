//! The commands of `softtimers-papers`, which this program runs with the same words: `sim`, `noise`, `probe`, `report`.
//!
//! ```text
//!   softtimers sim hip --json ──▶ softtimers-papers, beside this program or on PATH ── exec ──▶ sim hip --json
//!                             └─▶ exit code 2, and how to install it
//! ```

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use softtimers_measure::failure::Failure;
use softtimers_run::beside;

/// The commands that the other program has.
pub(crate) const NAMES: [&str; 4] = ["sim", "noise", "probe", "report"];

/// The end of their help, for who has not installed the other program.
pub(crate) const HELP: &str = "\
Examples:
  cargo install --locked --path papers/cli   # brings softtimers-papers";

/// Words that the other program understands.
#[derive(Args, Debug, Clone)]
pub(crate) struct PapersArgs {
    /// Its arguments and flags
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    pub(crate) words: Vec<OsString>,
}

/// Returns the words of a line after the program's name, if they call a command of the other program.
pub(crate) fn words(line: &[OsString]) -> Option<&[OsString]> {
    let words = line.get(1..)?;
    let after = match words {
        [flag, _, rest @ ..] if flag == "--with-parent" => rest,
        all => all,
    };
    NAMES.iter().any(|name| after.first().is_some_and(|first| first == name)).then_some(words)
}

/// Says whether these names of a manual page begin with a command of the other program.
pub(crate) fn are_named(names: &[String]) -> bool {
    names.first().is_some_and(|first| NAMES.contains(&first.as_str()))
}

/// Becomes the other program for a manual page; returns why it could not.
pub(crate) fn man(names: &[String]) -> Failure {
    let words = std::iter::once("man").chain(names.iter().map(String::as_str));
    run(&words.map(OsString::from).collect::<Vec<_>>())
}

/// Becomes the other program with these words; returns why it could not.
pub(crate) fn run(words: &[OsString]) -> Failure {
    match beside::find(beside::PAPERS) {
        Ok(path) => {
            let error = Command::new(&path).args(words).exec();
            Failure::usage(format_args!("starting '{}': {error}", path.display()))
        }
        Err(failure) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_programs_words_are_all_that_follow_the_name() {
        let line = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let found = |text: &str| words(&line(text)).map(<[OsString]>::to_vec);
        assert_eq!(found("softtimers sim hip --json"), Some(line("sim hip --json")));
        assert_eq!(found("softtimers --with-parent 7 probe"), Some(line("--with-parent 7 probe")));
        assert_eq!(found("softtimers report --help"), Some(line("report --help")));
        for other in
            ["softtimers", "softtimers send sim", "softtimers --with-parent sim", "softtimers --help sim"]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
