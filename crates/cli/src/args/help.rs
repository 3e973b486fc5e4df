//! The layout of help for all commands: flags in groups, the most used first; `-h` on one screen, with the flags that
//! most people need; `--help` with all of them, explained, and examples at the end.

use clap::{Arg, ArgAction, Command};

use crate::run::catalogue;

/// The last group of flags, which every command has.
pub(crate) const OTHER: &str = "Other";

/// Finishes the definition of a command and its subcommands. `above` is typed before its name.
pub(crate) fn lay_out(command: Command, above: &str) -> Command {
    let path = format!("{above} {}", command.get_name());
    let is_list = command.has_subcommands();
    let command = command.mut_subcommands(|below| lay_out(below, &path));
    // The few flags of a list of commands need no groups.
    if is_list { command } else { last_flags(command.mut_args(first_arguments), &path) }
}

/// Puts arguments without a flag above all groups.
fn first_arguments(arg: Arg) -> Arg {
    if arg.is_positional() { arg.help_heading(None) } else { arg }
}

/// Puts `--help` and `--version` last, and makes `-h` say how to see the hidden flags.
fn last_flags(command: Command, path: &str) -> Command {
    let hidden =
        command.get_arguments().filter(|arg| arg.is_hide_short_help_set() && !arg.is_hide_set()).count();
    let more = match (hidden, command.get_after_long_help()) {
        (0, None) => None,
        (0, Some(_)) => Some(format!("Examples and details: {path} --help")),
        (1, _) => Some(format!("One more flag, examples and details: {path} --help")),
        (hidden, _) => Some(format!("{hidden} more flags, examples and details: {path} --help")),
    };
    let command = match more {
        Some(more) => command.after_help(more),
        None => command,
    };
    let command = match labels(path).zip(command.get_after_long_help()) {
        Some((labels, examples)) => {
            let both = format!("{examples}\n\n{labels}");
            command.after_long_help(both)
        }
        None => command,
    };
    let flag =
        |name, short, action| Arg::new(name).long(name).short(short).action(action).help_heading(OTHER);
    command
        .disable_help_flag(true)
        .disable_version_flag(true)
        .version(env!("CARGO_PKG_VERSION"))
        .arg(
            flag("help", 'h', ArgAction::Help).help("Print help: -h the most used flags, --help all of them"),
        )
        .arg(flag("version", 'V', ArgAction::Version).help("Print the version"))
}

/// Returns where the labels of a command's report are explained.
fn labels(path: &str) -> Option<String> {
    let fields = catalogue::fields(path.strip_prefix("softtimers ")?);
    (!fields.is_empty()).then(|| {
        format!(
            "OUTPUT FIELDS of the manual page explain each label: {path} | man -l -",
            path = path.replacen(' ', " man ", 1)
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::Cli;

    /// Lines of 80 columns.
    const SCREEN: usize = 45;

    /// Visits each command that has flags, with the words that call it.
    fn each(command: &Command, path: &str, visit: &mut impl FnMut(&Command, &str)) {
        for below in
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
        {
            let path = format!("{path} {}", below.get_name());
            if below.has_subcommands() { each(below, &path, visit) } else { visit(below, &path) }
        }
    }

    #[test]
    fn short_help_fits_a_screen() {
        let mut long = String::new();
        each(&Cli::command(), "softtimers", &mut |command, path| {
            let help = command.clone().bin_name(path).term_width(80).render_help().to_string();
            let lines = help.lines().count();
            if lines > SCREEN {
                long += &format!("{lines} lines:\n{help}\n");
            }
        });
        assert!(long.is_empty(), "{long}");
    }

    #[test]
    fn every_flag_stands_in_a_group_where_there_are_many() {
        each(&Cli::command(), "softtimers", &mut |command, path| {
            let flags = || command.get_arguments().filter(|arg| !arg.is_positional());
            if flags().count() > 10 {
                let alone: Vec<_> = flags().filter(|arg| arg.get_help_heading().is_none()).collect();
                assert!(alone.is_empty(), "{path}: {alone:?}");
            }
        });
    }

    #[test]
    fn long_help_ends_with_examples() {
        each(&Cli::command(), "softtimers", &mut |command, path| {
            let help = command.clone().term_width(100).render_long_help().to_string();
            let (_, examples) = help.split_once("\nExample").unwrap_or_else(|| panic!("{path}: no examples"));
            assert!(!examples.contains("\nOther:"), "{help}");
            let name = path.strip_prefix("softtimers ").unwrap();
            let page = format!(
                "OUTPUT FIELDS of the manual page explain each label: softtimers man {name} | man -l -"
            );
            assert_eq!(help.contains(&page), !catalogue::fields(name).is_empty(), "{help}");
        });
    }
}
