//! Help, manual pages and completion scripts of the real command.

mod common;

use common::{refusal, run};

fn stdout(words: &str) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(0), "{words}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let help = stdout("--help");
    assert!(help.contains("send") && help.contains("recv") && help.contains("77  not possible"), "{help}");
    assert!(!help.contains("echo-client"), "{help}");
    for (command, example) in [
        ("send", "--busy echo"),
        ("replay", "--speed 2x"),
        ("recv", "--once --json"),
        ("doctor", "--quick"),
        ("forward", "--rules screen.rules"),
        ("probe", "-- make"),
        ("report", "--from runs --only goodput"),
    ] {
        let help = stdout(&format!("{command} --help"));
        assert!(
            help.contains("Examples:") && help.contains(example) && help.contains("Exit codes:"),
            "{help}"
        );
        assert!(!["--with-parent", "--rotate"].iter().any(|hidden| help.contains(hidden)), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn help_says_when_silence_ends_a_run() {
    assert!(stdout("recv --help").contains("nothing has come for 10 s"));
}

#[test]
fn versions_are_those_of_the_package() {
    assert_eq!(stdout("--version"), format!("softtimers {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn manual_pages_are_roff() {
    assert!(stdout("man").contains(".TH softtimers 1"));
    assert!(stdout("man recv").contains("expect\\-interval"));
    assert!(refusal(&run("man nonsense"), 2).contains("no command 'nonsense'; there are send, recv"));
}

#[test]
fn each_shell_gets_a_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(stdout(&format!("completions {shell}")).contains("expect-interval"), "{shell}");
    }
    assert!(refusal(&run("completions csh"), 2).contains("bash, elvish, fish"));
}
