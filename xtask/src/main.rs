//! `cargo xtask`: what the project checks of itself, as commands that run anywhere the project builds.
//!
//! CI runs `cargo xtask ci` and nothing else that matters, so a change that passes here passes there.
//! A check that cannot run on this machine says `skipped: reason` and is counted; it never looks like
//! a pass.
//!
//! ```text
//!   ci ───▶ format, sizes, words, features, dependencies, licences, …      seconds: no build
//!           clippy ─▶ tests ─▶ claims (docs/features.toml) ─▶ docs ─▶ …    minutes: one build
//!   full ─▶ ci, then the examples of examples/, Miri, loom, fuzzing, …       nightly tools, an hour
//! ```

#![forbid(unsafe_code)]

mod anchors;
mod c_library;
mod ci;
mod crates;
mod debian;
mod dependencies;
mod features;
mod full;
mod header;
mod instructions;
mod licences;
mod links;
mod locks;
mod messages;
mod mutants;
mod objects;
mod papers;
mod program;
mod release;
mod report;
mod sentences;
mod shipped;
mod site;
mod sizes;
mod source;
mod stability;
mod stacks;
mod testing;
mod toolchains;
mod words;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

/// One word after `cargo xtask`.
struct Command {
    name: &'static str,
    about: &'static str,
    /// Its arguments: what may be left out in brackets, a flag with its value; `features::commands` reads it.
    takes: &'static str,
    /// What its words are among; nothing if they may be anything.
    sections: fn() -> Vec<&'static str>,
    /// Takes the arguments after the name; `Ok(false)`: a check failed and has been reported.
    run: fn(&[String]) -> Result<bool>,
}

impl Command {
    fn usage(&self) -> String {
        let takes = format!("{} {}", self.name, self.takes);
        let sections = (self.sections)().join(", ");
        let of = if sections.is_empty() { String::new() } else { format!(", of {sections}") };
        format!("usage: cargo xtask {}{of}", takes.trim_end())
    }
}

/// Of a command whose words are not among a few.
fn none() -> Vec<&'static str> {
    vec![]
}

const COMMANDS: &[Command] = &[
    Command {
        name: "ci",
        about: "every check a change must pass; what CI runs",
        takes: "",
        sections: none,
        run: ci::run,
    },
    Command {
        name: "full",
        about: "ci, then examples/, Miri, loom, fuzzing, mutation and measurement",
        takes: "[--mutants all|K/N|FILE …]",
        sections: none,
        run: full::run,
    },
    Command {
        name: "instructions",
        about: "what timers cost in instructions, against crates/core/benches/instructions.toml; --bless: write it",
        takes: "[--bless]",
        sections: none,
        run: instructions::run,
    },
    Command {
        name: "mutants",
        about: "changes to core that no test notices: this commit's share; `all`, a share K/N, or of some files",
        takes: "[all|K/N|FILE …]",
        sections: none,
        run: mutants::run,
    },
    Command {
        name: "objects",
        about: "compile the BPF objects of crates/bpf anew; needs clang",
        takes: "",
        sections: none,
        run: objects::run,
    },
    Command {
        name: "header",
        about: "write crates/capi/include/softtimers.h from the border modules; --check: say if it is out of date",
        takes: "[--check]",
        sections: none,
        run: header::run,
    },
    Command {
        name: "c-library",
        about: "build libsofttimers and put it, its header and its pkg-config file under PREFIX [--destdir DIR]",
        takes: "PREFIX [--destdir DIR]",
        sections: none,
        run: c_library::run,
    },
    Command {
        name: "debian",
        about: "make the Debian packages, in target/debian; --try: install, use and remove them in an empty root; --debug",
        takes: "[--debug] [--try]",
        sections: none,
        run: debian::run,
    },
    Command {
        name: "release",
        about: "with --dry-run: everything that a release needs, short of uploading",
        takes: "--dry-run [STEP …]",
        sections: release::names,
        run: release::run,
    },
    Command {
        name: "features",
        about: "write docs/features.md from docs/features.toml; --check: say if it is out of date; --store: run commands that show rows",
        takes: "[--check] [--store] [ROW …]",
        sections: none,
        run: features::run,
    },
    Command {
        name: "papers",
        about: "write the marks, residuals and constants of docs/papers.md; --check: say if they are out of date",
        takes: "[--check]",
        sections: none,
        run: papers::run,
    },
    Command {
        name: "site",
        about: "build the documentation of docs/ into target/site; needs mdbook; --sources URL: link to the sources there",
        takes: "[--sources URL]",
        sections: none,
        run: site::run,
    },
];

/// What a command needs is not on this machine; the message says what.
const NOT_POSSIBLE: u8 = 77;

fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// How the command `name` is called.
fn usage_of(name: &str) -> String {
    command(name).map_or_else(String::new, Command::usage)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(chosen) = arguments.first().and_then(|name| command(name)) else {
        return usage(arguments.first().map(String::as_str));
    };
    if arguments[1..].iter().any(|word| word == "--help" || word == "-h") {
        println!("{}\n{}", chosen.usage(), chosen.about);
        return ExitCode::SUCCESS;
    }
    match (chosen.run)(&arguments[1..]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("cargo xtask {}: {error:#}", chosen.name);
            ExitCode::from(if error.is::<site::NoBook>() { NOT_POSSIBLE } else { 2 })
        }
    }
}

fn usage(word: Option<&str>) -> ExitCode {
    let asked = matches!(word, Some("help" | "--help" | "-h"));
    if let (Some(word), false) = (word, asked) {
        eprintln!("cargo xtask: no command `{word}`");
    }
    println!("usage: cargo xtask COMMAND");
    for command in COMMANDS {
        println!("  {:<12} {}", command.name, command.about);
    }
    if asked { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_command_takes_a_flag_that_it_does_not_have() {
        for Command { name, run, .. } in COMMANDS {
            assert!(run(&["--no-such-flag".to_owned()]).is_err(), "{name}");
        }
    }

    #[test]
    fn usage_names_flags_and_sections() {
        assert_eq!(usage_of("ci"), "usage: cargo xtask ci");
        assert_eq!(usage_of("header"), "usage: cargo xtask header [--check]");
        assert!(usage_of("release").starts_with("usage: cargo xtask release --dry-run [STEP …], of "));
    }
}
