//! The command of somebody else's program, with an experiment of theirs: the example `own_command`.

mod common;

use std::path::Path;
use std::process::Command;

#[test]
fn an_experiment_of_somebody_else_is_a_subcommand_like_ours() {
    let program = Path::new(common::PROGRAM).with_file_name("examples").join("own_command");
    if !program.exists() {
        return common::skipped("cargo test --test builds no examples");
    }
    let stdout = |words: &str| {
        let output = Command::new(&program).args(words.split(' ')).output().expect("it starts");
        assert!(output.status.success(), "{words}: {}", common::stderr(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let help = stdout("sim --help");
    assert!(help.contains("coin") && help.contains("livelock-mlfrr"), "{help}");
    assert!(stdout("sim coin --help").contains("--heads <N>"));
    let table = stdout("sim coin --seeds 200");
    let rows = table.lines().filter(|line| line.starts_with("    ") && line.contains(" ± "));
    assert_eq!(rows.count(), 5, "{table}");
    let csv = stdout("sim coin --sweep heads=1,2 --seeds 200 --csv");
    let header = csv.lines().next().unwrap_or_default();
    assert!(header.ends_with(",heads,tosses,tosses_sd,tosses_ci95,tosses_n,expected"), "{csv}");
    assert!(stdout("completions bash").contains("coin") && stdout("man sim coin").contains("heads"));
    // The rest of the command is there.
    assert!(stdout("sim slowstart --packets 5").contains("slowstart"));
}
