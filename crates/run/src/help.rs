//! The layout of help for all commands: flags in groups, the most used first; `-h` on one screen, with the flags that
//! most people need; `--help` with examples first, then all flags, explained.

#[cfg(any(test, feature = "checks"))]
pub mod checks;

use clap::{Arg, ArgAction, Command};

/// The last group of flags, which every command has.
pub const OTHER: &str = "Other";

/// Finishes the definition of a command and its subcommands. `above` is typed before its name; `fields` returns the text
/// of the labels of a command's report.
pub fn lay_out(command: Command, above: &str, fields: fn(&str) -> &'static str) -> Command {
    let path = format!("{above} {}", command.get_name());
    let is_list = command.has_subcommands();
    let command = command.mut_subcommands(|below| lay_out(below, &path, fields));
    // The few flags of a list of commands need no groups.
    if is_list { command } else { last_flags(command.mut_args(first_arguments), &path, fields) }
}

/// Puts arguments without a flag above all groups.
fn first_arguments(arg: Arg) -> Arg {
    if arg.is_positional() { arg.help_heading(None) } else { arg }
}

/// Puts `--help` and `--version` last, and makes `-h` say how to see the hidden flags.
fn last_flags(command: Command, path: &str, fields: fn(&str) -> &'static str) -> Command {
    let hidden = command
        .get_arguments()
        .filter(|arg| arg.is_hide_short_help_set() && !arg.is_hide_long_help_set() && !arg.is_hide_set())
        .count();
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
    let command = examples_first(command, labels(path, fields));
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

/// Moves the examples of the text after a command's help above it, and adds `labels` to the rest.
fn examples_first(command: Command, labels: Option<String>) -> Command {
    let Some(text) = command.get_after_long_help().map(ToString::to_string) else { return command };
    let (examples, rest) = match text.split_once("\n\n") {
        _ if !text.starts_with("Example") => (None, text.as_str()),
        Some((examples, rest)) => (Some(examples), rest),
        None => (Some(text.as_str()), ""),
    };
    let below = [Some(rest), labels.as_deref()].into_iter().flatten().filter(|part| !part.is_empty());
    let below = below.collect::<Vec<_>>().join("\n\n");
    let command = match examples {
        Some(examples) => command.before_long_help(examples.to_owned()),
        None => command,
    };
    // Also an empty text: else the one of the short help would stand there.
    command.after_long_help(below)
}

/// Returns where the labels of a command's report are explained.
fn labels(path: &str, fields: fn(&str) -> &'static str) -> Option<String> {
    let fields = fields(path.strip_prefix("softtimers ")?);
    (!fields.is_empty())
        .then(|| format!("OUTPUT FIELDS explain each label: {} | man -l -", path.replacen(' ', " man ", 1)))
}
