//! Commands that rows are claimed by: whether each word of them means something to the program it is said to.
//!
//! ```text
//!   cargo xtask rig --quick stages                   what the command says it takes, and its table of sections
//!   cargo bench -p PACKAGE --bench NAME -- costs     cargo's flags ▸ the bench is the package's ▸ the bench's own help
//!   softtimers sim livelock --seed 3                 the program's help ▸ the subcommand's ▸ the subcommand's
//! ```
//!
//! Nothing is run but for its help. What a flag's value may be is not looked at.

use crate::workspace::Workspace;

/// A program that can be asked what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program<'a> {
    /// A command that the tests build.
    Command(&'a str),
    Example(&'a str),
    Bench(&'a str),
}

/// What a program's `--help` says after these subcommands, or why it says nothing.
pub(crate) type Help<'a> = &'a dyn Fn(Program<'_>, &[&str]) -> Result<String, String>;

/// What is wrong with a command, if anything.
pub(crate) fn problem(command: &str, workspace: &Workspace, help: Help<'_>) -> Option<String> {
    let words: Vec<_> = command.split_whitespace().collect();
    let checked = match words[..] {
        ["cargo", "xtask", name, ref rest @ ..] => of_xtask(name, rest),
        ["cargo", "run", ref rest @ ..] => of_cargo("example", rest, workspace, help),
        ["cargo", "bench", ref rest @ ..] => of_cargo("bench", rest, workspace, help),
        ["cargo", ..] => Err("cargo is to `xtask`, `run` or `bench`".into()),
        [name, ref rest @ ..] => of_program(Program::Command(name), rest, help),
        [] => Err("it is empty".into()),
    };
    checked.err()
}

/// The bench of a command that says something to it: it has to be built to be asked.
pub(crate) fn bench(command: &str) -> Option<&str> {
    let mut words = command.strip_prefix("cargo bench ")?.split_whitespace();
    let name = words.by_ref().skip_while(|word| *word != "--bench").nth(1)?;
    words.any(|word| word == "--").then_some(name)
}

fn of_xtask(name: &str, rest: &[&str]) -> Result<(), String> {
    let command = crate::command(name).ok_or_else(|| format!("there is no command {name}"))?;
    let groups: Vec<_> = command.takes.split(['[', ']']).map(str::trim).collect();
    let is_flag = |group: &&&str| group.starts_with('-');
    let flags = groups.iter().filter(is_flag).map(|group| Flag {
        name: group.split(' ').next().unwrap_or(group).to_owned(),
        value: if group.contains(' ') { Value::Needed } else { Value::None },
    });
    let has_words = groups.iter().any(|group| !group.is_empty() && !group.starts_with('-'));
    let sections = (command.sections)();
    let words = match (has_words, sections.is_empty()) {
        (false, _) => Words::None,
        (true, true) => Words::Any,
        (true, false) => Words::Of(sections.into_iter().map(str::to_owned).collect()),
    };
    Takes { flags: flags.collect(), commands: vec![], words }.all(rest)
}

/// `cargo run` and `cargo bench`: the target is one of the package, and it takes what stands after `--`.
fn of_cargo(kind: &str, rest: &[&str], workspace: &Workspace, help: Help<'_>) -> Result<(), String> {
    let end = rest.iter().position(|word| *word == "--").unwrap_or(rest.len());
    let (said, given) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
    let flag = |name: &str, value| Flag { name: name.into(), value };
    let own = format!("--{kind}");
    let flags = vec![flag("--release", Value::None), flag("-p", Value::Needed), flag(&own, Value::Needed)];
    Takes { flags, commands: vec![], words: Words::None }.all(said)?;
    let value = |name: &str| said.iter().skip_while(|word| **word != name).nth(1).copied();
    let package = value("-p").ok_or("it must say which package: -p")?;
    let name = value(&own).ok_or_else(|| format!("it must say which {own}"))?;
    let member = workspace.member(package).ok_or_else(|| format!("there is no package {package}"))?;
    if !member.targets.iter().any(|target| target.is(kind) && target.name == name) {
        return Err(format!("{package} has no {kind} {name}"));
    }
    let program = if kind == "bench" { Program::Bench(name) } else { Program::Example(name) };
    if given.is_empty() { Ok(()) } else { of_program(program, given, help) }
}

/// Goes down through the subcommands, as far as there are any.
fn of_program(program: Program<'_>, mut rest: &[&str], help: Help<'_>) -> Result<(), String> {
    let mut names = vec![];
    loop {
        let takes = Takes::read(&help(program, &names)?);
        match *rest {
            _ if takes.commands.is_empty() => return takes.all(rest),
            [name, ref others @ ..] if takes.commands.iter().any(|command| command == name) => {
                names.push(name);
                rest = others;
            }
            [name, ..] => return Err(format!("there is no {}", [&names[..], &[name]].concat().join(" "))),
            [] => return Err("it has no subcommand".into()),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Flag {
    name: String,
    /// Whether the word after it is its own.
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    None,
    /// Unless it is a flag.
    Optional,
    Needed,
}

/// Words that belong to no flag.
#[derive(Debug, PartialEq)]
enum Words {
    None,
    Any,
    Of(Vec<String>),
}

/// What a program takes.
#[derive(Debug)]
struct Takes {
    flags: Vec<Flag>,
    commands: Vec<String>,
    words: Words,
}

impl Takes {
    /// Out of a help text as clap writes it.
    fn read(help: &str) -> Self {
        let mut takes = Takes { flags: vec![], commands: vec![], words: Words::None };
        let (mut part, mut arguments) = ("", String::new());
        for line in help.lines() {
            let is_heading = line.ends_with(':') && !line.starts_with(' ');
            let entry = line.trim_start();
            match part {
                _ if is_heading => part = line.trim_end_matches(':'),
                "Commands" => takes.commands.extend(command_of(line)),
                "Arguments" => arguments += &format!("{entry} "),
                _ if entry.starts_with('-') && line.starts_with(' ') => takes.flags.extend(flags_of(entry)),
                _ => {}
            }
        }
        takes.words = match possible(&arguments) {
            _ if arguments.is_empty() => Words::None,
            values if values.is_empty() => Words::Any,
            values => Words::Of(values),
        };
        takes
    }

    fn all(&self, words: &[&str]) -> Result<(), String> {
        let (mut unknown, mut words) = (vec![], words.iter().peekable());
        while let Some(word) = words.next() {
            if word.starts_with('-') && word.len() > 1 {
                let (name, value) =
                    word.split_once('=').map_or((*word, None), |(name, value)| (name, Some(value)));
                match self.flags.iter().find(|flag| flag.name == name) {
                    Some(Flag { value: Value::Needed, .. }) if value.is_none() => _ = words.next(),
                    Some(Flag { value: Value::Optional, .. }) if value.is_none() => {
                        words.next_if(|word| !word.starts_with('-'));
                    }
                    Some(_) => {}
                    None => unknown.push(name),
                }
            } else if !self.words.has(word) {
                unknown.push(word);
            }
        }
        if unknown.is_empty() { Ok(()) } else { Err(format!("it has no {}", unknown.join(", "))) }
    }
}

impl Words {
    fn has(&self, word: &str) -> bool {
        match self {
            Words::None => false,
            Words::Any => true,
            Words::Of(words) => words.iter().any(|one| one == word),
        }
    }
}

/// `  sim  what it does`: what is further in goes on with the line before.
fn command_of(line: &str) -> Option<String> {
    let entry = line.strip_prefix("  ").filter(|entry| !entry.starts_with(' '))?;
    entry.split_whitespace().next().map(str::to_owned)
}

/// `-w, --write <FILE>  what it does`; a value in brackets may be left out, and one after `=` is in the same word.
fn flags_of(entry: &str) -> Vec<Flag> {
    let spelt = entry.split("  ").next().unwrap_or(entry);
    let value = if spelt.contains(" [<") {
        Value::Optional
    } else if spelt.contains(" <") {
        Value::Needed
    } else {
        Value::None
    };
    let names = spelt.split([' ', ',', '[', '=', '.']).filter(|name| name.starts_with('-'));
    names.map(|name| Flag { name: name.to_owned(), value }).collect()
}

/// The values that the arguments are limited to: in brackets, or a line each with what it means.
fn possible(arguments: &str) -> Vec<String> {
    let bracketed = arguments.split_once("[possible values: ").and_then(|(_, rest)| rest.split_once(']'));
    if let Some((values, _)) = bracketed {
        return values.split(", ").map(|value| value.trim().to_owned()).collect();
    }
    let listed = arguments.split_once("Possible values: ").map_or("", |(_, rest)| rest);
    let values = listed.split("- ").skip(1).filter_map(|item| item.split([':', ' ']).next());
    values.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: &str = "A program\n\nUsage: softtimers <COMMAND>\n\nCommands:\n  send  Send\n        much\n  sim   \
        Simulate\n\nOptions:\n  -h, --help  Print help\n";
    const SEND: &str = "Send\n\nUsage: softtimers send [OPTIONS] <TO>\n\nArguments:\n  <TO>  Where to\n\nOptions:\n  \
        -r, --rate <R>      packets/s; see --speed\n      --rates[=<A,B>]  of these\n      --powers [<A,B>]  or these\n      --quiet          less\n";
    const SIM: &str = "Commands:\n  livelock  It\n  merge     Parts\n";
    const LIVELOCK: &str =
        "Usage: softtimers sim livelock [OPTIONS]\n\nRuns:\n      --seed <N>\n          Decides\n";
    const BENCH: &str = "Usage: b [SECTION]...\n\nArguments:\n  [SECTION]...  Only these [possible values: curve,\n                cost]\n";

    fn help(program: Program<'_>, names: &[&str]) -> Result<String, String> {
        let text = match (program, names) {
            (Program::Command("softtimers"), []) => TOP,
            (Program::Command("softtimers"), ["send"]) => SEND,
            (Program::Command("softtimers"), ["sim"]) => SIM,
            (Program::Command("softtimers"), ["sim", "livelock"]) => LIVELOCK,
            (Program::Bench("overload"), []) => BENCH,
            _ => return Err("it gives no help".into()),
        };
        Ok(text.to_owned())
    }

    fn said(command: &str) -> String {
        let workspace = serde_json::json!({
            "workspace_root": "/w", "target_directory": "/t", "resolve": { "nodes": [] }, "workspace_members": ["1"],
            "packages": [{ "id": "1", "name": "benches", "version": "1.0.0", "dependencies": [], "targets": [
                { "name": "overload", "kind": ["bench"], "src_path": "" },
                { "name": "player", "kind": ["example"], "src_path": "" },
            ]}],
        });
        let workspace = serde_json::from_value(workspace).unwrap();
        problem(command, &workspace, &help).unwrap_or_default()
    }

    #[test]
    fn a_program_is_asked_down_to_the_last_subcommand() {
        assert_eq!(said("softtimers send 127.0.0.1:9 --rate 25kpps -r 2 --rate=3 --rates --quiet"), "");
        assert_eq!(said("softtimers send --powers 2,4 :9"), "");
        assert_eq!(said("softtimers send --powers --quiet :9"), "");
        assert_eq!(said("softtimers sim livelock --seed 3"), "");
        assert_eq!(said("softtimers send --rat 1 --speed=2 :9"), "it has no --rat, --speed");
        assert_eq!(said("softtimers sim livelock --rate 3"), "it has no --rate, 3");
        assert_eq!(said("softtimers sim livelock 3"), "it has no 3");
        assert_eq!(said("softtimers fly"), "there is no fly");
        assert_eq!(said("softtimers much"), "there is no much");
        assert_eq!(said("softtimers sim livelok"), "there is no sim livelok");
        assert_eq!(said("softtimers sim"), "it has no subcommand");
        assert_eq!(said("hardtimers send"), "it gives no help");
    }

    #[test]
    fn a_command_of_this_program_has_its_flags_and_sections() {
        for good in
            ["rig", "rig --quick stages --json new.json limit", "measure flows", "release --dry-run semver"]
        {
            assert_eq!(said(&format!("cargo xtask {good}")), "", "{good}");
        }
        assert_eq!(said("cargo xtask rig --quik stages"), "it has no --quik");
        assert_eq!(said("cargo xtask rig --json stages"), "", "a file of that name");
        assert_eq!(said("cargo xtask rig stage"), "it has no stage");
        assert_eq!(said("cargo xtask measure --json x flows"), "it has no --json, x");
        assert_eq!(said("cargo xtask instructions wheel"), "it has no wheel");
        assert_eq!(said("cargo xtask fly"), "there is no command fly");
    }

    #[test]
    fn a_bench_is_its_packages_and_takes_what_is_said_to_it() {
        assert_eq!(said("cargo bench -p benches --bench overload"), "");
        assert_eq!(said("cargo bench -p benches --bench overload -- cost"), "");
        assert_eq!(said("cargo bench -p benches --bench overload -- costs"), "it has no costs");
        assert_eq!(said("cargo bench -p benches --bench overload -- --quick"), "it has no --quick");
        assert_eq!(said("cargo bench -p benches --bench overload --quick"), "it has no --quick");
        assert_eq!(said("cargo bench -p benches --bench player"), "benches has no bench player");
        assert_eq!(said("cargo bench -p bench --bench overload"), "there is no package bench");
        assert_eq!(said("cargo bench --bench overload"), "it must say which package: -p");
        assert_eq!(said("cargo run --release -p benches --example player"), "");
        assert_eq!(said("cargo run --release -p benches --example player -- --trace x"), "it gives no help");
        assert_eq!(said("cargo run -p benches --bin player"), "it has no --bin, player");
        assert_eq!(said("cargo test -p benches"), "cargo is to `xtask`, `run` or `bench`");
        assert_eq!(bench("cargo bench -p b --bench overload -- cost"), Some("overload"));
        assert_eq!(bench("cargo bench -p b --bench overload"), None);
    }

    #[test]
    fn values_are_in_brackets_or_listed() {
        assert_eq!(possible("[SECTION]... Only these [possible values: a-b, c]"), ["a-b", "c"]);
        assert_eq!(possible("[SECTION]... Only Possible values: - a: How - b: That "), ["a", "b"]);
        assert!(possible("<TO> Where to").is_empty());
    }
}
