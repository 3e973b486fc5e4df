//! Completion scripts and manual pages, generated from the command line's definition.

use clap::{Args, CommandFactory};
use clap_mangen::Man;
use softtimers_measure::failure::Failure;

use crate::commands::Cli;
use crate::run::catalogue::{self, Field};

/// `softtimers completions`.
#[derive(Args, Debug, Clone)]
#[command(
    after_long_help = "Example:\n  softtimers completions bash > ~/.local/share/bash-completion/completions/softtimers"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// `softtimers man`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = "Example:\n  softtimers man send | man -l -")]
pub(crate) struct ManArgs {
    /// The subcommand, and one of its own: `send`, `sim hip`; without any, the page of softtimers(1)
    #[arg(value_name = "COMMAND")]
    pub(crate) names: Vec<String>,
}

/// Returns the completion script for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    // clap completes hidden commands too.
    let whole = Cli::command();
    let visible = whole.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
    let arguments = whole.get_arguments().cloned();
    let mut command = clap::Command::new("softtimers")
        .version(env!("CARGO_PKG_VERSION"))
        .args(arguments)
        .subcommands(visible);
    clap_complete::generate(args.shell, &mut command, "softtimers", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns a manual page in roff.
///
/// # Errors
/// A usage failure for an unknown subcommand.
pub(crate) fn man(args: &ManArgs) -> Result<String, Failure> {
    let mut command = Cli::command();
    command.build();
    for name in &args.names {
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let known: Vec<&str> = shown.map(clap::Command::get_name).filter(|name| *name != "help").collect();
        let found = known.contains(&name.as_str()).then(|| command.find_subcommand(name).cloned()).flatten();
        let Some(found) = found else {
            let whole = command.get_display_name().unwrap_or(command.get_name()).replace('-', " ");
            return Err(Failure::usage(if known.is_empty() {
                format!("no command '{name}'; '{whole}' has no commands of its own")
            } else {
                format!("no command '{name}'; there are {}", known.join(", "))
            }));
        };
        command = found;
    }
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::broke_off("writing the manual page", &error))?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    let before = page.find(".SH EXTRA").or_else(|| page.find(".SH VERSION")).unwrap_or(page.len());
    page.insert_str(before, &output(args.names.first().map_or("", String::as_str)));
    Ok(page)
}

/// Returns the section on a command's report, in roff; empty for a command without one.
fn output(command: &str) -> String {
    let fields = catalogue::fields(command);
    if fields.is_empty() {
        return String::new();
    }
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('-', "\\-");
    let entry = |field: &Field| {
        let Field { label, unit, meaning } = field;
        let unit = if unit.is_empty() { String::new() } else { format!(" ({})", escaped(unit)) };
        // A line of text must not begin like a roff request.
        format!(".TP\n\\fB{}\\fR{unit}\n\\&{}\n", escaped(label), escaped(meaning))
    };
    let own: String = fields.into_iter().map(entry).collect();
    let everywhere: String = catalogue::EVERYWHERE.iter().map(entry).collect();
    format!(".SH OUTPUT FIELDS\n{}\n{own}.PP\nBelow every report:\n{everywhere}", escaped(OUTPUT))
}

/// The part of the page that applies to all labels.
const OUTPUT: &str = "A report for people. A dash is a figure that was not measured. With --json the same figures have names of \
                      their own, and more of them.";

#[cfg(test)]
mod tests {
    use super::*;

    fn page(names: &[&str]) -> Result<String, Failure> {
        man(&ManArgs { names: names.iter().map(ToString::to_string).collect() })
    }

    #[test]
    fn each_command_has_its_page() {
        assert!(page(&[]).unwrap().contains(".TH softtimers 1"));
        let send = page(&["send"]).unwrap();
        assert!(send.contains(".TH softtimers-send 1") && send.contains("burst\\-interval"), "{send}");
        assert!(
            send.contains("\n.SH OUTPUT FIELDS\n")
                && send.contains("\\fBback to back\\fR (share)\n\\&Gaps shorter"),
            "{send}"
        );
        let unknown = page(&["echo-client"]).unwrap_err().to_string();
        assert!(unknown.starts_with("no command 'echo-client'; there are send, recv"), "{unknown}");
        let nested = page(&["sim", "hip-traces"]).unwrap();
        assert!(nested.contains(".TH softtimers-sim-hip-traces 1"), "{nested}");
        let unknown = page(&["sim", "send"]).unwrap_err().to_string();
        assert!(unknown.starts_with("no command 'send'; there are hip, hip-traces"), "{unknown}");
        let none = page(&["send", "recv"]).unwrap_err().to_string();
        assert_eq!(none, "no command 'recv'; 'softtimers send' has no commands of its own");
    }

    #[test]
    fn completions_know_the_commands_but_not_the_hidden_ones() {
        let script = completions(&CompletionsArgs { shell: clap_complete::Shell::Bash });
        assert!(script.contains("--burst-interval") && script.contains("--version"));
        for hidden in Cli::command().get_subcommands().filter(|sub| sub.is_hide_set()) {
            assert!(!script.contains(hidden.get_name()), "{}", hidden.get_name());
        }
    }
}
