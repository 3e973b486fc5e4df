//! The rules of the help of all commands, for the tests of the programs.

use clap::Command;

/// Lines of 80 columns.
const SCREEN: usize = 45;
/// Columns that an example has, so that no terminal breaks it.
const COLUMNS: usize = 80;

/// Visits each command that has flags, with the words that call it.
fn each(command: &Command, path: &str, visit: &mut impl FnMut(&Command, &str)) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        let path = format!("{path} {}", below.get_name());
        if below.has_subcommands() { each(below, &path, visit) } else { visit(below, &path) }
    }
}

/// Checks that `-h` of each command fits a screen.
///
/// # Panics
/// If one does not.
pub fn short_help_fits_a_screen(command: &Command) {
    let mut long = String::new();
    each(command, "softtimers", &mut |command, path| {
        let help = command.clone().bin_name(path).term_width(80).render_help().to_string();
        let lines = help.lines().count();
        if lines > SCREEN {
            long += &format!("{lines} lines:\n{help}\n");
        }
    });
    assert!(long.is_empty(), "{long}");
}

/// Checks that every flag of a command with many of them stands in a group.
///
/// # Panics
/// If one does not.
pub fn every_flag_stands_in_a_group_where_there_are_many(command: &Command) {
    each(command, "softtimers", &mut |command, path| {
        let flags = || command.get_arguments().filter(|arg| !arg.is_positional());
        if flags().count() > 10 {
            let alone: Vec<_> = flags().filter(|arg| arg.get_help_heading().is_none()).collect();
            assert!(alone.is_empty(), "{path}: {alone:?}");
        }
    });
}

/// Checks that `--help` of each command begins with examples, unbroken on a terminal of 80 columns as the tables at its end
/// are, and says where its labels are explained.
///
/// # Panics
/// If one does not.
pub fn long_help_begins_with_examples(command: &Command, fields: fn(&str) -> &'static str) {
    each(command, "softtimers", &mut |command, path| {
        let help = command.clone().term_width(100).render_long_help().to_string();
        assert!(help.starts_with("Example"), "{path}: {help}");
        let examples = || help.lines().skip(1).take_while(|line| !line.is_empty());
        assert!(examples().next().is_some(), "{path}: {help}");
        let long: Vec<&str> = examples().filter(|line| line.chars().count() > COLUMNS).collect();
        assert!(long.is_empty(), "{path}: {long:#?}");
        let below = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        // Paragraphs may be broken, tables and values not.
        let is_table = |line: &&str| line.starts_with("  ") || line.starts_with("OUTPUT");
        let long: Vec<&str> =
            below.lines().filter(is_table).filter(|line| line.chars().count() > COLUMNS).collect();
        assert!(long.is_empty(), "{path}: {long:#?}");
        assert!(!help.contains('\\'), "{path}: a backslash that is to be read as such: {help}");
        let name = path.strip_prefix("softtimers ").unwrap();
        let page = format!("OUTPUT FIELDS explain each label: softtimers man {name} | man -l -");
        assert_eq!(help.contains(&page), !fields(name).is_empty(), "{help}");
    });
}
