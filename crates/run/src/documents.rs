//! Completion scripts and manual pages, generated from the command line's definition.

use clap::{Args, Command};
use clap_mangen::Man;
use softtimers_measure::failure::Failure;

use crate::field::{EVERYWHERE, Field, fields};

/// `softtimers completions`.
#[derive(Args, Debug, Clone)]
#[command(
    after_long_help = "Examples:\n  source <(softtimers completions bash)\n  softtimers completions fish > ~/.config/fish/completions/softtimers.fish"
)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `softtimers man`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = "Example:\n  softtimers man send | man -l -")]
pub struct ManArgs {
    /// The subcommand, and one of its own: `send`, `sim hip`; without any, the page of softtimers(1)
    #[arg(value_name = "COMMAND")]
    pub names: Vec<String>,
}

/// Returns the completion script of the program `name`, whose command line is `whole`, for a shell.
pub fn completions(args: &CompletionsArgs, whole: &Command, name: &'static str) -> String {
    let mut script = Vec::new();
    // clap completes hidden commands too.
    let visible = whole.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
    let arguments = whole.get_arguments().cloned();
    let mut command =
        Command::new(name).version(env!("CARGO_PKG_VERSION")).args(arguments).subcommands(visible);
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns a manual page of this command line in roff.
///
/// # Errors
/// A usage failure for an unknown subcommand.
pub fn man(args: &ManArgs, mut command: Command, texts: fn(&str) -> &'static str) -> Result<String, Failure> {
    command.build();
    for name in &args.names {
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let known: Vec<&str> = shown.map(Command::get_name).filter(|name| *name != "help").collect();
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
    let examples =
        command.get_before_long_help().map_or_else(String::new, |text| examples(&text.to_string()));
    let behind: Vec<String> =
        command.get_positionals().filter(|arg| arg.is_last_set()).map(value_of).collect();
    if command.get_after_long_help().is_some_and(|text| text.to_string().is_empty()) {
        command = command.after_help(None::<&str>).after_long_help(None::<&str>);
    }
    let mut page = Vec::new();
    // The page has the texts that help leaves out.
    Man::new(command.mut_args(|arg| arg.hide_short_help(false)))
        .render(&mut page)
        .map_err(|error| Failure::broke_off("writing the manual page", &error))?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    for name in behind {
        page = page.replacen(&format!("[\\fI{name}\\fR]"), &format!("[\\-\\- \\fI{name}\\fR]"), 1);
        page = page.replacen(&format!("<\\fI{name}\\fR>"), &format!("\\-\\- <\\fI{name}\\fR>"), 1);
    }
    let before = page.find(".SH EXTRA").or_else(|| page.find(".SH VERSION")).unwrap_or(page.len());
    page.insert_str(before, &(examples + &output(texts(args.names.first().map_or("", String::as_str)))));
    Ok(page)
}

/// Returns the name of an argument's value.
fn value_of(arg: &clap::Arg) -> String {
    arg.get_value_names().into_iter().flatten().map(ToString::to_string).collect()
}

/// Returns the section of examples, in roff, from lines below a heading.
fn examples(text: &str) -> String {
    let lines = text.lines().skip(1).map(|line| format!("\\&{}\n", line.trim_start().replace('-', "\\-")));
    format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines.collect::<String>())
}

/// Returns the section on a command's report, in roff; empty for a command without one.
fn output(text: &'static str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('-', "\\-");
    let entry = |Field { label, unit, meaning }| {
        let unit = if unit.is_empty() { String::new() } else { format!(" ({})", escaped(unit)) };
        // A line of text must not begin like a roff request.
        format!(".TP\n\\fB{}\\fR{unit}\n\\&{}\n", escaped(label), escaped(meaning))
    };
    let own: String = fields(text).map(entry).collect();
    let everywhere: String = fields(EVERYWHERE).map(entry).collect();
    format!(".SH OUTPUT FIELDS\n{}\n{own}.PP\nBelow every report:\n{everywhere}", escaped(OUTPUT))
}

/// The part of the page that applies to all labels.
const OUTPUT: &str = "A report for people. A dash is a figure that was not measured. With --json the same figures have names of \
                      their own, and more of them.";
