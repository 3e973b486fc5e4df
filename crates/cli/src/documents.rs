//! What is generated from the command line's definition: completion scripts and manual pages.

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::Failure;

/// The completion script for a shell.
pub fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "softtimers", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// A manual page in roff.
///
/// # Errors
/// A usage failure for an unknown subcommand.
pub fn man(args: &ManArgs) -> Result<String, Failure> {
    let mut command = Cli::command();
    command.build();
    let command = match &args.subcommand {
        None => command,
        Some(name) => {
            let known: Vec<&str> = command
                .get_subcommands()
                .filter(|sub| !sub.is_hide_set())
                .map(clap::Command::get_name)
                .collect();
            let unknown = Failure::usage(format_args!("no command '{name}'; there are {}", known.join(", ")));
            let found = command.get_subcommands().find(|sub| sub.get_name() == name && !sub.is_hide_set());
            let title = format!("softtimers-{name}");
            found.ok_or(unknown)?.clone().display_name(title)
        }
    };
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::broke_off("writing the manual page", &error))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(subcommand: Option<&str>) -> Result<String, Failure> {
        man(&ManArgs { subcommand: subcommand.map(ToOwned::to_owned) })
    }

    #[test]
    fn each_command_has_its_page() {
        assert!(page(None).unwrap().contains(".TH softtimers 1"));
        let send = page(Some("send")).unwrap();
        assert!(send.contains(".TH softtimers-send 1") && send.contains("burst\\-interval"), "{send}");
        let unknown = page(Some("echo-client")).unwrap_err().to_string();
        assert!(unknown.starts_with("no command 'echo-client'; there are send, recv"), "{unknown}");
    }

    #[test]
    fn completions_know_the_commands_but_not_the_hidden_ones() {
        let script = completions(&CompletionsArgs { shell: clap_complete::Shell::Bash });
        assert!(script.contains("--burst-interval"));
    }
}
